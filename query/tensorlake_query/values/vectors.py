"""The executor's vectors: one value per row, held as arrays.

    UniformBatch   the type's shape is known: values (n, *shape); text, JSON, bytes are object (n,),
                   or text is `Texts`, which is like such an array
    RaggedBatch    some dimension differs by row: flat values and shapes (n, ndim)

Which of the two follows from the type alone, never from the values. All ragged work goes through
one idea, the strided walk: row i is a base position, a stride and a size per dimension, and `walk`
lists the flat positions it visits. Indexing, broadcasting and axis reductions only choose bases,
strides and sizes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from sys import getsizeof
from typing import Any, cast

import numpy as np

from tensorlake_query.values.memory import charge, objects_nbytes, working
from tensorlake_query.values.source import (
    AnyArray,
    Batch,
    BoolArray,
    ColumnType,
    IntArray,
    ObjectBatch,
    RaggedBatch,
    SourceBatch,
    TextBatch,
    UniformBatch,
)
from tensorlake_query.values.texts import Texts, end_to_end, joined_texts, repeated, texts_of
from tensorlake_query.values.types import is_ragged

Vector = UniformBatch | RaggedBatch

DENSE_ROWS = 1024  # of fewer, it makes no difference how they are read
DENSE_FACTOR = 2  # rows between the first and the last, for each
POSITION_NBYTES = 8
WALK_NBYTES = 48  # of one position while it is found: its row, its places, their products
ELEMENT_NBYTES = 8  # of an answer, at most
TEXTS_AT_ONCE = 1024
TEXTS_NBYTES = 4 << 20  # that many may come of them before they are counted
SHORT_NBYTES = 1 << 20  # for so little they are not
TEXT_NBYTES = 64  # of a text beside its characters
WIDEST_NBYTES = 4  # of a character
PAIR = 2
LONG_SAMPLE = 64  # elements from which copying samples one by one costs less than listing each

OBJECT_FILL: dict[str, object] = {"text": "", "bytes": b"", "json": None}


class RowError(Exception):
    """A kernel met values that do not fit together, at one row of its batch."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def from_batch(batch: SourceBatch, column_type: ColumnType) -> Vector:
    """Bring what a source returned into the form its type asks for."""
    if isinstance(batch, TextBatch):
        return UniformBatch(Texts(batch.content, batch.offsets).as_array(), batch.valid)
    if isinstance(batch, ObjectBatch):
        if column_type.shape:
            return _texts(batch)
        values = object_array(batch.values)
        valid = np.array([value is not None for value in batch.values], np.bool_)
        if not valid.all():
            values[~valid] = OBJECT_FILL.get(column_type.kind)
        return UniformBatch(values, None if valid.all() else valid)
    if is_ragged(column_type):
        return batch if isinstance(batch, RaggedBatch) else as_ragged(batch)
    return conform(batch, cast("tuple[int, ...]", column_type.shape))


def to_batch(vector: Vector) -> Batch:
    """Return a vector as the batch a reader expects: objects as a list, no shared memory."""
    if isinstance(vector, RaggedBatch) and vector.values.dtype == object:
        bounds = [0, *np.cumsum(counts_of(vector.shapes)).tolist()]
        flat = python_values(vector.values)
        rows: list[object] = [flat[start:stop] for start, stop in pairwise(bounds)]
        valid = valid_of(vector)
        return ObjectBatch([row if ok else None for row, ok in zip(rows, valid, strict=True)])
    if isinstance(vector, UniformBatch) and vector.values.dtype == object:
        items = cast("list[object]", vector.values.tolist())
        if vector.valid is not None:
            items = [item if ok else None for item, ok in zip(items, vector.valid, strict=True)]
        return ObjectBatch(items)
    if isinstance(vector, UniformBatch) and vector.values.strides[:1] == (0,):
        charge(vector.values.nbytes)
        return replace(vector, values=vector.values.copy())
    return vector


