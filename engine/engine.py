"""The engine's synchronous core: add requests, call `step` until they are finished."""

import logging
from collections.abc import Iterable, Iterator

import numpy as np

from engine.config import EngineConfig
from engine.decoder import Decoder, Logits
from engine.device import choose_device
from engine.errors import ContextOverflow, InvalidRequest
from engine.guided.backend import Bitmask, CompiledGrammar
from engine.guided.bits import clear_bits
from engine.guided.masks import MaskFiller
from engine.kv_cache import KVCache, slot_bytes
from engine.model_folder import ModelFolder
from engine.outputs import (
    Alternative,
    CandidateOutput,
    FinishReason,
    RequestOutput,
    TokenLogprob,
)
from engine.request import Prompt, Request
from engine.sampling import Sampler, SamplerOutput
from engine.sampling_params import GuidedParams, SamplingParams
from engine.scheduler import Batch, Prefill, Scheduler
from engine.sequence import STUCK, RequestState, Sequence
from engine.slots import Slots
from engine.stats import EngineStats
from engine.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

_SAMPLED_ROWS = 64
_NOT_A_NUMBER = "The model's output is not a number."


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
        self._decoder = Decoder(folder.graph_path, device, cache, config.num_threads)
        self._sampler = Sampler(self.model.vocab_size, config.logprobs_mode)
        self._masks = MaskFiller(self.tokenizer.vocab_size)
        width = self._decoder.logits_width
        self._logits: Logits = np.empty((self.num_slots + 1, width), np.float32)
        self._prompt_tokens = self._generation_tokens = 0
        self.reset()
        logger.info(
            "%s on %s: %d slots of %d tokens",
            self.model.name,
            device.name,
            self.num_slots,
            self.max_model_len,
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

    def add(self, request: Request, grammar: CompiledGrammar | None = None) -> None:
        """Let a request wait for its slots; it must have passed `check`.

        `grammar` is its constraint, compiled.
        """
        assert (grammar is None) == (request.params.guided is None)
        state = RequestState(request, self.tokenizer, self.model.eos_token_ids, grammar)
        self._enqueue(state)
        self._prompt_tokens += request.num_prompt_tokens

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
        owners = {id(owner): owner for owner in self._run(batch)}
        return [self._collect(owner) for owner in owners.values() if owner.has_output]

    def warm_up(
        self, guided: GuidedParams | None = None, grammar: CompiledGrammar | None = None
    ) -> None:
        """Compute a short completion, so that the first request finds everything in place.

        Requests may wait, none may have begun; kept prefixes are forgotten.
        """
        waiting = list(self._states.values())
        totals = self._prompt_tokens, self._generation_tokens
        params = SamplingParams(max_tokens=2, guided=guided)
        self.reset()
        try:
            self.add(Request("warm-up", (Prompt([0, 0]),), params), grammar)
            while self.has_work:
                self.step()
        finally:
            self.reset()
            self._prompt_tokens, self._generation_tokens = totals
            for state in waiting:
                self._enqueue(state)

    def fail_started(self, message: str) -> list[RequestOutput]:
        """After a fault in a step, end the requests that have begun, or all if none has."""
        states = list(self._states.values())
        failed = [state for state in states if state.started is not None] or states
        self.reset()
        for state in states:
            if state in failed:
                state.fail(message)
            else:
                self._enqueue(state)
        return [state.take_output() for state in failed]

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

    def _enqueue(self, state: RequestState) -> None:
        leaders = [Sequence(prompt, 0) for prompt in state.prompts]
        self._states[state.request.request_id] = state
        self._scheduler.waiting.extend(state, leaders)

    def _run(self, batch: Batch) -> Iterator[RequestState]:
        """Compute and sample; yields the owners of the sequences that gained a token."""
        sequences = list(batch.decode)
        self._masks.begin([sequence.grammar for sequence in sequences])
        if sequences:
            self._decode(sequences)
        if batch.prefill:
            sequences += self._prefill(batch.prefill, len(sequences))
        num_computed = len(sequences)
        rows = list(range(num_computed))
        for row, leader in enumerate(list(sequences)):
            if leader.is_leader:
                yield self._announce(leader)
                siblings = list(leader.siblings())
                sequences += siblings
                rows += [row] * len(siblings)
        has_forks = len(rows) > num_computed
        bitmask = self._bitmask(sequences)
        for start in range(0, len(rows), _SAMPLED_ROWS):
            part = slice(start, start + _SAMPLED_ROWS)
            states = [sequence.sampling for sequence in sequences[part]]
            # Siblings share their leader's logits, which sampling overwrites: then they are copied.
            logits = self._logits[rows[part]] if has_forks else self._logits[: len(rows)][part]
            allowed = None if bitmask is None else bitmask[part]
            sampled = self._sampler.sample(logits, states, allowed)
            for row, sequence in enumerate(sequences[part]):
                self._advance(sequence, sampled, row)
                yield sequence.owner
        self._place(sequences)

    def _decode(self, sequences: list[Sequence]) -> None:
        tokens = np.array([sequence.tokens[-1] for sequence in sequences], np.int64)
        lengths = np.array([sequence.num_computed_tokens for sequence in sequences])
        self._decoder.decode(tokens, lengths, self._logits[: len(sequences)])
        for sequence in sequences:
            sequence.num_computed_tokens += 1

    def _prefill(self, chunks: list[Prefill], row: int) -> list[Sequence]:
        """Compute chunks of prompts; who draws then, from the logits in the rows from `row` on."""
        first = chunks[0].sequence
        start = first.num_computed_tokens
        tokens = [chunk.sequence.tokens[start : start + chunk.size] for chunk in chunks]
        wanted = [chunk.size if chunk.sequence.scorer else 1 for chunk in chunks]
        logits = np.empty((sum(wanted), self._logits.shape[1]), np.float32)
        self._decoder.prefill(first.slot, tokens, start, wanted, logits)
        drawing: list[Sequence] = []
        for chunk, part in zip(chunks, np.split(logits, np.cumsum(wanted)[:-1]), strict=True):
            if self._advance_prompt(chunk, part):
                self._logits[row + len(drawing)] = part[-1]
                drawing.append(chunk.sequence)
        return drawing

    def _advance_prompt(self, chunk: Prefill, logits: Logits) -> bool:
        """Take a computed chunk; whether its sequence draws from the last row of `logits`."""
        sequence = chunk.sequence
        if sequence.scorer:
            scored = logits[:, : self.model.vocab_size]
            if np.isnan(scored).any():
                sequence.owner.fail(_NOT_A_NUMBER)
            else:
                sequence.scorer.score(scored, sequence.num_computed_tokens)
        sequence.num_computed_tokens += chunk.size
        if sequence.is_prefilled and sequence.num_generated:
            self._scheduler.complete_prefill(sequence)
        return sequence.is_prefilled and not sequence.num_generated

    def _bitmask(self, sequences: list[Sequence]) -> Bitmask | None:
        """The tokens that constraints allow; a request fails whose constraint allows none.

        EOS is no text, so where it doesn't end a candidate it is not allowed either.
        """
        bitmask = self._masks.finish([sequence.grammar for sequence in sequences])
        for row, sequence in enumerate(sequences):
            if bitmask is None or sequence.grammar is None:
                continue
            if not bitmask[row].any():
                sequence.owner.fail(STUCK)
            if sequence.owner.params.ignore_eos:
                clear_bits(bitmask[row], sequence.owner.eos_token_ids)
        return bitmask

    def _announce(self, leader: Sequence) -> RequestState:
        leader.owner.output.prompts.append(leader.prompt.output())
        return leader.owner

    def _advance(self, sequence: Sequence, sampled: SamplerOutput, row: int) -> None:
        """Take one row's token, or end its candidate without one."""
        if sampled.broken[row]:
            sequence.owner.fail(_NOT_A_NUMBER)
        elif sampled.exhausted[row]:
            self._emit(sequence, "stop", None)
        else:
            token_id = int(sampled.token_ids[row])
            self._generation_tokens += 1
            entry = self._entry(sequence, sampled, row)
            sequence.append(token_id)
            if sequence.owner.params.needs_logprobs:
                sequence.cumulative_logprob += float(sampled.logprobs[row])
            self._emit(sequence, *sequence.take(token_id, entry))

    def _entry(self, sequence: Sequence, sampled: SamplerOutput, row: int) -> TokenLogprob | None:
        if sequence.owner.params.logprobs is None:
            return None
        name = self.tokenizer.token_name
        tops = zip(sampled.top_ids[row].tolist(), sampled.top_logprobs[row].tolist(), strict=True)
        token_id = int(sampled.token_ids[row])
        return TokenLogprob(
            token_id,
            name(token_id),
            float(sampled.logprobs[row]),
            sequence.text.offset,
            tuple(Alternative(each, name(each), value) for each, value in tops),
        )

    def _emit(
        self, sequence: Sequence, reason: FinishReason | None, stop: int | str | None
    ) -> None:
        if reason:
            sequence.text.finish()
            sequence.is_finished = True
        text, entries = sequence.text.take(final=reason is not None)
        if text or entries or reason:
            output = CandidateOutput(
                sequence.prompt.index,
                sequence.index,
                text,
                sequence.num_generated,
                entries,
                sequence.cumulative_logprob,
                reason,
                stop,
            )
            sequence.owner.emit(output)

    def _place(self, sequences: list[Sequence]) -> None:
        """Free the slots of those that ended; let those that began run or wait."""
        failed = {sequence.owner for sequence in sequences if sequence.owner.output.error}
        for owner in failed:
            self._scheduler.abort(owner)
        alive = [sequence for sequence in sequences if sequence.owner not in failed]
        for sequence in sorted(alive, key=lambda each: -each.slot):
            if sequence.slot < 0:
                if not sequence.is_finished:
                    self._scheduler.waiting.extend(sequence.owner, [sequence])
            elif sequence.is_finished:
                self._scheduler.finish(sequence)
            else:
                self._scheduler.complete_prefill(sequence)

    def _collect(self, owner: RequestState) -> RequestOutput:
        output = owner.take_output()
        if output.finished:
            self._states.pop(owner.request.request_id, None)
        return output

    def _fitting_slots(self, budget: int) -> int:
        size = slot_bytes(self.model, self.max_model_len)
        return max(1, min(self.config.max_num_seqs, budget // size - 1))


def unknown_id(ids: Iterable[int], size: int) -> str:
    """What is wrong with the first id that is not in the vocabulary."""
    wrong = next(token_id for token_id in ids if not 0 <= token_id < size)
    return f"Token id {wrong} is not in the vocabulary (0 to {size - 1})."
