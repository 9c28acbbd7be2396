"""Client libraries from PyPI against the default model, each asked as its own documentation does."""

import json
import subprocess
import sys

import litellm
import openai
import pytest
import yaml
from langchain_openai import OpenAI as LangChain

from tests.real_model.conftest import serve

PROMPT = "The lighthouse keeper wrote:"
FIELDS = {"max_tokens": 12, "temperature": 0.8, "seed": 11}


@pytest.fixture(scope="module")
def live(default_model, tmp_path_factory):
    yield from serve("daphne", default_model, tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def base_url(live):
    return f"{live.url}/v1"


@pytest.fixture(scope="module")
def expected(live):
    """The text that every client has to bring."""
    text = live.ask(prompt=PROMPT, **FIELDS).json()["choices"][0]["text"]
    assert text
    return text


class TestOpenAI:
    @pytest.fixture
    def client(self, base_url):
        return openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)

    def test_whole(self, client, live, expected):
        answer = client.completions.create(model=live.model, prompt=PROMPT, **FIELDS)
        assert answer.choices[0].text == expected

    async def test_asynchronous_stream(self, base_url, live, expected):
        async with openai.AsyncOpenAI(base_url=base_url, api_key="unused") as client:
            stream = await client.completions.create(
                model=live.model, prompt=PROMPT, stream=True, **FIELDS
            )
            assert "".join([chunk.choices[0].text async for chunk in stream]) == expected

    @pytest.mark.parametrize(
        ("fields", "error", "param"),
        [
            ({"temperature": 3}, openai.UnprocessableEntityError, "temperature"),
            ({"prompt": ""}, openai.BadRequestError, "prompt"),
            ({"model": "nobody"}, openai.NotFoundError, "model"),
        ],
    )
    def test_errors(self, client, live, fields, error, param):
        body = {"model": live.model, "prompt": PROMPT} | fields
        with pytest.raises(error) as refusal:
            client.completions.create(**body)
        assert refusal.value.param == param

    def test_models(self, client, live):
        assert [model.id for model in client.models.list()] == [live.model]
        assert client.models.retrieve(live.model).id == live.model


class TestLangChain:
    @pytest.fixture
    def model(self, base_url, live):
        return LangChain(base_url=base_url, api_key="unused", model=live.model, **FIELDS)

    def test_invoke_and_stream(self, model, expected):
        assert model.invoke(PROMPT) == expected
        assert "".join(model.stream(PROMPT)) == expected

    async def test_batch(self, model, expected):
        """LangChain sends the prompts as one request."""
        assert (await model.abatch([PROMPT, PROMPT])) == [expected, expected]

    def test_usage_and_n(self, base_url, live):
        model = LangChain(base_url=base_url, api_key="unused", model=live.model, n=3, **FIELDS)
        result = model.generate([PROMPT])
        assert len({each.text for each in result.generations[0]}) == 3
        assert result.llm_output["token_usage"]["completion_tokens"] == 36


class TestLiteLLM:
    def ask(self, base_url, live, **fields):
        return litellm.text_completion(
            model=f"text-completion-openai/{live.model}",
            prompt=PROMPT,
            api_base=base_url,
            api_key="unused",
            **FIELDS,
            **fields,
        )

    def test_whole(self, base_url, live, expected):
        answer = self.ask(base_url, live, logprobs=2)
        assert answer.choices[0].text == expected
        assert len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens

    def test_stream(self, base_url, live, expected):
        chunks = list(self.ask(base_url, live, stream=True))
        assert "".join(chunk.choices[0].text or "" for chunk in chunks) == expected

    def test_error(self, base_url, live):
        with pytest.raises(litellm.BadRequestError, match="top_p"):
            self.ask(base_url, live, top_p=0)


class TestLlm:
    """Simon Willison's command line."""

    @pytest.fixture
    def run(self, base_url, live, tmp_path, monkeypatch):
        model = {
            "model_id": "local",
            "model_name": live.model,
            "api_base": base_url,
            "completion": True,
        }
        (tmp_path / "extra-openai-models.yaml").write_text(yaml.safe_dump([model]))
        monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
        monkeypatch.setenv(
            "LLM_LOAD_PLUGINS", ""
        )  # the default model comes in one that needs llama.cpp

        def run(*arguments):
            command = [sys.executable, "-m", "llm", *arguments]
            return subprocess.check_output(command, text=True, timeout=60)

        return run

    @pytest.mark.parametrize("streaming", [[], ["--no-stream"]])
    def test_prompt(self, run, expected, streaming):
        options = [part for name, value in FIELDS.items() for part in ("-o", name, str(value))]
        assert run("-m", "local", *options, *streaming, PROMPT).removesuffix("\n") == expected
        [row] = json.loads(run("logs", "--json"))
        assert (row["prompt"], row["response"]) == (PROMPT, expected)
