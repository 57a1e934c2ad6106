"""Text indexes: postings of terms, and their search by BM25."""

from tensorlake.indexes.text.analysis import Analysis, Clause
from tensorlake.indexes.text.kind import TEXT
from tensorlake.indexes.text.postings import collected, texts_of
from tensorlake.indexes.text.search import (
    Segment,
    best_texts,
    rows_where,
    search_texts,
    statistics,
)

__all__ = [
    "TEXT",
    "Analysis",
    "Clause",
    "Segment",
    "best_texts",
    "collected",
    "rows_where",
    "search_texts",
    "statistics",
    "texts_of",
]
