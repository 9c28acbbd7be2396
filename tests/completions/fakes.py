"""An engine with AsyncEngine's interface whose model is a few lines of Python.

Its tokens are the bytes of UTF-8 (ids 0..255) and EOS (256). It answers with `script`, over and
over, one token per step; `pace` is the seconds of a step.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from engine.config import EngineConfig
from engine.errors import ContextOverflow, EngineUnavailable, GenerationFailed, InvalidRequest
from engine.model_folder import FimTemplate, ModelConfig
from engine.outputs import (
    Alternative,
    CandidateOutput,
    PromptOutput,
    RequestOutput,
    Timings,
    TokenLogprob,
)
from engine.request import Request
from engine.stats import EngineStats

EOS = 256
VOCABULARY = 257
CONTEXT = 256

MODEL = ModelConfig(
    name="fake",
    architecture="FakeForCausalLM",
    precision="fp32",
    num_layers=1,
    num_kv_heads=1,
    head_dim=1,
    kv_dtype="float32",
    vocab_size=VOCABULARY,
    max_model_len=CONTEXT,
    eos_token_ids=(EOS,),
    source="tests",
    created=1_700_000_000,
    license="Apache-2.0",
    fim=FimTemplate("<p>", "<s>", "<m>"),
)


class FakeTokenizer:
    special_tokens: ClassVar = {"eos_token": "<eos>", "bos_token": None, "pad_token": "<eos>"}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        try:
            return list(text.encode())
        except UnicodeEncodeError:
            raise InvalidRequest("prompt", "prompt: not Unicode") from None

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i != EOS).decode(errors="replace")

    def token_name(self, token_id: int) -> str:
        return "<eos>" if token_id == EOS else chr(token_id)


class FakeStream:
    """Outputs come `pace` seconds apart; a reader that gives up waiting loses none."""

    def __init__(self, engine: "FakeEngine", request: Request) -> None:
        self.request = request
        self._engine = engine
        self._steps = 0
        self._ended = False
        self._due = time.monotonic() + engine.pace

    def __aiter__(self) -> "FakeStream":
        return self

    async def __anext__(self) -> RequestOutput:
        if self._ended:
            raise StopAsyncIteration
        await asyncio.sleep(max(0, self._due - time.monotonic()))
        self._due += self._engine.pace
        step, self._steps = self._steps, self._steps + 1
        last = self._steps == self.request.params.max_tokens
        if self._engine.fails_at == step:
            self._end()
            raise GenerationFailed("NaN in the logits of slot 3")
        if last:
            self._end()
        return self._step(step, last=last)

    def abort(self) -> None:
        if not self._ended:
            self._end()
            self._engine.aborted.append(self.request.request_id)

    def _end(self) -> None:
        self._ended = True
        self._engine.running.pop(self.request.request_id, None)

    def _step(self, step: int, *, last: bool) -> RequestOutput:
        params = self.request.params
        output = RequestOutput(self.request.request_id)
        for at, prompt in enumerate(self.request.prompts):
            if step == 0:
                wanted = params.prompt_logprobs
                logprobs = None if wanted is None else _prompt_logprobs(prompt.token_ids, wanted)
                output.prompts.append(PromptOutput(at, len(prompt.token_ids), 1, logprobs))
            for candidate in range(params.num_candidates):
                char = self._engine.script[step % len(self._engine.script)]
                output.add(self._candidate(at, candidate, step, char, last))
        if last:
            output.timings = Timings(0.25, 0.5, 1.0)
        return output

    def _candidate(self, prompt: int, index: int, step: int, char: str, last: bool):
        params = self.request.params
        entries = []
        if params.logprobs is not None:
            entries = [_entry(ord(char), char, -0.5, step, params.logprobs)]
        return CandidateOutput(
            prompt,
            index,
            text=char,
            num_tokens=step + 1,
            logprobs=entries,
            cumulative_logprob=self._engine.scores[index % len(self._engine.scores)],
            finish_reason="length" if last else None,
        )


class FakeEngine:
    """`scores` are the candidates' summed logprobs; `fails_at` is the step that fails."""

    def __init__(self, config: EngineConfig | None = None) -> None:
        self.config = config or EngineConfig(model=Path("fake"))
        self.model = MODEL
        self.max_model_len = CONTEXT
        self.tokenizer = FakeTokenizer()
        self.state = "new"
        self.script = "abc"
        self.pace = 0.0
        self.scores = [0.0]
        self.fails_at: int | None = None
        self.running: dict[str, Request] = {}
        self.aborted: list[str] = []
        self.requests: list[Request] = []
        self._ready = threading.Event()

    def start(self) -> None:
        self.state = "ready"
        self._ready.set()

    def wait_until_ready(self, timeout: float | None = None) -> None:
        self._ready.wait(timeout)

    def check(self, request: Request) -> None:
        for prompt in request.prompts:
            if not all(0 <= token < VOCABULARY for token in prompt.token_ids):
                raise InvalidRequest("prompt", "prompt: unknown id")
            if len(prompt.token_ids) + request.params.max_tokens > CONTEXT:
                raise ContextOverflow(CONTEXT, len(prompt.token_ids), request.params.max_tokens)

    async def generate(self, request: Request) -> FakeStream:
        if self.state != "ready":
            raise EngineUnavailable(f"The engine is {self.state}.", 7)
        self.requests.append(request)
        self.running[request.request_id] = request
        return FakeStream(self, request)

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self.running), num_slots=32)

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109
        self.state = "draining"
        while self.running and timeout > 0:
            await asyncio.sleep(0.01)
            timeout -= 0.01

    def stop(self) -> None:
        self.state = "stopped"


class LoadingEngine(FakeEngine):
    """It never gets ready."""

    def start(self) -> None:
        self.state = "loading"

    def __getattribute__(self, name):
        if name in ("model", "tokenizer", "max_model_len"):
            raise EngineUnavailable("The model is loading.")
        return super().__getattribute__(name)


def _entry(token_id: int, token: str, logprob: float, offset: int, k: int) -> TokenLogprob:
    top = [(token_id, token, logprob), (33, "!", -1.5), (34, '"', -2.0), (35, "#", -2.0)]
    top += [(36, "$", -3.0), (37, "%", float("-inf"))]
    return TokenLogprob(
        token_id, token, logprob, offset, tuple(Alternative(*each) for each in top[:k]), 1
    )


def _prompt_logprobs(ids: Sequence[int], k: int) -> list[TokenLogprob]:
    first = TokenLogprob(ids[0], chr(ids[0]), None, 0)
    return [first, *(_entry(i, chr(i), -0.25, at, k) for at, i in enumerate(ids[1:], 1))]


class SlowEngine(FakeEngine):
    """Takes its time, so that a client can leave before the end."""

    def __init__(self, config: EngineConfig | None = None) -> None:
        super().__init__(config)
        self.pace = 0.02
