"""GROUP BY batch by batch: keys of few possible values find their group in a table.

Each key's values become codes by a table of what lies between the least and the largest seen, in
the order in which they appear; those of one key are the groups, those of several are a place in a
table of groups. So
nothing is sorted, no row is kept, and each batch is over in milliseconds. Integers, booleans and
class labels have such tables, as far as these stay small. Distinct texts, floats and integers that
are far apart are looked up in a dict, batch by batch, where they are few. Where there
are too many of either (`TooSparseError`) the caller groups all rows at once, by `group_rows`.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.functions.aggregate.accumulators import Accumulator, RowGroups
from tensorlake_query.planning.plan import Aggregate
from tensorlake_query.values.bound import Bound, CodesRef, ColumnRef, show
from tensorlake_query.values.group_keys import TEXT_KEY_NBYTES, codes_of, json_key
from tensorlake_query.values.memory import charge, collecting, current, hold
from tensorlake_query.values.source import AnyArray, ColumnType, IntArray, UniformBatch
from tensorlake_query.values.vectors import (
    Vector,
    concatenated,
    constant,
    python_values,
    slice_of,
    take,
    valid_of,
)

MAX_PLACES = 1 << 22  # of all tables: 32 MiB
MAX_KEYS = 32  # each is a dimension of the table of groups, and NumPy has 64
FEW_VALUES, OFTEN = 1 << 10, 8  # more of a batch, and more than one of so many rows, are too many
MAX_VALUES = 1 << 17  # in a dict: above, hashing all rows at once costs less than looking them up
BLOCK_ROWS = 1 << 15  # that are grouped together: what this makes of them stays in a core's cache
GROUP_NBYTES = 64  # of a group: its places in the tables, its keys
ONE_GROUP = np.zeros((), np.int64)


class TooSparseError(Exception):
    """The keys have more possible values than a table takes."""


def is_streamed(
    plan: Aggregate, needed: frozenset[str] | None, numbered: frozenset[str] = frozenset()
) -> bool:
    """Return whether an aggregation can be made batch by batch.

    Args:
        plan: the aggregation.
        needed: columns that later steps use; None: perhaps all.
        numbered: columns whose texts the source numbers.
    """
    return (
        needed is not None
        and len(plan.keys) <= MAX_KEYS
        and all(name.startswith("#") for name in needed)  # others are stacks of the groups' rows
        and all(call.accumulate is not None for call in plan.calls)
        and all(_is_single(key.type) or _is_one_of(key, numbered) for key in plan.keys)
    )


def _is_one_of(key: Bound, names: frozenset[str]) -> bool:
    return isinstance(key, ColumnRef) and key.name in names


def _is_single(column_type: ColumnType) -> bool:
    if column_type.shape or column_type.dtype is None:
        return column_type.kind == "text" and not column_type.shape
    return np.dtype(column_type.dtype).kind in "iubf"


def _has_table(column_type: ColumnType) -> bool:
    if column_type.shape or column_type.dtype is None:
        return False
    return np.dtype(column_type.dtype).kind in "iub" and column_type.dtype != "uint64"


def streamed_exprs(plan: Aggregate, numbered: frozenset[str] = frozenset()) -> tuple[Bound, ...]:
    """Return what is computed of each row; labels as narrow as they are kept, texts as numbers."""
    keys = (
        CodesRef(key.name, key.type, key.syntax)
        if isinstance(key, ColumnRef) and (key.type.kind == "label" or key.name in numbered)
        else key
        for key in plan.keys
    )
    return (*keys, *arguments_of(plan)[0])


def arguments_of(plan: Aggregate) -> tuple[list[Bound], list[int]]:
    """Return the arguments of the aggregates, equal ones once, and which of them each call has."""
    places: dict[object, int] = {}
    arguments: list[Bound] = []
    of_call: list[int] = []
    for call in plan.calls:
        if call.argument is None:
            of_call.append(-1)
            continue
        key = (show(call.argument), call.argument.type)
        if key not in places:
            places[key] = len(arguments)
            arguments.append(call.argument)
        of_call.append(places[key])
    return arguments, of_call


class Grouping:
    """The groups of an aggregation, and its aggregates so far."""

    def __init__(self, plan: Aggregate, numbered: frozenset[str] = frozenset()) -> None:
        self._plan = plan
        self._numbered = [_is_one_of(key, numbered) for key in plan.keys]
        self._columns: list[_Codes | _Values] = [
            _Codes() if _has_table(key.type) or is_numbered else _Values()
            for key, is_numbered in zip(plan.keys, self._numbered, strict=True)
        ]
        self._numbers = np.full(1, -1)  # the group of each combination of codes
        self._capacities = [1] * len(plan.keys)
        self._keys: list[list[Vector]] = [[] for _ in plan.keys]
        self._accumulators: list[Accumulator] = [
            call.accumulate() for call in plan.calls if call.accumulate is not None
        ]
        self._of_call = arguments_of(plan)[1]
        self.count = 0 if plan.keys else 1

    def add(self, vectors: Sequence[Vector], num_rows: int) -> None:
        """Add a batch, some rows at a time.

        Args:
            vectors: the values of `streamed_exprs`.
            num_rows: of how many rows they are.

        Raises:
            TooSparseError: the keys have too many possible values.
        """
        has_tables = bool(self._columns) and all(isinstance(one, _Codes) for one in self._columns)
        step = max(BLOCK_ROWS, self.count * OFTEN) if has_tables else max(num_rows, 1)
        for start in range(0, max(num_rows, 1), step):
            stop = min(start + step, num_rows)
            is_all = (start, stop) == (0, num_rows)
            some = vectors if is_all else [slice_of(each, start, stop) for each in vectors]
            keys, arguments = some[: len(self._keys)], some[len(self._keys) :]
            of_row = self._groups(keys) if keys else np.broadcast_to(ONE_GROUP, stop - start)
            groups = RowGroups(of_row, self.count)
            for place, accumulator in zip(self._of_call, self._accumulators, strict=True):
                accumulator.add(None if place < 0 else arguments[place], groups)

    def slots(self, reader: SourceReader) -> list[Vector]:
        """Return the keys of each group, and the aggregates; texts are read, one a group."""
        if not self._plan.keys:
            nothing = np.zeros(0, np.int64)
            for call, accumulator in zip(self._plan.calls, self._accumulators, strict=True):
                none = None if call.argument is None else constant(None, call.argument.type, 0)
                accumulator.add(none, RowGroups(nothing, 1))
        keys: list[Vector] = []
        for key, parts, is_numbered in zip(
            self._plan.keys, self._keys, self._numbered, strict=True
        ):
            made = concatenated(parts) if parts else constant(None, key.type, 0)
            if isinstance(key, ColumnRef) and is_numbered:
                keys.append(reader.texts(key.name, made) if parts else made)
                continue
            if key.type.dtype is not None:
                values = made.values.astype(key.type.dtype, copy=False)
                made = UniformBatch(values, made.valid)
            keys.append(made)
        return [*keys, *(each.result() for each in self._accumulators)]

    def _groups(self, keys: Sequence[Vector]) -> IntArray:
        """Return the group of each row; new ones are numbered as they appear."""
        found = [self._codes(place, key) for place, key in enumerate(keys)]
        if len(keys) == 1:  # its codes are the groups
            (groups, rows), self.count = found[0], self._columns[0].count
        else:
            groups, rows = self._combined([codes for codes, _ in found])
        if not len(rows):
            return groups
        charge(len(rows) * GROUP_NBYTES)
        for parts, key in zip(self._keys, keys, strict=True):
            parts.append(take(key, rows))
        return groups

    def _codes(self, place: int, key: Vector) -> tuple[IntArray, IntArray]:
        """Return the codes of a key; where its first values lie too far apart, by a dict."""
        column = self._columns[place]
        try:
            return column.of(key)
        except TooSparseError:
            if isinstance(column, _Values) or column.count:
                raise
        self._columns[place] = values = _Values()
        return values.of(key)

    def _combined(self, codes: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
        """Return the group of each row by the codes of its keys, and the first rows of new ones."""
        self._make_room([column.count for column in self._columns])
        place = codes[0]
        for code, capacity in zip(codes[1:], self._capacities[1:], strict=True):
            place = place * capacity + code
        groups, rows = numbered(self._numbers, place, self.count)
        self.count += len(rows)
        return groups, rows

    def _make_room(self, counts: Sequence[int]) -> None:
        """Let the table of groups have a place for each combination of codes."""
        if all(count <= have for count, have in zip(counts, self._capacities, strict=True)):
            return
        wanted = [
            have if count <= have else 1 << (count - 1).bit_length()
            for count, have in zip(counts, self._capacities, strict=True)
        ]
        places = math.prod(wanted)
        if places > MAX_PLACES:
            raise TooSparseError
        charge(places * self._numbers.itemsize)
        numbers = np.full(wanted, -1)
        numbers[tuple(map(slice, self._capacities))] = self._numbers.reshape(self._capacities)
        self._numbers, self._capacities = numbers.reshape(-1), wanted


def numbered(table: IntArray, place: AnyArray, count: int) -> tuple[IntArray, IntArray]:
    """Number places by a table, in which −1 stands for those that have no number yet.

    New ones are numbered from `count` on, as they appear, and written to the table.

    Returns:
        The number of each place, and where each new one is for the first time.
    """
    numbers = table.take(place)
    if not len(numbers) or numbers.min() >= 0:
        return numbers, numbers[:0]
    fresh = np.flatnonzero(numbers < 0)
    there = place[fresh]
    table[there[::-1]] = fresh[::-1]  # of rows with one place the last written stays: the first
    rows = fresh[table[there] == fresh]
    table[place[rows]] = count + np.arange(len(rows))
    return table.take(place), rows


class _Codes:
    """Codes of a key's values, numbered as they appear; the last place is that of NULL."""

    def __init__(self) -> None:
        self._low = 0
        self._table = np.full(1, -1)
        self.count = 0

    def of(self, vector: Vector) -> tuple[IntArray, IntArray]:
        """Return the code of each row, and the first rows of new codes.

        Raises:
            TooSparseError: the values lie too far apart.
        """
        values, present = _integers(vector)
        if len(present):
            self._cover(int(present.min()), int(present.max()))
        codes, rows = numbered(self._table, self._place(values, vector), self.count)
        self.count += len(rows)
        return codes, rows

    def _place(self, values: AnyArray, vector: Vector) -> AnyArray:
        if vector.valid is not None:
            inside = values.astype(np.int64) - self._low
            return np.where(vector.valid, inside, len(self._table) - 1)
        return values if not self._low else values.astype(np.int64) - self._low

    def _covers(self, low: int, high: int) -> bool:
        num_values = len(self._table) - 1
        return num_values > 0 and self._low <= low and high < self._low + num_values

    def _cover(self, low: int, high: int) -> None:
        if self._covers(low, high):
            return
        before = self._table
        num_values = len(before) - 1
        if num_values:
            low, high = min(low, self._low), max(high, self._low + num_values - 1)
        low = min(low, 0) if low > 0 and high < MAX_PLACES // 2 else low  # then it is not taken off
        if high - low >= MAX_PLACES:
            raise TooSparseError
        charge((high - low + 1) * before.itemsize)
        self._table = np.full(high - low + 2, -1)
        self._table[-1] = before[-1]
        if num_values:
            self._table[self._low - low : self._low - low + num_values] = before[:-1]
        self._low = low


