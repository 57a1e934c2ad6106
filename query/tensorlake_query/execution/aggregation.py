"""GROUP BY batch by batch: keys of few possible values find their group in a table.

Each key's values become codes by a table of what lies between the least and the largest seen, in
the order in which they appear; those of one key are the groups, those of several are a place in a
table of groups. So
nothing is sorted, no row is kept, and each batch is over in milliseconds. Integers, booleans and
class labels have such tables, as far as these stay small. Distinct texts, floats and integers that
are far apart are looked up in a dict, batch by batch, where they are few. Where there
are too many of either (`TooSparseError`) the caller groups all rows at once, by `group_rows`.

While there are few groups, a batch has aggregates of its own, which are merged in the order of the
batches. Other threads make those of batches whose keys all have a number (`begun`), by copies of
the tables; only `add` extends them. So sums have the same bits in any number of threads.
"""

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from msgspec import Struct

from tensorlake_query.execution.columns import SourceReader
from tensorlake_query.functions.aggregate.accumulators import Accumulator, RowGroups
from tensorlake_query.planning.plan import Aggregate
from tensorlake_query.values.bound import Bound, CodesRef, ColumnRef, show
from tensorlake_query.values.group_keys import TEXT_KEY_NBYTES, codes_of, json_key
from tensorlake_query.values.memory import Held, charge, collecting, current, hold
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
FEW_GROUPS = BLOCK_ROWS // OFTEN  # aggregates of more cost as much for each block as its rows do
SHARED_PLACES = 1 << 16  # of tables that are copied for other threads
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
    return (*keys, *_arguments(plan)[0])


def _arguments(plan: Aggregate) -> tuple[list[Bound], list[int]]:
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
        self._of_call = _arguments(plan)[1]
        self._known: _Known | None = None  # replaced, never changed: other threads look at it
        self.count = 0 if plan.keys else 1

    @property
    def is_shared(self) -> bool:
        """Whether `begun` may help."""
        return self._known is not None

    def begun(self, vectors: Sequence[Vector], num_rows: int) -> "Part | None":
        """Aggregate a batch for `add`, in any thread; None where it has keys without a number."""
        known = self._known
        return None if known is None else self._part(vectors, num_rows, known.groups)

    def add(self, vectors: Sequence[Vector], num_rows: int, part: "Part | None" = None) -> None:
        """Add a batch.

        Args:
            vectors: the values of `streamed_exprs`.
            num_rows: of how many rows they are.
            part: what `begun` made of them.

        Raises:
            TooSparseError: the keys have too many possible values.
        """
        has_tables = bool(self._columns) and all(isinstance(one, _Codes) for one in self._columns)
        if not has_tables or self.count > FEW_GROUPS:
            step = max(BLOCK_ROWS, self.count * OFTEN) if has_tables else max(num_rows, 1)
            self._known = None
            self._add_blocks(vectors, num_rows, step, self._numbered_groups, self._accumulators)
            return
        before = self.count
        part = part or self._part(vectors, num_rows, self._numbered_groups)
        assert part is not None, "all keys have a number now"
        same = np.arange(self.count)
        for mine, other in zip(self._accumulators, part.accumulators, strict=True):
            mine.merge(other, same, self.count)
        part.held.drop()
        if self.count > before:
            self._known = self._copied()

    def _part(
        self,
        vectors: Sequence[Vector],
        num_rows: int,
        groups_of: "Callable[[Sequence[Vector], int], RowGroups | None]",
    ) -> "Part | None":
        held = hold("the aggregates of a batch")
        made = [call.accumulate() for call in self._plan.calls if call.accumulate is not None]
        with collecting(held):
            is_whole = self._add_blocks(vectors, num_rows, BLOCK_ROWS, groups_of, made)
        return Part(made, held) if is_whole else None

    def _add_blocks(
        self,
        vectors: Sequence[Vector],
        num_rows: int,
        step: int,
        groups_of: "Callable[[Sequence[Vector], int], RowGroups | None]",
        accumulators: Sequence[Accumulator],
    ) -> bool:
        """Add rows to accumulators, some at a time; False where the groups of some are unknown."""
        for start in range(0, max(num_rows, 1), step):
            stop = min(start + step, num_rows)
            is_all = (start, stop) == (0, num_rows)
            some = vectors if is_all else [slice_of(each, start, stop) for each in vectors]
            groups = groups_of(some[: len(self._keys)], stop - start)
            if groups is None:
                return False
            arguments = some[len(self._keys) :]
            for place, accumulator in zip(self._of_call, accumulators, strict=True):
                accumulator.add(None if place < 0 else arguments[place], groups)
        return True

    def _numbered_groups(self, keys: Sequence[Vector], num_rows: int) -> RowGroups:
        of_row = self._groups(keys) if keys else np.broadcast_to(ONE_GROUP, num_rows)
        return RowGroups(of_row, self.count)

    def _copied(self) -> "_Known | None":
        """Return what other threads may look up: copies of the tables, unless they are large."""
        columns = [one for one in self._columns if isinstance(one, _Codes)]
        num_places = sum(one.num_places for one in columns) + len(self._numbers)
        if len(columns) < len(self._columns) or num_places > SHARED_PLACES:
            return None
        copies = tuple(one.copied() for one in columns)
        return _Known(copies, self._numbers.copy(), tuple(self._capacities), self.count)

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
        place = _places(codes, self._capacities)
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


class Part(Struct, frozen=True):
    """The aggregates of a batch, and the memory that they take."""

    accumulators: list[Accumulator]
    held: Held


class _Known(Struct, frozen=True):
    """Keys that have a number: the tables as they were."""

    columns: "tuple[_Codes, ...]"
    numbers: IntArray
    capacities: tuple[int, ...]
    count: int

    def groups(self, keys: Sequence[Vector], num_rows: int) -> RowGroups | None:
        """Return the groups of rows; None where some have none yet."""
        del num_rows
        found: list[IntArray] = []
        for column, key in zip(self.columns, keys, strict=True):
            codes = column.known(key)
            if codes is None:
                return None
            found.append(codes)
        if len(found) == 1:
            return RowGroups(found[0], self.count)
        of_row = self.numbers.take(_places(found, self.capacities))
        is_known = not len(of_row) or of_row.min() >= 0
        return RowGroups(of_row, self.count) if is_known else None


def _places(codes: Sequence[IntArray], capacities: Sequence[int]) -> IntArray:
    """Return the place of each combination of codes in the table of groups."""
    place = codes[0]
    for code, capacity in zip(codes[1:], capacities[1:], strict=True):
        place = place * capacity + code
    return place


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

    def __init__(self, low: int = 0, table: IntArray | None = None, count: int = 0) -> None:
        self._low = low
        self._table = np.full(1, -1) if table is None else table
        self.count = count

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

    def known(self, vector: Vector) -> IntArray | None:
        """Return the code of each row; None where some have none yet."""
        values, present = _integers(vector)
        if len(present) and not self._covers(int(present.min()), int(present.max())):
            return None
        codes = self._table.take(self._place(values, vector))
        return codes if not len(codes) or codes.min() >= 0 else None

    @property
    def num_places(self) -> int:
        """The size of the table."""
        return len(self._table)

    def copied(self) -> "_Codes":
        """Return codes that stay as they are."""
        return _Codes(self._low, self._table.copy(), self.count)

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
