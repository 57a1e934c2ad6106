"""Restore a version: publish a commit with the content of another one, under a pin.

Row ids stay; physical rows have another meaning from here on (``rewrite``), and as the number of
physical rows of a log never decreases, a shorter axis is padded with a hole, whose rows are dead.
Class codes never change their class along a log: those of another branch are mapped to its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlake.format import (
    NO_TXID,
    Changes,
    ChunkKind,
    Entry,
    Extents,
    PageReader,
    PageSink,
    Root,
    RowIdRuns,
    Schema,
    tree,
)
from tensorlake.storage import runtime
from tensorlake.types import ClassLabel
from tensorlake.versions.log.entries import fence_of
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.state import ExtentRoot, Published, State, table_of
from tensorlake.versions.merge.base import Version, version_at
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.pins import holding
from tensorlake.versions.rows.class_names import class_names, known_codes
from tensorlake.versions.rows.schema_rules import ReadAs
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = ["content_of", "restore_version"]


async def content_of(state: State, ours: State, pages: PageReader, sink: PageSink) -> State:
    """Return the content of another version, adapted to follow ``ours`` on its branch.

    Its axis is not shorter, and every class has its code on the branch.
    """
    recoded = _with_codes_of(state.schema, ours.schema)
    roots = dict(state.roots)
    for id_, read_as in recoded.read_as.items():
        roots[id_] = await _reread(roots[id_], read_as, pages, sink)
    content = replace(state, schema=recoded.schema, roots=roots)
    missing = ours.physical - state.physical
    if missing <= 0:
        return content
    hole = Extents.without_bytes(ChunkKind.HOLE, missing)
    dead = RowIdRuns.run(missing, NO_TXID)
    return replace(
        content,
        roots={id_: await tree.append(root, hole, pages, sink) for id_, root in roots.items()},
        row_ids=await tree.append(state.row_ids, dead, pages, sink),
        physical=ours.physical,
    )


@dataclass(frozen=True, slots=True)
class _Recoded:
    """A schema whose classes have their codes on the branch.

    Attributes:
        schema: The schema.
        read_as: By tensor id, how extents are read by it; for other tensors, as before.
    """

    schema: Schema
    read_as: Mapping[str, ReadAs]


def _with_codes_of(schema: Schema, newest: Schema) -> _Recoded:
    """Give classes their codes on the branch, and no other class one of the branch's codes.

    Classes missing in the version become dropped ones. Otherwise codes of later merges would be
    read with their current meaning here.
    """
    read_as: dict[str, ReadAs] = {}
    for spec in schema.tensors:
        after = newest.by_id(spec.id)
        if after is None or not isinstance(spec.type, ClassLabel):
            continue
        known = known_codes(after, spec)
        own = {name: code for code, name in enumerate(class_names(after))
               if name and code not in known.values()}  # fmt: skip
        names = [""] * len(class_names(after))
        codes: list[int] = []
        for code, name in enumerate(spec.type.names):
            at = known.get(code, own.get(name, len(names)))
            if at == len(names):
                names.append("")
            names[at] = name
            codes.append(at)
        recoded = replace(
            spec,
            type=spec.type.with_names(names),
            class_ids={**after.class_ids, **spec.class_ids_in(codes)},
        )
        if codes != list(range(len(codes))):
            recoded, numbers = recoded.with_encodings_of(spec, codes=codes)
            read_as[spec.id] = ReadAs(numbers, tuple(codes))
        schema = schema.replace(recoded)
    return _Recoded(schema, read_as)


async def _reread(
    root: ExtentRoot, read_as: ReadAs, pages: PageReader, sink: PageSink
) -> ExtentRoot:
    """Rewrite the pages of a tree over the same chunks, with another ``read_as``."""
    table = read_as.of(await table_of(root, pages))
    empty: ExtentRoot = Root.of(table.empty())
    return await tree.append(empty, table, pages, sink)


def restore_version(
    log: BranchLog, packs: PackReader, source: Version, *, head: Entry, message: str
) -> Published:
    """Publish a commit with the content of another version; return the newest if it is that one.

    Args:
        log: The branch.
        packs: Reader of its packs.
        source: The version to restore.
        head: An entry of the branch, not older than the caller's version.
        message: Message of the commit.

    Raises:
        SnapshotExpiredError: The version has expired.
    """
    stage = PackStage(log.store)
    packs.attach(stage)

    def prepare(newest: Entry, since: Sequence[Entry]) -> Draft | None:
        del since  # all of their changes are replaced
        ours = runtime.run(version_at(log.store, log.branch, newest, packs))
        if (source.branch, source.entry.seq) == (ours.branch, ours.entry.seq):
            return None

        async def build(sink: PageSink) -> State:
            return await content_of(source.state, ours.state, packs.pages, sink)

        members = {
            "message": message,
            "changes": Changes(rewrite=True),
            "features": source.entry.features,
        }
        return Draft(build, members)

    head = runtime.run(loaded(runtime.run(log.newest_from(head)), packs))
    with holding(log.store, source.branch, source.entry, txid=stage.txid) as pin:
        work = Publication(log, packs, stage, began_at_fence=fence_of(head).t, pin=pin)
        return publish(work, head, prepare).published
