"""Routes that list what is stored: datasets, their versions, branches, tags, and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response

from tensorlake.dataset import rowset_of, session_of
from tensorlake.errors import (
    CorruptionError,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedError,
)
from tensorlake.storage import run
from tensorlake.versions import list_branches as list_names
from tensorlake_server.bodies.columns import list_tensors
from tensorlake_server.http.caching import cache_headers, etag_of, not_modified
from tensorlake_server.messages.messages import (
    Branch,
    Branches,
    CommitInfo,
    DatasetInfo,
    DatasetList,
    DatasetName,
    DiffInfo,
    Ref,
    Tags,
    UpdatedRows,
    Versions,
)
from tensorlake_server.request.context import DatasetPath, lake_of, settings_of

if TYPE_CHECKING:
    from tensorlake.dataset import Commit

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

MAX_COMMITS = 1000
MAX_DIFF_ROWS = 10_000
Version = Annotated[str | None, Query(description="branch, tag or commit; main when left out")]


@router.get("", response_model=DatasetList)
def list_datasets(request: Request, response: Response) -> DatasetList:
    """List the lake's datasets."""
    response.headers["Cache-Control"] = "private, no-cache"
    return DatasetList(datasets=[DatasetName(name=name) for name in lake_of(request).names()])


@router.get("/{name}", response_model=DatasetInfo)
def describe_dataset(
    request: Request, name: DatasetPath, version: Version = None
) -> DatasetInfo | Response:
    """Describe one version: schema, rows, bytes."""
    lake = lake_of(request)
    dataset = lake.open(name, version)
    digest = rowset_of(dataset).selection.snapshot.digest
    headers = cache_headers(None, etag_of("dataset", name, digest))
    info = DatasetInfo(
        name=name,
        url=lake.url_for_clients(name) if settings_of(request).is_loopback else None,
        version=dataset.version,
        digest=digest,
        rows=len(dataset),
        nbytes=dataset.nbytes,
        tensors=list_tensors(dataset),
    )
    return not_modified(request, headers) or _json(info, headers)


@router.get("/{name}/versions", response_model=Versions)
def list_versions(
    request: Request,
    name: DatasetPath,
    version: Version = None,
    limit: Annotated[int, Query(ge=1, le=MAX_COMMITS)] = 100,
) -> Versions:
    """List commits, the newest first, from a version backwards."""
    commits = lake_of(request).open(name, version).log(limit + 1)
    more = commits[limit].version if len(commits) > limit else None
    return Versions(versions=[describe_commit(one) for one in commits[:limit]], next=more)


@router.get("/{name}/branches", response_model=Branches, response_model_exclude_none=True)
def list_branches(request: Request, name: DatasetPath) -> Branches:
    """List branches and the commits at their heads; one that is damaged is named, with why."""
    lake = lake_of(request)
    store = session_of(lake.open(name)).store
    return Branches(branches=[_branch(request, name, one) for one in run(list_names(store))])


@router.get("/{name}/tags", response_model=Tags)
def list_tags(request: Request, name: DatasetPath) -> Tags:
    """List tags and the commits that they name."""
    tags = lake_of(request).open(name).tags
    return Tags(tags=[Ref(name=one, version=tag.version) for one, tag in tags.items()])


@router.get("/{name}/diff", response_model=DiffInfo)
def diff_versions(
    request: Request,
    name: DatasetPath,
    a: str,
    b: str | None = None,
    limit: Annotated[int, Query(ge=0, le=MAX_DIFF_ROWS)] = 100,
) -> DiffInfo:
    """Compare version ``a`` with ``b`` (left out: main's newest), by row identity."""
    lake = lake_of(request)
    after = lake.open(name, b)
    difference = after.diff(lake.open(name, a).version, after.version)
    return DiffInfo(
        a=difference.before,
        b=difference.after,
        limit=limit,
        schema_changes=list(difference.schema),
        added=len(difference.added),
        added_rows=difference.added.rows[:limit].tolist(),
        removed=len(difference.removed),
        removed_rows=difference.removed.rows[:limit].tolist(),
        updated=[
            UpdatedRows(
                tensor=tensor,
                count=len(cells),
                rows_before=cells.rows_before[:limit].tolist(),
                rows=cells.rows_after[:limit].tolist(),
            )
            for tensor, cells in difference.updated.items()
        ],
    )


def _branch(request: Request, name: str, branch: str) -> Branch:
    try:
        return Branch(name=branch, version=lake_of(request).open(name, branch).version)
    except (CorruptionError, SchemaError, SnapshotExpiredError, UnsupportedError) as error:
        why = request.app.state.shown(str(error)).splitlines()[0]
        return Branch(name=branch, version=branch, damaged=why)


def describe_commit(commit: Commit) -> CommitInfo:
    """Write a commit as JSON has it."""
    return CommitInfo(
        version=commit.version,
        digest=commit.digest,
        message=commit.message,
        author=commit.author or None,
        time=commit.time.isoformat(),
        parents=list(commit.parents),
        changes=commit.summary().split(", "),
    )


def _json(info: DatasetInfo, headers: dict[str, str]) -> Response:
    return Response(info.model_dump_json(), 200, headers, "application/json")
