"""Guided decoding: what a constraint adds to a step, to a request, and what a hostile one can do.

python -m tests.benchmarks.guided
"""

import json
import random
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engine.engine import Engine
from engine.errors import InvalidRequest
from engine.guided.backend import Grammar, Vocabulary, new_bitmask
from engine.guided.compiler import BACKENDS, GrammarCompiler
from engine.sampling_params import GuidedParams
from tests.benchmarks.engines import make_engine, random_prompt, request
from tests.benchmarks.measure import in_turns, median_ratio, seconds, table
from tests.benchmarks.models import default_model
from tests.engine.guided.json_schema_suite import load_cases

ROWS, STEPS, ROUNDS = 8, 8, 15
TARGET_STEP, TARGET_P50, TARGET_P99 = 1.1, 5, 100

_dice = random.Random(0)

RECORD = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
ENDLESS = {
    "JSON records": GuidedParams(
        "json", json.dumps({"type": "array", "items": RECORD, "minItems": 1000})
    ),
    "words": GuidedParams("regex", "([a-z]{1,9} )*"),
    "any text": GuidedParams("regex", "(.|\n)*"),
    "e-mail addresses": GuidedParams(
        "json",
        '{"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1000}',
    ),
}
"""Constraints that nothing finishes within the benchmark."""

EXPLOSION = "start: A\nA: " + " & ".join(rf"/(.|\n)*a{i}(.|\n)*/" for i in range(30))
HOSTILE = {
    "a regex of 900 kB": GuidedParams("regex", "a" * 900_000),
    "a grammar of 2 MB": GuidedParams("grammar", 'start: "' + "a" * 2_000_000 + '"'),
    "a grammar of 0.9 MB": GuidedParams("grammar", 'start: "' + "a" * 900_000 + '"'),
    "60,000 alternatives": GuidedParams(
        "grammar", "start: " + " | ".join(f'"{i}"' for i in range(60_000))
    ),
    "20,000 rules in a row": GuidedParams(
        "grammar",
        "start: a0\n" + "".join(f'a{i}: "x" a{i + 1}\n' for i in range(20_000)) + 'a20000: "z"\n',
    ),
    "nested repetitions": GuidedParams("regex", "(((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99}"),
    "30 intersections": GuidedParams("grammar", EXPLOSION),
    "2,000 properties": GuidedParams(
        "json", json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(2_000)}})
    ),
    "strings of a million": GuidedParams("json", '{"type": "string", "minLength": 1000000}'),
    "deep schema": GuidedParams("json", '{"items":' * 400 + "{}" + "}" * 400),
    "exponential, outlines": GuidedParams("regex", "(.*a.{12}){9}", backend="outlines"),
    "exponential, lm-format-enforcer": GuidedParams(
        "regex", "(.*a.{12}){9}", backend="lm-format-enforcer"
    ),
}


def start(engine: Engine, compiler: GrammarCompiler, guided: GuidedParams | None) -> None:
    """Let ROWS candidates run, of which each draws its own text."""
    engine.reset()
    grammar = compiler.compile(guided).result() if guided else None
    for _ in range(ROWS):
        params = {"temperature": 1.0, "max_tokens": 1500, "guided": guided}
        engine.add(request(random_prompt(8), **params), grammar)
    while engine.stats().waiting or engine.stats().slots_in_use < ROWS:
        engine.step()
    engine.step()


def steps_of(engine: Engine) -> float:
    """Seconds of STEPS steps."""
    return seconds(lambda: [engine.step() for _ in range(STEPS)])


def compare_steps(model: Path) -> Iterator[list[object]]:
    """Rows of the table: a guided step and a free one, in turns."""
    free, guided = make_engine(model), make_engine(model)
    compiler = GrammarCompiler(free.tokenizer)
    kinds = {f"{name}, llguidance": params for name, params in ENDLESS.items()}
    words = ENDLESS["words"]
    for backend in list(BACKENDS)[1:]:
        kinds[f"words, {backend}"] = GuidedParams(words.kind, words.source, backend=backend)
    for name, params in kinds.items():
        start(free, compiler, None)
        start(guided, compiler, params)
        times = in_turns(ROUNDS, lambda: steps_of(guided), lambda: steps_of(free))
        assert guided.stats().slots_in_use == free.stats().slots_in_use == ROWS
        milliseconds = [1000 * statistics.median(column) / STEPS for column in times]
        ratio = median_ratio(*times)
        target = f"<= {TARGET_STEP}" if "llguidance" in name else ""
        yield [name, *milliseconds, ratio, target]
    compiler.close()


