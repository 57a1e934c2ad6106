"""When a query ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["QueryLimits"]


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """When a query ends by itself: after seconds, after bytes of samples, when told to."""

    timeout_s: float | None = None
    max_nbytes: int | None = None
    cancelled: Callable[[], bool] | None = None
