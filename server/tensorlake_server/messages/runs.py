"""Bodies of ``GET …/runs`` and of the routes below it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tensorlake_server.messages.messages import CellValue, Message

__all__ = ["Curve", "RunDetails", "RunInfo", "RunList", "RunPass", "RunStep", "SeenSteps"]


class RunInfo(Message):
    """One run; of one that cannot be read, its name and the ``problem``."""

    name: str
    status: Annotated[
        Literal["recording", "complete", "unfinished", "empty", "unreadable"],
        Field(
            description="a part was written in the last 90 s; the last pass was completed; it was"
            " left before its end; no step was recorded; the record is damaged, or too large"
        ),
    ]
    version: Annotated[str, Field(description="that it began with")] = ""
    started: Annotated[str | None, Field(description="time of the first step")] = None
    updated: Annotated[str | None, Field(description="time of the last step")] = None
    steps: int = 0
    last: Annotated[
        dict[str, CellValue], Field(description="the last value of each scalar that was logged")
    ] = Field(default_factory=dict[str, CellValue])
    problem: str | None = None


class RunList(Message):
    """Runs in the order of their names; ``next`` is the name to continue after, or None."""

    runs: list[RunInfo]
    next: str | None


class RunPass(Message):
    """Steps ``start`` to ``stop`` of one pass over the rows; ``stop`` null: no known end."""

    start: int
    stop: int | None
    epoch: int
    version: Annotated[str, Field(description="that was read")]
    ranks: int
    batch_size: Annotated[int, Field(description="rows of a batch of all ranks")]


class RunDetails(RunInfo):
    """One run, with what its curves and rows can be asked for."""

    config: dict[str, Any]
    metrics: Annotated[
        list[str], Field(description="scalars; then wait_s and compute_s, in seconds of a step")
    ]
    values: Annotated[list[str], Field(description="that were logged for rows")]
    passes: list[RunPass]


class Curve(Message):
    """A metric over steps ``start`` to ``stop``: of each point, the steps ``first`` to ``last``.

    ``low``, ``high`` and ``mean`` are of the finite values of all ranks, null where there is none;
    ``at`` is the step that has the highest, and ``others`` counts values that are not finite.
    """

    metric: str
    start: int
    stop: int
    first: list[int]
    last: list[int]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]
    at: list[int]
    others: list[int]


class RunStep(Message):
    """The batch of a step; ``view`` names its rows as a result, in the order of the batch.

    The result has a column for each value that was logged of rows at this step.
    """

    run: str
    step: int
    pass_: Annotated[RunPass, Field(alias="pass")]
    rank: int | None
    view: str
    rows: Annotated[
        list[int | None], Field(description="of the version; null where it does not show one")
    ]
    missing: Annotated[
        str | None,
        Field(
            description="why the record does not identify the rows of the batch: these are the rows"
            " that values were logged of"
        ),
    ] = None
    scalars: Annotated[dict[str, CellValue], Field(description="logged at the step, by rank 0")]
    columns: Annotated[list[str], Field(description="of the view: values logged of rows")]


class SeenSteps(Message):
    """The last 1,000 of ``total`` steps whose batches had a row, ascending."""

    steps: list[int]
    total: int
    values: Annotated[
        dict[str, list[CellValue]],
        Field(description="by name, the value logged of the row at each step; null: none"),
    ]
    missing: Annotated[
        str | None,
        Field(
            description="why the record does not identify the steps of the row: these are the steps"
            " at which values of it were logged"
        ),
    ] = None
    unread: Annotated[
        str | None, Field(description="why values are too many to be read, so that none is here")
    ] = None
