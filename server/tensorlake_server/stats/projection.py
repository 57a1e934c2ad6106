"""Two coordinates for each vector of a tensor: where it is on a map.

    two numbers        themselves: a projection that was stored, such as UMAP's
    more               the first two principal components (Pearson 1901), fitted to a sample that
                       is spread over all rows, by subspace iteration (Halko, Martinsson and Tropp
                       2011, doi:10.1137/090771806); of cosine embeddings, vectors of length 1

Points are in Morton order, so that consecutive ones are close to each other: a reader draws and
searches them by blocks. Memory and bytes read are bounded: of more rows than MAX_POINTS, or of
more bytes than MAX_NBYTES, runs that are spread evenly are projected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError, QueryLimitError
from tensorlake.types import Bool, ClassLabel, Embedding, Scalar, UniformColumn
from tensorlake_server.bodies.columns import column_type, read_column
from tensorlake_server.stats.row_budget import iter_spread, measure_stored

if TYPE_CHECKING:
    from tensorlake.dataset import Dataset, QueryLimits
    from tensorlake.types import SampleType

__all__ = ["MAX_POINTS", "Projection", "color_values", "morton_order", "principal_axes", "project"]

MAX_POINTS = 2_000_000  # 24 MB for the reader
MAX_NBYTES = 4 << 30  # of packs: a million vectors of 1,024 float32
FIT_ROWS = 20_000
FIT_NBYTES = 128 << 20
BATCH_NBYTES = 16 << 20
AXES = 2
OVERSAMPLED, ITERATIONS = 8, 8
PLANAR_DIM = 2
GRID = 1 << 16  # of Morton codes, by side

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Projection:
    """Points in Morton order; rows without a vector, or with one that is not finite, have none.

    Attributes:
        xy: Coordinates, shape (points, 2).
        rows: Row of each point in the version, shape (points,).
        projected: Rows that were looked at; fewer than all of a version that is too large.
    """

    xy: Floats
    rows: Rows
    projected: int

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        return self.xy.nbytes + self.rows.nbytes


def project(dataset: Dataset, tensor: str, limits: QueryLimits) -> Projection:
    """Project a tensor of vectors.

    Raises:
        TensorNotFoundError: There is no such tensor.
        InvalidInputError: Its rows are not vectors of one length.
        QueryLimitError: It takes longer than a query may, or the client has gone.
    """
    kind = column_type(dataset, tensor)
    dim = _dim_of(tensor, kind)
    stored = measure_stored(dataset, tensor)
    most = stored.rows * MAX_NBYTES // max(stored.nbytes, 1)
    projected = min(stored.rows, MAX_POINTS, max(1, most))
    reading = _Vectors(dataset, tensor, dim, limits, time.monotonic())
    axes, center = np.eye(dim, AXES, dtype=np.float32), np.zeros(dim, dtype=np.float32)
    if dim > PLANAR_DIM:
        fitted = min(projected, FIT_ROWS, max(2, FIT_NBYTES // (4 * dim)))
        parts = [vectors for _, vectors in reading.batches(fitted)]
        sample = np.concatenate(parts) if parts else np.empty((0, dim), dtype=np.float32)
        axes, center = principal_axes(sample)
    rows, xy = np.empty(projected, dtype=np.int64), np.empty((projected, AXES), dtype=np.float32)
    count = 0
    for some, vectors in reading.batches(projected):
        stop = count + len(some)
        rows[count:stop], xy[count:stop] = some, (vectors - center) @ axes
        count = stop
    rows, xy = rows[:count], xy[:count]
    order = morton_order(xy)
    return Projection(xy[order], rows[order], projected)


def principal_axes(sample: Floats) -> tuple[Floats, Floats]:
    """Fit the first two principal components.

    Args:
        sample: Vectors, shape (rows, dim).

    Returns:
        The axes, shape (dim, 2), each with its largest element positive, and the mean, (dim,).

    Example:
        >>> rows = np.array([[0, 0, 0], [4, 0, 1], [8, 0, 2], [4, 3, 1]], dtype=np.float32)
        >>> axes, center = principal_axes(rows)
        >>> center.tolist()
        [4.0, 0.75, 1.0]
        >>> np.round(axes.T @ [8, 0, 2], 2).tolist()
        [8.25, 0.0]
    """
    dim = sample.shape[1]
    if not len(sample):
        return np.eye(dim, AXES, dtype=np.float32), np.zeros(dim, dtype=np.float32)
    center = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    centered = sample - center
    width = min(dim, AXES + OVERSAMPLED)
    basis = np.random.default_rng(0).standard_normal((dim, width), dtype=np.float32)
    for _ in range(ITERATIONS):
        basis, _ = np.linalg.qr(centered.T @ (centered @ basis))
    within = centered @ basis
    _, turns = np.linalg.eigh((within.T @ within).astype(np.float64))
    axes = basis @ turns[:, ::-1][:, :AXES].astype(np.float32)
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, np.float32(-1), np.float32(1)), center


def morton_order(xy: Floats) -> Rows:
    """Sort points along a Z-order curve (Morton 1966) over their bounds.

    >>> morton_order(np.array([[9, 9], [0, 0], [9, 0], [0, 9]], dtype=np.float32)).tolist()
    [1, 2, 3, 0]
    """
    if not len(xy):
        return np.empty(0, dtype=np.int64)
    low = xy.min(axis=0).astype(np.float64)
    extent = np.maximum(xy.max(axis=0).astype(np.float64) - low, np.finfo(np.float64).tiny)
    cells = ((xy - low) / extent * (GRID - 1)).astype(np.uint64)
    code = _spread_bits(cells[:, 0]) | _spread_bits(cells[:, 1]) << np.uint64(1)
    return np.argsort(code, kind="stable")


def color_values(dataset: Dataset, tensor: str, rows: Rows) -> npt.NDArray[Any]:
    """Read what points are coloured by: int32 codes of a class label, -1 for NULL; else float32.

    Args:
        dataset: The version.
        tensor: A class label, a number or a boolean of each row.
        rows: Rows of the points.

    Raises:
        TensorNotFoundError: There is no such tensor.
        InvalidInputError: It has not one such value for each row.
    """
    kind = column_type(dataset, tensor)
    is_label = isinstance(kind, ClassLabel)
    if not isinstance(kind, ClassLabel | Scalar | Bool) or kind.shape != ():
        raise InvalidInputError(
            f"points cannot be coloured by {tensor!r}, which is {kind}"
            "\nuse a class label, a number or a boolean of each row",
            tensor=tensor,
        )
    in_order = np.argsort(rows, kind="stable")
    column = read_column(dataset, tensor, rows[in_order]).column
    assert isinstance(column, UniformColumn), "one value a row"
    values = column.values.astype(np.int32 if is_label else np.float32)
    if column.valid is not None:
        values[~column.valid] = -1 if is_label else np.nan
    colors = np.empty_like(values)
    colors[in_order] = values
    return colors


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The vectors of a tensor, in batches, while the client waits."""

    dataset: Dataset
    tensor: str
    dim: int
    limits: QueryLimits
    started: float

    def batches(self, counted: int) -> Iterator[tuple[Rows, Floats]]:
        """Read rows that are spread over all; yield those that have a finite vector."""
        is_cosine = _is_cosine(self.dataset.schema[self.tensor])
        at_once = max(1, BATCH_NBYTES // (4 * self.dim))
        for positions in iter_spread(len(self.dataset), counted, at_once=at_once):
            self._check_wanted()
            column = rowset_of(self.dataset).read(self.tensor, positions)
            assert isinstance(column, UniformColumn), "vectors of one length"
            with np.errstate(over="ignore"):  # a float64 may be beyond float32: it has no point
                vectors = column.values.astype(np.float32).reshape(len(positions), self.dim)
            lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
            is_point = np.isfinite(lengths[:, 0])
            if column.valid is not None:
                is_point &= column.valid
            if is_cosine:
                vectors /= np.where(lengths > 0, lengths, np.float32(1))
            yield positions[is_point], vectors[is_point]

    def _check_wanted(self) -> None:
        limits, taken = self.limits, time.monotonic() - self.started
        if limits.timeout_s is not None and taken > limits.timeout_s:
            raise QueryLimitError(
                f"the vectors of {self.tensor!r} were not read within {limits.timeout_s:g} s"
                "\nask who runs the server for more: max_query_s"
            )
        if limits.cancelled is not None and limits.cancelled():
            raise QueryLimitError(
                f"request cancelled by client: projection of {self.tensor!r}\nsend it again"
            )


def _dim_of(tensor: str, kind: SampleType) -> int:
    shape = kind.shape
    is_number = kind.dtype is not None and kind.query_kind in ("number", "array")
    if (
        shape is None
        or len(shape) != 1
        or shape[0] is None
        or shape[0] < PLANAR_DIM
        or not is_number
    ):
        raise InvalidInputError(
            f"{tensor!r} is {kind}, and a projection needs vectors of one length"
            "\nuse an Embedding, or an Array of one known length: tl.Array('float32', (256,))",
            tensor=tensor,
        )
    return shape[0]


def _is_cosine(kind: SampleType) -> bool:
    return isinstance(kind, Embedding) and kind.metric == "cosine" and kind.dim > PLANAR_DIM


def _spread_bits(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Move the 16 bits of numbers to the even places."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        numbers = (numbers | numbers << np.uint64(shift)) & np.uint64(mask)
    return numbers
