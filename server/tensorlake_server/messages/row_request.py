"""How a request names rows: a version, and what led from it to them.

    version + steps   queries and choices of columns, done again one after another, beside the data
    version + saved   a saved view
    view              the id of a query's result
    version           all its rows

Steps are as the SDK writes them (``{"tql": …, "params": …}``, ``{"columns": […]}``).
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tensorlake_server.messages.messages import MAX_TQL_CHARACTERS, Asked

__all__ = ["AskedRows", "Step"]

MAX_STEPS = 32
Name = Annotated[str, Field(max_length=1024)]


class Step(Asked):
    """A query over the rows so far, or some of their columns: one of both."""

    tql: Annotated[str, Field(max_length=MAX_TQL_CHARACTERS)] | None = None
    params: dict[str, Any] | None = None
    columns: Annotated[list[Name], Field(fail_fast=True)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.tql is None) == (self.columns is None):
            raise ValueError("a step is either tql (a query) or columns (their names)")
        if self.params is not None and self.tql is None:
            raise ValueError("params belong to tql, and this step has none")
        return self


class AskedRows(Asked):
    """Rows of one version, or of a view."""

    version: Name | None = None
    digest: Name | None = None
    steps: Annotated[list[Step], Field(fail_fast=True)] = Field(
        default_factory=list[Step], max_length=MAX_STEPS
    )
    saved: Name | None = None
    view: str | None = None

    def steps_json(self) -> list[dict[str, Any]]:
        """Return the steps as the SDK reads them."""
        return [
            {"columns": step.columns}
            if step.columns is not None
            else {"tql": step.tql, "params": step.params or {}}
            for step in self.steps
        ]
