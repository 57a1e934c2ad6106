"""Rows found by indexes of a source, instead of a scan.

An index answers for the rows that it knows, by evaluating the condition itself for values that it
has. All other rows are scanned, with the same conditions, so that the rows found, and their order,
are those of a scan of all.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.execution.batches import values_of
from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.execution.evaluate import Known, Scope
from tensorlake_query.planning.plan import Lookup, Plan, Question, Scan
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
    offers,
)
from tensorlake_query.values.vectors import Vector, distinct, from_batch, length_of

MOST_FOUND = 1 / 4
"""Share of the rows above which reading the column costs less than reading rows one by one."""

MOST_SCANNED = 1 / 2
"""Share of rows that no index knows above which all are scanned."""

SHORT_RANGE = 1024
"""Rows that no index knows, of a range, up to which they are read alone and not by a scan."""

FEW_SHORT = 1 << 14
"""Rows of such ranges, above which all are scanned."""

SMALL_GAP = 4096
"""Known rows between unknown ones that are scanned with them: a range has a cost of its own."""

FEW_ROWS = 1024  # found by one index: no other is asked


_column = attrgetter("column")


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
    if not isinstance(scan, Scan) or not scan.lookups or not offers(source, IndexedSource):
        return None
    by_column: dict[str, list[Question]] = {}
    for lookup in scan.lookups:
        if len(lookup.alternatives) == 1:
            (question,) = lookup.questions
            by_column.setdefault(question.column, []).append(question)
    asking = _Asking(scan, reader, source, text)
    findings = chain(
        (asking.found(questions) for questions in by_column.values()),
        (asking.found_any(lookup) for lookup in scan.lookups if len(lookup.alternatives) > 1),
    )
    best: Found | None = None
    for found in findings:
        if found is not None:
            best = found if best is None else _both(best, found)
        if best is not None and len(best.rows) <= FEW_ROWS:
            break
    if best is None or not len(best.scanned):
        return best
    return _within(best, candidate_ranges(scan.prunable, source))


class _Asking(Struct, frozen=True):
    """Asks the indexes of a source for rows of a scan."""

    scan: Scan
    reader: SourceReader
    source: IndexedSource
    text: str

    def found(self, questions: Sequence[Question]) -> Found | None:
        """Find the rows of which all questions, of one column, are true; None: no index can."""
        asked = (
            self._found(index, questions) for index in self.source.indexes(questions[0].column)
        )
        return next((found for found in asked if found is not None), None)

    def found_any(self, lookup: Lookup) -> Found | None:
        """Find the rows of any alternative; None where an index lacks for one."""
        scanned, names = np.zeros((0, 2), np.int64), dict[str, None]()
        parts: list[IntArray] = []
        for questions in lookup.alternatives:
            found = self._found_all(questions)
            if found is None:
                return None
            parts.append(found.rows)
            scanned = united(scanned, found.scanned)
            names |= dict.fromkeys(found.names)
        num_rows = self.reader.source.num_rows
        rows = distinct(np.concatenate(parts))
        if len(rows) > num_rows * MOST_FOUND or _count(scanned) > num_rows * MOST_SCANNED:
            return None
        rows = rows[~_inside(scanned, rows)]
        return Found(self.scan, rows, (lookup.condition,), scanned, tuple(names), num_rows)

    def _found_all(self, questions: Sequence[Question]) -> Found | None:
        """Find the rows of which all questions are true; None: an index lacks for one."""
        best: Found | None = None
        for _, several in groupby(sorted(questions, key=_column), key=_column):
            asked = [*several]
            found = self.found(asked)
            if found is None or len(found.answered) < len(asked):
                return None
            best = found if best is None else _both(best, found)
        return best

    def _found(self, index: ColumnIndex, questions: Sequence[Question]) -> Found | None:
        num_rows = self.reader.source.num_rows
        single, scanned = _parted(index.unindexed)
        if len(scanned) and _count(scanned) > num_rows * MOST_SCANNED:
            return None
        answered = [question for question in questions if index.answers(question.op, question.path)]
        if not answered:
            return None
        asked = [
            IndexCondition(
                question.op,
                question.values,
                partial(_matching, question, self.reader, self.text),
                question if question.is_fixed else None,
            )
            for question in answered
        ]
        try:
            rows = index.rows(asked, int(num_rows * MOST_FOUND))
            if rows is None:
                return None
            conditions = tuple(question.condition for question in answered)
            rows = self._with_single(rows, single, conditions)
        except QueryTypeError:
            return None  # of a value that perhaps no row has; a row that has it raises it
        kept = rows[~_inside(scanned, rows)] if len(scanned) else rows
        return Found(self.scan, kept, conditions, scanned, (index.name,), num_rows)

    def _with_single(
        self, rows: IntArray, single: IntArray, conditions: Sequence[Bound]
    ) -> IntArray:
        """Add those of some other rows that meet all conditions."""
        for condition in conditions:
            if len(single):
                scope = Scope(self.reader, single, self.text)
                single = single[_is_true(values_of([condition], scope).vectors[0])]
        return np.sort(np.concatenate((rows, single))) if len(single) else rows


def _matching(question: Question, reader: SourceReader, text: str, batch: SourceBatch) -> BoolArray:
    """Evaluate a condition for samples of its column that are of no row."""
    column = question.column
    vector = from_batch(batch, reader.source.schema[column])
    known = Known(hold("values of an index"), {column: vector}, {column: vector})
    scope = Scope(reader, np.arange(length_of(vector)), text, known)
    return _is_true(values_of([question.condition], scope).vectors[0])


def _is_true(result: Vector) -> BoolArray:
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
    return structs.replace(found, scanned=intersected(found.scanned, ranges))


def ranges_of(rows: IntArray) -> IntArray:
    """Return ascending rows as ranges."""
    if not len(rows):
        return np.empty((0, 2), np.int64)
    is_first = np.concatenate(([True], np.diff(rows) != 1))
    is_last = np.concatenate((is_first[1:], [True]))
    return np.stack((rows[is_first], rows[is_last] + 1), axis=1)


def _parted(ranges: IntArray) -> tuple[IntArray, IntArray]:
    """Part ranges that no index knows: rows to be read alone, and ranges to be scanned."""
    is_short = ranges[:, 1] - ranges[:, 0] <= SHORT_RANGE
    short = ranges[is_short]
    if not len(short) or _count(short) > FEW_SHORT:
        return np.zeros(0, np.int64), _coalesced(ranges)
    lengths = short[:, 1] - short[:, 0]
    before = np.cumsum(lengths) - lengths
    rows = np.repeat(short[:, 0] - before, lengths) + np.arange(int(lengths.sum()))
    scanned = _coalesced(ranges[~is_short])
    return rows[~_inside(scanned, rows)], scanned


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
