"""Checkpoints of each architecture, prepared and run by the decoder, against transformers."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from engine.decoder import Decoder
from engine.device import CpuDevice
from engine.kv_cache import KVCache
from engine.prepare import prepare_model
from tests.engine.models import ARCHITECTURES, write_checkpoint

LENGTHS = [3, 21, 9, 14]
"""Tokens of each row before decoding begins; the windows of the models are 5."""
CHUNK, STEPS, TOLERANCE = 8, 4, 1e-4


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tmp_path_factory):
    """A transformers model and the folder that was prepared from its checkpoint."""
    path = tmp_path_factory.mktemp(request.param)
    model = write_checkpoint(path / "checkpoint", request.param)
    return model, prepare_model(path / "checkpoint", "tiny", path, "fp32", nullcontext)


@pytest.fixture(scope="module")
def texts(pair):
    ids = np.random.default_rng(0).integers(3, 300, (len(LENGTHS), max(LENGTHS) + STEPS))
    return [row[: length + STEPS] for row, length in zip(ids, LENGTHS, strict=True)]


@pytest.fixture(scope="module")
def expected(pair, texts):
    """transformers' logits of each whole text."""
    model, _ = pair
    with torch.no_grad():
        return [model(torch.from_numpy(text)[None]).logits[0].numpy() for text in texts]


@pytest.fixture
def decoder(pair):
    _, folder = pair
    device = CpuDevice()
    cache = KVCache(folder.config, device, num_slots=len(LENGTHS), capacity=32)
    return Decoder(folder.graph_path, device, cache, num_threads=1)


def prefill(decoder, slot, ids):
    """Logits of all tokens, computed in chunks."""
    logits = np.empty((len(ids), decoder.logits_width), np.float32)
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        decoder.prefill(slot, [chunk], start, [len(chunk)], logits[start : start + CHUNK])
    return logits


def test_chunked_prefill(decoder, texts, expected):
    for slot, (text, logits) in enumerate(zip(texts, expected, strict=True)):
        np.testing.assert_allclose(prefill(decoder, slot, text), logits, atol=TOLERANCE, rtol=0)


def test_prompts_together(decoder, texts, expected):
    """Prompts of different lengths in one run, of which the last three logits are wanted."""
    logits = np.empty((3 * len(texts), decoder.logits_width), np.float32)
    decoder.prefill(0, texts, 0, [3] * len(texts), logits)
    wanted = np.concatenate([rows[-3:] for rows in expected])
    np.testing.assert_allclose(logits, wanted, atol=TOLERANCE, rtol=0)


def test_ragged_decode(decoder, texts, expected):
    """Rows of different lengths in one run, each from where its own prompt ended."""
    for slot, (text, length) in enumerate(zip(texts, LENGTHS, strict=True)):
        prefill(decoder, slot, text[:length])
    lengths = np.array(LENGTHS)
    for _ in range(STEPS):
        ids = np.array([text[at] for text, at in zip(texts, lengths, strict=True)])
        logits = np.empty((len(LENGTHS), decoder.logits_width), np.float32)
        decoder.decode(ids, lengths, logits)
        wanted = [rows[at] for rows, at in zip(expected, lengths, strict=True)]
        np.testing.assert_allclose(logits, wanted, atol=TOLERANCE, rtol=0)
        lengths += 1
