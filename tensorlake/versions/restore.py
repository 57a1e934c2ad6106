"""Restoring a version: a commit whose content is that of another one, under a pin.

Row ids stay; physical rows mean something else from here on (``rewrite``), and as the number of
physical rows of a log never goes down, a shorter axis is padded with a hole, whose rows are dead.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlake.format import (
    NO_TXID,
    Changes,
    ChunkKind,
    Entry,
    Extents,
    PageReader,
    PageSink,
    RowIdRuns,
    Schema,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.types import ClassLabel
from tensorlake.versions.bases import Version, version_at
from tensorlake.versions.commit import Published
from tensorlake.versions.landing import Draft, holding, publish_draft
from tensorlake.versions.log import BranchLog
from tensorlake.versions.packs import PackReader
from tensorlake.versions.stage import PackStage
from tensorlake.versions.state import State

__all__ = ["content_of", "restore_version"]


async def content_of(state: State, physical: int, pages: PageReader, sink: PageSink) -> State:
    """The same content over an axis of at least so many physical rows."""
    missing = physical - state.physical
    if missing <= 0:
        return state
    hole = Extents.without_bytes(ChunkKind.HOLE, missing)
    dead = RowIdRuns.run(missing, NO_TXID)
    return replace(
        state,
        roots={
            id_: await tree.append(root, hole, pages, sink) for id_, root in state.roots.items()
        },
        row_ids=await tree.append(state.row_ids, dead, pages, sink),
        physical=physical,
    )


def _with_codes_of(schema: Schema, newest: Schema) -> Schema:
    """Classes that came after the version are dropped ones: their codes are given to no other."""
    for spec in schema.tensors:
        after = newest.by_id(spec.id)
        if after is None or not isinstance(spec.type, ClassLabel):
            continue
        if isinstance(after.type, ClassLabel) and len(after.type.names) > len(spec.type.names):
            gone = [""] * (len(after.type.names) - len(spec.type.names))
            label = spec.type.with_names([*spec.type.names, *gone])
            schema = schema.replace(replace(spec, type=label))
    return schema


def restore_version(
    log: BranchLog, packs: PackReader, source: Version, *, head: Entry, message: str
) -> Published:
    """Publish a commit with the content of another version.

    Args:
        log: The branch.
        packs: Reads it.
        source: The version whose content comes back.
        head: An entry of the branch, not older than what the caller stands on.
        message: The commit's.

    Raises:
        SnapshotExpiredError: The version was given up.
    """
    stage = PackStage(log.store)
    packs.attach(stage)

    def prepare(newest: Entry) -> Draft:
        ours = runtime.run(version_at(log.store, log.branch, newest, packs))

        schema = _with_codes_of(source.state.schema, ours.state.schema)
        restored = replace(source.state, schema=schema)

        async def build(sink: PageSink) -> State:
            return await content_of(restored, ours.state.physical, packs.pages, sink)

        members = {
            "message": message,
            "changes": Changes(rewrite=True),
            "features": source.entry.features,
            "indexes": source.entry.indexes,
        }
        return Draft(build, members)

    head = runtime.run(log.newest_from(head))
    with holding(log.store, source, stage) as pin:
        published = publish_draft(log, packs, stage, pin, head=head, prepare=prepare)
    assert published is not None  # prepare always makes a draft
    return published
