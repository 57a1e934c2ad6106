"""``ds.search``: checks what is asked, ranks rows, and makes the view of the best.

    query ──▶ Ranking of the column ─┐
    hybrid ─▶ Ranking of another   ──┴─ reciprocal rank ──▶ rows, _score ──▶ RowSet

The view has the rows query by query, best first, with ``_score``; several queries add ``_query``,
and two rankings ``_rank`` and ``_hybrid_rank``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorlake_query as tql
from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.pushdown import ask_search
from tensorlake.dataset.query.run import NO_LIMITS, QueryLimits, engine_errors, positions_where
from tensorlake.dataset.ranking.scope import Scope
from tensorlake.dataset.ranking.texts import BestMatches, best_matches, parsed_texts
from tensorlake.dataset.ranking.tokens import NearestTokens, nearest_tokens, parsed_tokens
from tensorlake.dataset.ranking.vectors import Nearest, Ranking, nearest, parsed_vectors
from tensorlake.errors import InvalidInputError, shown
from tensorlake.indexes import has_several_vectors
from tensorlake.quantities import check_flags, checked_integer
from tensorlake.reading import Selection
from tensorlake.types import SampleType, Text, holds_floats
from tensorlake.versions import distinct

__all__ = ["search"]

Int64Array = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

K_MAX = 1 << 20  # more rows than any ranking is looked at
QUERIES_MAX = 4096
FUSED = 60  # added to ranks: Cormack, Clarke and Büttcher, SIGIR 2009
DEEPER = 4  # times k rows of each ranking are joined
FLOAT = tql.ColumnType("number", "float64", ())
INT = tql.ColumnType("number", "int64", ())
RANK = tql.ColumnType("number", "int64", (), nullable=True)


def search(
    rows: RowSet,
    column: str,
    query: Any,
    k: int = 10,
    *,
    where: str | Predicate | None = None,
    params: Mapping[str, Any] | None = None,
    exact: bool = False,
    hybrid: tuple[str, Any] | None = None,
    recall: float | None = None,
    limits: QueryLimits = NO_LIMITS,
    reaches_out: bool = True,
) -> RowSet:
    """Find the rows nearest to a vector, or that match words best; see ``Dataset.search``."""
    k = checked_integer(k, name="k", least=1, most=K_MAX)
    check_flags(exact=exact)
    if recall is not None and not (_is_number(recall) and 0 < recall <= 1):
        raise InvalidInputError(
            f"recall must be a number above 0, up to 1, got {shown(recall)}"
            "\nfor certainty give exact=True",
            argument="recall",
            actual=recall,
        )
    if not rows.has_rows:
        raise InvalidInputError(
            "search() needs rows of a dataset, and these are groups or values of a query"
            "\nsearch the dataset, or a view of its rows"
        )
    wanted = _Wanted(rows, k, is_exact=bool(exact), recall=recall)
    first = wanted.of(column, query)
    second = None if hybrid is None else wanted.of(*_pair(hybrid))
    if second is not None and len(second.queries) != len(first.queries):
        raise InvalidInputError(
            f"hybrid joins the rankings of as many queries: {len(first.queries)} of {column!r},"
            f" and {len(second.queries)} of {second.column!r}",
            argument="hybrid",
        )
    if where is None and params:
        raise InvalidInputError(
            f"params are of where=, which is not given: {', '.join(params)}", argument="params"
        )
    if reaches_out:
        told = ask_search(rows, wanted.as_json(first, second, where, params or {}))
        if told is not None:
            return _told(rows, told)
    deadline = tql.Limits(limits.timeout_s, cancelled=limits.cancelled).deadline(column)
    positions = None
    if where is not None:
        positions = positions_where(rows, where, params or {}, limits, reaches_out=reaches_out)
    scope = Scope(rows, positions, check=partial(_checked, rows.url, deadline.check))
    ranking = first.ranked(scope, k if second is None else DEEPER * k)
    if second is None:
        return _view(scope, ranking, is_several=first.is_several)
    other = second.ranked(scope, DEEPER * k)
    joined, ranks = _fused(ranking, other, k)
    return _view(scope, joined, is_several=first.is_several, ranks=ranks)


class _Asked:
    """A column and checked queries of it."""

    def __init__(self, wanted: _Wanted, column: str, sample_type: SampleType, query: Any) -> None:
        self.column = column
        self._wanted = wanted
        self.queries: tuple[str, ...] | list[Floats] | Floats
        if isinstance(sample_type, Text):
            self.queries, self.is_several = parsed_texts(column, query)
        elif has_several_vectors(sample_type):
            self.queries, self.is_several = parsed_tokens(column, sample_type, query)
        else:
            self.queries, self.is_several = parsed_vectors(column, sample_type, query)
        if len(self.queries) > QUERIES_MAX:
            raise InvalidInputError(
                f"search() takes up to {QUERIES_MAX:,} queries, got {len(self.queries):,}"
                "\nsearch several times",
                argument="query",
            )

    def as_json(self) -> Any:
        """Return the query, or the list of them if several were given."""
        several = [each if isinstance(each, str) else each.tolist() for each in self.queries]
        return several if self.is_several else several[0]

    def ranked(self, scope: Scope, k: int) -> Ranking:
        """Rank rows for each query."""
        wanted, queries = self._wanted, self.queries
        if isinstance(queries, tuple):
            return best_matches(scope, BestMatches(self.column, queries, k, wanted.is_exact))
        if isinstance(queries, list):
            tokens = NearestTokens(self.column, queries, k, wanted.is_exact, wanted.recall)
            return nearest_tokens(scope, tokens)
        asked = Nearest(self.column, queries, k, wanted.is_exact, wanted.recall)
        return nearest(scope, asked)


def _told(rows: RowSet, told: Mapping[str, Any]) -> RowSet:
    """Make the view of the rows that a server found."""
    selection = rows.selection
    chosen = Selection(selection.snapshot, selection.columns, np.array(told["rows"], np.int64))
    added = {"_score": Computed(FLOAT, tql.UniformBatch(np.array(told["scores"], np.float64)))}
    if told["queries"] is not None:
        queries = np.array(told["queries"], np.int64)
        added["_query"] = Computed(INT, tql.UniformBatch(queries))
    for name, member in (("_rank", "ranks"), ("_hybrid_rank", "hybrid_ranks")):
        if told[member] is not None:
            rank = np.array([one or 0 for one in told[member]], np.int64)
            added[name] = Computed(RANK, tql.UniformBatch(rank, rank > 0))
    return RowSet(rows.session, chosen, computed=added, explanation=told["explanation"])


class _Wanted:
    """The arguments that all searched columns share."""

    def __init__(self, rows: RowSet, k: int, *, is_exact: bool, recall: float | None) -> None:
        self.k, self.is_exact, self.recall = k, is_exact, recall
        self._rows = rows

    def as_json(
        self,
        first: _Asked,
        second: _Asked | None,
        where: str | Predicate | None,
        params: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the body of a request; a condition that TQL has no text for stays as it is."""
        if isinstance(where, Predicate) and where.is_writable:
            where = where.tql
        hybrid = None
        if second is not None:
            hybrid = {"column": second.column, "query": second.as_json()}
        return {
            "column": first.column,
            "query": first.as_json(),
            "k": self.k,
            "where": where,
            "params": dict(params),
            "exact": self.is_exact,
            "hybrid": hybrid,
            "recall": None if self.recall is None else float(self.recall),
        }

    def of(self, column: Any, query: Any) -> _Asked:
        """Check queries of a column."""
        rows = self._rows
        if not isinstance(column, str):
            raise InvalidInputError(
                f"search() takes the name of a column, got {shown(column)}"
                "\nds.search('vec', vector), ds.search('text', 'words')",
                argument="column",
                actual=column,
            )
        if column not in rows.selection.columns:
            if column in rows.computed:
                raise InvalidInputError(
                    f"{column!r} is computed by a query, and search() is of stored columns"
                    f"\nsort by it: ds.order_by({column!r})",
                    argument="column",
                )
            raise unknown_column(column, rows.columns)
        sample_type = rows.selection.snapshot.spec(column).type
        is_vector = (
            len(sample_type.shape) == 1
            and sample_type.shape[0] is not None
            and sample_type.dtype is not None
            and holds_floats(sample_type.dtype)
            and sample_type.query_kind == "number"
        )
        is_vector = is_vector or has_several_vectors(sample_type)
        if not is_vector and not isinstance(sample_type, Text):
            raise InvalidInputError(
                f"search() is of vectors of floats and of texts, and {column!r} is"
                f" {sample_type.describe()}\nconditions are for ds.where(…)",
                argument="column",
                column=column,
            )
        return _Asked(self, column, sample_type, query)


