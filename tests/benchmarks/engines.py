"""Engines and jobs that several benchmarks need."""

import random
import statistics
import time
from pathlib import Path
from typing import Any

from engine.config import EngineConfig
from engine.engine import Engine
from engine.request import Prompt, Request
from engine.sampling_params import SamplingParams
from tests.benchmarks.measure import seconds

_dice = random.Random(0)


def make_engine(model: Path, **settings: Any) -> Engine:
    """An engine on the CPU; prefixes are reused only where a benchmark asks for it."""
    defaults = {"provider": "cpu", "max_model_len": 2304, "prefix_reuse": False}
    engine = Engine(EngineConfig(model=model, **(defaults | settings)))
    engine.warm_up()
    return engine


def random_prompt(size: int) -> list[int]:
    """Token ids that no earlier prompt had."""
    return [_dice.randrange(1000, 40_000) for _ in range(size)]


def request(token_ids: list[int], **params: Any) -> Request:
    """A request of one prompt that runs to its max_tokens; greedy unless `params` say otherwise."""
    settings = {"temperature": 0.0, "ignore_eos": True} | params
    name = str(_dice.getrandbits(64))
    return Request(name, (Prompt(token_ids),), SamplingParams(**settings))


def start(engine: Engine, requests: list[Request]) -> None:
    """Compute the prompts: what follows is decoding alone, of every candidate."""
    engine.reset()
    for each in requests:
        engine.add(each)
    candidates = sum(each.params.num_candidates for each in requests)
    while engine.stats().slots_in_use < candidates or engine.stats().waiting:
        engine.step()
    engine.step()


def run_job(engine: Engine, prompts: list[list[int]], max_tokens: int) -> dict[str, float]:
    """Seconds of the whole job, in which all prompts come at once, and of a decoding step."""
    begin = time.perf_counter()
    for prompt in prompts:
        engine.add(request(prompt, max_tokens=max_tokens))
    steps = []
    while engine.has_work:
        full = engine.stats().slots_in_use == len(prompts) and not engine.stats().waiting
        duration = seconds(engine.step)
        if full:
            steps.append(duration)
    return {"whole": time.perf_counter() - begin, "step": statistics.median(steps)}
