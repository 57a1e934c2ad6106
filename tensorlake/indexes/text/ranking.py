"""BM25 (Robertson and Zaragoza, 2009): the impact of a term on a text's score, and bounds of it.

    score = Σ idf(term) · impact        idf = ln(1 + (N − n + ½) ÷ (n + ½))      as Lucene has it
    impact = f (k1 + 1) ÷ (f + k1 (1 − b + b · length ÷ mean length))            in 0 … k1 + 1

A bound is kept for every 128 postings of a term, rounded up to 1 ÷ 255 of the largest impact. It is
of the mean length when the index was made; of a mean that is r times as large, no impact is more
than r times as large.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "K1", "B", "block_maxima", "bounds_of", "idf", "impacts"]

Int64Array = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

K1, B = 1.2, 0.75
BLOCK = 128
LEVELS = 255


def idf(documents: int, having: int) -> float:
    """Return the weight of a term that ``having`` of all documents have."""
    return float(np.log1p((documents - having + 0.5) / (having + 0.5)))


def impacts(frequencies: npt.NDArray[Any], lengths: npt.NDArray[Any], mean: float) -> Doubles:
    """Return the impact of a term that texts of some lengths have so often."""
    norms = K1 * (1 - B + B * lengths / max(mean, 1e-9))
    return frequencies * (K1 + 1) / (frequencies + norms)


def block_maxima(
    starts: Int64Array, frequencies: Int64Array, lengths: Int64Array, mean: float
) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    """Return the bounds of all terms' blocks, one after another, and how many each term has."""
    counts = np.diff(starts)
    blocks = -(-counts // BLOCK)
    if not len(frequencies):
        return np.empty(0, np.uint8), blocks
    before = np.concatenate(([0], np.cumsum(blocks)[:-1]))
    owners = np.repeat(np.arange(len(counts)), blocks)
    first = starts[owners] + BLOCK * (np.arange(len(owners)) - before[owners])
    largest = np.maximum.reduceat(impacts(frequencies, lengths, mean), first)
    return np.ceil(largest / (K1 + 1) * LEVELS).astype(np.uint8), blocks


def bounds_of(maxima: npt.NDArray[np.uint8], built_mean: float, mean: float) -> Doubles:
    """Return bounds of impacts under another mean length."""
    drift = max(1.0, mean / built_mean) if built_mean > 0 else math.inf
    return np.minimum(maxima / LEVELS * (K1 + 1) * drift, K1 + 1)