def _fused(
    one: Ranking, other: Ranking, k: int
) -> tuple[Ranking, tuple[list[Int64Array], list[Int64Array]]]:
    """Join two rankings by reciprocal rank; return also the rank in each, −1 where in none."""
    joined = Ranking([], [], [*one.how, *other.how, f"joined by 1 ÷ ({FUSED} + rank)"])
    ranks: tuple[list[Int64Array], list[Int64Array]] = ([], [])
    for first, second in zip(one.rows, other.rows, strict=True):
        rows = distinct(np.concatenate((first, second)))
        own = [_ranks(rows, each) for each in (first, second)]
        scores = sum(np.where(rank > 0, 1 / (FUSED + rank), 0.0) for rank in own)
        assert isinstance(scores, np.ndarray), "of two rankings"
        order = np.lexsort((rows, -scores))[:k]
        joined.rows.append(rows[order])
        joined.scores.append(scores[order])
        for kept, rank in zip(ranks, own, strict=True):
            kept.append(rank[order])
    return joined, ranks


def _ranks(rows: Int64Array, ranked: Int64Array) -> Int64Array:
    """Return the rank of rows, from 1; −1 where not ranked."""
    ranks = np.full(len(rows), -1, np.int64)
    ranks[np.searchsorted(rows, ranked)] = np.arange(1, len(ranked) + 1)
    return ranks


