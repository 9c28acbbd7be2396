"""How an engine is set up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Provider = Literal["auto", "cuda", "cpu"]
LogprobsMode = Literal["raw", "processed"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one engine; tokens, bytes and seconds are the units.

    `max_num_seqs` bounds the slots, `kv_cache_bytes` the memory behind them: there are as many
    slots as both allow. `prefill_chunk` is how many prompt tokens one step computes beside a
    running decode batch. `max_waiting_requests` and `max_waiting_tokens` bound the queue.
    `guided_backends` are dotted paths by name (engine/guided), `guided_backend` is the default.
    """

    model: Path
    provider: Provider = "auto"
    max_num_seqs: int = 32
    max_model_len: int | None = None
    kv_cache_bytes: int | None = None
    prefill_chunk: int = 128
    max_waiting_requests: int = 1024
    max_waiting_tokens: int = 1_000_000
    num_threads: int | None = None
    prefix_reuse: bool = True
    logprobs_mode: LogprobsMode = "raw"
    guided_backends: Mapping[str, str] = field(default_factory=dict)
    guided_backend: str = "llguidance"
