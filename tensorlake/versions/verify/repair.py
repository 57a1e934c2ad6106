"""Repair the descriptor from its second copy, hints, an entry from its hint, and index pages.

Nothing is deleted, and nothing is guessed. Recovered parts are published as a commit of kind
``repair``; rows whose chunks cannot be found keep the broken reference, so reading them fails as
before, and everything else works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorlake.errors import CorruptionError, SnapshotExpiredError, UnsupportedFeatureError
from tensorlake.format import (
    DESCRIPTOR,
    DESCRIPTORS,
    Changes,
    ColumnGroup,
    Descriptor,
    Entry,
    Extents,
    PageSink,
    Root,
    RowIdRuns,
    RowSegments,
    column_groups,
    delete_rows,
    descriptor_path,
    entry_path,
    head_path,
    rows_of,
    tree,
)
from tensorlake.storage import ObjectExistsError, Store, runtime
from tensorlake.versions.log.entries import check_writable, fence_of
from tensorlake.versions.log.log import BranchLog, readable_branch_names
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.log.state import State, state_of, table_of
from tensorlake.versions.packs.reader import PackReader, loaded
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.copy_claim import refuse_unfinished
from tensorlake.versions.refs.descriptors import second_puts
from tensorlake.versions.rows.ranges import (
    Ranges,
    clip,
    distinct,
    intersect,
    known_ranges,
    rows_in,
)
from tensorlake.versions.transaction.groups import restated_groups
from tensorlake.versions.transaction.publish import Draft, Publication, publish
from tensorlake.versions.verify.recover import (
    Found,
    chunks_written,
    covering,
    lost_rows,
    rows_updated_since,
    salvage_from_packs,
    without,
)

__all__ = ["Repair", "repair_dataset"]

SHOWN = 3

OLDER_MAX = 4096
"""Number of older entries in which the rows of a lost page are looked for."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair, or failure to repair.

    Attributes:
        object: The damaged object's path, or a version.
        what: The action taken, or why none was possible.
        is_recovered: Whether it was repaired.
    """

    object: str
    what: str
    is_recovered: bool

    def __str__(self) -> str:
        return f"{'recovered' if self.is_recovered else 'lost'}: {self.object}: {self.what}"


def repair_dataset(store: Store, *, author: str | None = None) -> list[Repair]:
    """Repair every branch that has not ended; return the actions. Not on the storage loop.

    Raises:
        DatasetNotFoundError: A copy is under way there: missing parts will still be copied.
    """
    done = runtime.run(_repair_descriptor(store))
    branches = runtime.run(readable_branch_names(store))
    for branch in branches:
        log = BranchLog(store, branch)
        done += runtime.run(_repair_log(log))
        try:
            head = runtime.run(log.head())
        except (CorruptionError, UnsupportedFeatureError) as error:
            first = str(error).splitlines()[0]
            what = f"its log cannot be read: {first}"
            done.append(Repair(f"branch {branch!r}", what, is_recovered=False))
            continue
        if head is not None and head.kind in {"commit", "fence"} and head.has_body:
            done += _repair_indexes(log, head, author)
    return done


async def _repair_descriptor(store: Store) -> list[Repair]:
    """Restore the descriptor from its second copy, or the second copy from the descriptor."""
    data = await store.get(DESCRIPTOR)
    if data is None:
        await refuse_unfinished(store)
    seconds = await second_puts(store)
    try:
        whole = None if data is None else Descriptor.from_bytes(data)
    except UnsupportedFeatureError:
        return []  # of a newer version, which check() reports
    except CorruptionError:
        whole = None
    if data is not None and whole is not None:
        own = descriptor_path(whole.id)
        if not any(one.path == own and one.data != data for one in seconds):
            return []
        await store.put(own, data)
        return [Repair(own, "written again from the descriptor", is_recovered=True)]
    usable = [one for one in seconds if one.error is None]
    if len(usable) != 1:
        why = f"{DESCRIPTORS!r} has {len(usable)} descriptors to restore it from, not one"
        return [Repair(DESCRIPTOR, f"{why}: copy it from a copy", is_recovered=False)]
    if data is None:
        await put_surely(store, DESCRIPTOR, usable[0].data)
    else:
        await store.put(DESCRIPTOR, usable[0].data)
    what = f"written again from {usable[0].path!r}, which has the same bytes"
    return [Repair(DESCRIPTOR, what, is_recovered=True)]


async def _repair_log(log: BranchLog) -> list[Repair]:
    """Write the newest entry again from its hint, or the hint from the newest entry."""
    path = head_path(log.branch)
    data = await log.store.get(path)
    hint = _parsed(data, path)
    done: list[Repair] = []
    if hint is not None and data is not None:
        done += await _entry_from_hint(log, hint, data)
    try:
        head = await log.head()
    except (CorruptionError, UnsupportedFeatureError):
        return done
    if head is not None and data is not None and (hint is None or hint.seq > head.seq):
        await log.write_hint(head)
        done.append(Repair(path, f"written again from entry {head.seq}", is_recovered=True))
    return done


def _parsed(data: bytes | None, path: str) -> Entry | None:
    try:
        return None if data is None else Entry.from_bytes(data, where=path)
    except (CorruptionError, UnsupportedFeatureError):
        return None


async def _entry_from_hint(log: BranchLog, hint: Entry, data: bytes) -> list[Repair]:
    path = entry_path(log.branch, hint.seq)
    found = await log.store.get(path)
    if found is not None and _parsed(found, path) is not None:
        return []
    before = _parsed(await log.store.get(entry_path(log.branch, hint.seq - 1)), path)
    if hint.seq > 0 and (before is None or before.digest != hint.prev):
        return []  # a hint of another dataset or branch
    if found is None:
        try:
            await log.store.put_if_absent(path, data)
        except ObjectExistsError:
            return []
    else:
        await log.store.put(path, data)  # the lost bytes, as the digest shows
    return [Repair(path, "written again from the hint, which is a copy of it", is_recovered=True)]


def _repair_indexes(log: BranchLog, head: Entry, author: str | None) -> list[Repair]:
    packs = PackReader(log.store)
    stage = PackStage(log.store)
    packs.attach(stage)
    done: list[Repair] = []
    members: dict[str, Any] = {
        "message": "repair: index pages written again",
        "changes": Changes(),
    }
    if author is not None:
        members["author"] = author

    def prepare(head: Entry, since: Sequence[Entry]) -> Draft:
        del since  # the lost parts are determined on each head

        async def build(sink: PageSink) -> State | None:
            del sink  # the stage
            done.clear()
            return await _Mending(log, packs, stage, head, done).mended()

        return Draft(build, members, keeps_schema=True)

    try:
        check_writable(head, url=log.store.url)
        head = runtime.run(loaded(head, packs))
    except UnsupportedFeatureError:
        return []  # check() reports the feature
    except (CorruptionError, SnapshotExpiredError) as error:
        first = str(error).splitlines()[0]
        what = f"parts of the entry cannot be read: {first}; an older version may be whole"
        return [Repair(f"{log.branch}@{head.seq}", what, is_recovered=False)]
    work = Publication(log, packs, stage, began_at_fence=fence_of(head).t)
    publish(work, head, prepare)
    return done


@dataclass(slots=True)
class _Mending:
    """The repair of one head."""

    log: BranchLog
    packs: PackReader
    stage: PackStage
    head: Entry
    done: list[Repair]

    async def mended(self) -> State | None:
        """Return the head's state with the recovered parts; None if there are none."""
        state = state_of(self.head)
        older = await self._older()
        row_ids = await self._row_ids(state, older)
        state = replace(state, row_ids=row_ids or state.row_ids)
        rows = await self._rows(state, older)
        roots = dict(state.roots)
        for spec in state.schema.tensors:
            lost = await lost_rows(roots[spec.id], self.packs)
            if len(lost):
                edits = covering(lost, await self._found(spec.id, lost, state, older))
                self._note(spec.name, lost, edits)
                if edits:
                    roots[spec.id] = await tree.replace(
                        roots[spec.id],
                        [(one.start, one.stop, one.extents) for one in edits],
                        self.packs.pages,
                        self.stage,
                    )
        groups = await self._groups(state, older)
        is_changed = row_ids is not None or rows is not None or groups is not state.groups
        is_changed |= any(roots[id_] is not root for id_, root in state.roots.items())
        if not is_changed:
            return None
        whole = replace(state, roots=roots, rows=rows or state.rows, groups=groups)
        return replace(
            whole,
            groups=await restated_groups(
                whole, replace(state, groups=groups), self.packs.pages, self.stage
            ),
        )

    def _note(self, name: str, lost: Ranges, edits: Sequence[Found]) -> None:
        total = int((lost[:, 1] - lost[:, 0]).sum())
        found = sum(one.stop - one.start for one in edits)
        version = f"{self.log.branch}@{self.head.seq}"
        if found:
            what = f"index of {name!r}: {found:,} of {total:,} rows found again"
            self.done.append(Repair(version, what, is_recovered=True))
        if found < total:
            what = (
                f"index of {name!r}: {total - found:,} physical rows of {_shown(lost)} have chunks"
                " that nothing names any more"
            )
            self.done.append(Repair(version, what, is_recovered=False))

    async def _groups(self, state: State, older: Sequence[Entry]) -> Mapping[str, ColumnGroup]:
        """The column groups; lost rows of a part are as in older versions, for parts only grow."""
        groups = dict(state.groups)
        for name, group in state.groups.items():
            for part, root in group.roots.items():
                lost = await lost_rows(root, self.packs)
                if not len(lost):
                    continue
                found = await self._in_older_groups(name, part, lost, older)
                edits = covering(lost, found)
                self._note(f"{name}/{part}", lost, edits)
                if edits:
                    changed = [(one.start, one.stop, one.extents) for one in edits]
                    whole = await tree.replace(root, changed, self.packs.pages, self.stage)
                    roots = {**groups[name].roots, part: whole}
                    groups[name] = group.with_roots(roots, group.rows)
        is_changed = any(groups[name] is not group for name, group in state.groups.items())
        return groups if is_changed else state.groups

    async def _in_older_groups(
        self, name: str, part: str, lost: Ranges, older: Sequence[Entry]
    ) -> list[Found]:
        """Look for rows of a part in older versions, then in the packs of who wrote them."""
        missing, found = lost, list[Found]()
        newer = self.head
        for entry in older:
            if newer.changes.rewrite or not len(missing):
                break  # before, the part's rows may be others
            group = column_groups(newer.indexes, where=f"entry {newer.seq}")[name]
            before = column_groups(entry.indexes, where=f"entry {entry.seq}").get(name)
            root = None if before is None else before.roots.get(part)
            start = 0 if root is None else root.rows
            if root is not None:
                here = without(clip(missing, start), await lost_rows(root, self.packs))
                for first, stop in here.tolist():
                    extents = await table_of(root, self.packs.pages, first, stop)
                    if await self._are_there(extents):
                        found.append(Found(first, stop, extents))
                        missing = without(missing, np.array([[first, stop]]))
            new = intersect(missing, np.array([[start, group.rows]]))
            spec = group.parts().by_id(part)
            if len(new) and spec is not None:
                written = await chunks_written(
                    part,
                    group.rows - start,
                    txid=newer.txid,
                    read_as=spec.read_as,
                    packs=self.packs,
                )
                if written is not None:
                    found += [
                        Found(first, stop, written.slice_rows(first - start, stop - start))
                        for first, stop in new.tolist()
                    ]
                    missing = without(missing, new)
            if root is None:
                break
            newer = entry
        return found

    async def _older(self) -> list[Entry]:
        """Return the readable, usable entries before the head, newest first."""
        found: list[Entry] = []
        lowest = max(fence_of(self.head).expired_before, self.head.seq - OLDER_MAX, 0)
        for seq in range(self.head.seq - 1, lowest - 1, -1):
            try:
                entry = await self.log.entry(seq)
                if entry is None or entry.kind == "begin":
                    break
                found.append(await loaded(entry, self.packs))
            except (CorruptionError, SnapshotExpiredError, UnsupportedFeatureError):
                break
        return found

    async def _found(
        self, tensor_id: str, lost: Ranges, state: State, older: Sequence[Entry]
    ) -> list[Found]:
        """Look for rows in older versions, then in the directories of packs."""
        missing, found = lost, list[Found]()
        newer = [self.head]
        for entry in older:
            updated = rows_updated_since(newer, tensor_id)
            root = entry.roots.get(tensor_id)
            if updated is None or root is None or not len(missing):
                break
            here = without(clip(missing, root.rows), updated)
            here = without(here, await lost_rows(root, self.packs))
            for start, stop in here.tolist():
                extents = await table_of(root, self.packs.pages, start, stop)
                if await self._are_there(extents):
                    found.append(Found(start, stop, extents))
                    missing = without(missing, np.array([[start, stop]]))
            newer.append(entry)
        updated = rows_updated_since(
            [one for one in (self.head, *older) if one.kind == "commit"], tensor_id
        )
        if (
            len(missing)
            and updated is not None
            and not len(await lost_rows(state.row_ids, self.packs))
        ):
            found += await salvage_from_packs(
                tensor_id,
                without(missing, updated),
                state.row_ids,
                [self.head, *older],
                self.packs,
            )
        return found

    async def _are_there(self, extents: Extents) -> bool:
        for pack in extents.pack_ids():
            is_here = await self.packs.store.head(pack.path) is not None
            if not is_here and await self.packs.places.nbytes_in_bases(pack) is None:
                return False
        return True

    async def _row_ids(self, state: State, older: Sequence[Entry]) -> Root[RowIdRuns] | None:
        """Return an older version's row ids, and those of rows appended by commits since."""
        if not len(await lost_rows(state.row_ids, self.packs)):
            return None
        newer = await self._newer_than_whole("row_ids", older)
        if newer is None or any(len(entry.parents) > 1 for entry in newer[1]):
            return self._lost("row ids")
        root: Root[Any] = newer[0]
        for entry in newer[1]:
            born = RowIdRuns.run(entry.changes.append, entry.txid)
            root = await tree.append(root, born, self.packs.pages, self.stage)
        if root.rows != state.physical:
            return self._lost("row ids")
        self._recovered("row ids", root.rows)
        return root

    async def _rows(self, state: State, older: Sequence[Entry]) -> Root[RowSegments] | None:
        """Return an older row selection, with the deletes and appends of commits since."""
        if not len(await lost_rows(state.rows, self.packs)):
            return None
        newer = await self._newer_than_whole("rows", older)
        if newer is None or any(
            len(entry.parents) > 1 or entry.changes.delete == "many" for entry in newer[1]
        ):
            return self._lost("row selection")
        root: Root[Any] = newer[0]
        pages, physical = self.packs.pages, newer[2]
        for entry in newer[1]:
            gone = known_ranges(entry.changes.delete)
            assert gone is not None, "it was looked at above"
            at = await rows_of(root, rows_in(gone), pages)
            root = await delete_rows(root, distinct(at[at >= 0]), pages, self.stage)
            stop = physical + entry.changes.append
            root = await tree.append(root, RowSegments.range(physical, stop), pages, self.stage)
            physical = stop
        if root.rows != state.num_rows or physical != state.physical:
            return self._lost("row selection")
        self._recovered("row selection", root.rows)
        return root

    async def _newer_than_whole(
        self, name: str, older: Sequence[Entry]
    ) -> tuple[Root[Any], list[Entry], int] | None:
        """Return the newest intact tree of older versions, and the commits since, oldest first."""
        since = [self.head]
        for entry in older:
            if any(one.changes.rewrite for one in since):
                return None
            root = getattr(entry, name)
            if root is not None and not len(await lost_rows(root, self.packs)):
                return (
                    root,
                    [one for one in reversed(since) if one.kind == "commit"],
                    entry.physical,
                )
            since.append(entry)
        return None

    def _lost(self, what: str) -> None:
        version = f"{self.log.branch}@{self.head.seq}"
        why = f"the {what} cannot be made out again; an older version may be whole: see ds.log()"
        self.done.append(Repair(version, why, is_recovered=False))

    def _recovered(self, what: str, rows: int) -> None:
        version = f"{self.log.branch}@{self.head.seq}"
        self.done.append(
            Repair(version, f"{what} of {rows:,} rows made out again", is_recovered=True)
        )


def _shown(ranges: Ranges) -> str:
    first = ", ".join(f"{start:,} … {stop - 1:,}" for start, stop in ranges[:SHOWN].tolist())
    return first + (", …" if len(ranges) > SHOWN else "")
