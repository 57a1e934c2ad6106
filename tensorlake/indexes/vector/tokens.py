"""Several vectors a row: the tokens of a text or the patches of an image, searched by MaxSim.

MaxSim adds up, over the vectors of the query, the score of the nearest vector of the row (Khattab
and Zaharia, ColBERT, SIGIR 2020). An index has the vectors of all rows, each with its row's number.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.blas import in_threads, one_blas_thread
from tensorlake.indexes.vector.space import Floats, Metric, float_rows, scores_of
from tensorlake.types import (
    Array,
    Column,
    Embedding,
    RaggedColumn,
    SampleType,
    Sequence,
    UniformColumn,
    holds_floats,
)

__all__ = ["first_by_max_sim", "has_several_vectors", "max_sim", "vector_type", "vectors_of"]

Int64Array = npt.NDArray[np.int64]

BLOCK = 8192  # vectors multiplied at once, by one thread
ERRORS = 4  # roundings of a score beside those of its sum, and of either side of a comparison


def vector_type(sample_type: SampleType) -> SampleType:
    """Return the type of a row's vectors: of one vector a row, that type itself."""
    return sample_type.item if isinstance(sample_type, Sequence) else sample_type


def has_several_vectors(sample_type: SampleType) -> bool:
    """Return whether a row has any number of vectors of floats of one length."""
    if isinstance(sample_type, Sequence):
        shape: tuple[int | None, ...] = (None, *sample_type.item.shape)
        dtype, is_array = sample_type.item.dtype, isinstance(sample_type.item, Array | Embedding)
    else:
        shape, dtype, is_array = (
            sample_type.shape,
            sample_type.dtype,
            isinstance(sample_type, Array),
        )
    is_list = is_array and len(shape) == len(("vectors", "numbers")) and shape[0] is None
    return is_list and shape[1] is not None and dtype is not None and holds_floats(dtype)


def vectors_of(
    sample_type: SampleType, column: Column
) -> tuple[npt.NDArray[np.generic], Int64Array]:
    """Return the vectors of a column's rows end to end, (n, dim), and how many each row has.

    Raises:
        CorruptSampleError: A stored list is damaged.
    """
    if isinstance(column, UniformColumn):
        return column.values.reshape(-1, column.values.shape[-1]), np.full(
            len(column), column.values.shape[1], np.int64
        )
    if isinstance(column, RaggedColumn):
        dim = cast("int", sample_type.shape[-1])
        counts = column.shapes[:, 0].astype(np.int64)
        return column.values.reshape(-1, dim), counts
    return cast("Sequence", sample_type).uniform_items(column)


def max_sim(
    vectors: npt.NDArray[np.generic], counts: Int64Array, query: Floats, metric: Metric
) -> npt.NDArray[np.float64]:
    """Score rows by MaxSim; NaN where a row has no vector, or one without a score.

    >>> rows = np.array([[1, 0], [0, 2], [3, 3]], np.float32)
    >>> max_sim(rows, np.array([2, 0, 1]), np.eye(2, dtype=np.float32), "dot").tolist()
    [3.0, nan, 6.0]
    """
    floats = float_rows(vectors)
    scores = np.full(len(counts), np.nan)
    filled = counts > 0
    if not filled.any():
        return scores
    starts = (np.cumsum(counts) - counts)[filled]
    total = np.zeros(len(starts))
    for each in query:
        total += np.maximum.reduceat(scores_of(floats, each, metric), starts)
    scores[filled] = total
    return scores


def first_by_max_sim(
    vectors: npt.NDArray[np.generic], counts: Int64Array, query: Floats, metric: Metric, k: int
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """Find rows among which the k first by MaxSim are; their places, and their scores.

    All rows are estimated by one matrix product, whose sums depend on the blocks that BLAS cuts.
    Those within its error of the k-th are scored as ``max_sim`` does.
    """
    floats = float_rows(vectors)
    filled = np.flatnonzero(counts > 0)
    estimated, error = _estimated(floats, counts[filled], query, metric)
    is_near = np.ones(len(filled), np.bool_)
    known = estimated[~np.isnan(estimated)]
    if len(known) > k:
        least = np.partition(known, len(known) - k)[len(known) - k]
        is_near = ~(estimated < least - 2 * error)
    near = filled[is_near]
    chosen = np.zeros(len(counts), np.bool_)
    chosen[near] = True
    return near, max_sim(floats[np.repeat(chosen, counts)], counts[near], query, metric)


def _estimated(
    floats: Floats, counts: Int64Array, query: Floats, metric: Metric
) -> tuple[npt.NDArray[np.float64], float]:
    """Estimate MaxSim of rows that all have vectors, and bound the error; infinite if unknown."""
    if not len(counts):
        return np.empty(0), 0.0
    blocks = [floats[start : start + BLOCK] for start in range(0, len(floats), BLOCK)]
    weights, squares = query.T.copy(), np.square(query, dtype=np.float64).sum(axis=1)

    def scored(block: Floats) -> tuple[npt.NDArray[np.float32], float]:
        own = np.einsum("ni,ni->n", block, block)
        scores = block @ weights
        if metric == "cosine":
            scores /= np.sqrt(own)[:, None] * np.sqrt(squares).astype(np.float32)
        elif metric == "l2":
            scores *= -2
            scores += own[:, None]
            scores += squares.astype(np.float32)
            np.maximum(scores, 0, out=scores)
            np.sqrt(scores, out=scores)
            np.negative(scores, out=scores)
        return scores, float(own.max())

    with np.errstate(all="ignore"), one_blas_thread():
        made = in_threads(scored, blocks)
        every = np.concatenate([scores for scores, _ in made])
        best = np.maximum.reduceat(every, np.cumsum(counts) - counts, axis=0)
        longest = np.sqrt(max(square for _, square in made))
        lengths = np.sqrt(squares)
        relative = ERRORS * (query.shape[1] + ERRORS) * float(np.finfo(np.float32).eps)
        if metric == "cosine":
            error = relative * len(query)
        elif metric == "dot":
            error = float((relative * longest * lengths).sum())
        else:
            error = float((np.sqrt(relative) * (longest + lengths)).sum())
        return best.sum(axis=1, dtype=np.float64), error if np.isfinite(error) else np.inf
