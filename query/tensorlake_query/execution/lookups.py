"""Rows found by indexes of a source, instead of a scan.

An index answers for the rows that it knows, by evaluating the condition itself for values that it
has. All other rows are scanned, with the same conditions, so that the rows found, and their order,
are those of a scan of all.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.execution.batches import values_of
from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import Known, Scope
from tensorlake_query.planning.plan import Plan, Scan
from tensorlake_query.planning.rules.indexes import column_of, operator_of
from tensorlake_query.planning.zone_maps import candidate_ranges, intersected, united
from tensorlake_query.syntax.errors import QueryTypeError
from tensorlake_query.values.bound import Bound
from tensorlake_query.values.memory import hold
from tensorlake_query.values.source import (
    BoolArray,
    ColumnIndex,
    IndexCondition,
    IndexedSource,
    IntArray,
    SourceBatch,
)
from tensorlake_query.values.vectors import from_batch, length_of

MOST_FOUND = 1 / 4
"""Share of the rows above which reading the column costs less than reading rows one by one."""

MOST_SCANNED = 1 / 2
"""Share of rows that no index knows above which all are scanned."""

SMALL_GAP = 4096
"""Known rows between unknown ones that are scanned with them: a range has a cost of its own."""

FEW_ROWS = 1024  # found by one index: no other is asked


class Found(Struct, frozen=True):
    """Rows found by indexes.

    Attributes:
        scan: the scan that they are found for.
        rows: rows that meet the conditions `answered`, ascending.
        answered: conditions, by identity of those of the scan.
        scanned: ranges of rows that must be scanned, among which are none of `rows`.
        names: the indexes used.
        num_rows: the rows of the source.
    """

    scan: Scan
    rows: IntArray
    answered: tuple[Bound, ...]
    scanned: IntArray
    names: tuple[str, ...]
    num_rows: int

    def pieces(self) -> "Sequence[tuple[IntArray, int, int]]":
        """Return rows found, and the range to be scanned after them, in order of their rows."""
        bounds = [*self.scanned.tolist(), (self.num_rows, self.num_rows)]
        cuts = np.searchsorted(self.rows, [start for start, _ in bounds])
        parts = np.split(self.rows, cuts)
        return [(part, start, stop) for part, (start, stop) in zip(parts, bounds, strict=False)]

    def candidates(self) -> IntArray:
        """Return all rows that may meet the conditions, as ranges."""
        return united(ranges_of(self.rows), self.scanned)

    def describe(self) -> str:
        """Name the indexes, the rows that they find, and the share of rows that is scanned."""
        names = " and ".join(self.names)
        share = _count(self.scanned) / max(self.num_rows, 1)
        return f"finds {len(self.rows):,} rows by index {names}, scans {share:.1%} of the rows"


def found_by_indexes(scan: Plan, reader: SourceReader, text: str) -> Found | None:
    """Find the rows of a step by indexes; None where none helps, or the step is not a scan."""
    source = reader.source
    if not isinstance(scan, Scan) or not scan.lookups or not isinstance(source, IndexedSource):
        return None
    by_column: dict[str, list[Bound]] = {}
    for condition in scan.lookups:
        column = column_of(condition)
        assert column is not None, "the rule has asked the same"
        by_column.setdefault(column.name, []).append(condition)
    best: Found | None = None
    for name, conditions in by_column.items():
        for index in source.indexes(name):
            found = _found(index, scan, name, conditions, reader, text)
            if found is not None:
                best = found if best is None else _both(best, found)
                break
        if best is not None and len(best.rows) <= FEW_ROWS:
            break
    if best is None:
        return None
    return _within(best, candidate_ranges(scan.prunable, source))


def _found(
    index: ColumnIndex,
    scan: Scan,
    column: str,
    conditions: Sequence[Bound],
    reader: SourceReader,
    text: str,
) -> Found | None:
    num_rows = reader.source.num_rows
    scanned = _coalesced(index.unindexed)
    if _count(scanned) > num_rows * MOST_SCANNED:
        return None
    asked: list[IndexCondition] = []
    answered: list[Bound] = []
    for condition in conditions:
        op, values = operator_of(condition)
        if not index.answers(op):
            continue
        answered.append(condition)
        asked.append(
            IndexCondition(op, values, partial(_matching, condition, column, reader, text))
        )
    if not asked:
        return None
    try:
        rows = index.rows(asked, int(num_rows * MOST_FOUND))
    except QueryTypeError:
        return None  # of a value that perhaps no row has; a row that has it raises it
    if rows is None:
        return None
    kept = rows[~_inside(scanned, rows)] if len(scanned) else rows
    return Found(scan, kept, tuple(answered), scanned, (index.name,), num_rows)


def _matching(
    condition: Bound, column: str, reader: SourceReader, text: str, batch: SourceBatch
) -> BoolArray:
    """Evaluate a condition for samples of its column that are of no row."""
    vector = from_batch(batch, reader.source.schema[column])
    known = Known(hold("values of an index"), {column: vector}, {column: vector})
    scope = Scope(reader, np.arange(length_of(vector)), text, known)
    result = values_of([condition], scope).vectors[0]
    is_true = np.asarray(result.values, np.bool_)
    return is_true if result.valid is None else is_true & result.valid


def _both(one: Found, other: Found) -> Found:
    """Combine what two indexes found: rows that either does not know are scanned."""
    scanned = united(one.scanned, other.scanned)
    rows = np.intersect1d(one.rows, other.rows, assume_unique=True)
    rows = rows[~_inside(scanned, rows)]
    return structs.replace(
        one,
        rows=rows,
        answered=(*one.answered, *other.answered),
        scanned=scanned,
        names=(*one.names, *other.names),
    )


def _within(found: Found, ranges: IntArray) -> Found:
    """Leave out ranges to be scanned in which no row can match."""
    scanned = intersected(found.scanned, ranges) if len(found.scanned) else found.scanned
    return structs.replace(found, scanned=scanned)


def ranges_of(rows: IntArray) -> IntArray:
    """Return ascending rows as ranges."""
    if not len(rows):
        return np.empty((0, 2), np.int64)
    is_first = np.concatenate(([True], np.diff(rows) != 1))
    is_last = np.concatenate((is_first[1:], [True]))
    return np.stack((rows[is_first], rows[is_last] + 1), axis=1)


def _coalesced(ranges: IntArray) -> IntArray:
    if len(ranges) <= 1:
        return ranges
    is_first = np.concatenate(([True], ranges[1:, 0] - ranges[:-1, 1] > SMALL_GAP))
    is_last = np.concatenate((is_first[1:], [True]))
    return np.stack((ranges[is_first, 0], ranges[is_last, 1]), axis=1)


def _inside(ranges: IntArray, rows: IntArray) -> BoolArray:
    """Return for each row whether it is in a range: an odd number of borders is up to it."""
    return np.searchsorted(ranges.reshape(-1), rows, side="right") % 2 == 1


def _count(ranges: IntArray) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())
