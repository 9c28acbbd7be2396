"""The order in which sequences get their slots."""

from collections import Counter
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from engine.waiting import WaitingQueue

COUNTS = st.lists(st.integers(0, 4), max_size=6)


def fill(counts):
    """A queue with so many sequences of each owner; a sequence is (owner, number)."""
    queue = WaitingQueue()
    for owner, count in enumerate(counts):
        queue.extend(owner, [(owner, number) for number in range(count)])
    return queue


def drain(queue):
    order = []
    while queue:
        order.append(queue.peek())
        assert queue.pop() == order[-1]
    return order


@given(COUNTS)
def test_one_of_each_request_in_turn(counts):
    rounds = [
        [(owner, number) for owner, count in enumerate(counts) if number < count]
        for number in range(max(counts, default=0))
    ]
    assert drain(fill(counts)) == [each for members in rounds for each in members]


@given(COUNTS, st.data())
def test_who_is_passed_over_keeps_its_place(counts, data):
    queue = fill(counts)
    while queue:
        turn = data.draw(st.integers(0, queue.num_requests - 1))
        before = [queue.peek(each)[0] for each in range(queue.num_requests)]
        owner, _ = queue.pop(turn)
        assert owner == before[turn]
        after = [queue.peek(each)[0] for each in range(queue.num_requests)]
        others = [each for each in before if each != owner]
        assert after in (others, [*others, owner])


@given(COUNTS, st.integers(0, 5))
def test_remove_forgets_one_request(counts, gone):
    queue = fill(counts)
    queue.remove(gone)
    left = Counter(owner for owner, _ in drain(queue))
    assert left == {o: count for o, count in enumerate(counts) if count and o != gone}


def test_more_of_a_request_wait_behind_its_own():
    queue = fill([2, 1])
    queue.extend(0, [(0, 2)])
    assert queue.num_requests == 2
    assert drain(queue) == [(0, 0), (1, 0), (0, 1), (0, 2)]


def test_nothing_waits():
    queue = fill([])
    queue.extend(SimpleNamespace(), [])
    assert not queue
    assert queue.num_requests == 0
