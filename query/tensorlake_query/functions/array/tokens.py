"""Vectors of tokens: MAXSIM, the late interaction of multi-vector retrieval.

For each token of the query the most similar token of the document is found by inner product, and
those products are added up: (k, d) and (m, d) give one number.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlake_query.functions.array.geometry import picked
from tensorlake_query.functions.array.reductions import runs_along
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import adapted, required_number
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.memory import charge
from tensorlake_query.values.source import RaggedBatch, UniformBatch
from tensorlake_query.values.types import describe, number
from tensorlake_query.values.vectors import Vector, all_valid, as_ragged, counts_of, starts_of

MATRIX = 2
ANSWER_NBYTES = 48  # of two tokens: their product, and its place


def _bind_maxsim(site: Site) -> Bound:
    args: list[Bound] = []
    for arg in site.args:
        known = required_number(site, arg)
        if len(known.type.shape) != MATRIX:
            shown = f"{show(arg)} is {describe(arg.type)}"
            raise site.fail(f"MAXSIM compares arrays (tokens, width), and {shown}", at=arg)
        args.append(known)
    widths = {arg.type.shape[-1] for arg in args}
    if len(widths) != 1 or None in widths:
        shown = " and ".join(f"{show(arg)} {arg.type.shape}" for arg in args)
        raise site.fail(f"tokens of different widths: {shown}")
    width = int(widths.pop() or 0)
    args = adapted(args)
    left_nbytes = max(np.dtype(arg.type.dtype).itemsize for arg in args)
    dtype = np.result_type(np.float32, *(arg.type.dtype or "float64" for arg in args))

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        first, second = vectors
        if isinstance(second, UniformBatch) and not second.values.strides[0] and num_rows:
            return _of_one_query(as_ragged(first), second, dtype)
        document, query = (as_ragged(vector) for vector in vectors)
        pairs = np.stack([document.shapes[:, 0], query.shapes[:, 0]], axis=1)
        pair_nbytes = 2 * width * (left_nbytes + dtype.itemsize) + ANSWER_NBYTES
        charge(int(counts_of(pairs).sum()) * pair_nbytes)
        left = document.values.reshape(-1, width)[picked(document, pairs, 0)]
        right = query.values.reshape(-1, width)[picked(query, pairs, 1)]
        products = np.einsum("ni,ni->n", left.astype(dtype), right.astype(dtype))
        values, runs, kept = runs_along(RaggedBatch(products, pairs), 0)
        best = np.zeros(len(runs), dtype)
        filled = runs > 0
        if filled.any():
            best[filled] = np.maximum.reduceat(values, starts_of(runs)[filled])
        row = np.repeat(np.arange(num_rows), kept[:, 0])
        known = np.asarray((pairs > 0).all(axis=1))
        valid = all_valid(vectors)
        sums = np.bincount(row, best, num_rows).astype(dtype)
        return UniformBatch(sums, known if valid is None else known & valid)

    column_type = number(dtype, nullable=True)
    return site.apply(kernel, column_type, args=args, cost=64.0 * max(width, 1))


def _of_one_query(document: RaggedBatch, query: UniformBatch, dtype: np.dtype[Any]) -> Vector:
    """Compare each row with the same tokens, one of these at a time."""
    counts, tokens = document.shapes[:, 0], query.values[0].astype(dtype)
    values = document.values.reshape(-1, tokens.shape[1])
    charge(values.size * dtype.itemsize + len(values) * ANSWER_NBYTES)
    values = values.astype(dtype, copy=False)
    sums, filled = np.zeros(len(counts), dtype), counts > 0
    starts = starts_of(counts)[filled]
    for token in tokens if filled.any() else ():
        sums[filled] += np.maximum.reduceat(np.einsum("ni,i->n", values, token), starts)
    known = filled & bool(len(tokens))
    valid = all_valid((document, query))
    return UniformBatch(sums, known if valid is None else known & valid)


FUNCTIONS = (
    Function(
        "MAXSIM",
        "MAXSIM(document, query)",
        "Sum, over the query's tokens, of the largest product with a token of the document.",
        (2, 2),
        _bind_maxsim,
    ),
)
