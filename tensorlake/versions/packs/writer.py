"""The packs of one transaction: its chunks and index pages before they are published.

    chunks, pages ──► open pack ──full──► sent ──► stored ──► durable, before it is referenced

Chunks fill the open pack; a full pack is sent to the store in the background, so memory stays
bounded for any amount staged. Until a pack is stored, its chunks are read from memory, which is how
a handle reads its own staged changes.

Rules enforced here (docs/reference/format.md, "Garbage", rule 1):
- pack 0 is stored by a single PUT before any other pack is sent: its store time is the
  transaction's age;
- large raw arrays fill packs of a folder directly (``packs/streaming.py``), bypassing this module;
- a pack name is PUT once. After an unknown outcome the pack is looked for; if it is missing, it is
  sent again under the next free number, which ``final_id`` returns. An entry is made from known
  pack names; if they change, it is made again (``transaction/entry.py``);
- packs of a local folder are stored first and made durable later: together, before references to
  them are published. A pack whose sync failed is read back, and sent again under another name;
- the single pack of a small commit in a folder may be synced while its entry is made (``finish``):
  ``check_synced`` waits for that before the entry becomes visible;
- Ctrl-C may interrupt the caller's thread between any two steps. Packs not known to be stored or in
  flight are sent; so a pack may be stored twice, under two names, but is never left out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from xxhash import xxh3_64_intdigest

from tensorlake.errors import StorageError, TensorlakeError, TransactionExpiredError
from tensorlake.format import (
    ChunkBlob,
    Entry,
    Extents,
    PackId,
    PageRef,
    PlacedChunk,
    TensorSpec,
    new_txid,
)
from tensorlake.storage import (
    Buffer,
    LocalStore,
    ObjectExistsError,
    Store,
    UnknownOutcomeError,
    runtime,
)
from tensorlake.types import Column, UniformColumn
from tensorlake.versions.log.entries import fence_of, microseconds
from tensorlake.versions.packs.pending_packs import UnsentPack, UnsyncedPack, UnsyncedPacks
from tensorlake.versions.packs.streaming import FilledPack, is_large_and_raw, shares_of, written

__all__ = ["PACK_NBYTES", "PackStage"]

PACK_NBYTES = 64 << 20
"""A pack is closed when it reaches this size (format.md, "Chunks")."""

FIRST_PACK_NBYTES = 6 << 20
PACK_SHARE = 8
"""The first pack has the size of a media chunk; later ones grow to an eighth of the staged data: so
storing begins at once, and little of a small transaction is left to be stored when it commits."""
LOCAL_PACK_SHARE = 32
"""The limit for a folder, where a file costs little and newly allocated memory costs more than
writing it: a pack is in memory from its first chunk until it is stored."""

UPLOADS_IN_FLIGHT = 4
IN_FLIGHT_NBYTES = 128 << 20
LOCAL_IN_FLIGHT_NBYTES = 16 << 20
"""Maximum closed packs in memory, by number and bytes, besides the open one and the first of them.
A folder answers at once, and new memory costs more than waiting for memory already in use."""

PUT_TRIES = 4
"""Names tried for a pack before its PUT is reported as failed."""


class PackStage:
    """Writer of one transaction's packs; also the page sink of its trees.

    Not thread-safe: the owning transaction holds a lock.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.txid = new_txid()
        self._numbers = itertools.count()
        self._final: dict[PackId, PackId] = {}
        self._unsent: dict[PackId, UnsentPack] = {}
        self._open: UnsentPack | None = None
        self._first: Future[PackId] | None = None
        self._uploads: list[tuple[UnsentPack, Future[PackId]]] = []
        self._unsynced = UnsyncedPacks(store)
        self._staged_nbytes = 0
        self.pack_count = 0
        self.pack_nbytes = 0
        self._adopted_at: int | None = None  # the store time of the oldest adopted pack
        self.renames = 0
        """Number of packs stored under another name: references to them must be rebuilt."""

    def add_chunk(self, blob: ChunkBlob, *, tensor_id: str, read_as: int) -> PlacedChunk:
        """Place a chunk and return its location.

        May wait for packs in flight, so never call it on the storage loop, which sends them.
        """
        assert not runtime.is_loop_thread()
        pack, offset = self._add(blob.pieces, what=tensor_id, checksum=blob.checksum)
        self._keep_few_on_their_way()
        if self._open is None:  # checked once per pack
            self._unsynced.keep_few()
        return PlacedChunk.of(blob, pack, offset, read_as=read_as)

    @property
    def store(self) -> Store:
        """The store of the packs."""
        return self._store

    @property
    def fills_packs(self) -> bool:
        """Whether large columns of raw samples are written as packs of their own."""
        return isinstance(self._store, LocalStore)

    def keeps(self, spec: TensorSpec, column: Column) -> bool:
        """Return whether staged samples stay in memory; those of columns that fill packs do not."""
        return not (self.fills_packs and is_large_and_raw(spec, column))

    def fill_packs(
        self, spec: TensorSpec, column: UniformColumn, cuts: Sequence[int]
    ) -> list[PlacedChunk]:
        """Write chunks as packs of their own, several at once; they are stored on return."""
        store, values = self._store, column.values
        assert isinstance(store, LocalStore), "keeps() comes first"
        if self._first is None:
            self.send_open()
        self.settle()  # the transaction's first pack is stored before any other
        packs = [
            FilledPack(PackId(self.txid, next(self._numbers)), spec, values, share)
            for share in shares_of(cuts, values.nbytes, pack_nbytes=PACK_NBYTES)
        ]
        with closing(written(packs, store)) as stored:
            for pack in stored:
                self._note_filled(pack)
        return [chunk for pack in packs for chunk in pack.chunks]

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Place an index page (the ``PageSink`` of ``tensorlake.format``).

        Never waits: trees are built on the storage loop, which sends the packs.
        """
        checksum = xxh3_64_intdigest(page)
        pack, offset = self._add((page,), what="page", checksum=checksum)
        return PageRef(
            pack=pack,
            offset=offset,
            nbytes=len(page),
            checksum=checksum,
            rows=rows,
            entries=entries,
            height=height,
        )

    def read(self, pack: PackId, offset: int, nbytes: int) -> Buffer | None:
        """Read bytes of a pack not stored yet; None when it is stored or of another transaction."""
        unsent = self._unsent.get(pack)
        return None if unsent is None else unsent.read(offset, nbytes)

    def final_id(self, pack: PackId) -> PackId:
        """Return the name under which a pack was finally stored."""
        return self._final.get(pack, pack)

    def with_final_ids(self, extents: Extents) -> Extents:
        """Return extents that reference packs by their stored names."""
        if not self._final:
            return extents
        return replace(extents, packs=tuple(self.final_id(pack) for pack in extents.packs))

    def send_open(self) -> None:
        """Close the open pack, if any, and start sending it and those that failed before."""
        self._open = None
        for pack in self._waiting():
            durable = not self._store.is_local  # packs of a folder are synced together
            sending = self._taken(pack)
            send = partial(self._send, pack, sending, after=self._first, durable=durable)
            # A folder's pack is written by one thread from start to end: a hop to the loop, to a
            # thread and back would take the interpreter from the thread that fills the next one.
            is_folder = isinstance(self._store, LocalStore)
            upload = runtime.submit_here(send) if is_folder else runtime.submit(send())
            self._first = self._first or upload
            self._uploads.append((pack, upload))

    def _waiting(self) -> list[UnsentPack]:
        """Return the packs that are neither stored nor in flight, in order."""
        under_way = {pack.id for pack, _ in self._uploads}
        return [one for one in self._unsent.values() if one.blobs and one.id not in under_way]

    def _keep_few_on_their_way(self) -> None:
        limit = LOCAL_IN_FLIGHT_NBYTES if self._store.is_local else IN_FLIGHT_NBYTES
        on_their_way = sum(pack.writer.nbytes for pack, _ in self._uploads)
        while self._uploads:
            count, (oldest, upload) = len(self._uploads), self._uploads[0]
            is_few = count <= UPLOADS_IN_FLIGHT and (count == 1 or on_their_way <= limit)
            if is_few and not upload.done():  # a stored pack frees its memory at once
                return
            on_their_way -= oldest.writer.nbytes
            self.settle(in_flight=count - 1)

    def settle(self, *, in_flight: int = 0) -> None:
        """Wait until at most ``in_flight`` packs are still being sent.

        Raises:
            StorageError: A pack could not be stored. It is kept and sent again by ``send_open``.
        """
        while len(self._uploads) > in_flight:
            pack, upload = self._uploads[0]  # removed once ended: waits may be interrupted
            try:
                stored_as = upload.result()
            except Exception:
                self._take_back()
                raise
            self._uploads.pop(0)
            self._note_stored(pack, stored_as)

    async def settled(self) -> None:
        """Wait until every pack is stored and durable; on the storage loop."""
        await runtime.to_loop()
        for _, upload in self._uploads:
            ended = asyncio.wrap_future(upload)
            # settle() reports a failure; asyncio would report this copy of it again, on stderr.
            ended.add_done_callback(lambda future: future.cancelled() or future.exception())
            await asyncio.wait([ended])
        self.settle()
        await self._unsynced.sync()

    async def finish(self, *, may_follow: bool = False) -> None:
        """Send the remaining packs; wait until all are stored and durable; on the storage loop.

        Args:
            may_follow: Whether a sync may still be running when this returns, if it runs in the
                caller's thread: ``check_synced`` then waits for it.
        """
        with suppress(TensorlakeError):  # from an earlier try: unsynced packs are in doubt now
            self.check_synced()
        await self._take_back_doubted()
        waiting = self._waiting()
        if self._uploads or len(waiting) != 1:
            self.send_open()
            await self.settled()
            return
        # One pack, as in every small commit: sent by this task, durable at once.
        self._open, pack = None, waiting[0]
        follows = may_follow and not self._unsynced and self._has_time_meanwhile()
        durable = not self._unsynced and not follows
        stored_as = await self._send(pack, self._taken(pack), after=None, durable=durable)
        if self._first is None:
            self._first = Future()
            self._first.set_result(stored_as)
        self._note_stored(pack, stored_as)
        if follows:
            self._unsynced.begin_sync()
        else:
            await self._unsynced.sync()

    def check_synced(self) -> None:
        """Wait for the sync that ``finish`` left running; references may be published after it.

        Raises:
            StorageError: It may be lost; ``finish`` sends it again if it can still be read.
        """
        self._unsynced.check()

    def _has_time_meanwhile(self) -> bool:
        """Return whether this thread would only wait for a disk."""
        store = self._store
        return runtime.runs_here() and isinstance(store, LocalStore) and store.waits_for_disk

    async def check_age(self, head: Entry, *, advice: str) -> None:
        """Check rule 1: chunks staged before the head's fence may be collected already.

        Raises:
            TransactionExpiredError: They are older; the message ends with the advice.
        """
        first, fence = await self.stored_at(), fence_of(head).t
        ages = [age for age in (first, self._adopted_at) if age is not None]
        if any(age <= fence for age in ages):
            raise TransactionExpiredError(
                f"transaction {self.txid} was staged longer ago than the dataset's grace time, so"
                f" its chunks may be collected; nothing was published\n{advice}",
                txid=self.txid,
            )

    async def stored_at(self) -> int | None:
        """Return the store time of the first pack, in microseconds: the transaction's age.

        None when nothing was sent; 0 when the pack is gone.
        """
        first = self.first_pack()
        meta = None if first is None else await self._store.head(first.path)
        return (None if first is None else 0) if meta is None else microseconds(meta.modified)

    def adopt(self, packs: int, nbytes: int, stored_at: int) -> None:
        """Count packs of another transaction that this one cites, by the age of the oldest."""
        self.pack_count += packs
        self.pack_nbytes += nbytes
        before = self._adopted_at
        self._adopted_at = stored_at if before is None else min(before, stored_at)

    def _note_stored(self, pack: UnsentPack, stored_as: PackId) -> None:
        if stored_as != pack.id:
            self._final[pack.id] = stored_as
            self.renames += 1
        if not pack.is_durable:
            self._unsynced.add(UnsyncedPack.of(pack.writer, stored_as))
        self._unsent.pop(pack.id)
        self.pack_count += 1
        self.pack_nbytes += pack.writer.nbytes

    def _note_filled(self, pack: FilledPack) -> None:
        if self._first is None:
            self._first = Future()
            self._first.set_result(pack.id)
        self._unsynced.add(UnsyncedPack.of(pack.writer, pack.id))
        self.pack_count += 1
        self.pack_nbytes += pack.writer.nbytes
        self._staged_nbytes += pack.writer.nbytes
        self._unsynced.keep_few()

    def _take_back(self) -> None:
        """After a failure, mark all packs that were not stored as no longer in flight."""
        uploads, self._uploads = self._uploads, []
        for pack, upload in uploads:
            if upload.exception() is None:
                self._note_stored(pack, upload.result())
            elif self._first is upload:
                self._first = None

    async def _take_back_doubted(self) -> None:
        """Read the packs in doubt after a sync back into memory.

        Raises:
            CorruptionError: One is lost; no reference to it is published.
        """
        doubted = self._unsynced.doubted
        while doubted:
            one = doubted[-1]
            self._unsent[one.id] = await one.read_back(self._store)
            doubted.pop()  # only once it is in memory again
            self._final.pop(one.id, None)
            self.pack_count -= 1
            self.pack_nbytes -= one.nbytes

    def first_pack(self) -> PackId | None:
        """Return the pack whose store time is the transaction's age; None when nothing was sent."""
        return None if self._first is None else self._first.result()

    def _add(self, pieces: tuple[Buffer, ...], *, what: str, checksum: int) -> tuple[PackId, int]:
        if self._open is None:
            pack_id = PackId(self.txid, next(self._numbers))
            self._unsent[pack_id] = UnsentPack.empty(pack_id)
            self._open = self._unsent[pack_id]
        pack = self._open
        offset = pack.add(pieces, what=what, checksum=checksum)
        self._staged_nbytes += sum(map(len, pieces))
        if pack.writer.nbytes >= self._pack_limit():
            self.send_open()
        return pack.id, offset

    def _pack_limit(self) -> int:
        share = LOCAL_PACK_SHARE if self._store.is_local else PACK_SHARE
        return min(PACK_NBYTES, max(FIRST_PACK_NBYTES, self._staged_nbytes // share))

    def _taken(self, pack: UnsentPack) -> UnsentPack:
        """Name a pack for sending; called by its sender, as only one thread may see it untried."""
        sending = self._renamed(pack) if pack.is_tried else pack
        pack.is_tried = True
        return sending

    async def _send(
        self,
        pack: UnsentPack,
        sending: UnsentPack,
        *,
        after: Future[PackId] | None,
        durable: bool,
    ) -> PackId:
        """PUT a pack under a name that is never used twice; return the name that stores it."""
        if after is not None and runtime.runs_here():
            after.result()  # of an earlier thread: packs go out in order
        elif after is not None:
            await asyncio.wrap_future(after)
        failure: Exception | None = None
        for _ in range(PUT_TRIES):
            path, pieces = sending.id.path, sending.writer.finish()
            try:
                await self._store.put_if_absent(path, pieces, durable=durable)
            except (UnknownOutcomeError, ObjectExistsError) as error:
                # Names are random: an object found there was stored by this very call.
                found = await self._store.head(path)
                if found is not None and found.nbytes == sum(len(piece) for piece in pieces):
                    return sending.id
                sending = self._renamed(sending)
                failure = error
            else:
                pack.is_durable = durable
                return sending.id
        message = f"pack {pack.id.path!r} could not be stored in {PUT_TRIES} tries; commit again"
        raise StorageError(message, object=pack.id.path) from failure

    def _renamed(self, pack: UnsentPack) -> UnsentPack:
        return pack.without_pages(PackId(self.txid, next(self._numbers)))


class DryStage(PackStage):
    """A writer for dry runs: places chunks and stores nothing."""

    def add_chunk(self, blob: ChunkBlob, *, tensor_id: str, read_as: int) -> PlacedChunk:
        """Return the location a chunk would have, in one unbounded pack."""
        del tensor_id
        offset = self.pack_nbytes
        self.pack_nbytes += sum(map(len, blob.pieces))
        return PlacedChunk.of(blob, PackId(self.txid, 0), offset, read_as=read_as)

    def keeps(self, spec: TensorSpec, column: Column) -> bool:
        """Return True: no column fills packs of its own here."""
        del spec, column
        return True
