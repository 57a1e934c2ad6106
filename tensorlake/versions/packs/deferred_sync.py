"""Packs of a folder that are stored, and that a power cut may still take away.

    add ──► unsynced ──sync──► durable: forgotten
                │
                └── failed, or interrupted ──► doubted ──read_back──► unsent, to be sent as another

They are synced together, which costs one flush instead of one each; their memory is free once they
are written. When a sync fails, nobody knows which of their bytes are on disk, and the system may
say of the next one that all is well: so they are read back, compared with their checksums, and
written once more.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import PackedBlob, PackId, PackWriter
from tensorlake.storage import Store, runtime
from tensorlake.versions.packs.in_memory import UnsentPack

__all__ = ["UnsyncedPack", "UnsyncedPacks"]

UNSYNCED_NBYTES = 256 << 20
"""Of packs stored in a folder but not durable yet, at most: beyond it the older half is brought to
disk, where it is on its way since it was written."""


@dataclass(frozen=True, slots=True)
class UnsyncedPack:
    """What must be remembered of a pack that a power cut may still take away.

    Attributes:
        id: The pack that its chunks are cited by.
        stored_as: The name that it has in the store.
        blobs: Its directory.
        nbytes: How long it is.
    """

    id: PackId
    stored_as: PackId
    blobs: tuple[PackedBlob, ...]
    nbytes: int

    @classmethod
    def of(cls, written: PackWriter, stored_as: PackId) -> UnsyncedPack:
        """Remember a pack that was stored."""
        return cls(written.id, stored_as, tuple(written.blobs), written.nbytes)

    async def read_back(self, store: Store) -> UnsentPack:
        """Take its bytes into memory again, to be sent under another name.

        Raises:
            CorruptionError: They are not what was written.
        """
        path = self.stored_as.path
        data = await store.get(path) or b""
        pack = UnsentPack.empty(self.id)
        pack.is_tried = True
        for blob in self.blobs:
            content = memoryview(data)[blob.offset : blob.offset + blob.nbytes]
            if xxh3_64_intdigest(content) != blob.checksum:
                raise CorruptionError(
                    f"pack {path!r} of {store.url!r} was written, but not kept by its disk: what"
                    " was staged in it is lost\nds.discard(), check the disk, and stage it again",
                    object=path,
                    offset=blob.offset,
                )
            pack.add((content,), what=blob.what, checksum=blob.checksum)
        return pack


class UnsyncedPacks:
    """Those of one transaction. Not thread-safe: the transaction that owns it holds one lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._packs: dict[PackId, UnsyncedPack] = {}
        self._syncing: tuple[list[UnsyncedPack], Future[None]] | None = None
        self.doubted: list[UnsyncedPack] = []
        """Packs that a sync left in doubt: another would say that all is well."""

    def __len__(self) -> int:
        return len(self._packs)

    def add(self, pack: UnsyncedPack) -> None:
        """Take in a pack that was stored."""
        self._packs[pack.id] = pack

    def keep_few(self) -> None:
        """Bring the older half to disk when they are too many; not on the storage loop."""
        if sum(pack.nbytes for pack in self._packs.values()) > UNSYNCED_NBYTES:
            runtime.run(self._sync(list(self._packs.values())[: -(-len(self._packs) // 2)]))

    async def sync(self) -> None:
        """Make all of them durable.

        Raises:
            StorageError: They may be lost, and are ``doubted``.
        """
        await self._sync(list(self._packs.values()))

    def begin_sync(self) -> None:
        """Let another thread bring them to disk; ``check`` waits for it."""
        unsynced = list(self._packs.values())
        paths = [one.stored_as.path for one in unsynced]
        self._syncing = unsynced, runtime.submit_here(partial(self._store.sync, paths))

    def check(self) -> None:
        """Wait for what was begun.

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
        """Doubt packs whose sync fails, or is interrupted: what it would have said nobody heard."""
        try:
            yield
        except BaseException:
            self.doubted += unsynced
            raise
        finally:
            for pack in unsynced:
                self._packs.pop(pack.id, None)  # another sync may have had it too
