"""Groups: rows with equal keys, numbered in the order in which they first appear.

NULL is a group of its own, and so is NaN. Without keys there is one group, also of no rows.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import cast

import numpy as np
from msgspec import Struct

from tensorlake_query.values.hash_table import Numbered, WordArray, numbered_words
from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import AnyArray, IntArray, UniformBatch
from tensorlake_query.values.texts import (
    WORD_NBYTES,
    Texts,
    encoded_texts,
    texts_of,
    words_in,
)
from tensorlake_query.values.vectors import (
    Vector,
    as_ragged,
    counts_of,
    length_of,
    take,
)

# of a row that is grouped: its codes, its group, the first of its code; while its key is found
GROUPED_NBYTES = 40
CODE_NBYTES = 16
SORTED_NBYTES = 40
TEXT_KEY_NBYTES = 120  # a place in a list and in a dict
ARRAY_KEY_NBYTES = 320  # beside what is in it: a tuple of its shape and its bytes
MANY_TEXTS = 4096  # long ones: from so many on pyarrow numbers them, which takes 0.1 s to import
NUMBERED_NBYTES = 64  # of a row: its number, four places of a table, the value's words and row
LONG = 3  # of texts by their length, at most 15, 31 or 63 bytes: compared as they are
KIND_BITS, KIND_OF_LENGTH = 4, np.array([0, 1, 2, 2, LONG], np.uint8)
COUNTED_ROWS = 1 << 20
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
    codes, count, first = combined_codes(keys)
    if first is None:
        first = _first_of(codes, count)
    if not count or (first.min() >= 0 and (first[1:] > first[:-1]).all()):  # as they appear
        return Groups(codes, first, count, tuple(keys))
    taken = np.flatnonzero(first >= 0)
    is_first = np.zeros(num_rows, np.bool_)
    is_first[first[taken]] = True
    firsts = np.flatnonzero(is_first)
    number_of_row = np.empty(num_rows, np.int64)  # of first rows; so nothing is sorted
    number_of_row[firsts] = np.arange(len(firsts))
    number_of = np.empty(count, np.int64)
    number_of[taken] = number_of_row[first[taken]]
    return Groups(number_of[codes], firsts, len(firsts), tuple(keys))


def combined_codes(keys: Sequence[Vector]) -> Numbered:
    """Number the distinct combinations of some vectors' values, NULL being a value.

    The number above them is of the order of the rows.
    """
    if len(keys) == 1:
        codes, count, first = codes_of(keys[0])
        is_all = keys[0].valid is None
        return Numbered(codes, count, first) if is_all else Numbered(codes, count + 1)
    codes, count = np.zeros(length_of(keys[0]), np.int64), 1
    for key in keys:
        ranks, distinct, _ = codes_of(key)
        codes, count = codes * (distinct + 1) + ranks, count * (distinct + 1)
        if count > max(len(codes), DENSE_MIN):
            codes, count, _ = codes_of(UniformBatch(codes))
    return Numbered(codes, count)


def codes_of(vector: Vector) -> Numbered:
    """Number the distinct values of a vector, of any type, in any order.

    Integers that are close together are numbered by their distance from the least, other numbers
    and texts by a table of hashes, and long texts by pyarrow's.

    Returns:
        A number for each row, and a number above all of them: that of NULL.
    """
    values = vector.values
    charge(length_of(vector) * CODE_NBYTES)
    if not isinstance(vector, UniformBatch) or values.ndim > 1:
        with working(2 * values.nbytes + length_of(vector) * ARRAY_KEY_NBYTES):
            found = _numbered(_array_keys(vector))
    elif (texts := texts_of(values)) is not None:
        with working(texts.nbytes + len(texts) * NUMBERED_NBYTES):
            found = numbered_texts(texts)
    elif values.dtype == object:
        with working(len(values) * TEXT_KEY_NBYTES):
            found = _numbered([json_key(each) for each in values.tolist()])
    elif len(values) and not is_scattered(values) and values.dtype.kind in "iu":
        low, is_wide = values.min(), values.dtype == np.uint64
        ranks = (values - low).astype(np.int64) if is_wide else values.astype(np.int64) - int(low)
        found = Numbered(ranks, _span(values))
    else:
        with working(values.nbytes + len(values) * NUMBERED_NBYTES):
            found = numbered_numbers(values)
    if vector.valid is None:
        return found
    return Numbered(np.where(vector.valid, found.of_row, found.above), found.above)


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


def sizes_of(codes: IntArray, count: int) -> IntArray:
    """Return how many rows have each code below `count`, some rows at a time.

    NumPy's `bincount` lets no other thread run: of 10⁷ rows on a busy machine for 0.2 s.
    """
    sizes = np.zeros(count, np.int64)
    step = max(COUNTED_ROWS, count)
    for start in range(0, len(codes), step):
        sizes += np.bincount(codes[start : start + step], minlength=count)
    return sizes


def numbered_numbers(values: AnyArray) -> Numbered:
    """Number the distinct numbers, in any order; −0.0 is 0.0, and every NaN the same."""
    bits = np.dtype(f"u{values.itemsize}")

    def words(block: slice) -> list[WordArray]:
        some = np.ascontiguousarray(values[block])
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # a signalling NaN
                some = some + some.dtype.type(0)
            is_nan = np.isnan(some)
            if is_nan.any():
                some[is_nan] = np.nan
        return [some.view(bits).astype(np.uint64, copy=False)]

    return numbered_words(words, 1, len(values))


def numbered_texts(texts: Texts) -> Numbered:
    """Number the distinct texts, in any order.

    Short texts are compared as words of eight bytes, those of about as many words together; long
    ones as they are.
    """
    if not len(texts):
        return Numbered(np.empty(0, np.int64), 0)
    lengths = texts.lengths
    longest = int(lengths.max())
    ends = np.array([lengths.min(), longest]) >> KIND_BITS
    least, most = KIND_OF_LENGTH.take(ends, mode="clip").tolist()
    if least == most:
        return _numbered_of_kind(texts, least, longest)
    kinds = KIND_OF_LENGTH.take(lengths >> KIND_BITS, mode="clip")
    of_row = np.empty(len(texts), np.int64)
    above, firsts = 0, [of_row[:0]]
    for kind in range(LONG + 1):
        rows = np.flatnonzero(kinds == kind)
        if not len(rows):
            continue
        longest = int(lengths.take(rows).max())
        numbers, distinct, first = _numbered_of_kind(texts.take(rows), kind, longest)
        of_row[rows] = numbers + above
        above += distinct
        firsts.append(rows.take(_first_of(numbers, distinct) if first is None else first))
    return Numbered(of_row, above, np.concatenate(firsts))


def _numbered_of_kind(texts: Texts, kind: int, longest: int) -> Numbered:
    if kind < LONG:
        count = longest // WORD_NBYTES + 1
        with working(len(texts) * count * WORD_NBYTES):
            return numbered_words(words_in(texts, count), count, len(texts))
    is_many = len(texts) >= MANY_TEXTS
    return Numbered(*encoded_texts(texts)) if is_many else _numbered(texts.tolist())


def _first_of(codes: IntArray, count: int) -> IntArray:
    """Return the first row of each code; −1 of one that no row has."""
    first = np.full(count, -1)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one written stays: the first
    return first


def _span(values: AnyArray) -> int:
    return int(values.max()) - int(values.min()) + 1


def _numbered(keys: Sequence[Hashable]) -> Numbered:
    numbers: dict[Hashable, int] = {}
    ranks = [numbers.setdefault(key, len(numbers)) for key in keys]
    return Numbered(np.array(ranks, np.int64), len(numbers))


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
