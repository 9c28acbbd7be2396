"""The engine's synchronous core: add requests, call `step` until they are finished."""

import logging
from collections.abc import Iterable

import numpy as np

from engine.config import EngineConfig
from engine.decoder import Decoder, Logits
from engine.device import choose_device
from engine.errors import ContextOverflow, EngineError, InvalidRequest
from engine.kv_cache import KVCache, slot_bytes
from engine.model_folder import ModelFolder
from engine.outputs import CandidateOutput, RequestOutput, TokenLogprob
from engine.prompt_scorer import score_prompt
from engine.request import Request
from engine.sampling import Sampler, SamplerOutput
from engine.scheduler import Batch, Prefill, Scheduler
from engine.sequence import RequestState, Sequence
from engine.slots import Slots
from engine.stats import EngineStats
from engine.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


class Engine:
    """Continuous batching over one model, without a thread or a clock of its own.

    A step computes one token for each running sequence and at most one chunk of a prompt, samples
    all rows at once and hands back what each request gained.
    """

    def __init__(self, config: EngineConfig) -> None:
        folder = ModelFolder(config.model)
        self.config = config
        self.model = folder.config
        self.tokenizer = Tokenizer(folder.path)
        self.max_model_len = min(config.max_model_len or 2**31, self.model.max_model_len)
        device = choose_device(config.provider)
        device.check_kv_dtype(self.model.kv_dtype)
        budget = config.kv_cache_bytes or device.default_cache_bytes()
        self.num_slots = self._fitting_slots(budget)
        # One slot more than sequences: the scheduler's staging slot.
        cache = KVCache(self.model, device, self.num_slots + 1, self.max_model_len)
        self._cache = cache
        self._decoder = Decoder(folder.graph_path, self.model, device, cache, config.num_threads)
        self._sampler = Sampler(self.model.vocab_size, config.logprobs_mode)
        width = self._decoder.logits_width
        self._logits: Logits = np.empty((self.num_slots + 1, width), np.float32)
        self._prompt_tokens = self._generation_tokens = 0
        self.reset()
        logger.info(
            "%s on %s: %d slots of %d tokens", self.model.name, device.name, *cache_shape(cache)
        )

    def reset(self) -> None:
        """Forget all requests and all kept prefixes."""
        self._states: dict[str, RequestState] = {}
        self._scheduler = Scheduler(
            Slots(self._cache), self.config.prefill_chunk, prefix_reuse=self.config.prefix_reuse
        )

    @property
    def has_work(self) -> bool:
        """Whether a step would compute anything."""
        return self._scheduler.has_work

    def check(self, request: Request) -> None:
        """Raise InvalidRequest if this model can never serve the request."""
        params, size = request.params, self.model.vocab_size
        for prompt in request.prompts:
            if not 0 <= min(prompt.token_ids) <= max(prompt.token_ids) < size:
                raise InvalidRequest("prompt", unknown_id(prompt.token_ids, size))
        for param, ids in (
            ("stop_token_ids", params.stop_token_ids),
            ("logit_bias", params.logit_bias),
        ):
            if any(not 0 <= token_id < size for token_id in ids):
                raise InvalidRequest(param, unknown_id(ids, size))
        longest = max(len(prompt.token_ids) for prompt in request.prompts)
        if longest + params.max_tokens > self.max_model_len:
            raise ContextOverflow(self.max_model_len, longest, params.max_tokens)

    def add(self, request: Request) -> None:
        """Let a request wait for its slots; it must have passed `check`."""
        state = RequestState(request, self.tokenizer, self.model.eos_token_ids)
        self._states[request.request_id] = state
        self._prompt_tokens += request.num_prompt_tokens
        leaders = [Sequence(prompt, 0) for prompt in state.prompts]
        self._scheduler.waiting.extend(state, leaders)

    def abort(self, request_id: str) -> None:
        """Free all that a request holds; unknown or finished requests are ignored."""
        state = self._states.pop(request_id, None)
        if state:
            self._scheduler.abort(state)

    def step(self) -> list[RequestOutput]:
        """Compute one step; the outputs of the requests that gained something in it."""
        batch = self._scheduler.schedule()
        if not batch:
            return []
        sequences, rows = self._run(batch)
        if sequences:
            sampled = self._sampler.sample(rows, [sequence.sampling for sequence in sequences])
            for row, sequence in enumerate(sequences):
                self._advance(sequence, sampled, row)
            self._place(sequences)
        return self._collect(batch)

    def stats(self) -> EngineStats:
        """What the engine is doing."""
        scheduler, running = self._scheduler, self._scheduler.running()
        cached = scheduler.slots.num_cached_tokens
        return EngineStats(
            running=len({sequence.owner.request.request_id for sequence in running}),
            waiting=scheduler.waiting.num_requests,
            slots_in_use=len(running),
            num_slots=self.num_slots,
            cached_tokens=cached,
            cache_usage=cached / (self.num_slots * self.max_model_len),
            prompt_tokens_total=self._prompt_tokens,
            generation_tokens_total=self._generation_tokens,
        )
