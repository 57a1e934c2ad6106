"""Search of texts: BM25 over an index of the rows it covers, and one made of the others.

Both are searched as one corpus, so that neither coverage nor a filter changes a score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    collected,
    open_indexes,
    scan_where_damaged,
    search_texts,
    texts_of,
)
from tensorlake.reading import Reader

__all__ = ["BestMatches", "best_matches", "parsed_texts"]

Int64Array = npt.NDArray[np.int64]

SCAN_ROWS = 1 << 14  # texts read at once


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
    """Find the best matches of each question."""
    reader = scope.rows.reader()
    index: OpenIndex | None = None
    with scan_where_damaged(wanted.column, url=scope.rows.url):
        index = _index_of(reader, wanted.column)
        if index is not None and not wanted.exact:
            analysis = Analysis.of(index.parts.parameters)
            return _searched(scope, wanted, index, analysis)
    analysis = Analysis() if index is None else Analysis.of(index.parts.parameters)
    return _searched(scope, wanted, None, analysis)


def _index_of(reader: Reader, column: str) -> OpenIndex | None:
    found = [index for index in open_indexes(reader, column) if index.kind == "text"]
    return max(found, key=lambda index: index.share, default=None)


def _searched(
    scope: Scope, wanted: BestMatches, index: OpenIndex | None, analysis: Analysis
) -> Ranking:
    clauses = [analysis.clauses(question) for question in wanted.questions]
    segments: list[Segment] = []
    others = np.arange(scope.snapshot.state.physical) if index is None else None
    if index is not None:
        covered = None if index.share == 1 else index.covers()
        corpus = meet(scope.corpus, covered)
        allowed = None if scope.positions is None else scope.allowed
        segments.append(Segment(index.parts, corpus, allowed))
        others = np.empty(0, np.int64) if covered is None else np.flatnonzero(~covered)
    assert others is not None, "one of both"
    if scope.corpus is not None:
        others = others[scope.corpus[others]]
    if len(others) or index is None:
        parts = _made(scope, wanted.column, others, analysis, clauses)
        allowed = None if scope.positions is None else scope.allowed
        segments.append(Segment(parts, None, allowed))
    found = [search_texts(segments, one, wanted.k) for one in clauses]
    how = "" if index is None else f"index {index.name!r}; "
    scores = [np.empty(0) if hits.scores is None else hits.scores for hits in found]
    return Ranking([hits.rows for hits in found], scores, [f"{how}{len(others):,} texts read"])


def _made(
    scope: Scope,
    column: str,
    rows: Int64Array,
    analysis: Analysis,
    clauses: list[list[Clause]],
) -> PartsReader:
    """Index some rows in memory."""
    has_phrase = any(len(one.terms) > 1 for question in clauses for one in question)
    postings = collected(_batches(scope, column, rows), analysis, has_positions=has_phrase)
    return MemoryParts.of(postings.built({"positions": has_phrase}))


def _batches(
    scope: Scope, column: str, rows: Int64Array
) -> Iterator[tuple[Int64Array, list[str | None]]]:
    reader = scope.rows.reader()
    for start in range(0, len(rows), SCAN_ROWS):
        scope.check(start, len(rows))
        some = rows[start : start + SCAN_ROWS]
        yield some, texts_of(reader.read(column, some))
