"""Copy a dataset to another store: packs first, then entries in order, the descriptor last.

    claim ──► packs ──► entries 0, 1, 2, … of main, then of the others ──► tags ──► runs ──►
    HEADs ──► records of forgotten rows ──► descriptor ──► claim deleted

Stopped anywhere, there is no dataset yet (``refs/copy_claim.py``); run again, it continues. A
complete copy is updated in the same order, without a claim.

Entries are copied unchanged, so digests and row ids stay, and ``main@12`` is the same in both. A
copy of a single version begins a log of its own with that version's content.

The source is pinned if it is writable. Packs that are collected anyway belonged to expired
versions: the plan is made again from the current logs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from tensorlake.errors import (
    AccessError,
    InvalidInputError,
    SnapshotExpiredError,
    StorageError,
)
from tensorlake.format import (
    COPYING,
    DESCRIPTOR,
    MAIN,
    RUNS,
    Changes,
    Descriptor,
    Entry,
    entry_path,
    head_path,
    new_txid,
)
from tensorlake.storage import Store, probe, runtime
from tensorlake.versions.copy.forgotten import follow_forgotten
from tensorlake.versions.copy.plan import (
    ENTRIES_AT_ONCE,
    CopyPlan,
    check_history,
    packs_in_bases,
    plan_history,
    plan_version,
    refuse_mirror_of_version,
)
from tensorlake.versions.log.entries import author, time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.packs.copy import (
    PACKS_AT_ONCE,
    PacksCopied,
    PacksMissingError,
    copy_packs,
    sizes_of,
)
from tensorlake.versions.refs.copy_claim import CopyClaim, claim, read_claim
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.refs.descriptors import keep_second
from tensorlake.versions.refs.pins import pinned

__all__ = ["Copied", "copy_dataset"]

PLANS_MAX = 16
"""Plans made because packs were collected meanwhile, before copying fails."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy.

    Attributes:
        version: The requested version, as ``branch@number``; None: every version.
        packs: Packs that were copied, and their bytes.
        present: Packs that the target had already.
        entries: Log entries that were copied.
        tags: Tags that were copied.
    """

    version: str | None
    packs: int
    nbytes: int
    present: int
    entries: int
    tags: int


async def copy_dataset(
    source: Store,
    target: Store,
    *,
    version: str | dt.datetime | None = None,
    history: bool = True,
    mirror: bool = False,
    bases: bool = False,
    dry_run: bool = False,
    workers: int = PACKS_AT_ONCE,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Copied:
    """Copy a dataset; data that the target has already is not copied again.

    Args:
        source: Store to copy from.
        target: Store to copy to.
        version: One version, with the logs that it is based on; None: all branches and tags.
        history: False: only that version (main's newest when none is given).
        mirror: Make or update a copy that is written to only by copying.
        bases: Also copy the packs of a fork that are in its bases.
        dry_run: Only count.
        workers: Number of packs in flight.
        progress: Called with bytes done and total bytes.

    Raises:
        DatasetNotFoundError: There is nothing to copy.
        InvalidInputError: The target has another dataset, or a copy that has diverged.
        CorruptionError: A pack of the source is damaged.
    """
    if mirror:
        refuse_mirror_of_version(version=version, history=history)
    for _ in range(PLANS_MAX):
        try:
            plan = await (plan_history if history else plan_version)(source, version)
        except SnapshotExpiredError:
            if version is not None:
                raise
            continue
        await _check_target(plan, source, target, mirror=mirror)
        try:
            return await _copied(
                plan,
                source,
                target,
                mirror=mirror,
                bases=bases,
                dry_run=dry_run,
                workers=workers,
                progress=progress,
            )
        except PacksMissingError:
            if plan.version is not None and plan.heads:
                await check_history(source, plan)
    raise StorageError(
        f"packs of {source.url!r} were missing {PLANS_MAX} times, although their versions have not"
        " expired\nrun tensorlake check on it"
    )


async def _copied(
    plan: CopyPlan,
    source: Store,
    target: Store,
    *,
    mirror: bool,
    bases: bool,
    dry_run: bool,
    workers: int,
    progress: Callable[[int, int], None],
) -> Copied:
    there, here = await sizes_of(source), await sizes_of(target)
    borrowed = await packs_in_bases(plan, there)
    plan = replace(plan, packs=plan.packs - {pack for _, sizes in borrowed for pack in sizes})
    own = {pack: there[pack] for pack in plan.packs if pack in there}
    origins = [(source, own), *(borrowed if bases else ())]
    wanted = [one for _, sizes in origins for one in sizes.items() if here.get(one[0]) != one[1]]
    total = sum(nbytes for _, nbytes in wanted)
    version = None if plan.version is None else f"{plan.version[0]}@{plan.version[1].seq}"
    if dry_run:
        present = sum(len(sizes) for _, sizes in origins) - len(wanted)
        return Copied(version, len(wanted), total, present, 0, 0)
    if len(own) < len(plan.packs):
        raise PacksMissingError
    claimed = await _claimed(plan, source, target, mirror=mirror)
    async with AsyncExitStack() as pins:
        await _pin(plan, source, pins)
        done = 0

        def advanced(nbytes: int) -> None:
            nonlocal done
            done += nbytes
            progress(done, total)

        copied = [
            await copy_packs(
                store,
                target,
                sizes,
                there=sizes,
                here=here,
                workers=workers,
                progress=advanced,
            )
            for store, sizes in origins
        ]
        entries = tags = 0
        if not plan.heads:
            entries = await _begin_anew(plan, source, target)
        for branch, head in plan.heads.items():
            entries += await _copy_log(source, target, branch, head)
        if plan.heads:
            tags = await _copy_tags(plan, source, target, mirror=mirror)
        if plan.version is None:
            await _copy_runs(source, target)
        for branch, head in plan.heads.items():
            await _put_hint(target, branch, head, mirror=mirror)
        if plan.heads:
            await follow_forgotten(plan, source, target, mirror=mirror)
        if claimed is not None:
            await _put_descriptor(plan, target, claimed, mirror_of=source.url if mirror else None)
        if (whole := await read_descriptor(target)) is not None:
            await keep_second(target, whole.id)
        if await target.head(COPYING) is not None:
            await target.delete(COPYING)
        return _report(version, copied, entries, tags)


def _report(version: str | None, packs: Sequence[PacksCopied], entries: int, tags: int) -> Copied:
    return Copied(
        version,
        sum(one.copied for one in packs),
        sum(one.nbytes for one in packs),
        sum(one.present for one in packs),
        entries,
        tags,
    )


async def _pin(plan: CopyPlan, source: Store, pins: AsyncExitStack) -> None:
    """Pin the copied versions, if the source is writable."""
    held = [plan.version] if plan.version is not None else list(plan.heads.items())
    for branch, entry in held:
        if entry.kind != "commit":
            continue
        try:
            await pins.enter_async_context(pinned(source, branch, entry, txid=new_txid()))
        except (AccessError, StorageError):
            return  # it is read-only: if packs are collected meanwhile, the plan is made again


async def _check_target(plan: CopyPlan, source: Store, target: Store, *, mirror: bool) -> None:
    """Refuse a target that holds anything else, before anything is written.

    Raises:
        InvalidInputError: The target holds other data.
    """
    descriptor = await read_descriptor(target)
    if descriptor is None:
        existing = await read_claim(target)
        if existing is None:
            await probe(target)
        else:
            existing.refuse_other(_wanted(plan, source, mirror=mirror), target)
    elif (descriptor.mirror_of is not None) != mirror or (
        mirror and descriptor.mirror_of != source.url
    ):
        what = f"a mirror of {descriptor.mirror_of!r}" if descriptor.mirror_of else "not a mirror"
        raise InvalidInputError(
            f"the dataset at {target.url!r} is {what}\n"
            "copy to another URL, or pass mirror=True if it is a mirror of this source",
            dataset=target.url,
        )
    if plan.version is not None and not plan.heads:
        first = await BranchLog(target, MAIN).entry(0)
        if first is not None and first.meta.get("copied_from") != _citation(plan, source):
            raise _another(target)
    for branch, head in plan.heads.items():
        newest = await BranchLog(target, branch).head()
        if newest is None:
            continue
        same = await BranchLog(source, branch).entry(newest.seq)
        if newest.seq > head.seq or same is None or same.digest != newest.digest:
            raise _went_its_own_way(target, branch, newest.seq, done="; nothing was written")


def _wanted(plan: CopyPlan, source: Store, *, mirror: bool) -> CopyClaim:
    branch, entry = (None, None) if plan.version is None or plan.heads else plan.version
    return CopyClaim(
        id=new_txid(),
        source=plan.descriptor.id,
        url=source.url,
        mirror_of=source.url if mirror else None,
        only=None if entry is None else f"{branch}@{entry.seq}",
    )


async def _claimed(
    plan: CopyPlan, source: Store, target: Store, *, mirror: bool
) -> CopyClaim | None:
    """Claim the target, unless the copy there is complete already."""
    if await read_descriptor(target) is not None:
        return None
    wanted = _wanted(plan, source, mirror=mirror)
    claimed = await claim(target, wanted)
    # Another copy may have finished, or a dataset been made, since the descriptor was looked for:
    # creation looks for a claim after writing its descriptor, so one of the two sees the other.
    if await read_descriptor(target) is None:
        return claimed or await _claimed(plan, source, target, mirror=mirror)
    if claimed is wanted:
        await target.delete(COPYING)
    await _check_target(plan, source, target, mirror=mirror)
    return None


async def _put_descriptor(
    plan: CopyPlan, target: Store, claimed: CopyClaim, *, mirror_of: str | None
) -> None:
    descriptor = Descriptor(
        claimed.id,
        await time_in(target),
        plan.descriptor.grace_s,
        mirror_of,
        plan.descriptor.unknown,
    )
    if await put_surely(target, DESCRIPTOR, descriptor.to_bytes()):
        return
    existing = await read_descriptor(target)
    if existing is not None and existing.id != claimed.id:
        raise _another(target)  # its creator finds the claim, which stays, and undoes the creation


async def _put_hint(target: Store, branch: str, head: Entry, *, mirror: bool) -> None:
    """Set ``HEAD`` to the last entry copied; a mirror's is authoritative, and never goes back."""
    log = BranchLog(target, branch)
    data = await target.get(entry_path(branch, head.seq)) or b""
    if Entry.from_bytes(data, where=entry_path(branch, head.seq)).digest != head.digest:
        raise _went_its_own_way(target, branch, head.seq)
    hint = await log.hint() if mirror else None
    if hint is None or hint <= head.seq or await log.entry(hint) is None:
        await target.put(head_path(branch), data)


async def _copy_log(source: Store, target: Store, branch: str, head: Entry) -> int:
    """Put the entries that the target lacks, in order; return their number."""
    newest = await BranchLog(target, branch).head()
    start = 0 if newest is None else newest.seq + 1
    for first in range(start, head.seq + 1, ENTRIES_AT_ONCE):
        numbers = range(first, min(head.seq + 1, first + ENTRIES_AT_ONCE))
        reads = [partial(source.get, entry_path(branch, seq)) for seq in numbers]
        for seq, data in zip(
            numbers, await runtime.gather_bounded(reads, limit=ENTRIES_AT_ONCE), strict=True
        ):
            path = entry_path(branch, seq)
            Entry.from_bytes(data or b"", where=path)
            await _put_same(target, path, data or b"")
    return max(0, head.seq + 1 - start)


async def _copy_runs(source: Store, target: Store) -> None:
    """Put the parts of records of runs that the target lacks; none is ever overwritten."""
    here = {meta.path async for meta in target.list(RUNS)}
    missing = [meta.path async for meta in source.list(RUNS) if meta.path not in here]

    async def one(path: str) -> None:
        data = await source.get(path)
        if data is not None:  # else the run was deleted meanwhile
            await put_surely(target, path, data)

    await runtime.gather_bounded([partial(one, path) for path in missing], limit=ENTRIES_AT_ONCE)


async def _put_same(target: Store, path: str, data: bytes) -> None:
    """Put an object, unless an identical one is there."""
    if not await put_surely(target, path, data) and await target.get(path) != data:
        raise InvalidInputError(
            f"{path!r} of {target.url!r} differs from the source's: both were written to"
            "\ncopy to another URL",
            object=path,
        )


async def _copy_tags(plan: CopyPlan, source: Store, target: Store, *, mirror: bool) -> int:
    """Put tags; in a mirror, also delete those deleted at the source."""
    copied = 0
    for path in plan.tags:
        data = await source.get(path)
        if data is None:
            continue
        found = await target.get(path)
        if found is None:
            await _put_same(target, path, data)
            copied += 1
        elif found != data and mirror:
            await target.put(path, data)
            copied += 1
    return copied


async def _begin_anew(plan: CopyPlan, source: Store, target: Store) -> int:
    """Publish a version as the first entry of a log of its own."""
    assert plan.version is not None
    branch, entry = plan.version
    first = entry.changed(
        kind="commit",
        seq=0,
        prev=None,
        txid=new_txid(),
        time=await time_in(target),
        parents=(),
        merged={},
        author=author(target),
        message=f"copy of {branch}@{entry.seq} of {source.url}",
        meta={"copied_from": _citation(plan, source)},
        keys=(),
        fence=None,
        changes=Changes(),
        of=None,
    )
    log = BranchLog(target, MAIN)
    published = await log.publish(first)
    if isinstance(published, Entry):
        await log.write_hint(published)
        return 1
    if published.winner.meta.get("copied_from") != _citation(plan, source):
        raise _another(target)
    await log.write_hint(await log.newest_from(published.winner))
    return 0


def _citation(plan: CopyPlan, source: Store) -> dict[str, str]:
    """Return the origin recorded in a copy of one version."""
    assert plan.version is not None
    branch, entry = plan.version
    return {"url": source.url, "version": f"{branch}@{entry.seq}", "digest": entry.digest}


def _went_its_own_way(target: Store, branch: str, seq: int, *, done: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"branch {branch!r} of {target.url!r} is not a copy of the source's: it has its"
        f" own entry {seq}\ncopy to another URL{done}",
        dataset=target.url,
        branch=branch,
    )


def _another(target: Store) -> InvalidInputError:
    return InvalidInputError(
        f"there is another dataset at {target.url!r}\ncopy to another URL",
        dataset=target.url,
    )
