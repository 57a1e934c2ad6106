"""Groups: rows with equal keys, numbered in the order in which they first appear.

NULL is a group of its own, and so is NaN. Without keys there is one group, also of no rows.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import AnyArray, IntArray, UniformBatch
from tensorlake_query.values.texts import (
    MANY_HASHED,
    SAMPLED,
    hardly_repeats,
    mixed,
    numbered_by_hash,
    numbered_texts,
    texts_of,
)
from tensorlake_query.values.vectors import Vector, as_ragged, counts_of, length_of, take

# of a row that is grouped: its codes, its group, the first of its code; while its key is found
GROUPED_NBYTES = 40
CODE_NBYTES = 16
SORTED_NBYTES = 40
TEXT_KEY_NBYTES = 120  # a place in a list and in a dict
ARRAY_KEY_NBYTES = 320  # beside what is in it: a tuple of its shape and its bytes
MANY_TEXTS = 4096  # from so many on pyarrow numbers them, which takes 0.1 s to import
MANY_NUMBERS = 1 << 16  # the same; NumPy sorts fewer of them in 10 ms
HASHED_NBYTES = 4  # of a number, at least: pyarrow does not number halves
DENSE_MIN = 1 << 12  # so many numbers may be left unused where there are fewer rows


class Groups(Struct, frozen=True):
    """Groups of rows, numbered in the order in which they appear.

    Attributes:
        of_row: the group of each row.
        first: the first row of each group.
        count: how many there are.
        keys_of_row: the keys of each row.
    """

    of_row: IntArray
    first: IntArray
    count: int
    keys_of_row: tuple[Vector, ...]

    @property
    def keys(self) -> tuple[Vector, ...]:
        """The keys of each group."""
        return tuple(take(key, self.first) for key in self.keys_of_row)


def group_rows(keys: Sequence[Vector], num_rows: int) -> Groups:
    """Group rows by equal keys."""
    if not keys:
        none = np.zeros(num_rows, np.int64)
        return Groups(none, none[:1], 1, ())
    charge(num_rows * GROUPED_NBYTES)
    codes, count = combined_codes(keys)
    first = np.full(count, -1)
    first[codes[::-1]] = np.arange(num_rows)[::-1]  # of rows with one code the last written stays
    if count and first.min() >= 0 and (first[1:] > first[:-1]).all():  # numbered as they appear
        return Groups(codes, first, count, tuple(keys))
    taken = np.flatnonzero(first >= 0)
    by_appearance = taken[np.argsort(first[taken], kind="stable")]
    number_of = np.empty(count, np.int64)
    number_of[by_appearance] = np.arange(len(taken))
    firsts = first[by_appearance]
    return Groups(number_of[codes], firsts, len(firsts), tuple(keys))


def combined_codes(keys: Sequence[Vector]) -> tuple[IntArray, int]:
    """Number the distinct combinations of some vectors' values, NULL being a value.

    Returns:
        A number for each row, and a number above all of them, of the order of the rows.
    """
    codes, count = np.zeros(length_of(keys[0]), np.int64), 1
    for key in keys:
        ranks, distinct = codes_of(key)
        codes, count = codes * (distinct + 1) + ranks, count * (distinct + 1)
        if count > max(len(codes), DENSE_MIN):
            codes, count = codes_of(UniformBatch(codes))
    return codes, count


def codes_of(vector: Vector) -> tuple[IntArray, int]:
    """Number the distinct values of a vector, of any type, in any order.

    Integers that are close together are numbered by their distance from the least, and many texts
    and numbers by pyarrow's hash table, or by hashes where they hardly repeat.

    Returns:
        A number for each row, and a number above all of them: that of NULL.
    """
    values = vector.values
    charge(length_of(vector) * CODE_NBYTES)
    if not isinstance(vector, UniformBatch) or values.ndim > 1:
        with working(2 * values.nbytes + length_of(vector) * ARRAY_KEY_NBYTES):
            ranks, count = _numbered(_array_keys(vector))
    elif (texts := texts_of(values)) is not None and len(texts) >= MANY_TEXTS:
        with working(texts.nbytes + len(texts) * CODE_NBYTES):
            ranks, count = numbered_texts(texts)
    elif values.dtype == object:
        with working(len(values) * TEXT_KEY_NBYTES):
            ranks, count = _numbered([json_key(each) for each in values.tolist()])
    elif len(values) and not is_scattered(values) and values.dtype.kind in "iu":
        low, count = values.min(), _span(values)
        is_wide = values.dtype == np.uint64
        ranks = (values - low).astype(np.int64) if is_wide else values.astype(np.int64) - int(low)
    elif len(values) >= MANY_NUMBERS and values.dtype.itemsize >= HASHED_NBYTES:
        with working(2 * values.nbytes + len(values) * SORTED_NBYTES):
            ranks, count = numbered_numbers(values)
    else:
        with working(len(values) * SORTED_NBYTES):
            distinct, ranks = np.unique(values, return_inverse=True)
        ranks, count = ranks.reshape(-1), len(distinct)
    return (ranks if vector.valid is None else np.where(vector.valid, ranks, count)), count


def is_scattered(values: AnyArray) -> bool:
    """Return whether values are numbers, some of them, other than integers close together."""
    if values.ndim > 1 or values.dtype.kind not in "iuf" or not len(values):
        return False
    return values.dtype.kind == "f" or _span(values) > max(len(values), DENSE_MIN)


def num_distinct(values: AnyArray) -> int:
    """Return how many distinct numbers there are; −0.0 is 0.0, and every NaN the same.

    They are sorted, which NumPy does by vector instructions: of 10⁶ floats in a fourth of the time
    in which a hash table numbers them.
    """
    ordered = np.sort(values)
    if ordered.dtype.kind == "f" and len(ordered) and np.isnan(ordered[-1]):
        first = int(np.searchsorted(ordered, np.nan))  # they come last
        ordered = ordered[: first + 1]
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))


def by_group(codes: IntArray, count: int) -> IntArray:
    """Return the rows in the order of their codes, all below `count`; of one code as they came."""
    is_narrow = count <= np.iinfo(np.uint16).max  # which NumPy sorts without comparing
    return np.argsort(codes.astype(np.uint16) if is_narrow else codes, kind="stable")


def numbered_numbers(values: AnyArray) -> tuple[IntArray, int]:
    """Number the distinct numbers as they appear; −0.0 is 0.0, and every NaN the same."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a signalling NaN
            values = values + values.dtype.type(0)
        is_nan = np.isnan(values)
        if is_nan.any():
            values[is_nan] = np.nan
    words = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    if len(words) >= MANY_HASHED and hardly_repeats(mixed(words[:SAMPLED])):
        return numbered_by_hash(mixed(words), lambda rows: _encoded(words[rows]))
    return _encoded(words)


