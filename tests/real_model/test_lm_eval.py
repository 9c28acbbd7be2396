"""lm-evaluation-harness over HTTP against its own transformers model, on the same fp32 weights."""

from pathlib import Path

import lm_eval
import numpy as np
import pytest
import transformers
import yaml
from lm_eval.models.huggingface import HFLM
from lm_eval.models.openai_completions import LocalCompletionsAPI

from completions.conf import settings as app_settings
from engine.gguf_file import default_gguf
from tests.real_model.conftest import serve

FOLDER = Path(__file__).parent / "lm_eval_tasks"
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def tasks():
    """The task files beside this test, with the path of their data."""
    data_files = {"test": str(FOLDER / "facts.jsonl")}
    return [
        yaml.safe_load(path.read_text()) | {"dataset_kwargs": {"data_files": data_files}}
        for path in sorted(FOLDER.glob("*.yaml"))
    ]


@pytest.fixture(scope="module")
def evaluate(tasks, tmp_path_factory):
    """(log likelihood, is greedy) of every request, by task."""

    def evaluate(model):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
            results = lm_eval.simple_evaluate(model, tasks=tasks, bootstrap_iters=0)
        return {task: responses(samples) for task, samples in results["samples"].items()}

    return evaluate


def responses(samples):
    """Choices give (log likelihood, is greedy), whole texts give a log likelihood."""
    samples = sorted(samples, key=lambda sample: sample["doc_id"])
    return [response for sample in samples for [response] in sample["resps"]]


@pytest.fixture(scope="module")
def tokenizer_folder(fp32_model, tmp_path_factory):
    """The served tokenizer in the form that transformers loads."""
    folder = tmp_path_factory.mktemp("tokenizer")
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(app_settings.MODELS_DIR / fp32_model / "tokenizer.json"),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def expected(evaluate, tokenizer_folder):
    gguf = default_gguf()
    model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
    return evaluate(HFLM(model.eval(), tokenizer=tokenizer, batch_size=1))


@pytest.fixture(scope="module")
def live(fp32_model, tmp_path_factory):
    yield from serve("daphne", fp32_model, tmp_path_factory.mktemp("live"))


@pytest.mark.parametrize("form", ["remote tokenizer", "token ids", "text"])
def test_log_likelihoods_equal_those_of_transformers(
    live, evaluate, expected, tokenizer_folder, form
):
    local = {"tokenizer_backend": "huggingface", "tokenizer": str(tokenizer_folder)}
    arguments = {
        "remote tokenizer": {"tokenizer_backend": "auto"},
        "token ids": {**local, "batch_size": 4},
        "text": {**local, "tokenized_requests": False, "num_concurrent": 4},
    }[form]
    model = LocalCompletionsAPI(
        f"{live.url}/v1/completions", model=live.model, max_length=2048, **arguments
    )
    found = evaluate(model)
    assert found.keys() == expected.keys() == {"facts_choice", "facts_text"}
    for task, wanted in expected.items():
        np.testing.assert_allclose(found[task], wanted, rtol=0, atol=TOLERANCE, err_msg=task)
