"""Vector indexes: k-means lists of one-bit codes (IVF with RaBitQ), and their search."""

from tensorlake.indexes.vector.kind import VECTOR, metric_of
from tensorlake.indexes.vector.search import Effort, effort_for, nearest_candidates
from tensorlake.indexes.vector.space import Metric, float_rows, is_codable, is_finite, scores_of
from tensorlake.indexes.vector.tokens import (
    first_by_max_sim,
    has_several_vectors,
    max_sim,
    vector_type,
    vectors_of,
)

__all__ = [
    "VECTOR",
    "Effort",
    "Metric",
    "effort_for",
    "first_by_max_sim",
    "float_rows",
    "has_several_vectors",
    "is_codable",
    "is_finite",
    "max_sim",
    "metric_of",
    "nearest_candidates",
    "scores_of",
    "vector_type",
    "vectors_of",
]
