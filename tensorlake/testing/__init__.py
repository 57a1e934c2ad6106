"""Test stores and servers for tests and benchmarks; shipped, for tests only.

`StoreConformance` is a pytest suite, and is loaded on first access: without pytest the rest is
available, and ``help(tensorlake)`` works.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorlake.testing.counting import CountingStore, Request, round_trips
from tensorlake.testing.faults import Fault, FaultyStore, SimulatedCrash
from tensorlake.testing.latency_server import Conditions, Counters, LatencyServer, latency_server
from tensorlake.testing.s3_server import S3Server, s3_server
from tensorlake.testing.throttled import ThrottledStore

if TYPE_CHECKING:
    from tensorlake.testing.conformance import StoreConformance

__all__ = [
    "Conditions",
    "Counters",
    "CountingStore",
    "Fault",
    "FaultyStore",
    "LatencyServer",
    "Request",
    "S3Server",
    "SimulatedCrash",
    "StoreConformance",
    "ThrottledStore",
    "latency_server",
    "round_trips",
    "s3_server",
]


def __getattr__(name: str) -> Any:
    """Load the suite, which needs pytest."""
    if name != "StoreConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("tensorlake.testing.conformance").StoreConformance
