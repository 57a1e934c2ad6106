"""Where one transaction's chunks and index pages go before they are published: its packs.

    chunks, pages ──► open pack ──full──► sent ──► stored ──► durable, before anything cites it

Chunks fill the open pack; a full pack is sent to the store in the background, so memory stays
bounded whatever is staged. Until a pack is stored, its chunks are read from memory, which is how a
handle reads its own staged changes.

Rules kept here (docs/reference/format.md, "Garbage", rule 1):
- pack 0 is stored by a single PUT before any other pack is sent: its store time is the
  transaction's age;
- large raw arrays fill packs of a folder directly (``filled_packs``), which then are never here;
- a pack name is PUT once. After an unknown outcome the pack is looked for; when it is not there it
  goes out again under the next free number, and ``final_id`` tells which. An entry is made for
  packs whose names are known: else it is made again (``transaction/entry.py``);
- packs of a local folder are stored first and made durable later: together, before what cites
  them is published. A pack whose sync failed is read back, and goes out again as another;
- the one pack of a small commit in a folder may be synced while its entry is made (``finish``):
  ``check_synced`` waits for that before anybody can see the entry;
- Ctrl-C may come between any two steps of the caller's thread. What is not known to be stored, nor
  under way, is sent; a pack may so be stored twice, under two names, and is never left out.
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
from tensorlake.versions.packs.deferred_sync import UnsyncedPack, UnsyncedPacks
from tensorlake.versions.packs.in_memory import UnsentPack
from tensorlake.versions.packs.streaming import FilledPack, is_large_and_raw, shares_of, written

__all__ = ["PACK_NBYTES", "PackStage"]

PACK_NBYTES = 64 << 20
"""A pack is closed when it reaches this size (format.md, "Chunks")."""

FIRST_PACK_NBYTES = 6 << 20
PACK_SHARE = 8
"""Packs begin with a chunk of media and grow with what is staged, of which each is an eighth: so
storing begins at once, and little of a small transaction is left to be stored when it commits."""
LOCAL_PACK_SHARE = 32
"""Of a folder, where another file costs little, and memory that a system gives for the first time
more than writing it: a pack is in memory from its first chunk until it is stored."""

UPLOADS_IN_FLIGHT = 4
IN_FLIGHT_NBYTES = 128 << 20
LOCAL_IN_FLIGHT_NBYTES = 16 << 20
"""Closed packs held in memory at most, by number and bytes, beside the open one and the first of
them. A folder answers at once, and new memory costs more than waiting for what is used already."""

PUT_TRIES = 4
"""How many names a pack is given before its PUT is reported as failed."""


class PackStage:
    """The packs of one transaction, being filled and sent. Also the page sink of its trees.

    Not thread-safe: the transaction that owns it holds one lock.
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
        self.renames = 0
        """How many packs were stored under another name: what cites them must be built again."""

    def add_chunk(self, blob: ChunkBlob, *, tensor_id: str, read_as: int) -> PlacedChunk:
        """Place a chunk; what is returned says where it is.

        May wait for packs on their way, so never call it on the storage loop, which sends them.
        """
        assert not runtime.is_loop_thread()
        pack, offset = self._add(blob.pieces, what=tensor_id, checksum=blob.checksum)
        self._keep_few_on_their_way()
        if self._open is None:  # asked once a pack
            self._unsynced.keep_few()
        return PlacedChunk.of(blob, pack, offset, read_as=read_as)

    @property
    def store(self) -> Store:
        """Where the packs go."""
        return self._store

    @property
    def fills_packs(self) -> bool:
        """Whether large columns of raw samples are written as packs of their own."""
        return isinstance(self._store, LocalStore)

    def keeps(self, spec: TensorSpec, column: Column) -> bool:
        """Whether samples are held once they are staged; of a column that fills packs none is."""
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

        Never waits: trees are built on the storage loop, which does the sending.
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
        """Read bytes of a pack that is not stored yet; None when it is stored, or another's."""
        unsent = self._unsent.get(pack)
        return None if unsent is None else unsent.read(offset, nbytes)

    def final_id(self, pack: PackId) -> PackId:
        """Tell under which name a pack was stored in the end."""
        return self._final.get(pack, pack)

    def with_final_ids(self, extents: Extents) -> Extents:
        """Let extents cite packs by the names they were stored under."""
        if not self._final:
            return extents
        return replace(extents, packs=tuple(self.final_id(pack) for pack in extents.packs))

    def send_open(self) -> None:
        """Close the open pack, if any, and begin to send it, and those that failed before."""
        self._open = None
        for pack in self._waiting():
            durable = not self._store.is_local  # a folder's are made so together
            sending = self._taken(pack)
            send = partial(self._send, pack, sending, after=self._first, durable=durable)
            # A folder's pack is written by one thread from its start to its end: a hop to the loop
            # and on to a thread, and back, takes the interpreter from whoever fills the next one.
            is_folder = isinstance(self._store, LocalStore)
            upload = runtime.submit_here(send) if is_folder else runtime.submit(send())
            self._first = self._first or upload
            self._uploads.append((pack, upload))

    def _waiting(self) -> list[UnsentPack]:
        """Packs that are neither stored nor under way, in order."""
        under_way = {pack.id for pack, _ in self._uploads}
        return [one for one in self._unsent.values() if one.blobs and one.id not in under_way]

    def _keep_few_on_their_way(self) -> None:
        limit = LOCAL_IN_FLIGHT_NBYTES if self._store.is_local else IN_FLIGHT_NBYTES
        on_their_way = sum(pack.writer.nbytes for pack, _ in self._uploads)
        while self._uploads:
            count, (oldest, upload) = len(self._uploads), self._uploads[0]
            is_few = count <= UPLOADS_IN_FLIGHT and (count == 1 or on_their_way <= limit)
            if is_few and not upload.done():  # one that is stored gives its memory back at once
                return
            on_their_way -= oldest.writer.nbytes
            self.settle(in_flight=count - 1)

    def settle(self, *, in_flight: int = 0) -> None:
        """Wait until at most ``in_flight`` packs are still being sent.

        Raises:
            StorageError: A pack could not be stored. It is kept, and sent again by ``send_open``.
        """
        while len(self._uploads) > in_flight:
            pack, upload = self._uploads[0]  # taken off only when it has ended: waiting may stop
            try:
                stored_as = upload.result()
            except Exception:
                self._take_back()
                raise
            self._uploads.pop(0)
            self._note_stored(pack, stored_as)

    async def settled(self) -> None:
        """Wait until every pack is stored, and durable; on the storage loop."""
        await runtime.to_loop()
        for _, upload in self._uploads:
            ended = asyncio.wrap_future(upload)
            # settle() reports a failure; asyncio would report this copy of it once more, on stderr.
            ended.add_done_callback(lambda future: future.cancelled() or future.exception())
            await asyncio.wait([ended])
        self.settle()
        await self._unsynced.sync()

    async def finish(self, *, may_follow: bool = False) -> None:
        """Send what is left; wait until every pack is stored, and durable; on the storage loop.

        Args:
            may_follow: Whether a pack may still be on its way to the disk, when this runs in the
                caller's thread: ``check_synced`` then waits for it.
        """
        with suppress(TensorlakeError):  # of a try before: what was not synced is now in doubt
            self.check_synced()
        await self._take_back_doubted()
        waiting = self._waiting()
        if self._uploads or len(waiting) != 1:
            self.send_open()
            await self.settled()
            return
        # One pack, as of every small commit: sent by this very task, durable at once.
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
        """Wait for what ``finish`` let follow: what cites it may be published from then on.

        Raises:
            StorageError: It may be lost; ``finish`` sends it again if it can still be read.
        """
        self._unsynced.check()

    def _has_time_meanwhile(self) -> bool:
        """Whether this thread would wait for a disk, and nothing else."""
        store = self._store
        return runtime.runs_here() and isinstance(store, LocalStore) and store.waits_for_disk

    async def check_age(self, head: Entry, *, advice: str) -> None:
        """Rule 1: what was staged before the head's fence may be collected already.

        Raises:
            TransactionExpiredError: It was; the message ends with the advice.
        """
        first = self.first_pack()
        if first is None:
            return
        meta = await self._store.head(first.path)
        if meta is None or microseconds(meta.modified) <= fence_of(head).t:
            raise TransactionExpiredError(
                f"transaction {self.txid} was staged longer ago than the dataset's grace time, so"
                f" its chunks may be collected; nothing was published\n{advice}",
                txid=self.txid,
            )

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
        """After a failure: whatever else was not stored either is no longer under way."""
        uploads, self._uploads = self._uploads, []
        for pack, upload in uploads:
            if upload.exception() is None:
                self._note_stored(pack, upload.result())
            elif self._first is upload:
                self._first = None

    async def _take_back_doubted(self) -> None:
        """Hold again what a sync left in doubt.

        Raises:
            CorruptionError: It is lost; nothing that cites it is published.
        """
        doubted = self._unsynced.doubted
        while doubted:
            one = doubted[-1]
            self._unsent[one.id] = await one.read_back(self._store)
            doubted.pop()  # not before it is held again
            self._final.pop(one.id, None)
            self.pack_count -= 1
            self.pack_nbytes -= one.nbytes

    def first_pack(self) -> PackId | None:
        """Name the pack whose store time is the transaction's age; None when nothing was sent."""
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
        """Say as what a pack goes out; by who sends it, for only one thread may see it untried."""
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
        """PUT a pack under a name that is never used twice; the name that holds it is returned."""
        if after is not None and runtime.runs_here():
            after.result()  # of a thread that took it before: in the order that they were given
        elif after is not None:
            await asyncio.wrap_future(after)
        failure: Exception | None = None
        for _ in range(PUT_TRIES):
            path, pieces = sending.id.path, sending.writer.finish()
            try:
                await self._store.put_if_absent(path, pieces, durable=durable)
            except (UnknownOutcomeError, ObjectExistsError) as error:
                # Names are random: whatever stands there is what this very call stored.
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
    """Places chunks and stores nothing: where a dry run writes."""

    def add_chunk(self, blob: ChunkBlob, *, tensor_id: str, read_as: int) -> PlacedChunk:
        """Say where a chunk would be, in one pack without end."""
        del tensor_id
        offset = self.pack_nbytes
        self.pack_nbytes += sum(map(len, blob.pieces))
        return PlacedChunk.of(blob, PackId(self.txid, 0), offset, read_as=read_as)

    def keeps(self, spec: TensorSpec, column: Column) -> bool:
        """Whether samples are held once they are staged: none makes packs of its own here."""
        del spec, column
        return True