def _encoded(words: AnyArray) -> tuple[IntArray, int]:
    """Number integers by pyarrow's hash table."""
    import pyarrow as pa

    encoded = cast("Any", pa).array(words).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _span(values: AnyArray) -> int:
    return int(values.max()) - int(values.min()) + 1


def _numbered(keys: Sequence[Hashable]) -> tuple[IntArray, int]:
    numbers: dict[Hashable, int] = {}
    ranks = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(ranks, np.int64), len(numbers)


def json_key(value: object) -> Hashable:
    """Return a key that is equal for equal text, bytes or JSON; 1.0 is 1, and true is not."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, bool) or value is None:
        return (type(value), value)
    if isinstance(value, int | float):
        return (float, value if value == value else None)  # noqa: PLR0124 - every NaN is one key
    if isinstance(value, np.ndarray | np.generic):  # such as the outlines of a polygon
        return json_key(cast("object", value.tolist()))
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value).items()
        return (dict, frozenset((name, json_key(each)) for name, each in members))
    return (list, tuple(map(json_key, cast("Sequence[object]", value))))


def _array_keys(vector: Vector) -> Sequence[Hashable]:
    """Return each row's shape and bytes; −0.0 is 0.0, and every NaN the same."""
    ragged = as_ragged(vector)
    values = ragged.values
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values + 0)
    if values.dtype == object:
        whole: Sequence[Hashable] = values.tolist()
    else:
        whole = np.ascontiguousarray(values).tobytes()
    size = 1 if values.dtype == object else values.itemsize
    stops = np.cumsum(counts_of(ragged.shapes)) * size
    starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
    shapes = map(tuple, ragged.shapes.tolist())
    runs = zip(shapes, starts.tolist(), stops.tolist(), strict=True)
    if isinstance(whole, bytes):
        return [(shape, whole[start:stop]) for shape, start, stop in runs]
    return [(shape, tuple(whole[start:stop])) for shape, start, stop in runs]
