"""A pack in memory: being filled or sent, until it is stored.

Its life cycle:

    UnsentPack, in memory ──put──► in the store ──► durable at once        (object stores; one pack)
            ▲                           │
            │                           └► UnsyncedPack ──sync──► durable  (packs of a folder)
            └──────── read back ────────── failed ┘

``packs/deferred_sync.py`` has the packs of a folder that are stored and not yet durable.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from tensorlake.format import PackId, PackWriter
from tensorlake.storage import Buffer

__all__ = ["UnsentPack"]


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
