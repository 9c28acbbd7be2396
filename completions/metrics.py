"""Prometheus metrics: gauges from the engine, counters and histograms from ended requests."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from completions.engines import registry as engines
from completions.models import LoggedChoice, RequestLog

REGISTRY = CollectorRegistry()
LABELS = ("model_name",)

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, (*LABELS, *labels), registry=REGISTRY)


def _histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(name, text, LABELS, buckets=buckets, registry=REGISTRY)


PROMPT_TOKENS = _counter("prompt_tokens", "Prompt tokens of answered requests.")
GENERATION_TOKENS = _counter("generation_tokens", "Tokens of returned choices.")
SUCCESS = _counter("request_success", "Requests that were answered in full.")
FAILURE = _counter("request_failure", "Requests that were refused, failed or abandoned.")
FINISH = _counter("request_finish", "Returned choices by finish reason.", "finished_reason")
TIME_TO_FIRST_TOKEN = _histogram(
    "time_to_first_token_seconds", "From arrival to the first token.", SECONDS
)
TIME_PER_OUTPUT_TOKEN = _histogram(
    "time_per_output_token_seconds", "Between the tokens of a choice, on average.", SECONDS
)
LATENCY = _histogram("e2e_request_latency_seconds", "From arrival to the end.", SECONDS)
REQUEST_PROMPT_TOKENS = _histogram("request_prompt_tokens", "Prompt tokens per request.", TOKENS)
REQUEST_GENERATION_TOKENS = _histogram(
    "request_generation_tokens", "Generated tokens per request.", TOKENS
)


LOG_DROPPED = Counter(
    "request_log_dropped",
    "Rows of the request log that were lost: no room, or the database did not take them.",
    registry=REGISTRY,
)


class EngineCollector(Collector):
    """Reads the gauges when they are scraped."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """What the engine is doing now; no samples before there is one."""
        engine = engines.current
        stats = engine.stats() if engine else None
        for name, text, field in (
            ("num_requests_running", "Requests that hold a slot.", "running"),
            ("num_requests_waiting", "Requests that wait for one.", "waiting"),
            ("num_request_max", "Sequences that can run at once.", "num_slots"),
            (
                "gpu_cache_usage_perc",
                "Share of the keys and values in use, 1 is all.",
                "cache_usage",
            ),
        ):
            family = GaugeMetricFamily(name, text, labels=LABELS)
            if stats:
                family.add_metric([engines.model or ""], getattr(stats, field))
            yield family


REGISTRY.register(EngineCollector())


def observe(row: RequestLog, choices: Sequence[LoggedChoice]) -> None:
    """Count an ended request, under the served model's name whatever the client called it."""
    label = (engines.model or "",)
    if row.error:
        FAILURE.labels(*label).inc()
        return
    SUCCESS.labels(*label).inc()
    PROMPT_TOKENS.labels(*label).inc(row.prompt_tokens)
    GENERATION_TOKENS.labels(*label).inc(row.completion_tokens)
    for choice in choices:
        FINISH.labels(*label, choice.finish_reason).inc()
    LATENCY.labels(*label).observe(row.duration)
    REQUEST_PROMPT_TOKENS.labels(*label).observe(row.prompt_tokens)
    REQUEST_GENERATION_TOKENS.labels(*label).observe(row.completion_tokens)
    if row.time_to_first_token is not None:
        TIME_TO_FIRST_TOKEN.labels(*label).observe(row.time_to_first_token)
    longest = max((choice.num_tokens for choice in choices), default=0)
    if row.decode_seconds is not None and longest > 1:
        TIME_PER_OUTPUT_TOKEN.labels(*label).observe(row.decode_seconds / (longest - 1))
