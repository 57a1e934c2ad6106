"""Codes of vectors: one bit a dimension beside two factors, and int8 for a closer look.

RaBitQ (Gao and Long, SIGMOD 2024): a point's residual r from its centroid c, rotated at random, is
kept as the signs of its numbers. For any direction q, with S(v) the sum of v's numbers, each with
the sign kept for its dimension,

    ⟨r, q⟩ ≈ f · S(q)      f = |r|² ÷ Σ|r_i|      without bias, since the rotation is random

S is linear, so the part of S(q − c) that belongs to the centroid is computed when the code is made:
one rotated query serves all lists. A point is ranked by

    score = score of its centroid + g + f · S(q)
            inner product: ⟨c, q⟩               g = ⟨r, c⟩ − f · S(c)
            distance:      ⟨c, q⟩ − |c|² ÷ 2    g = −|r|² ÷ 2 − f · S(c)

The second is half of the negated squared distance, without |q|² ÷ 2, which all points share. The
query has 4 bits a number, in two's complement: the planes of bit j weigh 1, 2, 4, −8. S(q) is then
a sum of ``bitwise_count(code & plane)``.

    words      uint64 (words a code, vectors)    bits of dimension 64 w + b: bit b of word w
    factors    float16 (3, vectors)              f, g, and the step of the int8 numbers
    numbers    int8 (vectors, dim)               the residual before rotation, in those steps
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.indexes.vector.space import Metric, rotation

__all__ = ["Codes", "Question", "encode", "estimates", "refined"]

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint64]

PLANES = (1, 2, 4, -8)
SHIFTS = np.arange(len(PLANES), dtype=np.uint8)[:, None]
LEVELS = np.float32(7.5)  # half of the range of a number of 4 bits
STEPS = np.float32(127)
WORDS_IN_UINT8 = 3  # 192 ones
WORDS_IN_INT16 = 48  # 15 times 3,072 ones, with a sign
FINITE = np.float32(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Coded points: words, factors and numbers as in the module's drawing."""

    words: Words
    factors: npt.NDArray[np.float16]
    numbers: npt.NDArray[np.int8]


def encode(points: Floats, centroids: Floats, metric: Metric, seed: int) -> Codes:
    """Code points, float32 (n, dim), each as a residual of the centroid in the same row."""
    residuals = points - centroids
    rotated = rotation(points.shape[1], seed)
    turned = residuals @ rotated
    squares = np.einsum("ni,ni->n", residuals, residuals)
    sums = np.abs(turned).sum(axis=1)
    factor = np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)
    bits = turned > 0
    signed = np.where(bits, np.float32(1), np.float32(-1))
    folded = factor * np.einsum("ni,ni->n", signed, centroids @ rotated)
    if metric == "dot":
        added = np.einsum("ni,ni->n", residuals, centroids) - folded
    else:
        added = -squares / 2 - folded
    steps = np.abs(residuals).max(axis=1, initial=0) / STEPS
    factors = np.clip(np.stack((factor, added, steps)), -FINITE, FINITE).astype(np.float16)
    kept = factors[2].astype(np.float32)[:, None]  # as decoded, so that no number overflows
    scaled = np.divide(residuals, kept, out=np.zeros_like(residuals), where=kept > 0)
    numbers = np.clip(np.rint(scaled), -STEPS, STEPS).astype(np.int8)
    packed = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return Codes(np.ascontiguousarray(packed.T), factors, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A query as codes are compared with it.

    Attributes:
        direction: float32 (dim,): a point, or for inner products a vector of length 1.
        planes: uint64 (4, words a code).
        step: Value of one unit of the planes.
        total: Sum of the rotated query's numbers.
    """

    direction: Floats
    planes: Words
    step: float
    total: float

    @classmethod
    def of(cls, direction: Floats, seed: int) -> Question:
        """Rotate a query, float32 (dim,), and cut it into planes of bits."""
        turned = np.einsum("i,ij->j", direction, rotation(len(direction), seed))
        step = float(np.abs(turned).max()) / float(LEVELS) or 1.0
        units = np.clip(np.rint(turned / np.float32(step)), -8, 7).astype(np.int8).view(np.uint8)
        bits = (units >> SHIFTS) & 1
        planes = np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return cls(direction, planes, step, float(turned.sum()))


def estimates(words: Words, factors: Floats, base: Floats, question: Question) -> Floats:
    """Estimate scores of coded points, float32 (n,).

    Args:
        words: uint64 (words a code, n).
        factors: float32 (2 or 3, n).
        base: The score of each point's centroid, float32 (n,).
        question: The query.
    """
    counts = np.int16 if len(words) <= WORDS_IN_INT16 else np.int32
    counted = np.zeros(words.shape[1], counts)
    for weight, plane in zip(PLANES, question.planes, strict=True):
        ones = np.bitwise_count(words[0] & plane[0])
        wide = ones if len(words) <= WORDS_IN_UINT8 else ones.astype(counts)
        for word, bits in zip(words[1:], plane[1:], strict=True):
            wide += np.bitwise_count(word & bits)
        counted += wide.astype(counts, copy=False) * counts(weight)
    signed = counted.astype(np.float32)
    signed *= np.float32(2 * question.step)
    signed -= np.float32(question.total)
    signed *= factors[0]
    signed += factors[1]
    signed += base
    return signed


def refined(
    numbers: npt.NDArray[np.int8],
    steps: Floats,
    base: Floats,
    towards: Floats,
    metric: Metric,
) -> Floats:
    """Score points by their int8 numbers, float32 (n,).

    With r = steps · numbers and c the centroid, the inner product is ⟨c, q⟩ + ⟨r, q⟩, and the
    score by distance ⟨c, q⟩ − |c|² ÷ 2 + ⟨r, q − c⟩ − |r|² ÷ 2.

    Args:
        numbers: int8 (n, dim).
        steps: float32 (n,).
        base: The score of each point's centroid, float32 (n,).
        towards: The query; by distance less the centroid of each point: float32 (dim,) or (n, dim).
        metric: As for the codes.
    """
    residuals = numbers.astype(np.float32)
    scores = np.vecdot(residuals, towards)
    if metric != "dot":
        scores -= np.vecdot(residuals, residuals) * (steps / 2)
    scores *= steps
    scores += base
    return scores
