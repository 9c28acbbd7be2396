"""A candidate's text and logprobs as they may be released."""

from dataclasses import replace

from engine.detokenizer import Detokenizer
from engine.outputs import TokenLogprob
from engine.sampling_params import SamplingParams
from engine.stop_strings import StopStrings
from engine.tokenizer import Tokenizer


class CandidateText:
    """Detokenizes, looks for stop strings, and never releases a logprob ahead of its text's cut."""

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer) -> None:
        self._detokenizer = Detokenizer(tokenizer.token_bytes)
        self._is_special = tokenizer.is_special
        self._stops = StopStrings(params.stop, include=params.include_stop_str_in_output)
        self._min_tokens = params.min_tokens
        self._num_tokens = 0
        self._ready = ""
        self._released = 0
        self._entries: list[TokenLogprob] = []
        self.offset = 0
        """Code points that were complete before the next token."""

    @property
    def found(self) -> str | None:
        """The stop string that ends the text."""
        return self._stops.found

    def append(self, token_id: int, entry: TokenLogprob | None, *, shown: bool = True) -> None:
        """Take a token and its logprobs; special tokens and those not `shown` have no text."""
        self._num_tokens += 1
        if entry:
            self._entries.append(entry)
        if shown and not self._is_special(token_id):
            self._push(self._detokenizer.append(token_id))

    def finish(self) -> None:
        """Nothing follows: release what was held back."""
        if self.found is None:
            self._push(self._detokenizer.flush())
        if self.found is None:
            self._ready += self._stops.flush()

    def take(self, *, final: bool) -> tuple[str, list[TokenLogprob]]:
        """The text and logprobs that may be released now; all of them, if `final`."""
        text, self._ready = self._ready, ""
        self._released += len(text)
        due = [e for e in self._entries if final or e.text_offset <= self._released]
        self._entries = self._entries[len(due) :]
        return text, [replace(e, text_offset=min(e.text_offset, self._released)) for e in due]

    def _push(self, piece: str) -> None:
        self.offset += len(piece)
        search = self._num_tokens > self._min_tokens
        self._ready += self._stops.push(piece) if search else self._stops.pass_through(piece)
