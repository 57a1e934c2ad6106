"""SAMPLE BY: weights, and rows drawn by them.

MAX_WEIGHT and SUM_WEIGHT give a row the largest, or the sum, of the weights whose conditions it
meets. A weight must be above 0: a row that should never be drawn is kept out by WHERE, so that no
row is left out silently.
"""

import numpy as np
import numpy.typing as npt

from tensorlake_query.binding.binder import Binder
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, show
from tensorlake_query.values.conversions import as_number
from tensorlake_query.values.source import IntArray
from tensorlake_query.values.types import describe
from tensorlake_query.values.vectors import RowError, Vector, valid_of

FloatArray = npt.NDArray[np.float64]


def bind_weight(expr: ast.Expr, binder: Binder) -> Bound:
    """Bind the weight of SAMPLE BY: a number a row."""
    bound = binder.bind(expr)
    weight = as_number(bound)
    if weight is None or weight.type.shape:
        raise binder.type_error(
            f"SAMPLE BY needs a number a row, and {show(bound)} is {describe(bound.type)}",
            bound,
            "write SAMPLE BY MAX_WEIGHT(condition: 10, true: 1)",
        )
    return weight


def checked_weights(vector: Vector) -> FloatArray:
    """Return weights as float64.

    Raises:
        RowError: one is NULL, NaN, infinite, zero or negative.
    """
    weights = vector.values.astype(np.float64)
    wrong = ~(np.isfinite(weights) & (weights > 0)) | ~valid_of(vector)
    if wrong.any():
        position = int(np.flatnonzero(wrong)[0])
        value = weights[position] if valid_of(vector)[position] else None
        shown = "NULL" if value is None else f"{value:g}"
        raise RowError(
            f"the weight {shown} is not above 0: keep such rows out by WHERE,"
            " or give them one: MAX_WEIGHT(…, true: 1)",
            position,
        )
    return weights


def drawn(weights: FloatArray, count: int, seed: int, *, replace: bool) -> IntArray:
    """Return `count` positions drawn by weight, in the order drawn; each once unless replaced."""
    generator = np.random.Generator(np.random.Philox(seed))
    if not len(weights):
        return np.zeros(0, np.int64)
    if replace:
        edges = np.cumsum(weights)
        points = generator.random(count) * edges[-1]
        chosen = np.searchsorted(edges, points, "right")
        return np.minimum(chosen, len(weights) - 1).astype(np.int64)
    # exponential clocks: the order in which they ring is an order drawn by weight
    clocks = generator.exponential(size=len(weights)) / weights
    return np.argsort(clocks, kind="stable")[:count].astype(np.int64)
