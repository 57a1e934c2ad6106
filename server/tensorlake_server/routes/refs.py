"""Routes that change what versions there are: branches, tags, merges, optimizations, restores."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Request, Response

from tensorlake.dataset import Disputed, list_disputed, merge_decided, session_of
from tensorlake.errors import ConflictError, VersionNotFoundError
from tensorlake.versions import authored_by
from tensorlake_server.bodies.cells import make_cells
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.changes import (
    BranchRequest,
    Committed,
    DisputedCell,
    DisputedRow,
    Merged,
    MergeRequest,
    Optimized,
    OptimizeRequest,
    RestoreRequest,
    TagRequest,
)
from tensorlake_server.messages.messages import Ref
from tensorlake_server.request.context import DatasetPath, NamePath, lake_of, note_change
from tensorlake_server.request.deadline import run_query_or_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tensorlake.dataset import Dataset, MergeConflict, QueryLimits

__all__ = ["router"]

MAX_DISPUTED = 1000  # cells that a preview lists

router = APIRouter(prefix="/v1/datasets", tags=["versions"], route_class=BodyRoute)


@router.post("/{name}/branches", response_model=Ref, status_code=201)
def create_branch(request: Request, name: DatasetPath, asked: BranchRequest) -> Ref:
    """Start a branch at a version."""
    lake = lake_of(request)
    lake.check_writable(name, asked.name)
    with authored_by(lake.author):
        branch = lake.open(name, asked.at).branch(asked.name)
    note_change(request, branch.version)
    return Ref(name=asked.name, version=branch.version)


@router.delete("/{name}/branches/{branch}", status_code=204)
def delete_branch(request: Request, name: DatasetPath, branch: NamePath) -> Response:
    """End a branch; its name stays used."""
    lake = lake_of(request)
    with authored_by(lake.author):
        lake.begin(name, branch).dataset.delete_branch(branch)
    return Response(status_code=204)


@router.post("/{name}/tags", response_model=Ref, status_code=201)
def create_tag(request: Request, name: DatasetPath, asked: TagRequest) -> Ref:
    """Name a version permanently; needs a scope to write the whole dataset."""
    lake = lake_of(request)
    lake.check_writable(name)
    tag = lake.open(name, asked.at).tag(asked.name)
    note_change(request, tag.version)
    return Ref(name=asked.name, version=tag.version)


@router.delete("/{name}/tags/{tag}", status_code=204)
def delete_tag(request: Request, name: DatasetPath, tag: NamePath) -> Response:
    """Give up a tag; its name stays used."""
    lake = lake_of(request)
    lake.check_writable(name)
    dataset = lake.open(name)
    if tag not in dataset.tags:
        raise VersionNotFoundError(f"{name!r} has no tag {tag!r}", version=tag)
    dataset.delete_tag(tag)
    return Response(status_code=204)


@router.post("/{name}/merge", response_model=Merged)
def merge(request: Request, name: DatasetPath, asked: MergeRequest) -> Merged:
    """Bring the changes of one branch into another, by row identity; 409 names the conflicts."""
    lake = lake_of(request)
    work = lake.begin(name, asked.branch)
    session = session_of(work.dataset)
    disputed = Disputed([], [])
    if asked.dry_run:
        disputed = list_disputed(session, asked.source, most=MAX_DISPUTED)
    with authored_by(lake.author):
        report = merge_decided(
            session,
            asked.source,
            on_conflict=_decider(asked),
            tensors=asked.tensors,
            dry_run=asked.dry_run,
            rows=asked.rows,
        )
    version = None if report.published is None else report.version
    if version is not None:
        note_change(request, version)
    return Merged(
        how=report.how,
        version=version,
        added=report.added,
        removed=report.removed,
        updated=dict(report.updated),
        indexes=list(report.indexes),
        conflicts=list(report.conflicts),
        disputed=list(_describe(work.dataset, disputed.cells)),
        disputed_rows=[DisputedRow(**asdict(row)) for row in disputed.rows],
    )


@router.post("/{name}/optimize", response_model=Optimized)
async def optimize(request: Request, name: DatasetPath, asked: OptimizeRequest) -> Any:
    """Merge small chunks of a branch, and drop what deleted rows left behind."""
    lake_of(request).check_writable(name, asked.branch)
    return await run_query_or_job(request, partial(_optimize, request, name, asked.branch))


def _optimize(request: Request, name: str, branch: str, _limits: QueryLimits) -> Optimized:
    lake = lake_of(request)
    with authored_by(lake.author):
        report = lake.begin(name, branch).dataset.optimize(progress=False)
    if report.commits:
        note_change(request, report.version)
    return Optimized(
        version=report.version,
        commits=report.commits,
        chunks_before=report.chunks_before,
        chunks_after=report.chunks_after,
    )


@router.post("/{name}/restore", response_model=Committed)
def restore(request: Request, name: DatasetPath, asked: RestoreRequest) -> Committed:
    """Publish the content of an older version as a new commit; history stays."""
    lake = lake_of(request)
    work = lake.begin(name, asked.branch)
    with authored_by(lake.author):
        commit = work.dataset.restore(asked.restored)
    note_change(request, commit.version)
    rows = len(work.dataset)
    return Committed(version=commit.version, digest=commit.digest, rows=rows, is_repeated=False)


def _decider(
    asked: MergeRequest,
) -> Literal["error", "ours", "theirs"] | Callable[[MergeConflict], Any]:
    """Return how conflicts are decided: all alike, or cell by cell."""
    decisions = asked.decisions
    if decisions is None:
        return asked.on_conflict

    def decide(one: MergeConflict) -> Any:
        side = decisions.get(one.tensor, {}).get(one.row_id, asked.on_conflict)
        if side == "error":
            raise ConflictError(
                f"both changed {one.tensor!r} of row {one.row} of {asked.branch}, and the request"
                " decides other cells\nnothing was published; decide this cell too: preview the"
                " merge again",
                branch=asked.branch,
                tensor=one.tensor,
                rows=(one.row,),
                row_ids=(one.row_id,),
            )
        return one.ours if side == "ours" else one.theirs

    return decide


def _describe(dataset: Dataset, disputed: Iterable[MergeConflict]) -> Iterable[DisputedCell]:
    for one in disputed:
        kind = dataset.schema[one.tensor]
        base, ours, theirs = (
            None
            if value is None
            else make_cells(kind, kind.convert([value], tensor=one.tensor, call="merge"))[0]
            for value in (one.base, one.ours, one.theirs)
        )
        yield DisputedCell(
            tensor=one.tensor,
            row=one.row,
            row_id=one.row_id,
            base=base,
            ours=ours,
            theirs=theirs,
        )
