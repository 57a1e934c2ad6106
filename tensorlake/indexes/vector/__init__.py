"""Vector indexes: k-means lists of one-bit codes (IVF with RaBitQ), and their search."""

from tensorlake.indexes.vector.kind import VECTOR, metric_of
from tensorlake.indexes.vector.search import Effort, effort_for, nearest_candidates
from tensorlake.indexes.vector.space import Metric, float_rows, is_finite, scores_of

__all__ = [
    "VECTOR",
    "Effort",
    "Metric",
    "effort_for",
    "float_rows",
    "is_finite",
    "metric_of",
    "nearest_candidates",
    "scores_of",
]
