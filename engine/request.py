"""What callers hand to the engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its token ids and, where it was written as text, that text."""

    token_ids: Sequence[int]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One or more prompts that share their sampling parameters; admitted and aborted as one."""

    request_id: str
    prompts: tuple[Prompt, ...]
    params: SamplingParams

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of all prompts together."""
        return sum(len(prompt.token_ids) for prompt in self.prompts)
