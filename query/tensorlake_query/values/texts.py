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

from tensorlake_query.values.hash_table import WordArray
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import AnyArray, BoolArray, IntArray

ByteArray = npt.NDArray[np.uint8]

OBJECT_NBYTES = 64  # of a Python string and the reference to it, beside its characters
MANY_TAKEN = 4096  # of fewer, slices of NumPy cost less than importing pyarrow, which takes 0.1 s
REPEATED_NBYTES = 1 << 20  # that may be copied of texts that repeat, beside all of them once
REPEATED_ROWS = 1 << 16  # repeated at once
WORD_BITS, WORD_NBYTES = 3, 8
LENGTH_SHIFT = 56


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
        """Return the texts at these positions, copied end to end; many by pyarrow."""
        lengths = self.lengths[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        charge(int(offsets[-1]) + offsets.nbytes)
        if len(rows) >= MANY_TAKEN:
            content = large_strings(self).take(_arrow(rows)).buffers()[2]
            return Texts(np.frombuffer(content or b"", np.uint8), offsets)
        starts = self.offsets[:-1][rows]
        pairs = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        parts = [self.content[start:stop] for start, stop in pairs]
        return Texts(np.concatenate([self.content[:0], *parts]), offsets)

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


def encoded_texts(texts: Texts) -> tuple[IntArray, int]:
    """Number the distinct texts as they appear by pyarrow's hash table, and count them."""
    encoded = large_strings(texts).dictionary_encode()
    return _numbers(encoded.indices, np.int32).astype(np.int64), len(encoded.dictionary)


def words_in(texts: Texts, count: int) -> Callable[[slice], list[WordArray]]:
    """Return what makes a block of texts words of eight bytes, equal for equal texts only.

    Word `i` begins at byte 8 · i, or 8 bytes before the end, so words may overlap. The last is the
    last seven bytes and, in the highest byte, the length. A text that is shorter than a word is its
    bytes and zeros.

    Args:
        texts: of less than eight bytes for each word, and fewer than 256.
        count: how many words they have.
    """
    content, offsets = texts.content, texts.offsets
    if int(np.searchsorted(offsets[1:], WORD_NBYTES)):  # a text ends too early for a word before it
        content = np.concatenate([np.zeros(WORD_NBYTES, np.uint8), content[: int(offsets[-1])]])
        offsets = offsets + WORD_NBYTES
    at: WordArray = np.ndarray((len(content) - WORD_NBYTES + 1,), "<u8", content, 0, (1,))

    def words(block: slice) -> list[WordArray]:
        start, stop = offsets[block], offsets[block.start + 1 : block.stop + 1]
        length, last = stop - start, stop - WORD_NBYTES
        made = [at[np.minimum(start + i * WORD_NBYTES, last)] for i in range(count - 1)]
        tail = at[last]
        short = np.flatnonzero(length < WORD_NBYTES)
        shift = (WORD_NBYTES - length.take(short)) << WORD_BITS
        whole = tail.take(short) >> shift.view(np.uint64)
        for word in made:
            word[short] = whole
        tail >>= np.uint64(8)
        tail[short] = whole
        length <<= LENGTH_SHIFT
        tail |= length.view(np.uint64)
        return [*made, tail]

    return words


def ranked_texts(texts: Texts) -> tuple[IntArray, list[str]]:
    """Return the rank of each text among the distinct ones, and those in order."""
    from pyarrow import compute

    encoded = large_strings(texts).dictionary_encode()
    order = compute.call_function("array_sort_indices", [encoded.dictionary])
    ranks = np.empty(len(order), np.int64)
    ranks[_numbers(order, np.uint64)] = np.arange(len(order))
    return ranks[_numbers(encoded.indices, np.int32)], encoded.dictionary.take(order).to_pylist()


def booleans(array: Any) -> BoolArray:  # Any: of pyarrow
    """Return a pyarrow array of booleans without NULL as one of NumPy's."""
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    start: int = array.offset
    stop = start + len(array)
    return np.unpackbits(bits, count=stop, bitorder="little")[start:].view(np.bool_)


# `pyarrow.array` and `to_numpy` import pandas at their first call, for 0.3 s.


def _numbers(array: Any, dtype: type[np.generic]) -> IntArray:  # Any: of pyarrow
    """Return a pyarrow array of integers without NULL as one of NumPy's."""
    values = np.frombuffer(array.buffers()[1], dtype)[array.offset :]
    return cast("IntArray", values[: len(array)])


def _arrow(rows: IntArray) -> Any:  # Any: of pyarrow
    import pyarrow as pa

    buffer = pa.py_buffer(np.ascontiguousarray(rows, np.int64))
    return cast("Any", pa.Array).from_buffers(pa.int64(), len(rows), [None, buffer])
