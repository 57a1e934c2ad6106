"""``GET …/runs``: training runs recorded beside a dataset, their curves, and the rows of a step.

``/runs/{run}/metrics/{metric}`` is a metric over steps, in a bounded number of points;
``/runs/{run}/steps/{step}`` the batch of a step, whose rows are a result like those of a query,
with a column for each value that was logged of them; ``/runs/{run}/rows/{row}`` the steps that had
a row.

Which rows a step had is computed from the record (docs/how-to/record-runs.md); no sample is read.
The name of the machine and of the program is not sent, nor are URLs. A record changes while it is
recorded, so that clients ask each time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import APIRouter, Path, Query, Request, Response

from tensorlake.dataset import rowset_of, runs_inside, seen_inside
from tensorlake.errors import QueryLimitError, RowNotFoundError, TensorlakeError
from tensorlake.storage import LruCache
from tensorlake_server.auth.view_token import write_token
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.messages.runs import (
    Curve,
    RunDetails,
    RunInfo,
    RunList,
    RunStep,
    SeenSteps,
)
from tensorlake_server.request.context import DatasetPath, NamePath, lake_of, settings_of
from tensorlake_server.request.deadline import run_query_for
from tensorlake_server.stats.runs import (
    curve_of,
    details_of,
    info_of,
    passes_of,
    scalars_at,
    values_of,
    why_values_are_unread,
)

if TYPE_CHECKING:
    from tensorlake.dataset import QueryLimits

__all__ = ["KEPT_INFOS", "RunInfos", "router"]

router = APIRouter(prefix="/v1/datasets", tags=["runs"])

LAYOUT = 1  # part of the ETag: raise it when the answer means something else
MOST_RUNS = 1000
MOST_POINTS = 4000
MOST_SEEN = 1000
STEPS_STOP = 2**53
KEPT_INFOS = 4096

RunInfos = LruCache[tuple[str, str, str], RunInfo]


Step = Annotated[int, Path(ge=0, lt=STEPS_STOP)]
Version = Annotated[str | None, Query(description="whose rows are listed; main when left out")]


@router.get("/{name}/runs", response_model=RunList)
async def list_runs(
    request: Request,
    name: DatasetPath,
    after: Annotated[str | None, Query(description="the name to continue after")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 100,
) -> Response:
    """List the runs that were recorded beside a dataset, by name."""
    return await run_query_for(request, partial(_listed, request, name, after, limit))


@router.get("/{name}/runs/{run}", response_model=RunDetails)
async def read_run(request: Request, name: DatasetPath, run: NamePath) -> Response:
    """Describe a run: its config, its metrics, its passes over the rows."""

    def work(limits: QueryLimits) -> Response:
        with lake_of(request).run(name, run, limits) as found:
            return _response(details_of(found, datetime.now(UTC)).model_dump_json())

    return await run_query_for(request, work)


@router.get("/{name}/runs/{run}/metrics/{metric}", response_model=Curve)
async def read_metric(
    request: Request,
    name: DatasetPath,
    run: NamePath,
    metric: NamePath,
    start: Annotated[int, Query(ge=0, lt=STEPS_STOP)] = 0,
    stop: Annotated[int | None, Query(ge=0, lt=STEPS_STOP)] = None,
    points: Annotated[int, Query(ge=1, le=MOST_POINTS)] = 500,
) -> Response:
    """Return a metric over steps: lowest, highest and mean value of each point."""

    def work(limits: QueryLimits) -> Response:
        with lake_of(request).run(name, run, limits) as found:
            etag = etag_of(
                "metric", LAYOUT, name, found.history.version, metric, start, stop, points
            )
            headers = cache_headers(None, etag)
            known = not_modified(request, headers)
            if known is not None:
                return known
            curve = curve_of(found, metric, start=start, stop=stop, points=points)
            return Response(curve.model_dump_json(), 200, headers, "application/json")

    return await run_query_for(request, work)


@router.get("/{name}/runs/{run}/steps/{step}", response_model=RunStep)
async def read_step(
    request: Request,
    name: DatasetPath,
    run: NamePath,
    step: Step,
    version: Version = None,
    rank: Annotated[int | None, Query(ge=0, lt=2**31, description="all when left out")] = None,
) -> Response:
    """Return the rows of a step's batch, as the id of a result and by their numbers.

    Where the record does not identify the rows of a batch (of a mix, of packed rows), these are the
    rows that values were logged of, and ``missing`` has the reason.
    """

    def work(limits: QueryLimits) -> Response:
        lake = lake_of(request)
        with lake.run(name, run, limits) as found:
            query, view, batch = lake.step(name, version, found, step, rank)
            scalars = scalars_at(found, step)
            own = [one for one in passes_of(found) if one.start <= step][-1]
        token = write_token(query, key=settings_of(request).signing_key)
        lake.keep_view(token, view)
        body = RunStep.model_validate(
            {
                "run": run,
                "step": step,
                "pass": own,
                "rank": rank,
                "view": token,
                "rows": [None if row < 0 else row for row in batch.rows.tolist()],
                "missing": batch.missing or None,
                "scalars": scalars,
                "columns": list(rowset_of(view).computed),
            }
        )
        return _response(body.model_dump_json(by_alias=True))

    return await run_query_for(request, work)


@router.get("/{name}/runs/{run}/rows/{row}", response_model=SeenSteps)
async def read_seen(
    request: Request,
    name: DatasetPath,
    run: NamePath,
    row: Annotated[int, Path(ge=0, lt=2**63, description="of the version")],
    version: Version = None,
) -> Response:
    """Return the steps whose batches had a row, and the values logged of it at each.

    The steps are computed from the order of the run. Where the record does not have the order (of a
    mix, of packed rows), they are those at which values of the row were logged.
    """

    def work(limits: QueryLimits) -> Response:
        lake = lake_of(request)
        dataset = lake.open(name, version)
        if row >= len(dataset):
            raise RowNotFoundError(
                f"{name!r} {dataset.version} has no row {row:,}: it has {len(dataset):,} rows",
                row=row,
            )
        with lake.run(name, run, limits) as found:
            unread = why_values_are_unread(found)
            seen = seen_inside(dataset, found, row, reads_values=unread is None)
        body = SeenSteps(
            steps=seen.steps[-MOST_SEEN:],
            total=len(seen.steps),
            values=values_of(seen, MOST_SEEN),
            missing=seen.missing or None,
            unread=unread,
        )
        return _response(body.model_dump_json())

    return await run_query_for(request, work)


def _listed(
    request: Request, name: str, after: str | None, limit: int, limits: QueryLimits
) -> Response:
    dataset = lake_of(request).open(name)
    names = [one for one in runs_inside(dataset) if after is None or one > after]
    started = time.monotonic()
    found: list[RunInfo] = []
    for one in names[:limit]:
        if limits.cancelled is not None and limits.cancelled():
            break
        if limits.timeout_s is not None and time.monotonic() - started > limits.timeout_s:
            raise QueryLimitError(
                f"{len(found):,} of {len(names[:limit]):,} runs were read in"
                f" {limits.timeout_s:g} s\nask for fewer, with limit="
            )
        found.append(_info(request, name, one, limits))
    following = found[-1].name if found and len(names) > limit else None
    return _response(RunList(runs=found, next=following).model_dump_json())


def _info(request: Request, name: str, run: str, limits: QueryLimits) -> RunInfo:
    """Summarize a run; one that cannot be read, by its problem."""
    kept = cast("RunInfos", request.app.state.run_infos)
    try:
        with lake_of(request).run(name, run, limits) as found:
            key = name, run, found.history.version
            info = kept.get(key)
            if info is None:
                info = info_of(found, datetime.now(UTC))
                if info.status != "recording":  # the others stay as they are
                    kept.put(key, info)
            return info
    except TensorlakeError as error:
        return RunInfo(name=run, status="unreadable", problem=request.app.state.shown(str(error)))


def _response(body: str) -> Response:
    return Response(body, 200, {"Cache-Control": "private, no-store"}, "application/json")
