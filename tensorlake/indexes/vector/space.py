"""The space in which vectors are clustered and coded: centred, scaled, and rotated at random.

    stored vector ──(cosine: to length 1)──▶ − mean ──▶ ÷ scale ──▶ point      float32 (dim,)
    point ──▶ padded to a multiple of 64 ──▶ rotated                           float32 (width,)

Neighbours by cosine are neighbours by distance among vectors of length 1, and neither distances nor
the order of inner products depend on the origin. Centring keeps numbers small where vectors share a
large mean, and scaling keeps them within float16 whatever their unit.

The rotation is orthogonal: random signs and fast Walsh-Hadamard transforms, which spread every
direction evenly over all dimensions. It follows from a seed through Philox, whose bits are
specified, so that nothing of it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "Metric",
    "Space",
    "float_rows",
    "is_codable",
    "is_finite",
    "rotation",
    "scores_of",
    "width_of",
]

Metric = Literal["cosine", "l2", "dot"]
Floats = npt.NDArray[np.float32]

WORD_BITS = 64
ROTATIONS_KEPT = 4  # 9 MiB each for 1,536 dimensions
LEAST_SQUARE = 1e-30  # smaller squares are of few bits in float32: they are made in float64
ROUNDS = 3  # as in the randomized Hadamard transforms of the literature


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """How stored vectors become points, and questions directions.

    Attributes:
        metric: "cosine", "l2" (Euclidean distance) or "dot" (inner product).
        mean: float32 (dim,), of the vectors (cosine: of vectors of length 1).
        scale: Root of the mean square distance from ``mean``.
    """

    metric: Metric
    mean: Floats
    scale: float

    @classmethod
    def of(cls, values: Floats, metric: Metric) -> Space:
        """Fit a space to a sample, float32 (n, dim), all finite."""
        values = _unit(values) if metric == "cosine" else values
        if not len(values):
            return cls(metric, np.zeros(values.shape[1], np.float32), 1.0)
        mean = values.mean(axis=0, dtype=np.float64)
        spread = float(np.sqrt(np.square(values - mean, dtype=np.float64).sum(axis=1).mean()))
        return cls(metric, mean.astype(np.float32), spread if spread > 0 else 1.0)

    def points(self, values: Floats) -> Floats:
        """Convert stored vectors, float32 (n, dim)."""
        values = _unit(values) if self.metric == "cosine" else values
        return (values - self.mean) / np.float32(self.scale)

    def directions(self, queries: Floats) -> Floats:
        """Convert queries, float32 (n, dim): for inner products their length is of no account."""
        if self.metric != "dot":
            return self.points(queries)
        return _unit(queries)


def float_rows(values: npt.NDArray[Any]) -> Floats:
    """Return vectors as float32 (n, dim); numbers beyond float32 become infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def is_finite(values: Floats, metric: Metric) -> npt.NDArray[np.bool_]:
    """Return which vectors have a score: all numbers finite, and for cosine a length."""
    squares = _squares(values)
    found = np.isfinite(squares) & (squares > 0) if metric == "cosine" else np.isfinite(squares)
    others = np.flatnonzero(~found)
    if len(others):  # their squares may be beyond float32 though they are not
        some = values[others]
        found[others] = np.isfinite(some).all(axis=1)
        if metric == "cosine":
            found[others] &= some.any(axis=1)
    return found


def is_codable(values: Floats, metric: Metric) -> npt.NDArray[np.bool_]:
    """Return which vectors an index can have: their squares, too, are numbers of float32.

    For cosine all that have a score: it is their directions that are coded.
    """
    found = is_finite(values, metric)
    return found if metric == "cosine" else found & np.isfinite(_squares(values))


def scores_of(values: Floats, query: Floats, metric: Metric) -> npt.NDArray[np.float64]:
    """Score vectors, float32 (n, dim), against one query; larger is nearer, NaN where undefined.

    cosine: the cosine of the angle; dot: the inner product; l2: the negated Euclidean distance.
    Sums run within one vector, as those of TQL do: a score never depends on the other rows. Where a
    square is too large or too small for float32, they are float64.
    """
    with np.errstate(all="ignore"):
        scores, measure = _scored(values, query, metric)
        least = 0 if metric == "dot" else LEAST_SQUARE
        others = np.flatnonzero(~(np.isfinite(measure) & (np.abs(measure) >= least)))
        scores = scores.astype(np.float64)
        if len(others):
            wide = values[others].astype(np.float64)
            again = _scored(wide, query.astype(np.float64), metric)[0]
            scores[others] = np.where(np.isfinite(again), again, np.nan)
        return scores


def _scored(
    values: npt.NDArray[Any], query: npt.NDArray[Any], metric: Metric
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return scores in the dtype of the vectors, and of each a sum that tells its range."""
    if metric == "l2":
        squares = _squares(values - query)
        return -np.sqrt(squares), squares
    dots: npt.NDArray[Any] = np.einsum("ni,i->n", values, query)
    if metric == "dot":
        return dots, dots
    square = np.einsum("i,i->", query, query)
    squares = _squares(values)
    is_in_range = np.isfinite(square) and square >= LEAST_SQUARE
    measure = squares if is_in_range else np.full_like(squares, np.nan)
    return dots / (np.sqrt(squares) * np.sqrt(square)), measure


def width_of(dim: int) -> int:
    """Return the bits of a code: dimensions, padded to whole words."""
    return -(-dim // WORD_BITS) * WORD_BITS


@lru_cache(maxsize=ROTATIONS_KEPT)
def rotation(dim: int, seed: int) -> Floats:
    """Return the first ``dim`` rows of a random orthogonal matrix, float32 (dim, width)."""
    width = width_of(dim)
    power = 1 << (width.bit_length() - 1)
    bits = np.unpackbits(
        np.random.Philox(key=seed).random_raw(ROUNDS * 2 * width // WORD_BITS + 1).view(np.uint8)
    )
    signs = (1.0 - 2.0 * bits[: ROUNDS * 2 * width]).reshape(ROUNDS * 2, width)
    rows = np.eye(dim, width)
    for turn, flips in enumerate(signs):
        rows *= flips
        start = 0 if turn % 2 == 0 else width - power  # all dimensions are in one or both
        rows[:, start : start + power] = _hadamard(rows[:, start : start + power])
    return np.ascontiguousarray(rows, dtype=np.float32)


def _hadamard(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Transform rows of a power of two of numbers by the normalised Walsh-Hadamard matrix."""
    count, width = rows.shape
    half = 1
    while half < width:
        pairs = rows.reshape(count, width // (2 * half), 2, half)
        rows = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        rows = rows.reshape(count, width)
        half *= 2
    return rows / np.sqrt(width)


def _squares(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.einsum("ni,ni->n", values, values)


def _unit(values: Floats) -> Floats:
    squares = _squares(values)
    others = np.flatnonzero(~(np.isfinite(squares) & (squares >= LEAST_SQUARE)))
    squares[others] = 1
    units = (values / np.sqrt(squares)[:, None]).astype(np.float32, copy=False)
    if len(others):
        wide = values[others].astype(np.float64)
        lengths = np.sqrt(_squares(wide))
        lengths[lengths == 0] = 1
        units[others] = wide / lengths[:, None]
    return units
