"""What tests and benchmarks put around or in place of a real store; shipped, for tests only."""

from tensorlake.testing.conformance import StoreConformance
from tensorlake.testing.counting import CountingStore, Request, round_trips
from tensorlake.testing.faults import Fault, FaultyStore, SimulatedCrash
from tensorlake.testing.latency_server import Conditions, Counters, LatencyServer, latency_server
from tensorlake.testing.s3_server import S3Server, s3_server

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
    "latency_server",
    "round_trips",
    "s3_server",
]
