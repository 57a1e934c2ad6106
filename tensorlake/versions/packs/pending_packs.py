"""Packs on their way into the store: in memory, then stored and, in a folder, not yet durable.

Their life cycle:

    UnsentPack, in memory ──put──► in the store ──► durable at once        (object stores; one pack)
            ▲                           │
            │                           └► UnsyncedPack ──sync──► durable  (packs of a folder)
            └─ under another name ── read back ◄── doubted ◄── failed, or interrupted ┘

Packs of a folder are synced together, which costs one flush instead of one each; their memory is
freed once they are written. When a sync fails, it is unknown which bytes are on disk, and the
system may report success for the next one: so they are read back, compared with their checksums,
and written again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import PackedBlob, PackId, PackWriter
from tensorlake.storage import Buffer, Store, runtime

__all__ = ["UnsentPack", "UnsyncedPack", "UnsyncedPacks"]

UNSYNCED_NBYTES = 256 << 20
"""Maximum stored packs of a folder that are not durable; beyond it the older half is synced, which
the system has been writing since they were stored."""


@dataclass(slots=True)
class UnsentPack:
    """The bytes of a pack that is not stored yet."""

    id: PackId
    writer: PackWriter
    is_tried: bool = False
    """Whether its name was sent before: it must not be sent again, whatever the outcome."""
    is_durable: bool = False
    """Whether it was stored durably."""
    blobs: list[tuple[int, tuple[Buffer, ...], str]] = field(
        default_factory=list[tuple[int, tuple[Buffer, ...], str]]
    )
    """Offset, bytes and tensor of each; in one list, so that interrupts leave them consistent."""

    @classmethod
    def empty(cls, pack: PackId) -> UnsentPack:
        """Begin a pack."""
        return cls(pack, PackWriter(pack.txid, pack.n))

    def add(self, pieces: tuple[Buffer, ...], *, what: str, checksum: int | None = None) -> int:
        """Place a blob and return its offset."""
        offset = self.writer.add(pieces, what=what, checksum=checksum)
        self.blobs.append((offset, pieces, what))
        return offset

    def read(self, offset: int, nbytes: int) -> Buffer:
        """Read bytes of one blob."""
        which = bisect_right(self.blobs, offset, key=itemgetter(0)) - 1
        start, pieces, _ = self.blobs[which]
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        begin = offset - start
        return memoryview(whole)[begin : begin + nbytes]

    def without_pages(self, new_id: PackId) -> UnsentPack:
        """Return the same chunks at the same offsets under another name.

        Pages are always last in a pack, so dropping them moves no chunk. They reference their own
        pack and must be rebuilt.
        """
        copy = UnsentPack.empty(new_id)
        for _, pieces, what in self.blobs:
            if what != "page":
                copy.add(pieces, what=what)
        return copy


@dataclass(frozen=True, slots=True)
class UnsyncedPack:
    """The facts kept of a stored pack that is not durable yet.

    Attributes:
        id: The pack that its chunks are cited by.
        stored_as: Its name in the store.
        blobs: Its directory.
        nbytes: Its length.
    """

    id: PackId
    stored_as: PackId
    blobs: tuple[PackedBlob, ...]
    nbytes: int

    @classmethod
    def of(cls, written: PackWriter, stored_as: PackId) -> UnsyncedPack:
        """Return the entry of a stored pack."""
        return cls(written.id, stored_as, tuple(written.blobs), written.nbytes)

    async def read_back(self, store: Store) -> UnsentPack:
        """Read its bytes back into memory, to be sent under another name.

        Raises:
            CorruptionError: They differ from the bytes written.
        """
        path = self.stored_as.path
        data = await store.get(path) or b""
        pack = UnsentPack.empty(self.id)
        pack.is_tried = True
        for blob in self.blobs:
            content = memoryview(data)[blob.offset : blob.offset + blob.nbytes]
            if xxh3_64_intdigest(content) != blob.checksum:
                raise CorruptionError(
                    f"pack {path!r} of {store.url!r} was written, but its disk lost bytes: its"
                    " staged changes are lost\nds.discard(), check the disk, and stage it again",
                    object=path,
                    offset=blob.offset,
                )
            pack.add((content,), what=blob.what, checksum=blob.checksum)
        return pack


class UnsyncedPacks:
    """One transaction's packs that are not durable. Not thread-safe: the owner holds a lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[PackId, UnsyncedPack] = {}
        self._syncing: tuple[list[UnsyncedPack], Future[None]] | None = None
        self.doubted: list[UnsyncedPack] = []
        """Packs in doubt after a failed sync: another sync might wrongly report success."""

    def __len__(self) -> int:
        return len(self._packs)

    def add(self, pack: UnsyncedPack) -> None:
        """Add a stored pack."""
        self._packs[pack.id] = pack

    def keep_few(self) -> None:
        """Sync the older half when there are too many; not on the storage loop."""
        if sum(pack.nbytes for pack in self._packs.values()) > UNSYNCED_NBYTES:
            runtime.run(self._sync(list(self._packs.values())[: -(-len(self._packs) // 2)]))

    async def sync(self) -> None:
        """Make all of them durable.

        Raises:
            StorageError: They may be lost, and are ``doubted``.
        """
        await self._sync(list(self._packs.values()))

    def begin_sync(self) -> None:
        """Start syncing them in another thread; ``check`` waits for it."""
        unsynced = list(self._packs.values())
        paths = [one.stored_as.path for one in unsynced]
        self._syncing = unsynced, runtime.submit_here(partial(self._store.sync, paths))

    def check(self) -> None:
        """Wait for the sync that was started.

        Raises:
            StorageError: They may be lost, and are ``doubted``.
        """
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            unsynced, ended = syncing
            with self._doubting(unsynced):
                ended.result()

    async def _sync(self, unsynced: list[UnsyncedPack]) -> None:
        if not unsynced:
            return
        with self._doubting(unsynced):
            await self._store.sync([pack.stored_as.path for pack in unsynced])

    @contextmanager
    def _doubting(self, unsynced: list[UnsyncedPack]) -> Generator[None]:
        """Mark packs as possibly not durable when fsync fails or is interrupted."""
        try:
            yield
        except BaseException:
            self.doubted += unsynced
            raise
        finally:
            for pack in unsynced:
                self._packs.pop(pack.id, None)  # another sync may have included it too