def nbytes_of(vector: Vector) -> int:
    """Return what a vector's arrays take; of objects the references alone, of a constant little."""
    values = vector.values
    nbytes = values.itemsize if values.strides[:1] == (0,) else values.nbytes
    if isinstance(vector, RaggedBatch):
        nbytes += vector.shapes.nbytes
    return nbytes if vector.valid is None else nbytes + vector.valid.nbytes


def deep_nbytes_of(vector: Vector) -> int:
    """Return what a vector takes with its texts; each row of texts is looked at."""
    if vector.values.dtype != object or texts_of(vector.values) is not None:
        return nbytes_of(vector)
    return nbytes_of(vector) + objects_nbytes(python_values(vector.values))


def _texts(batch: ObjectBatch) -> RaggedBatch:
    """Return lists of texts as arrays of text."""
    lists = [cast("list[object]", row) if row is not None else [] for row in batch.values]
    flat = object_array([text for row in lists for text in row])
    shapes = np.array([len(row) for row in lists], np.int64).reshape(-1, 1)
    valid = np.array([row is not None for row in batch.values], np.bool_)
    return RaggedBatch(flat, shapes, None if valid.all() else valid)


def object_array(values: Sequence[object]) -> AnyArray:
    """Return a one-dimensional object array of the values themselves, lists and arrays too."""
    return np.fromiter(values, object, len(values))


def made_texts(
    make: Callable[..., str],
    *columns: Sequence[Any],
    longest: Callable[..., int] | None = None,
    exact: Callable[..., int] | None = None,
) -> AnyArray:
    """Return what a function makes of each row's values, and charge what that takes.

    Args:
        make: takes one value of each column, and gives a text.
        columns: lists of one length.
        longest: takes the length of the longest text of each column (1 of numbers), and gives that
            of the longest answer. Where long ones could come of it, each is charged before.
        exact: takes one value of each column, and gives the length of the answer, or more.
    """
    made: list[str] = []
    for start in range(0, len(columns[0]), TEXTS_AT_ONCE):
        parts = [column[start : start + TEXTS_AT_ONCE] for column in columns]
        most = None
        if longest is not None and exact is not None:
            lengths = [max(map(len, part)) if isinstance(part[0], str) else 1 for part in parts]
            most = len(parts[0]) * (longest(*lengths) * WIDEST_NBYTES + TEXT_NBYTES)
            if most > TEXTS_NBYTES:
                made += _charged_texts(make, parts, exact)
                continue
        texts = list(map(make, *parts))
        is_bounded = (
            most is not None and most < SHORT_NBYTES and len(made) + len(texts) > len(texts)
        )
        charge(most if most is not None and is_bounded else objects_nbytes(texts))
        made += texts
    return object_array(made)


def _charged_texts(
    make: Callable[..., str], columns: Sequence[Sequence[Any]], exact: Callable[..., int]
) -> list[str]:
    made: list[str] = []
    for row in zip(*columns, strict=True):
        with working(exact(*row) * WIDEST_NBYTES):
            text = make(*row)
        charge(getsizeof(text))
        made.append(text)
    return made


def constant(value: object, column_type: ColumnType, num_rows: int) -> Vector:
    """Return the same value for every row, without copying it."""
    if value is None and is_ragged(column_type):
        none = np.zeros(num_rows, np.bool_)
        shapes = np.zeros((num_rows, len(column_type.shape)), np.int64)
        dtype = object if column_type.dtype is None else column_type.dtype
        return RaggedBatch(np.zeros(0, dtype), shapes, none)
    if value is None:
        shape = cast("tuple[int, ...]", column_type.shape)
        fill = (
            object_array([OBJECT_FILL.get(column_type.kind)])
            if column_type.dtype is None
            else np.zeros((1, *shape), column_type.dtype)
        )
        values = np.broadcast_to(fill, (num_rows, *fill.shape[1:]))
        return UniformBatch(values, np.broadcast_to(np.zeros(1, np.bool_), (num_rows,)))
    if column_type.dtype is None:
        return UniformBatch(np.broadcast_to(object_array([value]), (num_rows,)))
    array = np.asarray(value, column_type.dtype)
    return UniformBatch(np.broadcast_to(array, (num_rows, *array.shape)))


