"""Forks: datasets whose packs may be in a base, and that can take them in later.

    base       main@12 ── pages, chunks
                  ▲ bases: [{id, url, branch, seq, digest}]
    fork       main@0, the body of main@12 ── main@1, new pages and chunks

A fork is one log entry: it costs the same for any number of rows. The base is read only. It is
tagged where it can be written, so that its collector keeps the forked version.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tensorlake.errors import (
    AccessError,
    DatasetNotFoundError,
    InvalidInputError,
    StorageError,
    UnsupportedError,
    UntaggedBaseWarning,
)
from tensorlake.format import (
    DESCRIPTOR,
    MAIN,
    PACK_BASES,
    Base,
    Changes,
    Descriptor,
    Entry,
    new_txid,
)
from tensorlake.storage import Store, probe, runtime
from tensorlake.versions.copy.plan import packs_in_bases, plan_history
from tensorlake.versions.log.entries import author, fence_of, time_in
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.log.state import State, state_of
from tensorlake.versions.merge.base import Version
from tensorlake.versions.packs.copy import PacksCopied, copy_packs, sizes_of
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.packs.writer import PackStage
from tensorlake.versions.refs.copy_claim import unfinished
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.refs.descriptors import put_second
from tensorlake.versions.refs.refs import (
    Tag,
    commit_under,
    create_tag,
    refuse_forgotten,
    resolve,
)
from tensorlake.versions.refs.registry import withdraw
from tensorlake.versions.transaction.publish import Draft, Publication, publish

__all__ = ["Forked", "absorb_bases", "base_tagged", "fork_dataset", "warn_untagged"]

FORK_TAG = "fork-"
READ_ONLY = (AccessError, StorageError, UnsupportedError)


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork that was made.

    Attributes:
        entry: Its first entry.
        tag: The tag that keeps the base's version; None where the base is read only.
    """

    entry: Entry
    tag: str | None


async def fork_dataset(
    base: Store, url: str, target: Store, version: str | dt.datetime | None
) -> Forked:
    """Make a dataset that begins with a version of another one, and reads its packs there.

    Args:
        base: Store of the base.
        url: Its address, as the fork is to record it.
        target: Where the fork is made; nothing is there yet.
        version: The base's version; None: the newest of main.

    Raises:
        DatasetNotFoundError: There is no base.
        InvalidInputError: There is a dataset at the target.
    """
    descriptor, source, branch = await _source(base, version)
    made = Descriptor(new_txid(), await time_in(target), descriptor.grace_s)
    await probe(target)
    if not await put_surely(target, DESCRIPTOR, made.to_bytes()):
        existing = await read_descriptor(target)
        if existing is None or await BranchLog(target, MAIN).head() is not None:
            raise _exists(target)
        made = existing  # of an interrupted creation
    elif (leftovers := await unfinished(target)) is not None:
        await target.delete(DESCRIPTOR)
        raise InvalidInputError(leftovers, dataset=target.url)
    else:
        await put_second(target, made)
    tag = await _tagged(base, f"{FORK_TAG}{made.id}", source, branch)
    origin = Base(descriptor.id, url, branch, source.seq, source.digest)
    published = await BranchLog(target, MAIN).publish(await _first_entry(target, source, origin))
    if not isinstance(published, Entry):
        raise _exists(target)
    return Forked(published, None if tag is None else tag.name)


async def _source(base: Store, version: str | dt.datetime | None) -> tuple[Descriptor, Entry, str]:
    """Return the base's descriptor, and the commit of a version with its branch."""
    descriptor, resolved = await asyncio.gather(
        read_descriptor(base), resolve(base, version), return_exceptions=True
    )
    if descriptor is None:
        raise DatasetNotFoundError(
            f"no tensorlake dataset at {base.url!r}, so there is nothing to fork", dataset=base.url
        )
    if isinstance(descriptor, BaseException):
        raise descriptor
    if isinstance(resolved, BaseException):
        raise resolved
    source = await commit_under(base, resolved.branch, resolved.entry)
    if fence_of(source).expired_before:  # else no version has expired
        await refuse_forgotten(base, resolved.branch, source.seq)
    source.features.check_readable(f"{resolved.branch}@{source.seq} of {base.url!r}")
    return descriptor, source, resolved.branch


