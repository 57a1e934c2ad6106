"""Order: stable, NULLs last unless asked first, NaN after every number in both directions.

`ordered` sorts any number of keys at once. `Ordering` collects rows batch by batch; with a `limit`
it keeps only the rows that can still be among the first, and gives the same rows in the same order
as sorting them all. Once it has as many numbers as it needs, the last of them is a bound: most rows
of a batch are dropped by one comparison, and whole zones by theirs.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tensorlake_query.values.bound import Bound
from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import AnyArray, IntArray
from tensorlake_query.values.texts import ranked_texts, texts_of
from tensorlake_query.values.vectors import Vector, concatenated, take, valid_of

# A top-k buffer is cut when it holds so many times what is needed: a row is then sorted O(1) times.
KEPT_FACTOR = 4
KEPT_LEAST = 16_384
# of a row while it is put in order: its place, and for each key its rank, its class, its value
ORDERED_NBYTES = 24
KEY_NBYTES = 32


class SortKey(Struct, frozen=True):
    """One key of an order; NaN comes after every number in both directions."""

    expr: Bound
    descending: bool
    nulls_first: bool
    is_approximate: bool = False


class Ordering:
    """Rows with their sort keys, in the order they came."""

    def __init__(self, keys: Sequence[SortKey], limit: int | None, *, by_row: bool = False) -> None:
        """Begin without rows; `by_row`: ties are in the order of row numbers, not of batches."""
        self._keys = keys
        self._by_row = by_row
        self._limit = limit
        self._rows: list[IntArray] = []
        self._vectors: list[Sequence[Vector]] = []
        self._held = 0
        self._nbytes = 0
        self._bound: AnyArray | None = None  # of the first key: a number beyond which none counts

    @property
    def bound(self) -> AnyArray | None:
        """The number that the first key of a row must reach to count; None while any may."""
        return self._bound

    def add(self, rows: IntArray, vectors: Sequence[Vector], nbytes: int) -> None:
        """Add a batch of rows and one vector for each key, which take `nbytes`."""
        charge(rows.nbytes + nbytes)
        self._nbytes += rows.nbytes + nbytes
        self._rows.append(rows)
        self._vectors.append(vectors)
        self._held += len(rows)
        if self._limit is not None and self._held > max(KEPT_FACTOR * self._limit, KEPT_LEAST):
            self._cut(self._limit)

    @property
    def num_rows(self) -> int:
        """How many rows are held."""
        return self._held

    def rows(self) -> IntArray:
        """Return the rows in order, at most the limit."""
        if not self._rows:
            return np.zeros(0, np.int64)
        self._cut(self._limit)
        return self._rows[0]

    def reaching(self, column: Vector) -> IntArray | None:
        """Return which rows of a batch may count, by their first key; None where all may."""
        if self._bound is None:
            return None
        key = self._keys[0]
        compare = np.greater_equal if key.descending else np.less_equal
        reaches = compare(column.values, self._bound)  # false of NaN
        if column.valid is not None:
            reaches = reaches | ~column.valid if key.nulls_first else reaches & column.valid
        return np.flatnonzero(reaches)

    def _cut(self, limit: int | None) -> None:
        num_rows = self._held
        with working(self._nbytes + num_rows * (ORDERED_NBYTES + KEY_NBYTES * len(self._keys))):
            self._order(limit)
        kept = int(self._nbytes * (self._held / max(num_rows, 1)))
        charge(kept - self._nbytes)
        self._nbytes = kept

    def _order(self, limit: int | None) -> None:
        rows = np.concatenate(self._rows)
        columns = [concatenated(vectors) for vectors in zip(*self._vectors, strict=True)]
        kept = None if limit is None else _candidates(columns[0], self._keys[0], limit)
        if kept is not None:
            rows, columns = rows[kept], [take(column, kept) for column in columns]
        if self._by_row and (rows[1:] < rows[:-1]).any():  # ties are in the order of the rows
            before = np.argsort(rows, kind="stable")
            rows, columns = rows[before], [take(column, before) for column in columns]
        order = ordered(columns, self._keys)[:limit]
        self._rows = [rows[order]]
        self._vectors = [[take(column, order) for column in columns]]
        self._held = len(order)
        self._bound = _bound_of(self._vectors[0][0], limit)


def _bound_of(column: Vector, limit: int | None) -> AnyArray | None:
    """Return the last of the first `limit` values, if all are there and it is a number."""
    values = column.values
    if not limit or len(values) < limit or values.dtype.kind not in "iufb":
        return None
    if column.valid is not None and not column.valid[-1]:
        return None
    last = values[-1]
    return None if last != last else last  # noqa: PLR0124 - NaN


def ordered(
    columns: Sequence[Vector], keys: Sequence[SortKey], first: IntArray | None = None
) -> IntArray:
    """Return the positions of the rows in order; `first` is a key that comes before all others."""
    ranks: list[AnyArray] = []  # np.lexsort takes the most important key last
    for column, key in zip(reversed(columns), reversed(keys), strict=True):
        ranks += [_values(column, descending=key.descending), _class(column, key)]
    if first is not None:
        ranks.append(first)
    return np.lexsort(ranks)


def _candidates(column: Vector, key: SortKey, limit: int) -> IntArray | None:
    """Return the rows that can be among the first `limit` by their first key, or None for all.

    A selection finds the last value that can be among them, ties included; only what is left is
    sorted.
    """
    if column.values.dtype == object or not 0 < limit < len(column.values):
        return None
    classes = _class(column, key)
    first = int(classes.min())
    is_first = classes == first
    if int(is_first.sum()) < limit:
        return None
    if first:  # all NULLs, or all NaN: equal, as far as this key goes
        return np.flatnonzero(is_first)
    ranks = _values(column, descending=key.descending)
    last = np.partition(ranks[is_first], limit - 1)[limit - 1]
    return np.flatnonzero(is_first & (ranks <= last))


def _class(column: Vector, key: SortKey) -> AnyArray:
    """Separate values (0), NaN (1) and NULL (2, or −1 where it comes first)."""
    values = column.values
    result = (
        np.isnan(values).astype(np.int8)
        if values.dtype.kind == "f"
        else np.zeros(len(values), np.int8)
    )
    result[~valid_of(column)] = -1 if key.nulls_first else 2
    return result


def _values(column: Vector, *, descending: bool) -> AnyArray:
    """Return numbers that sort as the values do, all NULLs as one and all NaNs as one."""
    values = column.values
    hidden = None if column.valid is None else ~column.valid
    if (texts := texts_of(values)) is not None and len(texts):
        values = ranked_texts(texts)[0]  # a NULL is empty
    elif values.dtype == object:
        if hidden is not None:  # what lies under a NULL may be of any type
            values = np.where(hidden, values[~hidden][0] if not hidden.all() else "", values)
        _, values = np.unique(values, return_inverse=True)
    if values.dtype.kind == "f":
        is_nan = np.isnan(values)
        hidden = is_nan if hidden is None else hidden | is_nan
        ranks = np.negative(values) if descending else values
    else:
        ranks = np.invert(values) if descending else values
    return ranks if hidden is None else np.where(hidden, ranks.dtype.type(0), ranks)
