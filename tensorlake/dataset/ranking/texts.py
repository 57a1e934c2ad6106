"""Search of texts: BM25 over an index of the rows it covers, and one made of the others.

Both are searched as one corpus, so that neither coverage nor a filter changes a score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.ranking.scope import Scope, meet
from tensorlake.dataset.ranking.vectors import Ranking
from tensorlake.errors import InvalidInputError, shown
from tensorlake.indexes import (
    Analysis,
    Clause,
    MemoryParts,
    OpenIndex,
    PartsReader,
    Segment,
    best_texts,
    collected,
    open_indexes,
    scan_where_damaged,
    search_texts,
    statistics,
    texts_of,
)
from tensorlake.reading import Reader
from tensorlake.versions import distinct

__all__ = ["BestMatches", "best_matches", "best_positions", "parsed_texts", "words_known"]

Int64Array = npt.NDArray[np.int64]

SCAN_ROWS = 1 << 14  # texts read at once
NULLS_SKIPPED = 1 << 12  # rows looked through for texts without the words


@dataclass(frozen=True, slots=True)
class BestMatches:
    """A request for the k best matches of each question.

    Attributes:
        column: Name of the column.
        questions: Words, prefixes and phrases.
        k: Rows of each question.
        exact: Whether to read all rows.
    """

    column: str
    questions: tuple[str, ...]
    k: int
    exact: bool


def parsed_texts(column: str, query: Any) -> tuple[tuple[str, ...], bool]:
    """Check questions, one text or several; return them, and whether there are several.

    Raises:
        InvalidInputError: They are not texts.
    """
    if isinstance(query, str):
        return (query,), False
    several: list[Any] = list(query) if isinstance(query, list | tuple) else []
    if several and all(isinstance(one, str) for one in several):
        return tuple(several), True
    raise InvalidInputError(
        f"{column!r} has texts, and is searched by words, got {shown(query)}"
        f"\nds.search({column!r}, 'red car'), or a list of several questions",
        argument="query",
        actual=type(query).__name__,
    )


def best_matches(scope: Scope, wanted: BestMatches) -> Ranking:
    """Find the best matches of each question; a phrase reads all texts, without positions."""
    reader = scope.rows.reader()
    index: OpenIndex | None = None
    with scan_where_damaged(wanted.column, url=scope.rows.url):
        index = _index_of(reader, wanted.column)
        if index is not None and not wanted.exact:
            analysis = Analysis.of(index.parts.parameters)
            clauses = [analysis.clauses(question) for question in wanted.questions]
            if index.parts.parameters["positions"] or not _have_phrase(clauses):
                return _searched(scope, wanted, index, analysis)
    analysis = Analysis() if index is None else Analysis.of(index.parts.parameters)
    return _searched(scope, wanted, None, analysis)


def words_known(
    rows: RowSet, column: str, words: Sequence[str]
) -> tuple[int, int, list[int]] | None:
    """Return the number of texts, of their words, and of texts with each of some words.

    None where no index helps: BM25_SIMILARITY then reads all texts.
    """
    scope, clauses = Scope(rows), [Clause((word,)) for word in words]
    with scan_where_damaged(column, url=rows.url):
        segments = _plain_segments(scope, column, clauses)
        return None if segments is None else statistics(segments, clauses)
    return None


def best_positions(
    rows: RowSet, column: str, words: Sequence[str], count: int, positions: Int64Array | None
) -> Int64Array | None:
    """Return positions among which the first by BM25 are, ascending; None where no index helps.

    Args:
        rows: The rows, whose texts decide what a word is worth.
        column: A column of texts.
        words: Different words.
        count: How many are wanted; all that equal the last of them are among those returned.
        positions: Those to find them among, ascending; None: all.
    """
    scope, clauses = Scope(rows, positions), [Clause((word,)) for word in words]
    with scan_where_damaged(column, url=rows.url):
        segments = _plain_segments(scope, column, clauses)
        if segments is None:
            return None
        found = scope.positions_of(best_texts(segments, clauses, count))
        if len(found) >= count:
            return found
        return _with_others(scope, column, found, count)
    return None


def _with_others(scope: Scope, column: str, found: Int64Array, count: int) -> Int64Array | None:
    """Add the first texts that have none of the words: their score is 0, before that of NULL."""
    total = len(scope.rows) if scope.positions is None else len(scope.positions)
    some = np.arange(min(total, NULLS_SKIPPED + 2 * count))
    if scope.positions is not None:
        some = scope.positions[some]
    physical = scope.rows.selection.physical(some)
    known = some[~scope.rows.reader().is_null(column, physical)]
    both = np.union1d(found, known)
    return both if len(both) >= count else None


def _plain_segments(scope: Scope, column: str, clauses: Sequence[Clause]) -> list[Segment] | None:
    """Return what to search for words as TQL has them; None without an index of such."""
    own = scope.rows.selection.rows
    if own is not None and len(distinct(own)) < len(own):
        return None  # texts that are there twice count twice
    index = _index_of(scope.rows.reader(), column, is_plain=True)
    return None if index is None else _segments(scope, column, index, Analysis(), [clauses])[0]


def _index_of(reader: Reader, column: str, *, is_plain: bool = False) -> OpenIndex | None:
    found = [
        index
        for index in open_indexes(reader, column)
        if index.kind == "text" and (not is_plain or Analysis.of(index.parts.parameters).is_plain)
    ]
    return max(found, key=lambda index: index.share, default=None)


def _searched(
    scope: Scope, wanted: BestMatches, index: OpenIndex | None, analysis: Analysis
) -> Ranking:
    clauses = [analysis.clauses(question) for question in wanted.questions]
    segments, num_read = _segments(scope, wanted.column, index, analysis, clauses)
    found = [search_texts(segments, one, wanted.k) for one in clauses]
    how = "" if index is None else f"index {index.name!r}; "
    scores = [np.empty(0) if hits.scores is None else hits.scores for hits in found]
    return Ranking([hits.rows for hits in found], scores, [f"{how}{num_read:,} texts read"])


def _segments(
    scope: Scope,
    column: str,
    index: OpenIndex | None,
    analysis: Analysis,
    clauses: Sequence[Sequence[Clause]],
) -> tuple[list[Segment], int]:
    """Return what to search: the index, and one in memory of the rows that it does not cover."""
    segments: list[Segment] = []
    allowed = None if scope.positions is None else scope.allowed
    others = np.arange(scope.snapshot.state.physical) if index is None else np.empty(0, np.int64)
    if index is not None:
        covered = None if index.share == 1 else index.covers()
        segments.append(Segment(index.parts, meet(scope.corpus, covered), allowed))
        if covered is not None:
            others = np.flatnonzero(~covered)
    if scope.corpus is not None:
        others = others[scope.corpus[others]]
    if len(others) or index is None:
        made = _made(scope, column, others, analysis, clauses)
        segments.append(Segment(made, None, allowed))
    return segments, len(others)


def _made(
    scope: Scope,
    column: str,
    rows: Int64Array,
    analysis: Analysis,
    clauses: Sequence[Sequence[Clause]],
) -> PartsReader:
    """Index some rows in memory."""
    has_phrase = _have_phrase(clauses)
    postings = collected(_batches(scope, column, rows), analysis, has_positions=has_phrase)
    return MemoryParts.of(postings.built({"positions": has_phrase}))


def _have_phrase(clauses: Sequence[Sequence[Clause]]) -> bool:
    return any(len(one.terms) > 1 for question in clauses for one in question)


def _batches(
    scope: Scope, column: str, rows: Int64Array
) -> Iterator[tuple[Int64Array, list[str | None]]]:
    reader = scope.rows.reader()
    for start in range(0, len(rows), SCAN_ROWS):
        scope.check(start, len(rows))
        some = rows[start : start + SCAN_ROWS]
        yield some, texts_of(reader.read(column, some))