def compile_suite(compiler: GrammarCompiler) -> list[list[object]]:
    """Rows of the table: each schema of JSON-Schema-Test-Suite, one after the other."""
    accepted, refused = [], []
    for case in load_cases():
        begin = time.perf_counter()
        try:
            compiler.compile(GuidedParams("json", json.dumps(case.schema))).result()
            accepted.append(1000 * (time.perf_counter() - begin))
        except InvalidRequest:
            refused.append(1000 * (time.perf_counter() - begin))
    targets = f"<= {TARGET_P50}, <= {TARGET_P99}"
    return [
        [name, len(times), *np.percentile(times, [50, 99]), max(times), targets]
        for name, times in (("accepted", accepted), ("refused", refused))
    ]


def attack(engine: Engine, compiler: GrammarCompiler) -> Iterator[list[object]]:
    """Rows of the table: what becomes of a hostile constraint, and of those who run beside it."""
    for name, params in HOSTILE.items():
        start(engine, compiler, None)
        outcome: list[object] = []
        thread = threading.Thread(target=lambda: outcome.extend(compile_timed(compiler, params)))  # noqa: B023
        alone = [seconds(engine.step) for _ in range(10)]
        thread.start()
        beside = [seconds(engine.step)]
        while thread.is_alive():
            beside.append(seconds(engine.step))
        alone += [seconds(engine.step) for _ in range(10)]
        yield [name, *outcome, statistics.median(beside) / statistics.median(alone), max(beside)]


def kept_memory(vocabulary: Vocabulary) -> list[list[object]]:
    """Rows of the table: resident memory before, and after many different hostile constraints."""
    compiler = GrammarCompiler(vocabulary)
    compiler.compile(GuidedParams("json", "{}")).result()
    rows: list[list[object]] = [["before", resident_mb()]]
    for count in (100, 200, 300):
        for number in range(count - 100, count):
            params = GuidedParams("regex", f"(.*a.{{{number % 50 + 3}}}){{9}}{number}.*")
            grammar = compiler.compile(params).result().start()
            follow(grammar, vocabulary)
        rows.append([f"after {count}", resident_mb()])
    compiler.close()
    return rows


def follow(grammar: Grammar, vocabulary: Vocabulary) -> None:
    """Let a constraint learn from 200 tokens."""
    bitmask = new_bitmask(1, vocabulary.vocab_size)
    letters = [vocabulary.token_bytes.index(letter) for letter in (b"a", b"b")]
    for _ in range(200):
        grammar.fill_bitmask(bitmask, 0)
        if not bitmask.any():
            return
        grammar.accept(letters[_dice.randrange(2)])


def compile_timed(compiler: GrammarCompiler, params: GuidedParams) -> list[object]:
    """Seconds, and what came of it."""
    begin = time.perf_counter()
    try:
        compiler.compile(params).result()
        what = "compiled"
    except InvalidRequest as refusal:
        what = refusal.message.partition(": ")[2][:60].replace("\n", " ").replace("|", "/")
    return [time.perf_counter() - begin, what]


def resident_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Measure and print."""
    model = default_model()
    table(
        f"A step of {ROWS} rows, milliseconds: guided and free, in turns",
        ["constraint", "guided", "free", "ratio", "target"],
        compare_steps(model),
    )
    engine = make_engine(model)
    tokenizer = engine.tokenizer
    compiler = GrammarCompiler(tokenizer)
    compiler.compile(GuidedParams("json", "{}")).result()
    table(
        "Compiling the schemas of JSON-Schema-Test-Suite, milliseconds",
        ["what", "schemas", "p50", "p99", "largest", "target"],
        compile_suite(compiler),
    )
    table(
        f"Hostile constraints beside {ROWS} running rows",
        ["constraint", "s", "answer", "their step, ratio", "longest step, s"],
        attack(engine, compiler),
    )
    compiler.close()
    table("Resident memory, MB", ["hostile constraints followed", "MB"], kept_memory(tokenizer))


if __name__ == "__main__":
    main()
