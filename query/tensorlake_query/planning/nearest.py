"""Orders that an index helps: rows that it finds to be among the first, in place of all rows.

    ORDER BY APPROX COSINE_SIMILARITY(vec, $v) DESC LIMIT k    most of the nearest vectors
    ORDER BY BM25_SIMILARITY(text, 'words') DESC LIMIT k       all of the best texts

The source gives more rows than are asked for, and their order is computed exactly. Where it has no
index of the column, or finds too few, the order is that of all rows.
"""

from collections.abc import Iterator

import numpy as np

from tensorlake_query.planning.plan import Plan, Scan, TopK, chain
from tensorlake_query.values.bound import Apply, Bound, ColumnRef, Constant, CorpusRef
from tensorlake_query.values.order import SortKey
from tensorlake_query.values.source import (
    ColumnSource,
    IndexedSource,
    IndexOrder,
    IntArray,
    Metric,
    NearestSource,
    WordsSource,
    offers,
)

APPROX_ORDERS = (
    "it takes COSINE_SIMILARITY(column, $vector) DESC, DOT(column, $vector) DESC, or"
    " L2_NORM(column - $vector); leave APPROX out for an exact order"
)
METRICS: dict[str, Metric] = {"COSINE_SIMILARITY": "cosine", "DOT": "dot", "L2_NORM": "l2"}


def uses_index(plan: TopK, source: ColumnSource) -> bool:
    """Return whether an index of a source may find the first rows of an order."""
    key = plan.keys[0]
    if key.is_approximate:
        return offers(source, NearestSource)
    return words_key(key) is not None and offers(source, WordsSource)


def first_rows(plan: TopK, source: ColumnSource, rows: IntArray | None) -> IntArray | None:
    """Return rows of the source among which the first of an order are, by an index.

    Args:
        plan: The order.
        source: The source of its rows.
        rows: The rows that it orders; None: all rows of the source.
    """
    key = plan.keys[0]
    if key.is_approximate:
        found = vector_key(key)
        if found is None or not offers(source, NearestSource):
            return None
        column, vector, metric = found
        return source.nearest(column, vector, metric, plan.count, rows)
    words = words_key(key)
    if words is None or not offers(source, WordsSource):
        return None
    return source.best_texts(*words, plan.count, rows)


def order_indexes(plan: Plan, source: ColumnSource) -> Iterator[str]:
    """Yield a line for each order of a plan that indexes of the source may help."""
    if not offers(source, IndexedSource):
        return
    for step in chain(plan):
        if not isinstance(step, TopK) or not uses_index(step, source):
            continue
        key = step.keys[0]
        found = vector_key(key) if key.is_approximate else words_key(key)
        assert found is not None, "asked above"
        op: IndexOrder = "nearest" if key.is_approximate else "best"
        names = [index.name for index in source.indexes(found[0]) if index.answers(op)]
        if names:
            yield f"orders rows that are found by index {' or '.join(names)}"


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


def words_key(key: SortKey) -> tuple[str, tuple[str, ...]] | None:
    """Return the column and the words that a key ranks texts by; None where it does not."""
    expr = key.expr
    if not isinstance(expr, Apply) or expr.role != "bm25" or not key.descending or key.nulls_first:
        return None
    column, corpus = expr.args[0], expr.args[-1]
    if not isinstance(column, ColumnRef) or not isinstance(corpus, CorpusRef):
        return None
    return column.name, corpus.words


def _bare(expr: Bound) -> Bound:
    """Return an expression without conversions that the binder added."""
    while isinstance(expr, Apply) and expr.syntax is None:
        expr = expr.args[0]
    return expr
