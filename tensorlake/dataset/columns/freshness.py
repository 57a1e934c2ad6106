"""Which rows of a computed tensor are fresh: made by its function from the cells there are now.

    inputs' trees ──compared with what the cells were made from──► fresh physical rows ──► rows

Pages alone are compared, and those that are shared are not read: no chunk is, however many rows
there are. A row of a tensor that is computed from another computed one is fresh if both are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns.declaration import computed_spec, in_order_of_inputs
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.errors import SchemaError
from tensorlake.indexes import apart_from, within
from tensorlake.storage import runtime
from tensorlake.versions import Ranges, fresh_rows, intersect

if TYPE_CHECKING:
    import tensorlake_query as tql
    from tensorlake.format import TensorSpec
    from tensorlake.reading import Snapshot

__all__ = ["Freshness", "fresh_function", "fresh_physical", "freshness_of", "stale_positions"]

Int64Array = npt.NDArray[np.int64]

STEP = 1 << 20
"""Physical rows that are looked up together."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much of a computed tensor is fresh.

    Attributes:
        fresh: Rows whose value was made by the function from the present inputs; those for which
            it failed are among them.
        rows: All rows.
    """

    fresh: int
    rows: int

    def __str__(self) -> str:
        if self.fresh == self.rows:
            return "computed"
        share = min(100 * self.fresh / self.rows, 99.9)
        return f"computed, {share:.3g} % fresh"


def freshness_of(snapshot: Snapshot, spec: TensorSpec) -> Freshness:
    """Count the fresh rows of a computed tensor in a version."""
    rows = snapshot.num_rows
    if spec.is_virtual:
        return Freshness(rows, rows)
    stale = _stale_physical(snapshot, spec)
    physical = snapshot.state.physical
    if int((stale[:, 1] - stale[:, 0]).sum()) == physical:
        return Freshness(0, rows)
    return Freshness(rows - sum(len(part) for part in _shown(snapshot, stale)), rows)


def fresh_physical(snapshot: Snapshot, spec: TensorSpec) -> Ranges:
    """Return the physical rows of a version that are fresh."""
    key = f"fresh rows of {spec.id}"
    known: tuple[str, Ranges] | None = snapshot.opened.get(key)
    if known is not None and known[0] == snapshot.digest:
        return known[1]
    fresh = np.array([[0, snapshot.state.physical]], np.int64)
    for one in in_order_of_inputs(snapshot.schema, [spec]):
        found = runtime.run(fresh_rows(snapshot.state, one, snapshot.packs.pages))
        fresh = intersect(fresh, found)
    snapshot.opened[key] = snapshot.digest, fresh
    return fresh


def stale_positions(rows: RowSet, name: str) -> Int64Array:
    """Return the positions, in all rows of a version, of those that are stale, ascending.

    Raises:
        SchemaError: Neither a function nor an expression computes the tensor.
    """
    snapshot = rows.selection.snapshot
    spec = snapshot.schema[name]
    if spec.is_virtual:
        return np.zeros(0, np.int64)
    spec = computed_spec(snapshot.schema, name)
    parts = _shown(snapshot, _stale_physical(snapshot, spec))
    return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def fresh_function(view: RowSet) -> tql.Function:
    """Return ``FRESH(name)`` for queries of a view."""
    import tensorlake_query as tql

    fresh_type = tql.ColumnType("bool", "bool", ())

    def bind(name: object) -> tuple[tql.ColumnType, tql.ReadRows]:
        snapshot = view.selection.snapshot
        spec = snapshot.schema[cast("str", name)]
        if spec.is_virtual:
            return fresh_type, lambda rows: tql.UniformBatch(np.ones(len(rows), np.bool_))
        try:
            computed_spec(snapshot.schema, spec.name)
        except SchemaError as error:
            raise ValueError(str(error).partition("\n")[0]) from error
        return fresh_type, partial(_are_fresh, snapshot, spec)

    return tql.row_function(
        "FRESH",
        bind,
        usage="FRESH(column)",
        summary="Whether a computed column's value was made from the present inputs.",
        arity=(1, 1),
        takes_names=True,
    )


def _are_fresh(snapshot: Snapshot, spec: TensorSpec, rows: Int64Array) -> tql.UniformBatch:
    import tensorlake_query as tql

    physical = snapshot.physical(rows)
    return tql.UniformBatch(within(fresh_physical(snapshot, spec), physical))


def _stale_physical(snapshot: Snapshot, spec: TensorSpec) -> Ranges:
    return apart_from(fresh_physical(snapshot, spec), snapshot.state.physical)


def _shown(snapshot: Snapshot, ranges: Ranges) -> list[Int64Array]:
    """Return the rows that a version shows among physical rows."""
    found: list[Int64Array] = []
    for first, last in ranges.tolist():
        for start in range(first, last, STEP):
            rows = snapshot.rows_of(np.arange(start, min(start + STEP, last)))
            found.append(rows[rows >= 0])
    return found
