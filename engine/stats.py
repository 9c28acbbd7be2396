"""What an engine is doing, in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot; `running` and `waiting` count requests, `cache_usage` is a share of 1."""

    running: int = 0
    waiting: int = 0
    slots_in_use: int = 0
    num_slots: int = 0
    cached_tokens: int = 0
    cache_usage: float = 0.0
    prompt_tokens_total: int = 0
    generation_tokens_total: int = 0
