"""Routes that change what versions there are: branches, tags, merges, restores."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tensorlake.errors import VersionNotFoundError
from tensorlake.storage import name_of_part
from tensorlake.versions import authored_by
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.messages.changes import (
    BranchRequest,
    Committed,
    Merged,
    MergeRequest,
    RestoreRequest,
    TagRequest,
)
from tensorlake_server.messages.messages import Ref
from tensorlake_server.request.context import DatasetPath, lake_of, note_change

__all__ = ["router"]

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
def delete_branch(request: Request, name: DatasetPath, branch: str) -> Response:
    """End a branch; its name stays used."""
    branch, lake = name_of_part(branch), lake_of(request)
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
def delete_tag(request: Request, name: DatasetPath, tag: str) -> Response:
    """Give up a tag; its name stays used."""
    tag, lake = name_of_part(tag), lake_of(request)
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
    with authored_by(lake.author):
        report = work.dataset.merge(
            asked.source, asked.on_conflict, tensors=asked.tensors, dry_run=asked.dry_run
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
        conflicts=list(report.conflicts),
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
