"""The server: what HTTP costs beside the engine, how soon it is ready, how much memory it takes.

python -m tests.benchmarks.serving
"""

import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from engine.engine import Engine
from engine.kv_cache import slot_bytes
from tests.benchmarks.engines import make_engine, random_prompt, run_job
from tests.benchmarks.measure import in_turns, median_ratio, seconds, table
from tests.benchmarks.models import default_model
from tests.live import Live

TARGET_THROUGHPUT, TARGET_READY, TARGET_MEMORY = 0.85, 15, 500
STREAMS, PROMPT_TOKENS, NEW_TOKENS, ROUNDS = 32, 16, 64, 7
MB = 1e6


async def stream(server: Live, prompt: list[int]) -> None:
    """Read one event stream to its end, as cheaply as can be: the client shares the cores."""
    fields = {"temperature": 0, "max_tokens": NEW_TOKENS, "ignore_eos": True, "stream": True}
    body = json.dumps({"model": server.model, "prompt": prompt, **fields}).encode()
    head = [
        "POST /v1/completions HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b"data: [DONE]" in answer


def run_streams(server: Live) -> float:
    """Seconds of a job whose streams begin at once."""

    async def all_streams() -> None:
        await asyncio.gather(
            *[stream(server, random_prompt(PROMPT_TOKENS)) for _ in range(STREAMS)]
        )

    return seconds(lambda: asyncio.run(all_streams()))


def run_alone(engine: Engine) -> float:
    """Seconds of the same job in the engine of this process."""
    prompts = [random_prompt(PROMPT_TOKENS) for _ in range(STREAMS)]
    return run_job(engine, prompts, NEW_TOKENS)["whole"]


def compare_throughput(server: Live, engine: Engine) -> list[object]:
    """A row of the table: tokens/s through the server and of the engine alone."""
    times = in_turns(ROUNDS, lambda: run_streams(server), lambda: run_alone(engine))
    rates = [STREAMS * NEW_TOKENS / statistics.median(column) for column in times]
    return [STREAMS, *rates, median_ratio(times[1], times[0]), f">= {TARGET_THROUGHPUT}"]


def memory(server: Live, engine: Engine, model: Path) -> list[float]:
    """Resident memory in MB: all, weights, keys and values of the last job, the rest."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
    weights = sum(file.stat().st_size for file in model.glob("model.onnx*"))
    used = STREAMS * slot_bytes(engine.model, PROMPT_TOKENS + NEW_TOKENS)
    return [size / MB for size in (resident, weights, used, resident - weights - used)]


def main() -> None:
    """Measure and print."""
    model = default_model()
    with tempfile.TemporaryDirectory() as folder:
        settings = "tests.real_model.live_settings"
        server = Live("daphne", Path(folder), settings, model.name, LIVE_MODEL=model.name)
        ready = seconds(server.start)
        engine = make_engine(model, max_model_len=None)
        try:
            throughput = compare_throughput(server, engine)
            sizes = memory(server, engine, model)
        finally:
            server.stop()
    table(
        f"{STREAMS} streams of {NEW_TOKENS} tokens through daphne and the engine alone, tokens/s",
        ["streams", "daphne", "engine", "ratio", "target"],
        [throughput],
    )
    table(
        "From the command to ready, with a database to be made, s",
        ["seconds", "target"],
        [[ready, f"<= {TARGET_READY}"]],
    )
    table(
        "Resident memory of the server after that, MB",
        ["resident", "weights", "used keys and values", "the rest", "target of the rest"],
        [[*sizes, f"<= {TARGET_MEMORY}"]],
    )


if __name__ == "__main__":
    main()
