"""The bounds of the queue and the time after which to try again."""

import pytest

from engine.admission import Admission
from engine.errors import QueueFull
from tests.engine.jobs import request


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def wait(admission, *names):
    for name in names:
        admission.enter(request(name, [5, 6]))


@pytest.mark.parametrize("limits, message", [((2, 99), "requests"), ((9, 5), "tokens")])
def test_bounds(limits, message):
    admission = Admission(*limits)
    wait(admission, "a", "b")
    with pytest.raises(QueueFull, match=message):
        wait(admission, "c")
    admission.leave("a")
    admission.leave("a")
    wait(admission, "c")
    with pytest.raises(QueueFull, match=message):
        wait(admission, "d")


@pytest.mark.parametrize("seconds, expected", [(0.1, 1), (10, 10), (10_000, 60)])
def test_retry_after_is_the_time_that_the_queue_took(seconds, expected):
    clock = Clock()
    admission = Admission(4, 99, clock)
    wait(admission, *"abcd")
    for name in "abcd":
        admission.leave(name)
    clock.now = seconds
    wait(admission, *"efgh")
    with pytest.raises(QueueFull) as refusal:
        wait(admission, "i")
    assert refusal.value.retry_after == expected


def test_retry_after_of_a_queue_that_never_moved():
    admission = Admission(1, 99)
    wait(admission, "a")
    with pytest.raises(QueueFull) as refusal:
        wait(admission, "b")
    assert refusal.value.retry_after == 1
