"""Search of vectors: by an index where rows are covered, by a scan where not, scores always exact.

    covered rows ──index──▶ candidates ──▶ stored vectors ──▶ exact scores ─┐
    other rows   ────────────────────────▶ stored vectors ──▶ exact scores ─┴▶ the k best

A filter that few rows pass is answered by scanning just those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.ranking.scope import Scope, meet
from tensorlake.errors import InvalidInputError, ShapeMismatchError, shown
from tensorlake.indexes import (
    Effort,
    HotRows,
    Metric,
    OpenIndex,
    effort_for,
    float_rows,
    is_codable,
    is_finite,
    metric_of,
    nearest_candidates,
    open_indexes,
    scan_where_damaged,
    scores_of,
)
from tensorlake.reading import Reader
from tensorlake.types import SampleType, UniformColumn
from tensorlake.versions import distinct

__all__ = [
    "Nearest",
    "Ranking",
    "best_of",
    "candidates_of",
    "index_of",
    "is_scanned",
    "nearest",
    "nearest_positions",
    "parsed_vectors",
]

Int64Array = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

SCANNED_SHARE = 0.02  # of the rows: fewer that pass a filter are compared one by one (measured)
SCANNED_ROWS = 4096  # as many are compared in less time than an index takes
SCAN_NBYTES = 32 << 20  # of vectors read at once


@dataclass(frozen=True, slots=True)
class Nearest:
    """A request for the k nearest rows of each query.

    Attributes:
        column: Name of the column.
        queries: float32 (n, dim).
        k: Rows of each query.
        exact: Whether to compare all rows.
        recall: The recall that is asked for; None: the index's default.
    """

    column: str
    queries: Floats
    k: int
    exact: bool
    recall: float | None


@dataclass(slots=True)
class Ranking:
    """The physical rows found for each query, best first, and how."""

    rows: list[Int64Array]
    scores: list[Doubles]
    how: list[str] = field(default_factory=list[str])


def parsed_vectors(column: str, sample_type: SampleType, query: Any) -> tuple[Floats, bool]:
    """Check queries, one vector or several; return them, and whether there are several.

    Raises:
        InvalidInputError: They are not vectors of finite numbers; or for cosine of length 0.
        ShapeMismatchError: They have another length than the column's vectors.
    """
    (dim,) = sample_type.shape
    try:
        given = np.asarray(query)
    except ValueError as error:
        raise _no_vector(column, query) from error
    if given.dtype.kind not in "biuf" and given.dtype.name != "bfloat16":
        raise _no_vector(column, query)
    if given.ndim not in {1, 2} or given.shape[-1] != dim or not given.size:
        raise ShapeMismatchError(
            f"the vectors of {column!r} have {dim} numbers, the query has the shape {given.shape}"
            f"\ngive one vector ({dim},), or several (n, {dim}), of the same model",
            expected=(dim,),
            actual=given.shape,
        )
    vectors = float_rows(np.atleast_2d(given))
    metric = metric_of(sample_type)
    wrong = np.flatnonzero(~is_finite(vectors, metric))
    if len(wrong):
        which = f"query {wrong[0]}" if given.ndim > 1 else "the query"
        is_zero = bool(np.isfinite(vectors[wrong[0]]).all()) and not vectors[wrong[0]].any()
        what = "has length 0, so it has no direction" if is_zero else "has NaN or infinite numbers"
        raise InvalidInputError(
            f"{which} for {column!r} {what}\nleave it out", argument="query", column=column
        )
    return vectors, given.ndim > 1


def nearest(scope: Scope, wanted: Nearest) -> Ranking:
    """Find the nearest rows of each query."""
    reader = scope.rows.reader()
    sample_type = scope.snapshot.spec(wanted.column).type
    metric = metric_of(sample_type)
    is_scan = wanted.exact or is_scanned(scope) or not is_codable(wanted.queries, metric).all()
    if not is_scan:
        with scan_where_damaged(wanted.column, url=scope.rows.url):
            index = index_of(reader, wanted.column, metric)
            found = None if index is None else _indexed(scope, reader, wanted, index, metric)
            if found is not None:
                return found
    rows = scope.allowed_rows()
    return _scanned(scope, reader, wanted, metric, rows, f"compared all {len(rows):,} rows")


def nearest_positions(
    rows: RowSet,
    column: str,
    vector: npt.NDArray[Any],
    metric: Metric,
    count: int,
    positions: Int64Array | None,
) -> Int64Array | None:
    """Return positions among which the nearest likely are, ascending; None where no index helps.

    Args:
        rows: The rows.
        column: A column of vectors.
        vector: As long as these.
        metric: The measure of nearness.
        count: How many are wanted.
        positions: Those to find them among; None: all.
    """
    scope = Scope(rows, positions)
    queries = float_rows(vector[None])
    if is_scanned(scope) or not is_codable(queries, metric).all():
        return None
    with scan_where_damaged(column, url=rows.url):
        index = index_of(rows.reader(), column, metric)
        if index is None:
            return None
        (found,), others, _ = candidates_of(
            scope, Nearest(column, queries, count, exact=False, recall=None), index
        )
        if len(found) < count:
            return None
        return scope.positions_of(np.concatenate((found, others)))
    return None


def is_scanned(scope: Scope) -> bool:
    """Whether comparing all rows takes less time than an index."""
    few = max(SCANNED_ROWS, int(SCANNED_SHARE * scope.snapshot.state.physical))
    return scope.num_allowed <= few


def index_of(reader: Reader, column: str, metric: Metric) -> OpenIndex | None:
    """Return the index of a column's vectors by a metric that covers most; None without one."""
    found = [
        index
        for index in open_indexes(reader, column)
        if index.kind == "vector" and index.parts.parameters["metric"] == metric
    ]
    return max(found, key=lambda index: index.share, default=None)