def counts_of(shapes: IntArray) -> IntArray:
    """Return how many elements each row has."""
    counts = np.ones(len(shapes), np.int64)
    for axis in range(shapes.shape[1]):  # NumPy's product of short rows takes five times as long
        counts *= shapes[:, axis]
    return counts


def starts_of(counts: IntArray) -> IntArray:
    """Return where each row's elements start in the flat values."""
    starts = np.zeros(len(counts), np.int64)
    np.cumsum(counts[:-1], out=starts[1:])
    return starts


def running_counts(flags: BoolArray) -> IntArray:
    """Return how many flags are true up to each place.

    NumPy's `cumsum` of booleans takes six times as long, and lets no other thread run meanwhile.
    """
    counts = flags.astype(np.int64)
    return np.cumsum(counts, out=counts)


def numbered(counts: IntArray) -> IntArray:
    """Number the elements of each row from 0, one row after the other."""
    return np.arange(int(counts.sum())) - repeated(starts_of(counts), counts)


def distinct(values: AnyArray) -> AnyArray:
    """Sort numbers and drop repeats, but those of NaN: `np.unique` hashes, ten times slower."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def strides_of(shapes: IntArray) -> IntArray:
    """Return the C-order element strides of each row."""
    strides = np.ones_like(shapes)
    if shapes.shape[1] > 1:
        strides[:, :-1] = np.cumprod(shapes[:, :0:-1], axis=1)[:, ::-1]
    return strides


def walk(base: IntArray, strides: IntArray, shapes: IntArray) -> IntArray:
    """List the flat positions that every row visits, row after row in C order."""
    counts = counts_of(shapes)
    num_elements = int(counts.sum())
    charge(num_elements * POSITION_NBYTES)
    with working(num_elements * WALK_NBYTES):
        row = np.repeat(np.arange(len(counts)), counts)
        within = numbered(counts)
        positions = base[row]
        for dimension in range(shapes.shape[1] - 1, -1, -1):
            within, index = np.divmod(within, shapes[row, dimension])
            positions += index * strides[row, dimension]
    return positions


def as_ragged(vector: Vector) -> RaggedBatch:
    """Return a vector in ragged form."""
    if isinstance(vector, RaggedBatch):
        return vector
    shape = vector.values.shape[1:]
    shapes = np.broadcast_to(np.array(shape, np.int64), (len(vector.values), len(shape)))
    return RaggedBatch(vector.values.reshape(-1), shapes, vector.valid)


def conform(vector: Vector, shape: tuple[int, ...]) -> UniformBatch:
    """Return a vector whose samples all have `shape`; NULL rows are filled with zeros.

    Raises:
        RowError: a row has another shape.
    """
    if isinstance(vector, UniformBatch):
        return vector
    num_rows = len(vector.shapes)
    fits = (vector.shapes == np.array(shape, np.int64)).all(axis=1)
    if fits.all():
        return UniformBatch(vector.values.reshape(num_rows, *shape), vector.valid)
    wrong = ~fits if vector.valid is None else ~fits & vector.valid
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        raise RowError(
            f"shape {tuple(vector.shapes[position].tolist())} where {shape} is needed", position
        )
    values = np.zeros((num_rows, *shape), vector.values.dtype)
    kept = take(vector, np.flatnonzero(fits))
    values[fits] = cast("RaggedBatch", kept).values.reshape(-1, *shape)
    return UniformBatch(values, vector.valid)


def take(vector: Vector, positions: IntArray) -> Vector:
    """Return the rows at `positions`, in that order."""
    valid = None if vector.valid is None else vector.valid[positions]
    if isinstance(vector, UniformBatch):
        if texts_of(vector.values) is not None:  # texts know what they take
            return UniformBatch(vector.values[positions], valid)
        charge(len(positions) * math.prod(vector.values.shape[1:]) * vector.values.itemsize)
        if vector.values.flags.c_contiguous:  # others would be copied whole
            return UniformBatch(vector.values.take(positions, axis=0), valid)
        return UniformBatch(vector.values[positions], valid)
    counts = counts_of(vector.shapes)
    starts = starts_of(counts)[positions]
    shapes = vector.shapes[positions]
    kept = counts[positions]
    num_elements = int(kept.sum())
    charge(num_elements * vector.values.itemsize)
    if num_elements > LONG_SAMPLE * len(kept):
        stops = (starts + kept).tolist()
        samples = [vector.values[a:b] for a, b in zip(starts.tolist(), stops, strict=True)]
        return RaggedBatch(np.concatenate(samples), shapes, valid)
    with working(num_elements * 2 * POSITION_NBYTES):
        places = repeated(starts - starts_of(kept), kept)
        places += np.arange(num_elements)
        return RaggedBatch(vector.values[places], shapes, valid)


def taken_once(read: Callable[[IntArray], Vector], rows: IntArray) -> Vector:
    """Return the samples of rows that may repeat, each read once."""
    if len(rows) < PAIR or (rows[1:] > rows[:-1]).all():
        return read(rows)
    distinct, places = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        return read(rows)
    return take(read(distinct), places.reshape(-1))


def is_dense(rows: IntArray) -> bool:
    """Return whether ascending rows are most of those between the first and the last."""
    if len(rows) < DENSE_ROWS or int(rows[-1]) - int(rows[0]) >= len(rows) * DENSE_FACTOR:
        return False
    return bool((rows[1:] > rows[:-1]).all())


def slice_of(vector: Vector, start: int, stop: int) -> Vector:
    """Return the rows `start` … `stop` − 1, without copying them."""
    valid = None if vector.valid is None else vector.valid[start:stop]
    if isinstance(vector, UniformBatch):
        return UniformBatch(vector.values[start:stop], valid)
    before = int(counts_of(vector.shapes[:start]).sum())
    shapes = vector.shapes[start:stop]
    values = vector.values[before : before + int(counts_of(shapes).sum())]
    return RaggedBatch(values, shapes, valid)


def concatenated(vectors: Sequence[Vector], check: Callable[[], None] = lambda: None) -> Vector:
    """Join vectors of one type, end to end; `check` is called between them."""
    if len(vectors) == 1:
        return vectors[0]
    valid = None
    if any(vector.valid is not None for vector in vectors):
        valid = end_to_end([valid_of(vector) for vector in vectors], check)
    texts = [each for vector in vectors if (each := texts_of(vector.values)) is not None]
    if len(texts) == len(vectors):
        return UniformBatch(joined_texts(texts, check).as_array(), valid)
    values = end_to_end([vector.values for vector in vectors], check)
    ragged = [vector for vector in vectors if isinstance(vector, RaggedBatch)]
    if ragged:
        return RaggedBatch(values, np.concatenate([vector.shapes for vector in ragged]), valid)
    return UniformBatch(values, valid)


def to_integers(vector: Vector, dtype: np.dtype[np.generic]) -> Vector:
    """Drop fractions; a row with an element that the integers cannot hold is NULL."""
    limits = np.iinfo(dtype.name)
    if vector.values.dtype.kind == "f":
        whole = np.trunc(vector.values.astype(np.float64))
        fits = (whole >= float(limits.min)) & (whole < float(limits.max) + 1)
    else:
        whole = vector.values
        fits = (whole >= limits.min) & (whole <= limits.max)
    values = np.where(fits, whole, 0).astype(dtype)
    if fits.all():
        return replace(vector, values=values)
    if isinstance(vector, UniformBatch):
        rows = fits.reshape(len(fits), -1).all(axis=1)
    else:
        counts = counts_of(vector.shapes)
        rows = np.bincount(np.repeat(np.arange(len(counts)), counts), ~fits, len(counts)) == 0
    return replace(vector, values=values, valid=rows & valid_of(vector))


def length_of(vector: Vector) -> int:
    """Return how many rows a vector has."""
    return len(vector.values) if isinstance(vector, UniformBatch) else len(vector.shapes)


def valid_of(vector: Vector) -> BoolArray:
    """Return which rows are not NULL, as an array in every case."""
    return np.ones(length_of(vector), np.bool_) if vector.valid is None else vector.valid


def all_valid(vectors: Sequence[Vector]) -> BoolArray | None:
    """Return the rows where no vector is NULL; None means all of them."""
    valid: BoolArray | None = None
    for vector in vectors:
        if vector.valid is not None:
            valid = vector.valid if valid is None else valid & vector.valid
    return valid


def padded(values: AnyArray, ndim: int) -> AnyArray:
    """Return stacked samples with dimensions of 1 put before their own, to `ndim` in all."""
    missing = ndim - values.ndim
    return (
        values.reshape(values.shape[0], *(1,) * missing, *values.shape[1:]) if missing else values
    )


def elementwise(
    function: Callable[..., AnyArray],
    vectors: Sequence[Vector],
    shape: tuple[int | None, ...],
    *,
    element_nbytes: int = ELEMENT_NBYTES,
) -> Vector:
    """Apply a NumPy function element by element, broadcasting each row's arrays as NumPy would.

    Args:
        function: takes one flat or stacked array a vector, all of one shape after broadcasting.
        vectors: the arguments, of any mix of forms.
        shape: the result's sample shape, known from the types.
        element_nbytes: what an element of the answer takes, and what the function makes for it.

    Raises:
        RowError: the shapes of a row do not broadcast.
    """
    valid = all_valid(vectors)
    uniform = [vector.values for vector in vectors if isinstance(vector, UniformBatch)]
    if len(uniform) == len(vectors):
        ndim = max(values.ndim for values in uniform)
        return UniformBatch(function(*(padded(values, ndim) for values in uniform)), valid)
    shapes = _broadcast_shapes([as_ragged(vector).shapes for vector in vectors], valid)
    num_elements = int(counts_of(shapes).sum())
    charge(num_elements * element_nbytes)
    with working(num_elements * sum(vector.values.itemsize for vector in vectors)):
        values = function(*(_spread(vector, shapes) for vector in vectors))
    result = RaggedBatch(values, shapes, valid)
    if any(size is None for size in shape):
        return result
    return conform(result, cast("tuple[int, ...]", shape))


def _broadcast_shapes(every: Sequence[IntArray], valid: BoolArray | None) -> IntArray:
    ndim = max(shapes.shape[1] for shapes in every)
    arrays = [shapes for shapes in every if shapes.shape[1]]
    first = arrays[0]
    if valid is None and all(each is first or np.array_equal(each, first) for each in arrays[1:]):
        return first  # the others are single values
    result = np.ones((len(every[0]), ndim), np.int64)
    bad = np.zeros(len(result), np.bool_)
    for shapes in every:
        target = result[:, ndim - shapes.shape[1] :]
        for axis in range(shapes.shape[1]):
            own, before = shapes[:, axis], target[:, axis]
            bad |= (before != own) & (before != 1) & (own != 1)
        np.copyto(target, shapes, where=target == 1)
    if valid is not None:
        bad &= valid
        result[~valid] = 0
    if bad.any():
        position = int(np.flatnonzero(bad)[0])
        shown = " and ".join(str(tuple(shapes[position].tolist())) for shapes in every)
        raise RowError(f"shapes {shown} do not fit together", position)
    return result


def _spread(vector: Vector, shapes: IntArray) -> AnyArray:
    """Return a vector's flat values, repeated as broadcasting to `shapes` asks."""
    if isinstance(vector, UniformBatch) and vector.values.ndim == 1:
        counts = counts_of(shapes)
        if len(counts) and not vector.values.strides[0]:  # a constant
            return np.broadcast_to(vector.values[0], (int(counts.sum()),))
        return np.repeat(vector.values, counts)
    ragged = as_ragged(vector)
    own = ragged.shapes
    if own is shapes or np.array_equal(own, shapes):
        return ragged.values
    missing = shapes.shape[1] - own.shape[1]
    own_strides = np.where(own == 1, 0, strides_of(own))
    strides = np.concatenate([np.zeros((len(own), missing), np.int64), own_strides], axis=1)
    return ragged.values[walk(starts_of(counts_of(own)), strides, shapes)]


def python_values(values: AnyArray) -> list[Any]:
    """Return an object array as a list; JSON and text hold Python objects, of any type."""
    return values.tolist()
