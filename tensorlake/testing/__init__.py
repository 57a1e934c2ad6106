"""What tests and benchmarks put around or in place of a real store; shipped, for tests only."""

from tensorlake.testing.conformance import StoreConformance

__all__ = ["StoreConformance"]
