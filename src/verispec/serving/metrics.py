"""``/metrics`` for Prometheus: what the engine counts, read when it is asked for, and the answers by route and status.

Names that vLLM and llama.cpp share have their meaning here too, under the prefix ``verispec:``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from verispec.engine.batching.statistics import Distribution, Statistics
from verispec.serving.engine_thread import EngineThread

PREFIX = "verispec:"

_COUNTERS = {
    "spec_decode_num_drafts": ("drafts", "Rounds with a proposal."),
    "spec_decode_num_draft_tokens": ("draft_tokens", "Proposed tokens."),
    "spec_decode_num_accepted_tokens": ("accepted_tokens", "Proposed tokens that the target chose too."),
    "prompt_tokens": ("prompt_tokens", "Tokens of the prompts of finished requests."),
    "generation_tokens": ("generated_tokens", "Tokens written."),
    "passes": ("passes", "Target passes."),
    "replays": ("replays", "Committed prefixes evaluated again, since their state was gone."),
    "guarded_requests": ("guarded_requests", "Requests that a replay clamped to their rollback window."),
    "drafter_faults": ("drafter_faults", "Proposals thrown away because the drafter failed."),
    "drafter_warnings": (
        "drafter_warnings",
        "Requests whose drafter was accepted far less than its manifest says.",
    ),
    "prefix_cache_queries": ("prefix_query_tokens", "Prompt tokens looked up in the prefix cache."),
    "prefix_cache_hits": ("prefix_hit_tokens", "Prompt tokens found in the prefix cache."),
    "prefix_cache_evicted_blocks": (
        "prefix_evicted_blocks",
        "Blocks of cached prefixes given up for others.",
    ),
    "rejected_requests": ("rejected_requests", "Requests refused because the queue was full."),
}
_GAUGES = {
    "num_requests_running": ("running", "Requests that are being answered."),
    "num_requests_waiting": ("waiting", "Requests in the queue."),
    "prefix_cache_bytes": ("prefix_bytes", "Memory held by cached prefixes."),
}
_DISTRIBUTIONS = {
    "pass_seconds": ("pass_seconds", "Wall time of a pass."),
    "batch_rows": ("batch_rows", "Rows of a pass, over all requests."),
    "batch_requests": ("batch_requests", "Requests that share a pass."),
    "time_to_first_token_seconds": ("first_token_seconds", "From a request's arrival to its first token."),
}


class Metrics:
    """The registry of one server."""

    def __init__(self, engine: Collector) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(engine)
        self._responses = Counter(
            f"{PREFIX}http_responses",
            "Answers by route and status.",
            ("route", "status"),
            registry=self.registry,
        )

    def count_response(self, route: str, status: int) -> None:
        self._responses.labels(route, str(status)).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)


class EngineCollector(Collector):
    """The engine's statistics as metric families, made anew for each reader."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering it reads nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        statistics: Statistics = self._engine.statistics
        for name, (field, meaning) in _COUNTERS.items():
            yield CounterMetricFamily(PREFIX + name, meaning, getattr(statistics, field))
        for name, (field, meaning) in _GAUGES.items():
            yield GaugeMetricFamily(PREFIX + name, meaning, getattr(statistics, field))
        for name, (field, meaning) in _DISTRIBUTIONS.items():
            yield _histogram(PREFIX + name, meaning, getattr(statistics, field))
        yield _labelled(
            "spec_decode_num_accepted_tokens_per_pos",
            "Rounds in which the proposal's token at this position was accepted.",
            "position",
            enumerate(list(statistics.accepted_per_position)),
        )
        yield _labelled(
            "finished_requests",
            "Requests that are over, by finish reason, or deadline, drained or error.",
            "reason",
            dict(statistics.finished).items(),
        )


def _labelled(
    name: str, meaning: str, label: str, values: Iterable[tuple[object, int]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(PREFIX + name, meaning, labels=(label,))
    for key, value in values:
        family.add_metric((str(key),), value)
    return family


def _histogram(name: str, meaning: str, observed: Distribution) -> HistogramMetricFamily:
    """Prometheus' buckets are cumulative."""
    counts = list(observed.counts)
    bounds = [*(f"{bound:g}" for bound in observed.bounds), "+Inf"]
    buckets = [(bound, float(sum(counts[: index + 1]))) for index, bound in enumerate(bounds)]
    return HistogramMetricFamily(name, meaning, buckets=buckets, sum_value=observed.total)


def metrics_routes(metrics: Metrics) -> APIRouter:
    """``GET /metrics``."""
    routes = APIRouter()

    @routes.get("/metrics", summary="Counters for Prometheus", response_class=Response)
    async def read_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return routes
