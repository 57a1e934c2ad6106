"""Groups: rows with equal keys, numbered in the order in which they first appear.

NULL is a group of its own, and so is NaN. Without keys there is one group, also of no rows.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
from msgspec import Struct

from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import AnyArray, IntArray, UniformBatch
from tensorlake_query.values.texts import (
    WORD_NBYTES,
    Texts,
    WordArray,
    encoded_texts,
    texts_of,
    words_of,
)
from tensorlake_query.values.threads import BLOCK_ROWS, RowThreads
from tensorlake_query.values.vectors import (
    Vector,
    as_ragged,
    counts_of,
    length_of,
    running_counts,
    take,
)

# of a row that is grouped: its codes, its group, the first of its code; while its key is found
GROUPED_NBYTES = 40
CODE_NBYTES = 16
SORTED_NBYTES = 40
TEXT_KEY_NBYTES = 120  # a place in a list and in a dict
ARRAY_KEY_NBYTES = 320  # beside what is in it: a tuple of its shape and its bytes
MANY_TEXTS = 4096  # long ones: from so many on pyarrow numbers them, which takes 0.1 s to import
NUMBERED_NBYTES = 64  # of a row: a word, two to four places of a table, the rows found there
MULTIPLIER = 0x9E3779B97F4A7C15  # 2⁶⁴ ÷ the golden ratio, as in Knuth's hashing
STEP = 0x2545F4914F6CDD1D  # half of what is added for the next table, so that it stays odd
HALF = np.uint64(32)
ROUNDS = 16  # a round leaves a fifth of distinct values at most; what is left was made to collide
LONG = 3  # of texts by how many words of eight bytes they have: compared as they are
KIND_OF_COUNT = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, LONG], np.uint8)
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


class Numbered(NamedTuple):
    """Numbers of values: of each row one below `above`, and the first row of each if known."""

    of_row: IntArray
    above: int
    first: IntArray | None = None


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
    by_appearance = taken[np.argsort(first[taken], kind="stable")]
    number_of = np.empty(count, np.int64)
    number_of[by_appearance] = np.arange(len(taken))
    firsts = first[by_appearance]
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
    """Number the distinct numbers as they appear; −0.0 is 0.0, and every NaN the same."""
    words: WordArray = np.empty(len(values), np.uint64)
    bits = np.dtype(f"u{values.itemsize}")

    def fill(block: slice) -> None:
        some = np.ascontiguousarray(values[block])
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # a signalling NaN
                some = some + some.dtype.type(0)
            is_nan = np.isnan(some)
            if is_nan.any():
                some[is_nan] = np.nan
        words[block] = some.view(bits)

    with RowThreads(len(values)) as threads:
        threads.each(fill, len(values))
        return _by_first(first_equal([words], threads), threads)


def numbered_texts(texts: Texts) -> Numbered:
    """Number the distinct texts as they appear.

    Short texts are compared as words of eight bytes, those of about as many words together; long
    ones as they are.
    """
    counts = texts.lengths
    counts += WORD_NBYTES - 1
    counts //= WORD_NBYTES
    kinds = KIND_OF_COUNT.take(counts, mode="clip")
    with RowThreads(len(texts)) as threads:
        first = np.empty(len(texts), np.int64)
        for kind in range(LONG + 1):
            rows = np.flatnonzero(kinds == kind)
            if not len(rows):
                continue
            some = texts if len(rows) == len(texts) else texts.take(rows)
            if kind < LONG:
                count = max(int(counts[rows].max()), 1)
                with working(len(some) * (count + 1) * WORD_NBYTES):
                    found = first_equal(words_of(some, count, threads), threads)
            else:
                found = _first_of_long(some)
            first[rows] = rows.take(found)
        return _by_first(first, threads)


def first_equal(words: Sequence[WordArray], threads: RowThreads, depth: int = 0) -> IntArray:
    """Return, for each row, the first row that has equal words.

    Each row is written to the place of its hash in a table, from the last row to the first, so that
    the first of each place stays there. Rows that are equal to it have found theirs. The others,
    which are all rows of some values, go on to another table, by another hash.
    """
    if depth == ROUNDS:
        return _first_in_order(words)
    num_rows = len(words[0])
    bits = max(num_rows - 1, 1).bit_length() + 1
    table = np.empty(1 << bits, np.int64)
    found = np.empty(num_rows, np.int64)  # at first the places
    is_other = np.empty(num_rows, np.bool_)

    def place(block: slice) -> None:
        hashes = _hashed([word[block] for word in words], depth)
        hashes >>= np.uint64(64 - bits)
        found[block] = hashes.view(np.int64)

    def look_up(block: slice) -> None:
        rows = found[block] = table.take(found[block])
        other = words[0].take(rows) != words[0][block]
        for word in words[1:]:
            other |= word.take(rows) != word[block]
        is_other[block] = other

    threads.each(place, num_rows)
    for stop in range(num_rows, 0, -BLOCK_ROWS):
        start = max(stop - BLOCK_ROWS, 0)
        table[found[start:stop][::-1]] = np.arange(stop - 1, start - 1, -1)  # the last one stays
    threads.each(look_up, num_rows)
    others = np.flatnonzero(is_other)
    if len(others):
        rest = [word.take(others) for word in words]
        found[others] = others.take(first_equal(rest, threads, depth + 1))
    return found


def _hashed(words: Sequence[WordArray], depth: int) -> WordArray:
    multiplier = np.uint64((MULTIPLIER + 2 * depth * STEP) % (1 << 64))
    hashes = words[0] * multiplier
    for word in words[1:]:
        hashes ^= hashes >> HALF
        hashes ^= word
        hashes *= multiplier
    hashes ^= hashes >> HALF
    hashes *= multiplier
    return hashes


def _first_in_order(words: Sequence[WordArray]) -> IntArray:
    """Return, for each row, the first row that has equal words, by sorting them."""
    order = np.lexsort(words)
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = False
    for word in words:
        is_new[1:] |= word[order[1:]] != word[order[:-1]]
    first = np.empty(len(order), np.int64)
    first[order] = order[is_new][running_counts(is_new) - 1]
    return first


def _first_of_long(texts: Texts) -> IntArray:
    is_many = len(texts) >= MANY_TEXTS
    numbers, count = encoded_texts(texts) if is_many else _numbered(texts.tolist())[:2]
    return _first_of(numbers, count)[numbers]


def _first_of(codes: IntArray, count: int) -> IntArray:
    """Return the first row of each code; −1 of one that no row has."""
    first = np.full(count, -1)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one written stays: the first
    return first


def _by_first(first: IntArray, threads: RowThreads) -> Numbered:
    """Number rows by the first row of their value, as these appear."""
    is_first = np.empty(len(first), np.bool_)
    numbers = np.empty(len(first), np.int64)

    def compare(block: slice) -> None:
        is_first[block] = first[block] == np.arange(block.start, block.stop)

    def look_up(block: slice) -> None:
        first[block] = numbers.take(first[block])

    threads.each(compare, len(first))
    rows = np.flatnonzero(is_first)
    numbers[rows] = np.arange(len(rows))
    threads.each(look_up, len(first))
    return Numbered(first, len(rows), rows)


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
