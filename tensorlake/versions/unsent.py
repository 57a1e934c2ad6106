"""Packs that are not surely in the store: being filled or sent, or stored and not yet durable.

    UnsentPack, in memory ──put──► in the store ──► durable at once        (object stores; one pack)
            ▲                           │
            │                           └► UnsyncedPack ──sync──► durable  (packs of a folder)
            └──────── read back ────────── failed ┘

A folder's packs are synced together, which costs one flush instead of one each; their memory is
free once they are written. When a sync fails, nobody knows which of their bytes are on disk, and
the system may say of the next one that all is well: so they are read back, compared with their
checksums, and written once more.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from xxhash import xxh3_64_intdigest

from tensorlake.errors import CorruptionError
from tensorlake.format import PackedBlob, PackId, PackWriter
from tensorlake.storage import Buffer, Store

__all__ = ["UnsentPack", "UnsyncedPack"]


@dataclass(slots=True)
class UnsentPack:
    """The bytes of a pack that is not stored yet."""

    id: PackId
    writer: PackWriter
    is_tried: bool = False
    """Whether its name went out before: it must not go out again, whatever became of it."""
    is_durable: bool = False
    """Whether it was stored, and the store promised to keep it."""
    blobs: list[tuple[int, tuple[Buffer, ...], str]] = field(
        default_factory=list[tuple[int, tuple[Buffer, ...], str]]
    )
    """Offset, bytes and tensor of each; in one list, so that an interrupt leaves them in step."""

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
        """The same chunks at the same offsets under another name.

        Pages are always last in a pack, so dropping them moves no chunk. They cite their own pack,
        hence must be built again.
        """
        copy = UnsentPack.empty(new_id)
        for _, pieces, what in self.blobs:
            if what != "page":
                copy.add(pieces, what=what)
        return copy


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
