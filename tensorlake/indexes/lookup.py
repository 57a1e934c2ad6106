"""Answers to conditions of WHERE, by the index of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorlake.indexes import bitmap, btree, text, vector
from tensorlake.indexes.condition import Condition
from tensorlake.indexes.opened import OpenIndex
from tensorlake.indexes.parts import PartsReader
from tensorlake.indexes.ranges import within
from tensorlake.types import SampleType

__all__ = ["CONDITIONAL", "OPERATORS", "rows_where"]

Int64Array = npt.NDArray[np.int64]
Answer = Callable[[PartsReader, SampleType, Sequence[Condition], int], Int64Array | None]

CONDITIONAL: Mapping[str, Answer] = {
    bitmap.BITMAP.name: bitmap.rows_where,
    btree.BTREE.name: btree.rows_where,
    text.TEXT.name: text.rows_where,
}
"""The kinds that answer conditions."""

OPERATORS: Mapping[str, frozenset[str]] = {
    bitmap.BITMAP.name: frozenset({"=", "<", "<=", ">", ">=", "in", "any", "match", "other"}),
    btree.BTREE.name: frozenset({"=", "<", "<=", ">", ">=", "in"}),
    text.TEXT.name: frozenset({"match", "best"}),
    vector.VECTOR.name: frozenset({"nearest"}),
}
"""Operators of conditions, and orders, that each kind answers, as the query engine has them."""


def rows_where(index: OpenIndex, conditions: Sequence[Condition], most: int) -> Int64Array | None:
    """Find the covered physical rows that meet conditions, ascending.

    Args:
        index: An index of the column.
        conditions: Conditions that all of them meet.
        most: Rows beyond which a scan is cheaper.

    Returns:
        The rows; None where the index cannot tell, or they are more than ``most``.

    Raises:
        CorruptionError: A part of it is damaged.
    """
    answer = CONDITIONAL.get(index.kind)
    if answer is None:
        return None
    rows = answer(index.parts, index.spec.type, conditions, most)
    if rows is None or (len(index.covered) == 1 and index.share == 1):
        return rows
    return rows[within(index.covered, rows)]
