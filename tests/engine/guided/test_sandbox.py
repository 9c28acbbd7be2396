import os
import threading
import time

import pytest

from engine.guided import sandbox as sandbox_module
from engine.guided.backend import ConstraintError
from engine.guided.sandbox import PlainVocabulary, Sandbox
from engine.sampling_params import GuidedParams

OUT_OF_BOUNDS = "can't be compiled within bounds"


def make_job(vocabulary):
    """Runs in the process: does what the source says."""

    def job(params):
        match params.source:
            case "spin":
                while True:
                    pass
            case "grow":
                return len(bytearray(sandbox_module.MEMORY_BYTES + 2**20))
            case "die":
                os._exit(1)
            case "refuse":
                raise ConstraintError("no", "guided_whitespace_pattern")
            case "sleep":
                time.sleep(60)
        return os.getpid(), len(vocabulary.token_bytes)

    return job


@pytest.fixture
def sandbox(vocabulary):
    sandbox = Sandbox(make_job, PlainVocabulary.of(vocabulary))
    yield sandbox
    sandbox.close()


def run(sandbox, source):
    return sandbox.run(GuidedParams("regex", source))


def test_a_job_runs_in_a_process_that_is_kept(sandbox, vocabulary):
    process, size = run(sandbox, "")
    assert size == vocabulary.vocab_size
    assert process != os.getpid()
    assert run(sandbox, "") == (process, size)


def test_a_refusal_comes_back_as_it_was_raised(sandbox):
    with pytest.raises(ConstraintError, match=r"^no$") as refusal:
        run(sandbox, "refuse")
    assert refusal.value.field == "guided_whitespace_pattern"


@pytest.mark.parametrize("source", ["spin", "grow", "die"])
def test_a_job_out_of_bounds_ends_its_process_and_the_next_gets_another(sandbox, source):
    before, _ = run(sandbox, "")
    with pytest.raises(ConstraintError, match=OUT_OF_BOUNDS):
        run(sandbox, source)
    after, _ = run(sandbox, "")
    assert after != before


def test_closing_ends_a_running_job(sandbox):
    refusals = []

    def wait():
        with pytest.raises(ConstraintError, match=OUT_OF_BOUNDS) as refusal:
            run(sandbox, "sleep")
        refusals.append(refusal)

    thread = threading.Thread(target=wait)
    thread.start()
    while sandbox._idle.qsize() == sandbox_module.PROCESSES:
        time.sleep(0.01)
    sandbox.close()
    thread.join(30)
    assert refusals
