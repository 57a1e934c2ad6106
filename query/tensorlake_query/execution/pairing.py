"""The step of a join: which rows of two relations belong together.

keys of integers      a table of the right side's; the left side is read batch by batch
other keys            those of both sides are numbered together, in one piece
no keys               all pairs, a million at a time
what else must hold   is tested of the pairs found so far
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
from msgspec import structs

from tensorlake_query.execution.batches import batch_rows, compute, values_of
from tensorlake_query.execution.columns import Answer, SourceReader
from tensorlake_query.execution.evaluate import RunScope, Scope
from tensorlake_query.execution.joins import (
    KeyTable,
    Pairs,
    all_pairs,
    matching_pairs,
    with_unmatched,
)
from tensorlake_query.execution.run import Run
from tensorlake_query.execution.subqueries import JoinSource
from tensorlake_query.planning.plan import Joined
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, ColumnRef
from tensorlake_query.values.group_keys import codes_of
from tensorlake_query.values.source import ColumnSource, ColumnType, IntArray, UniformBatch
from tensorlake_query.values.vectors import Vector

PROBED_ROWS = 1 << 16  # of integers: what is made of them stays in the caches of a core
MAX_NARROW = 1 << 31  # rows whose numbers have four bytes: new memory is dearer than the join
MAX_PAIRS = 1_000_000  # tested together where a join has no key


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
        """Return the pairs of rows; −1 is a side that has no row there."""
        joined, sizes = self._joined, self._sizes
        pairs = self._tested(self._keyed()) if joined.keys else self._crossed()
        if joined.kind in {"INNER", "CROSS"}:
            return pairs
        work = partial(with_unmatched, pairs, joined.kind, sizes)
        return self._run.watched(len(pairs[0]) + sum(sizes), work)

    def numbers(self, side: int, name: str) -> Vector:
        """Return a number for each text of a column of a side, equal for equal ones."""
        column = ColumnRef(name, self._sources[side].schema[name], ast.Column(name))
        texts = self._columns(side, [column])[0]
        codes, count = self._run.watched(self._sizes[side], partial(codes_of, texts))
        dtype = np.dtype(np.int32 if count < MAX_NARROW else np.int64)
        self._run.keep(len(codes) * dtype.itemsize)
        return UniformBatch(codes.astype(dtype), texts.valid)

    def _keyed(self) -> Pairs:
        left, right = ([pair[side] for pair in self._joined.keys] for side in (0, 1))
        theirs = self._columns(1, right)
        table = KeyTable.of(theirs) if _is_integer(left[0].type) else None
        if table is not None:
            return _joined(self._probed(table, left))
        work = partial(
            matching_pairs, self._columns(0, left), theirs, self._sizes, self._run.check_made
        )
        return self._run.watched(sum(self._sizes), work)

    def _probed(self, table: KeyTable, keys: Sequence[Bound]) -> Iterator[Pairs]:
        run = self._run
        work = partial(values_of, keys, check=run.deadline.check)
        dtype = np.dtype(np.int32 if max(self._sizes) < MAX_NARROW else np.int64)
        start = made = 0
        for piece, values in run.workers.mapped(work, self._batches(keys), keys):
            check_made = partial(run.check_made, before=made)
            left, right = table.pairs(values.vectors[0], check_made)
            values.held.drop()
            yield cast("Pairs", ((left + start).astype(dtype), right.astype(dtype)))
            start += len(piece)
            made += len(left)

    def _batches(self, keys: Sequence[Bound]) -> Iterator[Scope]:
        """Yield the rows of the left side in batches."""
        reader, stop, step = self._reader(0), self._sizes[0], min(batch_rows(keys), PROBED_ROWS)
        for start in range(0, stop, step):
            self._run.deadline.check(start, stop)
            yield RunScope(reader, start, min(start + step, stop), self._run.text)

    def _crossed(self) -> Pairs:
        num_left, num_right = self._sizes
        step = max(MAX_PAIRS // max(num_right, 1), 1)
        found: list[Pairs] = []
        made = 0
        for start in range(0, num_left, step):
            self._run.deadline.check(start, num_left)
            pairs = all_pairs(start, min(start + step, num_left), num_right)
            found.append(self._tested(pairs))
            self._run.check_made(len(found[-1][0]), before=made)
            made += len(found[-1][0])
        return _joined(found)

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


def _is_integer(column_type: ColumnType) -> bool:
    dtype = column_type.dtype
    return not column_type.shape and dtype is not None and np.dtype(dtype).kind in "iu"


def _joined(parts: Iterator[Pairs] | Sequence[Pairs]) -> Pairs:
    found = list(parts)
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    left, right = (np.concatenate(side) for side in zip(*found, strict=True))
    return left, right
