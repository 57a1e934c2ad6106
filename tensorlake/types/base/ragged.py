"""Ragged: the result of reading samples of varying shape, a list of arrays in one array.

    values   the elements of all samples, one after another
    offsets  sample i is values[offsets[i] : offsets[i + 1]]

When only the first axis varies (boxes of shape (k, 4)), `values` keeps the other axes and
`offsets` count along the first: ``boxes.values[:, 2]`` is a column of all boxes. Otherwise
(images) `values` is flat and `offsets` count elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tensorlake.errors import RaggedBatchError
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.column import RaggedColumn, offsets_of, slice_rows, take

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Ragged"]

_SHOWN_SHAPES = 6


class Ragged:
    """A list of arrays of one dtype and different shapes.

    >>> boxes = Ragged(RaggedColumn(np.arange(12.0), np.array([[2, 4], [1, 4]])), inner=(4,))
    >>> boxes
    Ragged(2 arrays, float64, shapes (2, 4) (1, 4))
    >>> boxes.values.shape, boxes.lengths.tolist(), boxes[1].tolist()
    ((3, 4), [2, 1], [[8.0, 9.0, 10.0, 11.0]])
    >>> boxes.pad(0).shape
    (2, 2, 4)
    """

    __slots__ = ("_column", "_element_offsets", "inner")

    def __init__(self, column: RaggedColumn, *, inner: tuple[int, ...] | None = None) -> None:
        self._column = column
        self._element_offsets = column.offsets
        self.inner = inner

    @property
    def values(self) -> np.ndarray:
        """All elements; `(total, *inner)` when only the first axis varies, else flat."""
        flat = self._column.values
        if not self.inner:
            return flat
        return flat.reshape(int(self._column.shapes[:, 0].sum()), *self.inner)

    @property
    def offsets(self) -> np.ndarray:
        """Where each array starts in `values`: n + 1 numbers."""
        return offsets_of(self._column.shapes[:, 0]) if self.inner else self._element_offsets

    @property
    def lengths(self) -> np.ndarray:
        """The length of each array in `values`."""
        return np.diff(self.offsets)

    @property
    def shapes(self) -> np.ndarray:
        """Shape of each array, int64 `(n, ndim)`."""
        return self._column.shapes

    @property
    def dtype(self) -> np.dtype:
        """The dtype of every array."""
        return self._column.values.dtype

    def stack(self) -> np.ndarray:
        """Return one array `(n, *shape)`.

        Raises:
            RaggedBatchError: The arrays differ in shape.
        """
        shapes = self.shapes
        if len(self) and bool((shapes != shapes[0]).any()):
            low, high = tuple(shapes.min(axis=0).tolist()), tuple(shapes.max(axis=0).tolist())
            raise RaggedBatchError(
                f"{len(self)} arrays of different shapes, from {low} to {high}, cannot be stacked"
                "\nfill them up with .pad(value), or keep the list",
                actual=(low, high),
            )
        shape = tuple(shapes[0].tolist()) if len(self) else (0,) * shapes.shape[1]
        return self._column.values.reshape(len(self), *shape)

    def pad(self, value: Any) -> np.ndarray:
        """Return one array `(n, *largest shape)`, filled up with `value`."""
        largest = self.shapes.max(axis=0, initial=0).tolist()
        padded = np.full((len(self), *largest), value, dtype=self.dtype)
        if len(largest) == 1:  # the usual case, tokens and labels, without a loop
            padded[np.arange(largest[0]) < self.shapes[:, :1]] = self._column.values
            return padded
        for position, array in enumerate(self):
            padded[(position, *(slice(0, length) for length in array.shape))] = array
        return padded

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, key: int | np.integer) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | np.ndarray) -> Ragged: ...
    def __getitem__(self, key: Any) -> np.ndarray | Ragged:  # Any: a NumPy index
        if is_whole_number(key):
            position = range(len(self))[int(key)]
            start, stop = self._element_offsets[position : position + 2].tolist()
            shape = tuple(self.shapes[position].tolist())
            return self._column.values[start:stop].reshape(shape)
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            chosen = slice_rows(self._column, start, max(start, stop))
        else:
            chosen = take(self._column, np.arange(len(self))[key])
        assert isinstance(chosen, RaggedColumn)
        return Ragged(chosen, inner=self.inner)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[position] for position in range(len(self)))

    def __array__(
        self,
        dtype: Any = None,
        copy: bool | None = None,  # noqa: FBT001 -- NumPy's protocol
    ) -> np.ndarray:
        return np.array(self.stack(), dtype=dtype, copy=True if copy is None else copy)

    def __repr__(self) -> str:
        shapes = [str(tuple(shape)) for shape in self.shapes[:_SHOWN_SHAPES].tolist()]
        more = " …" if len(self) > _SHOWN_SHAPES else ""
        noun = "array" if len(self) == 1 else "arrays"
        return f"Ragged({len(self)} {noun}, {self.dtype}, shapes {' '.join(shapes)}{more})"
