"""``GET /metrics``: counts for Prometheus. Labels are routes, never names of datasets or people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["METRICS_TYPE", "Metrics"]

METRICS_TYPE = CONTENT_TYPE_LATEST
BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """The counters of one application."""

    def __init__(
        self, *, streams: Callable[[], int], decoded: Callable[[], int], sent: Callable[[], int]
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tensorlake_requests",
            "Requests that were answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "tensorlake_request_seconds",
            "From a request to the end of its answer",
            ["route"],
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._sent = Counter(
            "tensorlake_sent_bytes", "Bytes of answers' bodies", ["route"], registry=self._registry
        )
        for name, what, function in (
            ("tensorlake_streams", "Streams of events that are open", streams),
            ("tensorlake_batches_decoded", "Batches of streams that were decoded", decoded),
            ("tensorlake_batches_sent", "Batches of streams that were sent", sent),
        ):
            Gauge(name, what, registry=self._registry).set_function(function)

    def note(self, method: str, route: str, status: int, seconds: float, nbytes: int) -> None:
        """Count one request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._sent.labels(route).inc(nbytes)

    def text(self) -> bytes:
        """Write them as Prometheus reads them."""
        return generate_latest(self._registry)
