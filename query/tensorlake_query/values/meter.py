"""The bytes of samples that a run reads: foreseen, counted where they are read, and limited."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from tensorlake_query.values.source import ColumnType, IntArray, Region
from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.vectors import POSITION_NBYTES, Vector

FIRST_ROWS = 512  # read first, at most, of a column whose samples differ in size; of images one
FIRST_NBYTES = 16 << 20  # that they take, by a guess
RAGGED_SIZE = 16  # elements along a dimension that differs by row
LARGE_NBYTES = 1 << 20  # a mean of samples whose shapes are looked at before they are read


@dataclass(slots=True)
class Meter:
    """Counts the bytes of samples that a run reads, and ends it at a limit. Thread-safe."""

    limit_nbytes: int | None
    fail: Callable[[int], Exception]
    nbytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, vector: Vector, *, is_text: bool) -> None:
        """Count what was read; of JSON objects their references, and texts.

        Raises:
            QueryLimitError: it is more than the limit.
        """
        if texts_of(vector.values) is not None:
            nbytes = vector.values.nbytes
        elif vector.values.dtype == object:
            values = vector.values.tolist()
            nbytes = (
                sum(map(len, values))
                if is_text
                else sum(len(each) if isinstance(each, str) else POSITION_NBYTES for each in values)
            )
        else:
            nbytes = vector.values.nbytes
        self.count(nbytes)

    def expect(self, nbytes: int) -> None:
        """Refuse to read bytes that would be more than the limit, before they are read.

        Raises:
            QueryLimitError: they would be.
        """
        if self.limit_nbytes is not None and self.nbytes + nbytes > self.limit_nbytes:
            raise self.fail(self.nbytes + nbytes)

    def count(self, nbytes: int) -> None:
        """Count bytes.

        Raises:
            QueryLimitError: they are more than the limit.
        """
        with self._lock:
            self.nbytes += nbytes
        if self.limit_nbytes is not None and self.nbytes > self.limit_nbytes:
            raise self.fail(self.nbytes)


def differs_in_size(column_type: ColumnType) -> bool:
    """Whether samples of a type differ in size."""
    return None in column_type.shape or column_type.dtype is None


def fixed_nbytes(column_type: ColumnType) -> int:
    """Return what a sample takes, and whether it is NULL; of a ragged one a guess."""
    size = math.prod(RAGGED_SIZE if each is None else each for each in column_type.shape)
    return size * np.dtype(column_type.dtype).itemsize + 1


def is_large(column_type: ColumnType, mean_nbytes: float | None) -> bool:
    """Whether few stored bytes of a sample may be a large one, and those seen have been."""
    is_image = column_type.dtype is not None and column_type.shape.count(None) > 1
    return is_image and (mean_nbytes is None or mean_nbytes >= LARGE_NBYTES)


def first_rows(column_type: ColumnType) -> int:
    """Return how many samples to read before anything is known of their size."""
    if column_type.shape.count(None) > 1:  # an image, a mask
        return 1
    guessed = fixed_nbytes(column_type) if column_type.dtype is not None else 1
    return max(min(FIRST_ROWS, FIRST_NBYTES // guessed), 1)


def decoded_nbytes(column_type: ColumnType, shapes: IntArray) -> int:
    """Return what samples of these shapes, −1 where NULL, take when they are decoded."""
    counts = np.maximum(shapes, 0).astype(np.float64).prod(axis=1)
    return int(counts.sum()) * np.dtype(column_type.dtype).itemsize


def region_nbytes(column_type: ColumnType, region: Region, shapes: IntArray) -> int:
    """Return what a region of samples of these shapes, −1 where NULL, takes when it is decoded."""
    at = region.index(...) if ... in region else len(region)
    rest = [slice(None)] * (shapes.shape[1] - len(region) + (... in region))
    counts = np.ones(len(shapes))
    for axis, one in enumerate((*region[:at], *rest, *region[at + 1 :])):
        if isinstance(one, slice):
            lengths, which = np.unique(np.maximum(shapes[:, axis], 0), return_inverse=True)
            taken = [len(range(*one.indices(length))) for length in lengths.tolist()]
            counts *= np.array(taken, np.float64)[which.reshape(-1)]
    return int(counts.sum()) * np.dtype(column_type.dtype).itemsize