def _integers(vector: Vector) -> tuple[AnyArray, AnyArray]:
    """Return keys as integers: of all rows, and of those that are not NULL."""
    values = vector.values.view(np.uint8) if vector.values.dtype == np.bool_ else vector.values
    return values, values if vector.valid is None else values[vector.valid]


class _Values:
    """Codes of a key's values of any type, numbered as they appear: a dict has the distinct ones.

    The values of a batch are numbered first, so that only one row of each is looked up.
    """

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}

    @property
    def count(self) -> int:
        """How many codes there are."""
        return len(self._codes)

    def of(self, vector: Vector) -> tuple[IntArray, IntArray]:
        """Return the code of each row, and the first rows of new codes.

        Raises:
            TooSparseError: there are too many distinct values for a dict.
        """
        step = current()
        batch = hold("" if step is None else step.operator)
        with collecting(batch):
            numbers, above, _ = codes_of(vector)
        first = np.full(above + 1, -1)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last written stays: the first
        rows = np.sort(first[first >= 0])
        if len(rows) > max(FEW_VALUES, len(numbers) // OFTEN):
            raise TooSparseError
        codes, known = self._codes, valid_of(vector)[rows].tolist()
        code_of, fresh = np.zeros(above + 1, np.int64), list[int]()
        values = python_values(take(vector, rows).values)
        for row, value, is_known in zip(rows.tolist(), values, known, strict=True):
            key = json_key(value if is_known else None)
            if key not in codes:
                codes[key] = len(codes)
                fresh.append(row)
            code_of[numbers[row]] = codes[key]
        if len(codes) > MAX_VALUES:
            raise TooSparseError
        charge(len(fresh) * TEXT_KEY_NBYTES)
        batch.drop()  # the numbers of its rows are not kept
        return code_of[numbers], np.array(fresh, np.int64)
