"""Search of rows that have several vectors each, by MaxSim: scores are always exact.

vectors of the query ──index──▶ rows of the nearest vectors ──▶ stored vectors ──▶ MaxSim ─┐
rows not covered     ─────────────────────────────────────────▶ stored vectors ──▶ MaxSim ─┴▶ k
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.ranking.scope import Scope
from tensorlake.dataset.ranking.vectors import (
    Nearest,
    Ranking,
    best_of,
    candidates_of,
    index_of,
    is_scanned,
    parsed_vectors,
)
from tensorlake.errors import InvalidInputError, ShapeMismatchError
from tensorlake.indexes import (
    Metric,
    OpenIndex,
    first_by_max_sim,
    metric_of,
    scan_where_damaged,
    vector_type,
    vectors_of,
)
from tensorlake.reading import Reader
from tensorlake.types import SampleType
from tensorlake.versions import distinct

__all__ = ["NearestTokens", "nearest_tokens", "parsed_tokens"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

VECTORS_MAX = 1024  # of a query
CANDIDATES_MIN, CANDIDATES_PER_RESULT = 100, 10  # nearest vectors of each of a query's
SCANNED_AT_ONCE = 1 << 12  # rows


@dataclass(frozen=True, slots=True)
class NearestTokens:
    """A request for the k rows that are first by MaxSim.

    Attributes:
        column: Name of the column.
        queries: The vectors of each query, float32 (m, dim).
        k: Rows of each query.
        exact: Whether to compare all rows.
        recall: The recall of single vectors that is asked for; None: the index's default.
    """

    column: str
    queries: list[Floats]
    k: int
    exact: bool
    recall: float | None


def parsed_tokens(column: str, sample_type: SampleType, query: Any) -> tuple[list[Floats], bool]:
    """Check queries: one (m, dim), or several, each (m, dim); return also if there are several.

    Raises:
        InvalidInputError: They are not vectors of finite numbers; or for cosine of length 0.
        ShapeMismatchError: They have another length than the column's vectors.
    """
    item = vector_type(sample_type)
    (dim,) = item.shape[-1:]
    is_several = np.ndim(query[0]) > 1 if isinstance(query, list | tuple) and query else False
    is_several = is_several or (
        isinstance(query, np.ndarray) and query.ndim > len(("vectors", "numbers"))
    )
    made: list[Floats] = []
    for each in query if is_several else [query]:
        vectors, _ = parsed_vectors(column, item, each)
        if len(vectors) > VECTORS_MAX:
            raise InvalidInputError(
                f"a query of {column!r} has up to {VECTORS_MAX:,} vectors, got {len(vectors):,}"
                "\ngive fewer, such as those of the words of a question",
                argument="query",
            )
        made.append(vectors)
    if not made:
        raise ShapeMismatchError(
            f"there is no query for {column!r}\ngive its vectors, (m, {dim}), or a list of such",
            expected=(None, dim),
            actual=(0,),
        )
    return made, is_several


def nearest_tokens(scope: Scope, wanted: NearestTokens) -> Ranking:
    """Find the first rows of each query by MaxSim."""
    reader = scope.rows.reader()
    metric = metric_of(scope.snapshot.spec(wanted.column).type)
    if not wanted.exact and not is_scanned(scope):
        with scan_where_damaged(wanted.column, url=scope.rows.url):
            index = index_of(reader, wanted.column, metric)
            found = None if index is None else _indexed(scope, reader, wanted, index, metric)
            if found is not None:
                return found
    rows = scope.allowed_rows()
    ranking = Ranking([], [], [f"compared all {len(rows):,} rows"])
    for query in wanted.queries:
        best, scores = _first(scope, reader, wanted, metric, rows, query)
        ranking.rows.append(best)
        ranking.scores.append(scores)
    return ranking


def _indexed(
    scope: Scope, reader: Reader, wanted: NearestTokens, index: OpenIndex, metric: Metric
) -> Ranking | None:
    """Rank the rows of the nearest vectors; None where these are of fewer rows than asked for."""
    ranking = Ranking([], [])
    near = max(CANDIDATES_MIN, CANDIDATES_PER_RESULT * wanted.k)
    for query in wanted.queries:
        asked = Nearest(wanted.column, query, near, exact=False, recall=wanted.recall)
        found, others, how = candidates_of(scope, asked, index)
        rows = distinct(np.concatenate([*found, others]))
        best, scores = _first(scope, reader, wanted, metric, rows, query)
        if len(best) < min(wanted.k, scope.num_allowed):
            return None
        ranking.rows.append(best)
        ranking.scores.append(scores)
        ranking.how = [f"{how}; MaxSim of {len(rows):,} rows"]
    return ranking


def _first(
    scope: Scope,
    reader: Reader,
    wanted: NearestTokens,
    metric: Metric,
    rows: Int64Array,
    query: Floats,
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """Return the first of some rows by MaxSim, and their scores."""
    best: tuple[Int64Array, npt.NDArray[np.float64]] = np.empty(0, np.int64), np.empty(0)
    sample_type = scope.snapshot.spec(wanted.column).type
    for start in range(0, len(rows), SCANNED_AT_ONCE):
        scope.check(start, len(rows))
        some = rows[start : start + SCANNED_AT_ONCE]
        column = reader.read(wanted.column, some)
        vectors, counts = vectors_of(sample_type, column)
        if column.valid is not None:
            vectors = vectors[np.repeat(column.valid, counts)]
            counts = np.where(column.valid, counts, 0)
        places, scores = first_by_max_sim(vectors, counts, query, metric, wanted.k)
        both = np.concatenate((best[0], some[places])), np.concatenate((best[1], scores))
        best = best_of(*both, wanted.k)
    return best
