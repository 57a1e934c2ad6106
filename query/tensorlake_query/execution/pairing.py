"""The step of a join: which rows of two relations belong together, a piece at a time.

keys of integers      a table of the right side's; the left side is read batch by batch
other keys            those of both sides are numbered together, in one piece
no keys               all pairs, 2¹⁸ at a time
what else must hold   is tested of the pairs of each piece

A step that looks at each pair once takes the pieces, and none is held. For others all pairs are.
If the right side is much larger than the left one, only rows whose key the left one has enter the
table: it is never larger than the pairs made by it.

Groups by columns of the right side are those of its rows, numbered before the join: the table leads
from a left row to its groups, and no column is read by pair (Yan and Larson, VLDB 1995).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import Struct, structs

from tensorlake_query.execution.aggregation import BLOCK_ROWS, arguments_of
from tensorlake_query.execution.batches import batch_rows, compute, values_of
from tensorlake_query.execution.columns import Answer, SourceReader
from tensorlake_query.execution.evaluate import RunScope, Scope
from tensorlake_query.execution.joins import (
    MAX_PAIRS,
    KeyTable,
    Pairs,
    Part,
    all_pairs,
    numbered_together,
    with_left_rows,
)
from tensorlake_query.execution.run import Run
from tensorlake_query.execution.subqueries import JoinSource
from tensorlake_query.functions.aggregate.accumulators import RowGroups
from tensorlake_query.planning.plan import Aggregate, Joined
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, ColumnRef, renamed
from tensorlake_query.values.group_keys import DENSE_MIN, codes_of, group_rows
from tensorlake_query.values.memory import Held, charge, collecting, working
from tensorlake_query.values.source import (
    AnyArray,
    ColumnSource,
    ColumnType,
    IntArray,
    UniformBatch,
)
from tensorlake_query.values.vectors import Vector, concatenated, slice_of, take

PROBED_ROWS = 1 << 17  # of integers: what is made of them stays in the caches of a core
MAX_NARROW = 1 << 31  # rows whose numbers have four bytes: new memory is dearer than the join
LARGER = 4  # times as many right rows as left ones: those without a partner are left out first
MOST_GROUPS = PROBED_ROWS  # of right rows: counting the pairs of a batch visits them all
NONE: Pairs = (np.zeros(0, np.int64), np.zeros(0, np.int64))


class Piece(Struct):
    """Some pairs of rows, −1 for a side that has none, and the memory that they take."""

    pairs: Pairs
    held: Held


T = TypeVar("T")


class Pairing:
    """One join of two sources; `passing` gives the rows of a source that meet a condition."""

    def __init__(
        self,
        run: Run,
        joined: Joined,
        sources: tuple[ColumnSource, ColumnSource],
        answer: Answer,
        passing: Callable[[ColumnSource, Bound], IntArray],
    ) -> None:
        self._run = run
        self._joined = joined
        self._sources = sources
        self._sizes = sources[0].num_rows, sources[1].num_rows
        self._answer = answer
        self._passing = passing

    def pairs(self) -> Pairs:
        """Return all pairs, in order; the result holds them."""
        dtype = np.dtype("int32" if max(self._sizes) < MAX_NARROW else "int64")
        found: list[tuple[AnyArray, AnyArray]] = [(NONE[0].astype(dtype), NONE[1].astype(dtype))]
        with self._run.step("JOIN"):
            for piece in self.pieces(are_held=True):
                left, right = piece.pairs
                charge(2 * len(left) * dtype.itemsize)
                found.append((left.astype(dtype), right.astype(dtype)))
                piece.held.drop()
            with working(sum(left.nbytes + right.nbytes for left, right in found)):
                left, right = (np.concatenate(side) for side in zip(*found, strict=True))
        self._run.keep(left.nbytes + right.nbytes)
        return left, right

    def pieces(self, *, are_held: bool = False) -> Iterator[Piece]:
        """Yield the pairs, in order.

        Args:
            are_held: whether the caller holds all of them, so that their number is limited.

        Raises:
            QueryLimitError: they are too many to be held, or the time is up.
        """
        table = Held(self._run.memory, "JOIN")
        with collecting(table):
            parts = self._parts(are_held=are_held)
        for pairs, held in self._each_held(self._completed(parts, are_held=are_held)):
            yield Piece(pairs, held)
        table.drop()

    def count(self) -> int | None:
        """Return how many pairs there are, by the rows that each key has; no pair is made.

        None where a condition is tested on each pair, or right rows without a partner count.
        """
        num_left, num_right = self._sizes
        is_outer = self._joined.kind in {"RIGHT", "FULL"}
        if self._joined.residual is not None or is_outer or not num_left or not num_right:
            return None
        if not self._joined.keys:
            return num_left * num_right
        held, total = Held(self._run.memory, "JOIN"), 0
        with collecting(held):
            table, numbers = self._keyed()
        least = 1 if self._joined.kind == "LEFT" else 0  # a left row without a partner is a row
        for (_, keys), probed in self._each_held(numbers):
            total += int(np.maximum(table.counts(keys), least).sum())
            probed.drop()
        held.drop()
        return total

    def grouped(self, plan: Aggregate) -> list[Vector] | None:
        """Return the keys of the groups of all pairs, and their aggregates.

        None where groups are not few and of columns of the right side alone, or aggregates of
        other than columns of the left side.
        """
        joined, (num_left, num_right) = self._joined, self._sizes
        arguments, of_call = arguments_of(plan)
        if joined.kind != "INNER" or joined.residual is not None or len(joined.keys) != 1:
            return None
        left, right = joined.keys[0]
        if not (all(self._sizes) and _is_integer(left.type) and _is_integer(right.type)):
            return None
        if num_right > max(num_left // LARGER, DENSE_MIN):
            return None  # numbering their groups, perhaps in vain, costs as much as the join
        if not all(self._is_column(1, key) and not _is_float(key.type) for key in plan.keys):
            return None  # equal floats differ as 0.0 and -0.0 do, and a group has the first
        if not all(self._is_column(0, argument) for argument in arguments):
            return None
        names = {name: there for name, (_, there) in joined.sides.items()}
        theirs, *keys = self._columns(1, [right, *(renamed(key, names) for key in plan.keys)])
        table = self._run.watched(num_right, partial(KeyTable.of, theirs, None, num_left))
        groups = self._run.watched(num_right, partial(group_rows, keys, num_right))
        if table is None or groups.count > MOST_GROUPS:
            return None
        table, made = table.renumbered(groups.of_row), 0
        first = np.full(groups.count, -1)  # pair of each group
        aggregates = [call.accumulate() for call in plan.calls if call.accumulate is not None]
        arguments = [renamed(argument, names) for argument in arguments]
        parts = self._by_group(table, left, arguments, max(BLOCK_ROWS, groups.count))
        for (of_pair, values), held in self._each_held(parts):
            of = RowGroups(of_pair, groups.count)
            for place, aggregate in zip(of_call, aggregates, strict=True):
                aggregate.add(None if place < 0 else values[place], of)
            if len(fresh := np.flatnonzero((first < 0) & (of.sizes > 0))):
                places = np.empty(groups.count, np.int64)
                places[of_pair[::-1]] = np.arange(len(of_pair))[::-1]  # the last written stays
                first[fresh] = made + places[fresh]
            made += len(of_pair)
            self._run.check_pairs(made)
            held.drop()
        order = np.argsort(first)[np.count_nonzero(first < 0) :]
        return [take(each, order) for each in (*groups.keys, *(one.result() for one in aggregates))]

    def _by_group(
        self, table: KeyTable, key: Bound, arguments: Sequence[Bound], step: int
    ) -> Iterator[tuple[IntArray, list[Vector]]]:
        """Yield the groups of pairs that a table of these has by key, and values of left rows.

        Those of `step` left rows at a time, and more of several pairs a row.
        """
        for piece, keys in self._read(0, [key]):
            batch: Scope = piece
            numbers, values = table.numbers(keys), list[Vector]()
            if arguments:  # are read where there is a pair
                kept = np.flatnonzero(table.counts(numbers))
                if len(kept) < len(numbers):
                    batch, numbers = batch.take(kept), numbers[kept]
                values = compute(arguments, batch, self._run)
            for start in range(0, len(numbers), step):
                some = numbers[start : start + step]
                stop = start + len(some)
                if table.rows is None and not values:  # nothing asks for left rows
                    found = table.starts.take(some, mode="clip")
                    found = found if found.min() >= 0 else found[found >= 0]
                    self._run.count_made(len(found))
                    yield found, []
                    continue
                for _, _, (rows, groups) in table.parts(some, start, self._run.count_made, None):
                    if table.rows is None and len(rows) == len(some):
                        yield groups, [slice_of(each, start, stop) for each in values]
                    else:
                        yield groups, [take(each, rows) for each in values]

    def _is_column(self, side: int, expr: Bound) -> bool:
        """Return whether an expression is a column of a side, of single values."""
        joined = self._joined
        if not isinstance(expr, ColumnRef) or expr.name in {*joined.merged, *joined.rows}:
            return False
        return joined.sides[expr.name][0] == side and not expr.type.shape

    def _each_held(self, made: Iterator[T]) -> Iterator[tuple[T, Held]]:
        """Make one after another, each with an account of what it holds."""
        while True:
            held = Held(self._run.memory, "JOIN")
            with collecting(held):
                one = next(made, None)
            if one is None:
                return
            yield one, held

    def numbers(self, side: int, name: str) -> Vector:
        """Return a number for each text of a column of a side, equal for equal ones."""
        column = ColumnRef(name, self._sources[side].schema[name], ast.Column(name))
        texts = self._columns(side, [column])[0]
        codes, count, _ = self._run.watched(self._sizes[side], partial(codes_of, texts))
        dtype = np.dtype(np.int32 if count < MAX_NARROW else np.int64)
        self._run.keep(len(codes) * dtype.itemsize)
        return UniformBatch(codes.astype(dtype), texts.valid)

    def _completed(self, parts: Iterator[Part], *, are_held: bool) -> Iterator[Pairs]:
        """Yield pairs that meet all conditions, and the rows of outer sides without a partner."""
        kind = self._joined.kind
        is_met = np.zeros(self._sizes[1] if kind in {"RIGHT", "FULL"} else 0, np.bool_)
        count = 0
        for start, stop, candidates in parts:
            left, right = self._tested(candidates)
            if len(is_met):
                is_met[right] = True
            if kind in {"LEFT", "FULL"}:
                left, right = with_left_rows(start, stop, (left, right))
            count += len(left)
            if are_held:
                self._run.check_held(count)
            yield left, right
        alone = np.flatnonzero(~is_met)
        for start in range(0, len(alone), MAX_PAIRS):
            rows = alone[start : start + MAX_PAIRS]
            self._run.check_made(len(rows))
            yield np.full(len(rows), -1), rows

    def _parts(self, *, are_held: bool) -> Iterator[Part]:
        """Return the pairs by their keys, for one range of left rows after the other."""
        if not all(self._sizes):
            return self._without_pairs()
        are_counted = are_held and self._joined.residual is None
        if not self._joined.keys:
            count = self._sizes[0] * self._sizes[1]
            if are_counted:
                self._run.check_held(count)
            self._run.check_pairs(count)
            return self._crossed()
        table, numbers = self._keyed()
        check_held = self._run.check_held if are_counted else None
        return self._matched(table, numbers, check_held)

    def _matched(
        self,
        table: KeyTable,
        numbers: Iterator[tuple[int, IntArray]],
        check_held: Callable[[int], None] | None,
    ) -> Iterator[Part]:
        count = 0
        for start, some in numbers:
            for part in table.parts(some, start, self._run.count_made, check_held):
                yield part
                count += len(part[2][0])
                self._run.check_pairs(count)

    def _without_pairs(self) -> Iterator[Part]:
        for start in range(0, self._sizes[0], MAX_PAIRS):
            stop = min(start + MAX_PAIRS, self._sizes[0])
            self._run.deadline.check(start, self._sizes[0])
            yield start, stop, NONE

    def _crossed(self) -> Iterator[Part]:
        """Yield all pairs; those of one left row with many right ones in several pieces.

        But not where a left row without a partner is a row: whether it has one is then not known
        before its last piece.
        """
        num_left, num_right = self._sizes
        is_whole = self._joined.kind in {"LEFT", "FULL"}
        width = num_right if is_whole else min(num_right, MAX_PAIRS)
        step = max(MAX_PAIRS // num_right, 1)
        for start in range(0, num_left, step):
            stop = min(start + step, num_left)
            for first in range(0, num_right, width):
                last = min(first + width, num_right)
                self._run.count_made((stop - start) * (last - first))
                yield start, stop, all_pairs(start, stop, first, last)

    def _keyed(self) -> tuple[KeyTable, Iterator[tuple[int, IntArray]]]:
        """Return the table of the right side, and the numbers of the left side's keys."""
        left, right = ([pair[side] for pair in self._joined.keys] for side in (0, 1))
        if len(left) == 1 and all(map(_is_integer, (left[0].type, right[0].type))):
            theirs, rows = self._right_keys(left, right)
            work = partial(KeyTable.of, theirs, rows, self._sizes[0])
            table = self._run.watched(self._sizes[1], work)
            if table is not None:
                return table, self._probed(table, left)
        mine, theirs = self._columns(0, left), self._columns(1, right)
        work = partial(numbered_together, mine, theirs, self._sizes)
        table, numbers = self._run.watched(sum(self._sizes), work)
        starts = range(0, self._sizes[0], PROBED_ROWS)
        return table, ((start, numbers[start : start + PROBED_ROWS]) for start in starts)

    def _right_keys(
        self, left: Sequence[Bound], right: Sequence[Bound]
    ) -> tuple[Vector, IntArray | None]:
        """Return integer keys of the right side, and of which rows; None: of all."""
        is_larger = self._sizes[1] > LARGER * self._sizes[0]
        if not is_larger or self._joined.kind not in {"INNER", "LEFT"}:
            return self._columns(1, right)[0], None
        mine = KeyTable.of(self._columns(0, left)[0])
        if mine is None:
            return self._columns(1, right)[0], None
        keys: list[Vector] = []
        rows: list[IntArray] = []
        for piece, vector in self._read(1, right):
            kept = np.flatnonzero(mine.counts(mine.numbers(vector)))
            keys.append(take(vector, kept))
            rows.append(kept + piece.start)
        return concatenated(keys), np.concatenate(rows)

    def _probed(self, table: KeyTable, keys: Sequence[Bound]) -> Iterator[tuple[int, IntArray]]:
        return ((piece.start, table.numbers(key)) for piece, key in self._read(0, keys))

    def _read(self, side: int, keys: Sequence[Bound]) -> Iterator[tuple[RunScope, Vector]]:
        """Yield each batch of a side, and its key."""
        run = self._run
        work = partial(values_of, keys, check=run.deadline.check)
        for piece, values in run.workers.mapped(work, self._batches(side, keys), keys):
            yield piece, values.vectors[0]
            values.held.drop()

    def _batches(self, side: int, keys: Sequence[Bound]) -> Iterator[RunScope]:
        """Yield the rows of a side in batches."""
        reader, stop = self._reader(side), self._sizes[side]
        step = min(batch_rows(keys), PROBED_ROWS)
        for start in range(0, stop, step):
            self._run.deadline.check(start, stop)
            yield RunScope(reader, start, min(start + step, stop), self._run.text)

    def _tested(self, pairs: Pairs) -> Pairs:
        residual = self._joined.residual
        if residual is None or not len(pairs[0]):
            return pairs
        inner = structs.replace(self._joined, kind="INNER")
        kept = self._passing(JoinSource(inner, self._sources, pairs), residual)
        return pairs[0][kept], pairs[1][kept]

    def _columns(self, side: int, exprs: Sequence[Bound]) -> list[Vector]:
        scope = Scope(self._reader(side), np.arange(self._sizes[side]), self._run.text)
        return compute(exprs, scope, self._run)

    def _reader(self, side: int) -> SourceReader:
        reader = SourceReader(self._sources[side], self._run.meter, self._answer)
        self._run.readers.append(reader)
        return reader


def _is_float(column_type: ColumnType) -> bool:
    return column_type.dtype is not None and np.dtype(column_type.dtype).kind == "f"


def _is_integer(column_type: ColumnType) -> bool:
    dtype = column_type.dtype
    return not column_type.shape and dtype is not None and np.dtype(dtype).kind in "iu"
