"""Greedy texts and logprobs of the default model against transformers on the same GGUF file."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from completions.conf import settings
from engine.config import EngineConfig
from engine.engine import Engine
from engine.gguf_file import default_gguf
from engine.outputs import RequestOutput
from engine.request import Prompt, Request
from engine.sampling_params import SamplingParams

PROMPTS = [
    "The capital of France is",
    "Water boils at",
    "def fibonacci(n):\n    ",
    "Once upon a time",
    "1, 1, 2, 3, 5, 8,",
    "The three primary colours are",
    "Le chat est assis sur",
    "水は",
    "<|im_start|>user\nName a fruit.<|im_end|>\n<|im_start|>assistant\n",
    "In 1969, the first human being",
]
NUM_TOKENS = 16
INT8_MEAN_DIFFERENCE = 0.1
"""Measured: 0.055 (and 0.000015 at most for fp32)."""


@pytest.fixture(scope="module")
def expected():
    """Per prompt: transformers' greedy tokens and their logprobs."""
    path = default_gguf()
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).eval()

    def greedy(prompt_ids):
        generated = model.generate(
            torch.tensor([prompt_ids]),
            max_new_tokens=NUM_TOKENS,
            min_new_tokens=NUM_TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=2,
        )
        ids = generated.sequences[0, len(prompt_ids) :].tolist()
        rows = torch.log_softmax(torch.cat(generated.logits).double(), dim=-1)
        return ids, [float(row[token]) for row, token in zip(rows, ids, strict=True)]

    with torch.no_grad():
        return greedy


def engine_of(name):
    model = settings.MODELS_DIR / name
    return Engine(EngineConfig(model, "cpu", max_model_len=256))


def run(engine, prompts, **params):
    outputs = {}
    for index, ids in enumerate(prompts):
        outputs[str(index)] = RequestOutput(str(index))
        engine.add(Request(str(index), (Prompt(ids),), SamplingParams(temperature=0, **params)))
    while engine.has_work:
        for output in engine.step():
            outputs[output.request_id].merge(output)
    return [outputs[str(index)] for index in range(len(prompts))]


@pytest.fixture(scope="module")
def prompts():
    from engine.tokenizer import Tokenizer

    tokenizer = Tokenizer(settings.MODELS_DIR / "smollm2-135m-instruct")
    return [tokenizer.encode(text) for text in PROMPTS]


@pytest.fixture(scope="module")
def reference(expected, prompts):
    return [expected(ids) for ids in prompts]


def test_fp32_equals_transformers(fp32_model, prompts, reference):
    # EOS is masked until all tokens are there, as transformers masks it.
    outputs = run(
        engine_of(fp32_model),
        prompts,
        max_tokens=NUM_TOKENS,
        min_tokens=NUM_TOKENS,
        ignore_eos=True,
        logprobs=0,
    )
    for output, (ids, logprobs) in zip(outputs, reference, strict=True):
        entries = output.candidates[0, 0].logprobs
        assert [entry.token_id for entry in entries] == ids
        np.testing.assert_allclose(
            [entry.logprob for entry in entries], logprobs, rtol=0, atol=1e-3
        )


def test_int8_is_near_transformers(default_model, prompts, reference):
    """Logprobs of transformers' own tokens, so that a text that parts doesn't count."""
    texts = [[*ids, *generated] for ids, (generated, _) in zip(prompts, reference, strict=True)]
    outputs = run(engine_of(default_model), texts, max_tokens=1, prompt_logprobs=0)
    differences = []
    for output, (ids, logprobs) in zip(outputs, reference, strict=True):
        entries = output.prompts[0].logprobs[-len(ids) :]
        differences += np.abs(np.subtract([entry.logprob for entry in entries], logprobs)).tolist()
    assert np.mean(differences) < INT8_MEAN_DIFFERENCE
