"""Bodies of ``POST …/search``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tensorlake_server.messages.messages import (
    MAX_TQL_CHARACTERS,
    Asked,
    Cost,
    Message,
    RowsPage,
)

__all__ = ["HybridQuery", "SearchRequest", "SearchResult"]


class HybridQuery(Message):
    """A second column, whose ranking is joined with that of the first."""

    column: str
    query: Any


class SearchRequest(Asked):
    """A search of a column by a query, or by the value of a row: one of both."""

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
    version: str | None = None
    limit: Annotated[int, Field(ge=0, le=1000)] = 64
    columns: Annotated[list[str], Field(fail_fast=True)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.query is None) == (self.row is None):
            raise ValueError("give either query (a vector or words) or row (a row of the version)")
        return self


class SearchResult(Message):
    """Rows by their numbers, query by query, best first; ``queries`` of a list of queries."""

    version: str
    rows: list[int]
    scores: list[float]
    queries: list[int] | None
    explanation: str
    cost: Cost
    page: RowsPage
