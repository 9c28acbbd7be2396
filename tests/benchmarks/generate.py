"""The other side of the decoding benchmark: Optimum's `generate`, told what to do line by line.

A line of input is `[prompts, max_tokens]`, a line of output what `measure` returns.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from optimum.onnxruntime import ORTModelForCausalLM
from transformers import StoppingCriteria, StoppingCriteriaList


class Clock(StoppingCriteria):
    """Notes the time of every step and stops nothing."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        self.times.append(time.perf_counter())
        return torch.zeros(len(ids), dtype=torch.bool)


def measure(model: Any, prompts: list[list[int]], max_tokens: int) -> dict[str, float]:
    """Seconds of the whole job and of one decoding step, greedily."""
    ids, clock = torch.tensor(prompts), Clock()
    begin = time.perf_counter()
    model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        min_new_tokens=max_tokens,
        max_new_tokens=max_tokens,
        pad_token_id=0,
        stopping_criteria=StoppingCriteriaList([clock]),
    )
    steps = [b - a for a, b in zip(clock.times, clock.times[1:], strict=False)]
    return {"whole": time.perf_counter() - begin, "step": statistics.median(steps)}


def main() -> None:
    """Answer each line."""
    model = ORTModelForCausalLM.from_pretrained(Path(sys.argv[1]))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(measure(model, *json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
