"""Bodies of ``POST …/search``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tensorlake_server.messages.messages import MAX_TQL_CHARACTERS, Asked, Cost, Message, RowsPage
from tensorlake_server.messages.row_request import AskedRows

__all__ = ["Duplicates", "HybridQuery", "LabelIssues", "SearchRequest", "SearchResult"]


class HybridQuery(Asked):
    """A second column, whose ranking is joined with that of the first."""

    column: str
    query: Any


class SearchRequest(AskedRows):
    """A search of rows in a column by a query, or by the value of a row: one of both."""

    column: str
    query: Annotated[
        Any, Field(description="a vector or words, or a list of several of either")
    ] = None
    row: Annotated[int, Field(ge=0, description="a row of the version")] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    where: Annotated[str, Field(max_length=MAX_TQL_CHARACTERS)] | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    exact: bool = False
    hybrid: HybridQuery | None = None
    recall: Annotated[float, Field(gt=0, le=1)] | None = None
    limit: Annotated[int, Field(ge=0, le=1000)] = 64
    columns: Annotated[list[str], Field(fail_fast=True)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.query is None) == (self.row is None):
            raise ValueError("give either query (a vector or words) or row (a row of the version)")
        return self


class SearchResult(Message):
    """Rows by their numbers, query by query, best first; ``queries`` of a list of queries.

    A hybrid search adds the rank of each row in both rankings, null where a row is in one only.
    """

    version: str
    rows: list[int]
    scores: list[float]
    queries: list[int] | None
    ranks: list[int | None] | None
    hybrid_ranks: list[int | None] | None
    explanation: str
    cost: Cost
    page: RowsPage


class LabelIssues(Message):
    """Rows whose label is likely wrong, worst first, at most 10,000 of ``total``.

    ``given`` and ``suggested`` are codes of classes; ``scores`` are 1 minus the probability of the
    given class. ``left_out`` counts rows that have a label, and NaN among their probabilities.
    """

    version: str
    total: int
    rows: list[int]
    scores: list[float]
    given: list[int]
    suggested: list[int]
    left_out: int


class Duplicates(Message):
    """Rows that appear twice, cluster by cluster, at most 10,000 of ``total``; clusters from 0."""

    version: str
    total: int
    rows: list[int]
    clusters: list[int]
