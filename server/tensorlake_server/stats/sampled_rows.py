"""TQL over rows that are spread evenly over all, some at once, for as long as a client waits."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import tensorlake_query as tql
from tensorlake.dataset import QueryLimits, query_inside, rowset_of
from tensorlake.errors import QueryLimitError
from tensorlake_server.stats.class_counts import row_of_values
from tensorlake_server.stats.row_budget import iter_spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    import numpy.typing as npt

    from tensorlake_server.lake.lake import Readable

__all__ = ["SampledRows"]

ROWS_AT_ONCE = 65_536
ELEMENTS_AT_ONCE = 4_000_000
TASTED_ROWS = 1024  # are asked how many elements they have


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Rows that are counted, and how long counting may take.

    Attributes:
        readable: A version, or the result of a query.
        what: The name of the statistics, for errors: ``'label'``.
    """

    readable: Readable
    what: str
    limits: QueryLimits
    started: float = field(default_factory=time.monotonic)

    def mean_size(self, column: str) -> int:
        """How many elements a row of an array has, by some of them; at least 1."""
        tasted = min(len(self.readable), TASTED_ROWS)
        batches = self.batches(f"SIZE({column})", counted=tasted)
        sizes = [row_of_values(one)[1] for one in batches if isinstance(one, tql.UniformBatch)]
        found = np.concatenate([np.ones(1), *sizes])
        return max(1, math.ceil(found.mean()))

    def batches(
        self, expression: str, *, counted: int, heavy: str | None = None
    ) -> Iterator[tql.Batch]:
        """Evaluate an expression over `counted` rows; see `together`."""
        for (batch,) in self.together([expression], counted=counted, heavy=heavy):
            yield batch

    def together(
        self, expressions: list[str], *, counted: int, heavy: str | None = None
    ) -> Iterator[tuple[tql.Batch, ...]]:
        """Evaluate expressions of the same rows by one query.

        Args:
            expressions: TQL.
            counted: How many rows, spread evenly over all.
            heavy: The expression of how many elements a row has, if rows are large: then no more
                rows are read at once than fit into memory.

        Raises:
            QueryLimitError: It took too long, or the client has gone.
        """
        if counted == 0:
            return
        names = [f"value{place}" for place in range(len(expressions))]
        values = self._evaluated(dict(zip(names, expressions, strict=True)))
        sizes = None if heavy is None else self._evaluated({"value0": heavy})
        for positions in iter_spread(len(self.readable), counted, at_once=ROWS_AT_ONCE):
            parts = [positions]
            if sizes is not None:
                parts = _parts(positions, sizes["value0"].take(positions).batch)
            for part in parts:
                self._check_wanted()
                yield tuple(values[name].take(part).batch for name in names)

    def _evaluated(self, columns: dict[str, str]) -> Mapping[str, Any]:
        select = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
        return rowset_of(query_inside(self.readable, f"SELECT {select}", {}, self.limits)).computed

    def _check_wanted(self) -> None:
        limits = self.limits
        taken = time.monotonic() - self.started
        if limits.timeout_s is not None and taken > limits.timeout_s:
            raise QueryLimitError(
                f"statistics of {self.what} were not counted within {limits.timeout_s:g} s"
                "\nask for fewer rows: those of a query"
            )
        if limits.cancelled is not None and limits.cancelled():
            raise QueryLimitError(
                f"request cancelled by client: statistics of {self.what}\nsend it again"
            )


def _parts(positions: npt.NDArray[np.int64], sizes: tql.Batch) -> list[npt.NDArray[np.int64]]:
    """Part rows so that the elements of each part fit into memory."""
    assert isinstance(sizes, tql.UniformBatch), "one size a row"
    ends = np.cumsum(np.maximum(sizes.values, 0))
    cuts = np.searchsorted(ends, np.arange(ELEMENTS_AT_ONCE, int(ends[-1]), ELEMENTS_AT_ONCE))
    return [part for part in np.split(positions, np.unique(cuts)) if len(part)]
