"""ORDER BY APPROX: the rows that a source's index finds near a vector, in place of all rows.

The source gives more rows than are asked for, and their order is computed exactly. Where it has no
index of the column, or finds too few, the order is that of all rows.
"""

import numpy as np

from tensorlake_query.planning.plan import Plan, Scan, TopK
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant
from tensorlake_query.values.order import SortKey
from tensorlake_query.values.source import ColumnSource, IntArray, Metric, NearestSource

APPROX_ORDERS = (
    "it takes COSINE_SIMILARITY(column, $vector) DESC, DOT(column, $vector) DESC, or"
    " L2_NORM(column - $vector); leave APPROX out for an exact order"
)
METRICS: dict[str, Metric] = {"COSINE_SIMILARITY": "cosine", "DOT": "dot", "L2_NORM": "l2"}


def nearest_rows(plan: TopK, source: ColumnSource, rows: IntArray | None) -> IntArray | None:
    """Return rows of the source among which the first of an approximate order likely are.

    Args:
        plan: The order, which is approximate.
        source: The source of its rows.
        rows: The rows that it orders; None: all rows of the source.
    """
    found = vector_key(plan.keys[0])
    if found is None or not isinstance(source, NearestSource):
        return None
    column, vector, metric = found
    return source.nearest(column, vector, metric, plan.count, rows)


def orders_all_rows(plan: Plan) -> bool:
    """Whether a step gives all rows of its source, in order."""
    return isinstance(plan, Scan) and not plan.prunable


def vector_key(key: SortKey) -> tuple[str, np.ndarray, Metric] | None:
    """Return the column, the vector and the metric that a key orders by; None where it does not."""
    expr = key.expr
    name = getattr(expr.syntax, "name", "") if isinstance(expr, Apply) else ""
    metric = METRICS.get(name)
    if metric is None or not isinstance(expr, Apply) or key.descending == (metric == "l2"):
        return None
    args: tuple[Bound, ...] = expr.args
    if metric == "l2":
        (inner,) = args
        if not isinstance(inner, Apply) or getattr(inner.syntax, "op", "") != "-":
            return None
        args = inner.args
    columns = [arg for arg in map(_bare, args) if isinstance(arg, ColumnRef)]
    values = [arg.value for arg in map(_bare, args) if isinstance(arg, Constant)]
    if len(columns) != 1 or len(values) != 1 or len(columns[0].type.shape) != 1:
        return None
    vector = np.asarray(values[0])
    return (columns[0].name, vector, metric) if vector.ndim == 1 else None


def _bare(expr: Bound) -> Bound:
    """Return an expression without conversions that the binder added."""
    while isinstance(expr, Apply) and expr.syntax is None:
        expr = expr.args[0]
    return expr
