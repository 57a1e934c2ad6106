"""Indexes: what finds rows by their values, without reading a column.

An index is columns that a version has beside its tensors. A kind is pure functions over them.
"""

from tensorlake.indexes.condition import Condition, Operator
from tensorlake.indexes.hot import HotRows
from tensorlake.indexes.kind import (
    Batches,
    Hits,
    IndexKind,
    RowRanges,
    Rows,
    known_options,
)
from tensorlake.indexes.lookup import OPERATORS, rows_where
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
from tensorlake.indexes.text import (
    Analysis,
    Clause,
    Segment,
    best_texts,
    collected,
    search_texts,
    statistics,
    texts_of,
)
from tensorlake.indexes.vector import (
    Effort,
    Metric,
    effort_for,
    first_by_max_sim,
    float_rows,
    has_several_vectors,
    is_codable,
    is_finite,
    max_sim,
    metric_of,
    nearest_candidates,
    scores_of,
    vector_type,
    vectors_of,
)

__all__ = [
    "KINDS",
    "LENGTHS",
    "MADE",
    "OPERATORS",
    "PREFIX",
    "Analysis",
    "Batches",
    "Built",
    "Clause",
    "Condition",
    "Effort",
    "GroupParts",
    "Hits",
    "HotRows",
    "IndexKind",
    "MemoryParts",
    "Metric",
    "OpenIndex",
    "Operator",
    "Part",
    "PartsReader",
    "RowRanges",
    "Rows",
    "Segment",
    "apart_from",
    "best_texts",
    "collected",
    "covered_tensor",
    "effort_for",
    "first_by_max_sim",
    "float_rows",
    "has_several_vectors",
    "index_names",
    "is_codable",
    "is_finite",
    "kind_for",
    "known_options",
    "max_sim",
    "metric_of",
    "nearest_candidates",
    "open_index",
    "open_indexes",
    "rows_where",
    "scan_where_damaged",
    "scores_of",
    "search_texts",
    "statistics",
    "texts_of",
    "vector_type",
    "vectors_of",
    "within",
]
