"""The int8 model gives the same bits whatever was cached, however it was cut, whoever is beside.

Its activations have 8 bits too, so that it amplifies the last bit of a sum to another text.
"""

import pytest

from completions.conf import settings
from engine.config import EngineConfig
from engine.engine import Engine
from engine.outputs import RequestOutput
from engine.request import Prompt, Request
from engine.sampling_params import SamplingParams

TEXTS = [
    "Water",
    "The lighthouse keeper wrote in his diary that",
    "Once upon a time there was a fox who lived beside the sea. " * 6,
    "1, 2, 3, 4, 5,",
    "The lighthouse keeper wrote in his diary the following words about the storm:",
]


@pytest.fixture(scope="module")
def make_engine(default_model):
    def make(**config):
        model = settings.MODELS_DIR / default_model
        return Engine(EngineConfig(model, "cpu", max_model_len=256, **config))

    return make


def answers(engine, texts):
    """What each text's completion reports: ids and logprobs of all its tokens."""
    outputs = {text: RequestOutput(text) for text in texts}
    for text in texts:
        prompt = Prompt(engine.tokenizer.encode(text, add_special_tokens=True))
        params = SamplingParams(max_tokens=6, temperature=0, logprobs=2, ignore_eos=True)
        engine.add(Request(text, (prompt,), params))
    while engine.has_work:
        for output in engine.step():
            outputs[output.request_id].merge(output)
    return {text: outputs[text].candidates[0, 0].logprobs for text in texts}


def test_cached_chunked_and_batched_equal_alone(make_engine):
    single, alone = make_engine(prefix_reuse=False), {}
    for text in TEXTS:
        alone |= answers(single, [text])
    engine = make_engine(prefill_chunk=24)
    assert answers(engine, TEXTS) == alone
    assert answers(engine, TEXTS) == alone
    assert engine.stats().cached_tokens
