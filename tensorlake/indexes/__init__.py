"""Indexes: what finds rows by their values, without reading a column.

An index is columns that a version has beside its tensors. A kind is pure functions over them.
"""

from tensorlake.indexes.condition import Condition, Operator
from tensorlake.indexes.kind import (
    Batches,
    Hits,
    IndexKind,
    RowRanges,
    Rows,
    known_options,
)
from tensorlake.indexes.lookup import rows_where
from tensorlake.indexes.opened import (
    LENGTHS,
    MADE,
    PREFIX,
    OpenIndex,
    covered_tensor,
    index_names,
    open_index,
    open_indexes,
    scan_where_damaged,
)
from tensorlake.indexes.parts import Built, GroupParts, MemoryParts, Part, PartsReader
from tensorlake.indexes.ranges import apart_from, within
from tensorlake.indexes.registry import KINDS, kind_for

__all__ = [
    "KINDS",
    "LENGTHS",
    "MADE",
    "PREFIX",
    "Batches",
    "Built",
    "Condition",
    "GroupParts",
    "Hits",
    "IndexKind",
    "MemoryParts",
    "OpenIndex",
    "Operator",
    "Part",
    "PartsReader",
    "RowRanges",
    "Rows",
    "apart_from",
    "covered_tensor",
    "index_names",
    "kind_for",
    "known_options",
    "open_index",
    "open_indexes",
    "rows_where",
    "scan_where_damaged",
    "within",
]