def _indexed(
    scope: Scope, reader: Reader, wanted: Nearest, index: OpenIndex, metric: Metric
) -> Ranking | None:
    """Search by an index; None where it has fewer rows than asked for."""
    found, others, how = candidates_of(scope, wanted, index)
    vectors, of = _read(reader, wanted.column, found, index)
    rest = _scanned(scope, reader, wanted, metric, others, "") if len(others) else None
    ranking = Ranking([], [], [how])
    for at, query in enumerate(wanted.queries):
        rows = found[at]
        scores = scores_of(vectors if of is None else vectors[of[at]], query, metric)
        if rest is not None:
            rows = np.concatenate((rows, rest.rows[at]))
            scores = np.concatenate((scores, rest.scores[at]))
        rows, scores = best_of(rows, scores, wanted.k)
        if len(rows) < min(wanted.k, scope.num_allowed):
            return None  # the others may be vectors that no index has
        ranking.rows.append(rows)
        ranking.scores.append(scores)
    return ranking


def candidates_of(
    scope: Scope, wanted: Nearest, index: OpenIndex
) -> tuple[list[Int64Array], Int64Array, str]:
    """Ask an index; return its candidates of each query, the rows it does not cover, and how."""
    parameters = index.parts.parameters
    effort = effort_for(parameters, wanted.recall)
    covered = None if index.share == 1 else index.covers()
    allowed = meet(scope.allowed, covered)
    share = 1.0 if allowed is None else int(allowed.sum()) / max(len(allowed), 1)
    lists = int(parameters["lists"])
    probed = min(lists, int(np.ceil(effort.lists / max(share, 1 / lists))))
    effort = Effort(probed, effort.widening, effort.recall)
    found = nearest_candidates(index.parts, wanted.queries, wanted.k, effort, allowed)
    others = np.empty(0, np.int64)
    if covered is not None:
        others = np.flatnonzero(~covered if scope.allowed is None else scope.allowed & ~covered)
    how = (
        f"index {index.name!r}: {probed:,} of {lists:,} lists, measured recall {effort.recall:.3f};"
        f" {len(others):,} rows compared one by one"
    )
    return found, others, how


def _read(
    reader: Reader, column: str, found: list[Int64Array], index: OpenIndex
) -> tuple[npt.NDArray[Any], list[Int64Array] | None]:
    """Read the vectors of several lists of rows at once, and their places in what was read.

    The vectors of a single list are in its order, and there are no places.
    """
    if len(found) == 1 and reader.store.is_local:
        return _floats(_hot(reader, column, index).read(found[0])), None
    if len(found) == 1:
        return _vectors(reader.read(column, found[0])), None
    every = distinct(np.concatenate(found))
    return _vectors(reader.read(column, every)), [np.searchsorted(every, rows) for rows in found]


def _scanned(
    scope: Scope, reader: Reader, wanted: Nearest, metric: Metric, rows: Int64Array, how: str
) -> Ranking:
    """Compare rows one by one."""
    none, no_score = np.empty(0, np.int64), np.empty(0)
    best = [(none, no_score) for _ in wanted.queries]
    step = max(1, SCAN_NBYTES // (4 * wanted.queries.shape[1]))
    for start in range(0, len(rows), step):
        scope.check(start, len(rows))
        some = rows[start : start + step]
        if some[-1] - some[0] + 1 == len(some):
            column = reader.read_run(wanted.column, int(some[0]), int(some[-1]) + 1)
        else:
            column = reader.read(wanted.column, some)
        vectors = _vectors(column)
        for at, query in enumerate(wanted.queries):
            scores = scores_of(vectors, query, metric)
            if column.valid is not None:
                scores[~column.valid] = np.nan
            own = np.concatenate((best[at][0], some)), np.concatenate((best[at][1], scores))
            best[at] = best_of(*own, wanted.k)
    return Ranking([rows for rows, _ in best], [scores for _, scores in best], [how])


def _hot(reader: Reader, column: str, index: OpenIndex) -> HotRows:
    """Return the hot rows of a column, kept with its index for as long as no cell changes."""
    kept = index.parts.keep("hot vectors", dict[str, tuple[object, HotRows]])
    known = kept.get("newest")
    if known is None or known[0] is not index.root:
        known = kept["newest"] = index.root, HotRows(reader, column)
    return known[1]


def _vectors(column: object) -> npt.NDArray[Any]:
    assert isinstance(column, UniformColumn), "vectors have one length"
    return _floats(column.values)


def _floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values if values.dtype in {np.dtype("f4"), np.dtype("f8")} else float_rows(values)


def best_of(rows: Int64Array, scores: Doubles, k: int) -> tuple[Int64Array, Doubles]:
    """Return the k best, best first, equal ones by row; without those that have no score."""
    scored = ~np.isnan(scores)
    if not scored.all():
        rows, scores = rows[scored], scores[scored]
    if len(scores) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= least
        rows, scores = rows[kept], scores[kept]
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _no_vector(column: str, query: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{column!r} has vectors, and is searched by a vector or several, got {shown(query)}"
        "\ngive a list or an array of numbers: the output of the model that made the column",
        argument="query",
        actual=type(query).__name__,
    )
