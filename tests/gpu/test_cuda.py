"""A model in fp16 on CUDA against its own logits in fp32; the same tests run on the CPU provider.

What CUDA alone has (allocation, copies on the device) is reached through `Device`, so here it
shows only as a skipped parameter.
"""

from contextlib import nullcontext

import numpy as np
import pytest

from engine.config import EngineConfig
from engine.decoder import Decoder
from engine.device import choose_device, cuda_fault
from engine.engine import Engine
from engine.kv_cache import KVCache
from engine.prepare import prepare_model
from tests.engine.jobs import request, run
from tests.engine.models import write_checkpoint
from tests.engine.reference import Reference

TOLERANCE = 5e-2
"""Of logits between -6 and 6: what fp16 costs these weights; a wrong position costs above 1."""
LENGTHS = [3, 21, 9, 14]
STEPS, CHUNK = 4, 8
FAULT = cuda_fault()
NEEDS_CUDA = pytest.mark.skipif(FAULT is not None, reason=f"no CUDA: {FAULT}")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def provider(request):
    return request.param


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One random llama in fp32 and in fp16."""
    path = tmp_path_factory.mktemp("llama")
    write_checkpoint(path / "checkpoint", "llama")
    return {
        precision: prepare_model(path / "checkpoint", precision, path, precision, nullcontext)
        for precision in ("fp32", "fp16")
    }


@pytest.fixture(scope="module")
def texts():
    ids = np.random.default_rng(0).integers(3, 300, (len(LENGTHS), max(LENGTHS) + STEPS))
    return [row[: length + STEPS] for row, length in zip(ids, LENGTHS, strict=True)]


@pytest.fixture(scope="module")
def expected(folders, texts):
    reference = Reference(folders["fp32"])
    return [reference.logits(text) for text in texts]


def test_chunks_copies_and_ragged_decode(provider, folders, texts, expected):
    """Prompts in chunks in the last slot, copied to where they run, and decoded together."""
    device, folder = choose_device(provider), folders["fp16"]
    staging = len(texts)
    cache = KVCache(folder.config, device, num_slots=staging + 1, capacity=32)
    decoder = Decoder(folder.graph_path, device, cache, num_threads=None)
    for slot, (text, length) in enumerate(zip(texts, LENGTHS, strict=True)):
        for start in range(0, length, CHUNK):
            chunk = text[start : min(start + CHUNK, length)]
            logits = np.empty((len(chunk), decoder.logits_width), np.float32)
            decoder.prefill(staging, [chunk], start, [len(chunk)], logits)
            check_logits(logits, expected[slot][start : start + len(chunk)])
        cache.copy(staging, slot, length)
    lengths = np.array(LENGTHS)
    for _ in range(STEPS):
        ids = np.array([text[at] for text, at in zip(texts, lengths, strict=True)])
        logits = np.empty((len(texts), decoder.logits_width), np.float32)
        decoder.decode(ids, lengths, logits)
        check_logits(logits, [rows[at] for rows, at in zip(expected, lengths, strict=True)])
        lengths += 1


def check_logits(logits, wanted):
    real = np.shape(wanted)[1]  # without the columns that pad the vocabulary
    np.testing.assert_allclose(logits[:, :real], wanted, atol=TOLERANCE, rtol=0)


def test_the_engine_reports_the_models_logprobs(provider, folders):
    """Forks, a reused prefix and a batch, each with the logprobs of the reference."""
    engine = Engine(EngineConfig(folders["fp16"].path, provider, max_num_seqs=4, prefill_chunk=8))
    prompts = [list(range(5, 27)), list(range(40, 45))]
    for name in ("first", "again"):
        requests = [
            request(f"{name} {i}", ids, n=2, seed=3, max_tokens=6, logprobs=0, ignore_eos=True)
            for i, ids in enumerate(prompts)
        ]
        outputs = run(engine, *requests)
        for i, ids in enumerate(prompts):
            check_logprobs(outputs[f"{name} {i}"], ids, Reference(folders["fp32"]))
    assert engine.stats().cached_tokens


def check_logprobs(output, prompt, reference):
    assert len(output.candidates) == 2
    for candidate in output.candidates.values():
        chosen = [entry.token_id for entry in candidate.logprobs]
        rows = reference.logprobs(prompt + chosen)[len(prompt) - 1 : -1]
        reported = [entry.logprob for entry in candidate.logprobs]
        np.testing.assert_allclose(reported, rows[range(6), chosen], atol=TOLERANCE, rtol=0)
