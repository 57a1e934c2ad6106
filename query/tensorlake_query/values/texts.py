"""Texts as arrays: UTF-8 end to end and offsets, which is Arrow's layout.

    content   c a t d o g      offsets   0 3 3 6      rows   'cat', '', 'dog'

`Texts` takes the place of a one-dimensional object array in a vector, so that any kernel may ask it
for Python strings; kernels that know it (`texts_of`) work on the bytes. Slices share the content.
UTF-8 sorts as its code points do, so bytes compare as texts do. `large_strings` is a view for
pyarrow: nothing is copied.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from tensorlake_query.values.memory import charge, working
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray

ByteArray = npt.NDArray[np.uint8]
HashArray = npt.NDArray[np.uint64]

OBJECT_NBYTES = 64  # of a Python string and the reference to it, beside its characters
PLACE_NBYTES = 8  # of a byte that is copied by its place
DENSE_SHARE = 16  # of rows: from one in so many on, copying by a mask over all bytes costs less
REPEATED_NBYTES = 1 << 20  # that may be copied of texts that repeat, beside all of them once
REPEATED_ROWS = 1 << 16  # repeated at once
LONG_TEXT = 64  # bytes from which copying text after text costs less than listing their places


MANY_HASHED = 1 << 17  # of fewer, pyarrow's table stays in a core's cache
SAMPLED = 1 << 16  # of the texts: whether they repeat
OFTEN = 8  # where more than one in so many of these has its equal, pyarrow numbers all
HASHED_ROWS = 1 << 14
HASHED_NBYTES = 40  # of a text while it is numbered by its hash
WORD_NBYTES = 8
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio, as in Knuth's hashing
MARKS = 1 << 20  # places of a table of hashes that several texts have
FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(WORD_NBYTES + 1)], np.uint64)


class Texts:
    """Texts of some rows; a NULL is empty."""

    __slots__ = ("content", "offsets")

    dtype: ClassVar[np.dtype[Any]] = np.dtype(object)  # Any: what it holds as an array
    ndim: ClassVar[int] = 1
    itemsize: ClassVar[int] = 8

    def __init__(self, content: ByteArray, offsets: IntArray) -> None:
        self.content = content
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:  # Any: as an array is indexed
        if isinstance(index, slice):
            start, stop, step = cast("slice", index).indices(len(self))
            if step == 1:
                return Texts(self.content, self.offsets[start : max(stop, start) + 1])
            return self._chosen(np.arange(start, stop, step))
        if isinstance(index, np.ndarray):
            array = cast("AnyArray", index)
            return self._chosen(np.flatnonzero(array) if array.dtype == np.bool_ else array)
        row = index + len(self) if index < 0 else index
        return self.content[self.offsets[row] : self.offsets[row + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: Any = None) -> AnyArray:
        del dtype, copy
        made = np.empty(len(self), object)
        made[:] = self.tolist()
        return made

    def __getattr__(self, name: str) -> Any:  # Any: the rest of what an array has
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    @property
    def shape(self) -> tuple[int]:
        """The number of rows."""
        return (len(self),)

    @property
    def strides(self) -> tuple[int]:
        """Those of an array of references."""
        return (self.itemsize,)

    @property
    def nbytes(self) -> int:
        """The memory of the texts and their offsets."""
        return int(self.offsets[-1] - self.offsets[0]) + self.offsets.nbytes

    @property
    def lengths(self) -> IntArray:
        """The bytes of each text."""
        return np.diff(self.offsets)

    @property
    def own(self) -> ByteArray:
        """The bytes of these rows alone."""
        return self.content[int(self.offsets[0]) : int(self.offsets[-1])]

    @property
    def is_ascii(self) -> bool:
        """Whether each byte is a character."""
        own = self.own
        return not len(own) or int(own.max()) < 128  # noqa: PLR2004 - the first that is not ASCII

    def tolist(self) -> list[str]:
        """Return Python strings."""
        charge(len(self) * OBJECT_NBYTES + self.nbytes)
        whole = self.own.tobytes()
        bounds = pairwise((self.offsets - self.offsets[0]).tolist())
        if self.is_ascii:
            text = whole.decode("ascii")
            return [text[start:stop] for start, stop in bounds]
        return [whole[start:stop].decode() for start, stop in bounds]

    def _chosen(self, rows: IntArray) -> "Texts | AnyArray":
        """Return the texts at these positions; long ones that repeat as one string each."""
        if int(self.lengths[rows].sum()) > 2 * self.nbytes + REPEATED_NBYTES:
            return np.asarray(self)[rows]
        return self.take(rows)

    def take(self, rows: IntArray) -> "Texts":
        """Return the texts at these positions, copied end to end."""
        lengths = self.lengths[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        total = int(offsets[-1])
        charge(total + offsets.nbytes)
        if len(rows) * DENSE_SHARE > len(self) and _ascends(rows):
            is_taken = np.zeros(len(self), np.bool_)
            is_taken[rows] = True
            return Texts(self.own[repeated(is_taken, self.lengths)], offsets)
        starts = self.offsets[:-1][rows]
        if total >= LONG_TEXT * len(rows):
            pairs = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
            parts = [self.content[start:stop] for start, stop in pairs]
            return Texts(np.concatenate([self.content[:0], *parts]), offsets)
        charge(total * PLACE_NBYTES)
        places = repeated(starts - offsets[:-1], lengths)
        places += np.arange(total)
        charge(-total * PLACE_NBYTES)
        return Texts(self.content[places], offsets)

    def as_array(self) -> AnyArray:
        """Return it as the array whose place it takes."""
        return cast("AnyArray", self)


def texts_of(values: AnyArray) -> Texts | None:
    """Return the values of a vector as texts, if they are; None where they are an array."""
    given = cast("object", values)
    return given if isinstance(given, Texts) else None


def joined_texts(parts: Sequence[Texts], check: Callable[[], None] = lambda: None) -> Texts:
    """Return texts, one part after another; `check` is called between them."""
    offsets = np.zeros(sum(map(len, parts)) + 1, np.int64)
    row = 0
    for part in parts:
        moved = offsets[row] - part.offsets[0]
        np.add(part.offsets[1:], moved, out=offsets[row + 1 : row + 1 + len(part)])
        row += len(part)
    return Texts(end_to_end([part.own for part in parts], check), offsets)


def end_to_end(arrays: Sequence[AnyArray], check: Callable[[], None]) -> AnyArray:
    """Return arrays of one shape joined; `check`, or Ctrl-C, may end it after each."""
    arrays = [np.asarray(each) for each in arrays]
    made = np.empty((sum(map(len, arrays)), *arrays[0].shape[1:]), np.result_type(*arrays))
    row = 0
    for each in arrays:
        check()
        made[row : row + len(each)] = each
        row += len(each)
    return made


def repeated(values: AnyArray, counts: IntArray) -> AnyArray:
    """Return each value as often as its count, some at a time.

    NumPy's `repeat` holds the interpreter lock: of 10⁷ values no thread would look at a deadline
    for 0.2 s, on a busy machine for seconds.
    """
    if len(values) <= REPEATED_ROWS:
        return np.repeat(values, counts)
    made = np.empty(int(counts.sum()), values.dtype)
    row = 0
    for start in range(0, len(values), REPEATED_ROWS):
        stop = start + REPEATED_ROWS
        some = np.repeat(values[start:stop], counts[start:stop])
        made[row : row + len(some)] = some
        row += len(some)
    return made


def large_strings(texts: Texts) -> Any:  # Any: pyarrow ships no types
    """Return texts as a pyarrow array, which shares their memory."""
    import pyarrow as pa

    array = cast("Any", pa.LargeStringArray)
    offsets = np.ascontiguousarray(texts.offsets, np.int64)
    content = np.ascontiguousarray(texts.content)
    return array.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(content))


def numbered_texts(texts: Texts) -> tuple[IntArray, int]:
    """Number the distinct texts as they appear; return a number for each row, and how many.

    A hash that only one row has is that of a text of its own. So where short texts hardly repeat,
    only those that share a hash are compared, by pyarrow's hash table; it has all texts where they
    are long, or repeat.
    """
    with working(len(texts) * HASHED_NBYTES):
        hashes = _hashes(texts)
    if hashes is None:
        return _encoded(texts)
    return numbered_by_hash(hashes, lambda rows: _encoded(texts.take(rows)))


def numbered_by_hash(
    hashes: HashArray, number: Callable[[IntArray], tuple[IntArray, int]]
) -> tuple[IntArray, int]:
    """Number values as they appear: those whose hash no other has are distinct.

    Args:
        hashes: one of each row, equal where values are.
        number: numbers the values of some rows, by comparing them.
    """
    rows, every = _sharing(hashes), np.arange(len(hashes))
    among, count = number(rows)
    first = np.zeros(count, np.int64)
    first[among[::-1]] = rows[::-1]  # of rows with one value the last written stays: the first
    same = every.copy()
    same[rows] = first[among]
    numbers = np.cumsum(same == every) - 1
    return numbers[same], int(numbers[-1]) + 1


def hardly_repeats(hashes: HashArray) -> bool:
    """Return whether few of a sample of hashes have an equal among them."""
    return len(_sharing(hashes)) * OFTEN <= len(hashes)


def mixed(words: AnyArray) -> HashArray:
    """Return hashes of unsigned integers, which are distinct where these are."""
    hashes = words.astype(np.uint64)
    _mix(hashes, np.zeros(1, np.uint64))
    return hashes


def _encoded(texts: Texts) -> tuple[IntArray, int]:
    encoded = large_strings(texts).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _hashes(texts: Texts) -> HashArray | None:
    """Return a hash of each text; None where they are long, or repeat often."""
    if len(texts) < MANY_HASHED or len(texts.own) < WORD_NBYTES:
        return None
    if int(texts.lengths.max()) > LONG_TEXT:
        return None
    return _hashed(texts) if hardly_repeats(_hashed(texts[:SAMPLED])) else None


def _hashed(texts: Texts) -> HashArray:
    """Return a hash of each text from its words of eight bytes; the last may overlap another."""
    content, lengths = texts.content, texts.lengths
    last = len(content) - WORD_NBYTES
    words: HashArray = np.ndarray((last + 1,), np.dtype("<u8"), content, 0, (1,))
    counts = np.maximum(-(-lengths // WORD_NBYTES), 1)
    hashes = np.zeros(len(texts), np.uint64)
    for count in np.flatnonzero(np.bincount(counts)).tolist():
        rows = np.flatnonzero(counts == count)
        for first in range(0, len(rows), HASHED_ROWS):
            some = rows[first : first + HASHED_ROWS]
            starts, length = texts.offsets[some], lengths[some]
            hashed = length.astype(np.uint64)
            if count == 1:
                places = np.minimum(starts, last)
                shifts = ((starts - places) * 8).astype(np.uint64)
                _mix(hashed, words[places] >> shifts & FIRST_BYTES[length])
            else:
                for start in range(0, (count - 1) * WORD_NBYTES, WORD_NBYTES):
                    _mix(hashed, words[starts + start])
                _mix(hashed, words[starts + length - WORD_NBYTES])
            hashes[some] = hashed
    return hashes


def _mix(hashes: HashArray, words: HashArray) -> None:
    hashes ^= words
    hashes *= MULTIPLIER
    hashes ^= hashes >> np.uint64(32)


def _sharing(hashes: HashArray) -> IntArray:
    """Return the rows whose hash others may have, ascending; all whose hash others have."""
    ordered = np.sort(hashes)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    is_shared = np.zeros(MARKS, np.bool_)
    mask = np.uint64(MARKS - 1)
    is_shared[(shared & mask).view(np.int64)] = True
    return np.flatnonzero(is_shared[(hashes & mask).view(np.int64)])


def ranked_texts(texts: Texts) -> tuple[IntArray, list[str]]:
    """Return the rank of each text among the distinct ones, and those in order."""
    from pyarrow import compute

    encoded = large_strings(texts).dictionary_encode()
    order = compute.call_function("array_sort_indices", [encoded.dictionary]).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy()], encoded.dictionary.take(order).to_pylist()


def booleans(array: Any) -> BoolArray:  # Any: of pyarrow
    """Return a pyarrow array of booleans without NULL as one of NumPy's."""
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    start: int = array.offset
    stop = start + len(array)
    return np.unpackbits(bits, count=stop, bitorder="little")[start:].view(np.bool_)


def _ascends(rows: IntArray) -> bool:
    return bool((rows[1:] > rows[:-1]).all()) and (not len(rows) or int(rows[0]) >= 0)
