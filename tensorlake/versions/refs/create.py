"""Making a dataset: the descriptor first, then ``branches/main/0``, whose put-if-absent decides.

A descriptor without that entry is an interrupted creation, which ``create_dataset`` completes. That
entry without a descriptor is a dataset being deleted, or a copy under way: creation is refused.
"""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.format import (
    DESCRIPTOR,
    MAIN,
    Descriptor,
    Entry,
    Extents,
    Features,
    PackId,
    PackWriter,
    PageRef,
    Root,
    RowIdRuns,
    RowSegments,
    Schema,
    entry_path,
    head_path,
    new_txid,
)
from tensorlake.storage import Buffer, Store, probe
from tensorlake.versions.log.entries import author, time_in
from tensorlake.versions.log.log import BranchLog, LostRace
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.refs.copy_claim import unfinished
from tensorlake.versions.refs.descriptors import put_second, second_puts
from tensorlake.versions.refs.refs import Resolved

__all__ = ["create_dataset", "read_descriptor", "what_remains"]


async def create_dataset(
    store: Store, schema: dict[str, Any], *, grace_s: int, exist_ok: bool
) -> Resolved:
    """Make an empty dataset; with ``exist_ok`` return the head of an existing one.

    Raises:
        InvalidInputError: A dataset exists already.
    """
    log = BranchLog(store, MAIN)
    if await read_descriptor(store) is None:
        leftovers = await what_remains(store)
        if (
            leftovers is not None and await read_descriptor(store) is None
        ):  # none was created meanwhile
            raise InvalidInputError(leftovers, dataset=store.url)
        await probe(store)
        descriptor = Descriptor(new_txid(), await time_in(store), grace_s)
        if not await put_surely(store, DESCRIPTOR, descriptor.to_bytes()):
            await read_descriptor(store)  # refuse another creator's that we cannot write
        elif (leftovers := await unfinished(store)) is not None:
            await store.delete(DESCRIPTOR)  # a copy looks for it after its claim
            raise InvalidInputError(leftovers, dataset=store.url)
        else:
            await put_second(store, descriptor)
    head = await log.head()
    if head is None:
        first = Entry(
            kind="commit",
            seq=0,
            txid=new_txid(),
            time=await time_in(store),
            author=author(store),
            message="create",
            features=Features().with_schema(schema),
            schema=schema,
            roots={spec.id: Root.of(Extents.empty()) for spec in Schema.from_json(schema).tensors},
            rows=Root.of(RowSegments.empty()),
            row_ids=Root.of(RowIdRuns.empty()),
        )
        published = await log.publish(await _with_pages(store, first))
        if isinstance(published, Entry):
            await log.write_hint(published)
            return Resolved(MAIN, published, is_writable=True, name=MAIN)
        head = published.winner
        if not isinstance(published, LostRace) or not exist_ok:
            raise _exists(store)
    if not exist_ok:
        raise _exists(store)
    return Resolved(MAIN, await log.newest_from(head), is_writable=True, name=MAIN)


async def _with_pages(store: Store, first: Entry) -> Entry:
    """Store parts too large for the entry, such as a schema of 10³ tensors, in a pack."""
    pages = _FirstPack(first.txid)
    entry = first.spill(pages)
    if entry.spilled:
        await put_surely(store, pages.id.path, pages.writer.finish())
    return entry


class _FirstPack:
    """The page sink of a dataset's first entry: one pack in memory."""

    def __init__(self, txid: str) -> None:
        self.id = PackId(txid, 0)
        self.writer = PackWriter(txid, 0)

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Place a page (the ``PageSink`` of ``tensorlake.format``)."""
        return PageRef(
            pack=self.id,
            offset=self.writer.add((page,), what="page"),
            nbytes=len(page),
            checksum=xxh3_64_intdigest(page),
            rows=rows,
            entries=entries,
            height=height,
        )


async def what_remains(store: Store) -> str | None:
    """Describe the remains at a place without a descriptor, with advice; None if it is empty.

    They are of an unfinished copy or an unfinished deletion.
    """
    leftovers = await unfinished(store)
    # A hint alone: a handle committed after a deletion had listed the objects to delete.
    traces = (entry_path(MAIN, 0), head_path(MAIN))
    if leftovers is None and any([await store.head(path) is not None for path in traces]):
        is_there = any(one.error is None for one in await second_puts(store))
        restore = "run tensorlake check --repair" if is_there else "restore it from a copy"
        leftovers = (
            f"at {store.url!r} is what remains of a dataset: log entries without {DESCRIPTOR!r}\n"
            f"{restore}, or remove the rest with"
            f" tl.delete({store.url!r}, confirm={store.url!r}), or choose another URL"
        )
    return leftovers


def _exists(store: Store) -> InvalidInputError:
    return InvalidInputError(
        f"there is a tensorlake dataset at {store.url!r} already\n"
        "open it with tl.open(url), or give exist_ok=True, or choose another URL",
        dataset=store.url,
    )


async def read_descriptor(store: Store) -> Descriptor | None:
    """Read the descriptor; None when there is none.

    Raises:
        CorruptionError: The descriptor is damaged.
        UnsupportedFeatureError: It was written by a newer format than this reads.
    """
    data = await store.get(DESCRIPTOR)
    if data is None:
        return None
    if not data:
        message = f"{DESCRIPTOR!r} of {store.url!r} is empty; restore it from a copy"
        raise CorruptionError(message, object=DESCRIPTOR)
    return Descriptor.from_bytes(data)