def _view(
    scope: Scope,
    ranking: Ranking,
    *,
    is_several: bool,
    ranks: tuple[list[Int64Array], list[Int64Array]] | None = None,
) -> RowSet:
    physical = np.concatenate(ranking.rows)
    taken = scope.rows.take(scope.position_of(physical))
    added = {"_score": Computed(FLOAT, tql.UniformBatch(np.concatenate(ranking.scores)))}
    if is_several:
        counts = [len(rows) for rows in ranking.rows]
        queries = np.repeat(np.arange(len(counts)), counts)
        added["_query"] = Computed(INT, tql.UniformBatch(queries))
    for name, each in zip(("_rank", "_hybrid_rank"), ranks or (), strict=False):
        rank = np.concatenate(each)
        added[name] = Computed(RANK, tql.UniformBatch(np.maximum(rank, 0), rank > 0))
    how = "\n".join(["Search", *(f"  {line}" for line in ranking.how if line)])
    return replace(
        taken, computed={**taken.computed, **added}, steps=None, tql=None, explanation=how
    )


def _checked(url: str, check: Callable[[int, int], None], done: int, total: int) -> None:
    with engine_errors(url):
        check(done, total)


def _pair(hybrid: Any) -> tuple[Any, Any]:
    pair: list[Any] = list(hybrid) if isinstance(hybrid, tuple | list) else []
    if len(pair) == len(("column", "query")):
        return pair[0], pair[1]
    raise InvalidInputError(
        f"hybrid takes a column and a query of it, got {shown(hybrid)}"
        "\nds.search('vec', vector, hybrid=('text', 'red car'))",
        argument="hybrid",
        actual=hybrid,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