async def _first_entry(target: Store, source: Entry, origin: Base) -> Entry:
    features = source.features
    if PACK_BASES not in features.read:
        features = replace(features, read=(*features.read, PACK_BASES))
    return source.changed(
        kind="commit",
        seq=0,
        prev=None,
        txid=new_txid(),
        time=await time_in(target),
        parents=(),
        merged={},
        author=author(target),
        message=f"fork of {origin.version} of {origin.url}",
        meta={},
        keys=(),
        fence=None,
        changes=Changes(),
        of=None,
        features=features,
        bases=(origin, *source.bases),
    )


async def _tagged(base: Store, name: str, source: Entry, branch: str) -> Tag | None:
    """Tag the base's version; None where the base cannot be written."""
    try:
        return await create_tag(base, name, source, branch, is_random=True)
    except READ_ONLY:
        return None


@contextmanager
def base_tagged(packs: PackReader, version: Version) -> Generator[None]:
    """Keep a version of a base by a tag there, while it is merged into the fork and from then on.

    Warns where the base cannot be written. The tag goes if the merge fails.
    """
    assert version.origin is not None, "it is a version of a base"
    store = packs.places.base_store(version.origin)
    name = f"{FORK_TAG}{new_txid()}"
    tag = runtime.run(_tagged(store, name, version.entry, version.branch))
    if tag is None:
        warn_untagged(version.origin, packs.store.url)
    try:
        yield
    except BaseException:
        if tag is not None:
            runtime.run(withdraw(store, tag.name, txid=tag.txid))
        raise


def warn_untagged(base: Base, url: str) -> None:
    """Warn that the owner of a base may delete what a fork reads."""
    warnings.warn(
        f"the base {base.url!r} cannot be written, so no tag keeps {base.version}"
        f" there: its owner may delete what the fork {url!r} reads"
        "\nask the owner to tag the version; or copy the base's data into the fork:"
        " ds.absorb()",
        UntaggedBaseWarning,
        stacklevel=3,
    )


def absorb_bases(
    log: BranchLog, packs: PackReader, head: Entry, *, progress: Callable[[int, int], None]
) -> tuple[PacksCopied, Entry]:
    """Copy the packs that any version needs from the bases, and publish a version without bases.

    Args:
        log: A branch of the fork.
        packs: The reader of its packs.
        head: The branch's newest entry, loaded.
        progress: Called with bytes done and total bytes.

    Returns:
        The packs copied, and the entry that was published.
    """
    copied = runtime.run(_copied(log.store, progress))
    return copied, _without_bases(log, packs, head)


async def _copied(store: Store, progress: Callable[[int, int], None]) -> PacksCopied:
    plan = await plan_history(store, None)
    here = await sizes_of(store)
    origins = await packs_in_bases(plan, here)
    found = {pack for _, sizes in origins for pack in sizes}
    lost = sorted(pack for pack in plan.packs if pack not in here and pack not in found)
    if lost:
        raise StorageError(
            f"{len(lost):,} packs of the fork {store.url!r} are in no base, such as"
            f" {lost[0].path!r}; nothing was published\nrun tensorlake check",
        )
    total = sum(nbytes for _, sizes in origins for nbytes in sizes.values())
    done = 0

    def advanced(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        progress(done, total)

    count = 0
    for base, sizes in origins:
        part = await copy_packs(base, store, sizes, there=sizes, here=here, progress=advanced)
        count += part.copied
    return PacksCopied(count, total, 0)


def _without_bases(log: BranchLog, packs: PackReader, head: Entry) -> Entry:
    def prepare(newest: Entry, since: object) -> Draft | None:
        del since
        if not newest.bases:
            return None

        async def build(sink: object) -> State:
            del sink
            return state_of(newest)

        members: Mapping[str, object] = {
            "message": "absorb the base",
            "author": author(log.store),
            "changes": Changes(),
            "bases": (),
        }
        return Draft(build, members, keeps_schema=True)

    stage = PackStage(log.store)
    work = Publication(log, packs, stage, began_at_fence=fence_of(head).t)
    return publish(work, head, prepare).published.entry


def _exists(target: Store) -> InvalidInputError:
    return InvalidInputError(
        f"there is a tensorlake dataset at {target.url!r} already\nfork to another URL",
        dataset=target.url,
    )
