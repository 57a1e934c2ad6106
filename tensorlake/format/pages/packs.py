"""Packs: the immutable files that hold chunks and pages.

    0        16 B   magic "TLPACK1" and a zero byte · reserved u64 (zero)
    64       blobs, each from a multiple of 64 bytes, the gaps zero
    …        directory: a JSON page {"blobs": [[what, offset, nbytes, checksum], …], "n", "txid"}
    last     24 B   directory's offset u64 · its length u64 · magic "TLPKEND" and a zero byte

Readers do not use the directory to find data: indexes have addresses. With it ``check`` can list
the blobs of a pack when the indexes that named them are lost. ``what`` is free text ("chunk 3f…",
"page"),
the checksum 16 hex digits of xxh3-64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tensorlake.errors import InvalidStateError
from tensorlake.format.pages.pages import decode_json_page, encode_json_page
from tensorlake.format.spec.integrity import checksum_of, damaged
from tensorlake.format.spec.spec import MAX_PAGE_NBYTES, PACK_ALIGNMENT, PackId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.storage import Buffer

PACK_MAGIC = b"TLPACK1\0"
TRAILER_MAGIC = b"TLPKEND\0"

_HEADER = struct.Struct("<8sQ")
_TRAILER = struct.Struct("<QQ8s")


@dataclass(frozen=True, slots=True)
class PackedBlob:
    """One line of a pack's directory."""

    what: str
    offset: int
    nbytes: int
    checksum: int


class PackWriter:
    """Lays out one pack; the pieces given to it are referenced, not copied."""

    def __init__(self, txid: str, n: int) -> None:
        self.id = PackId(txid, n)
        self.blobs: list[PackedBlob] = []
        self._pieces: list[Buffer] = [_HEADER.pack(PACK_MAGIC, 0)]
        self._nbytes = _HEADER.size
        self._is_finished = False

    @property
    def nbytes(self) -> int:
        """The current length of the pack, without its directory until ``finish``."""
        return self._nbytes

    def add(self, pieces: Sequence[Buffer], *, what: str, checksum: int | None = None) -> int:
        """Place a blob and return its offset.

        Args:
            pieces: The blob's bytes, in order.
            what: Its description in the directory.
            checksum: Its xxh3-64 where the caller knows it already.
        """
        if self._is_finished:
            raise InvalidStateError(
                f"pack {self.id} is finished, {what!r} cannot be added\nstart the next pack",
                object=self.id.path,
            )
        if checksum is None:
            checksum = checksum_of(pieces)
        offset = self._align()
        nbytes = sum(memoryview(piece).nbytes for piece in pieces)
        self._pieces.extend(pieces)
        self._nbytes += nbytes
        self.blobs.append(PackedBlob(what, offset, nbytes, checksum))
        return offset

    def finish(self) -> list[Buffer]:
        """Add the directory and return the pack's bytes, in pieces: those not yet taken."""
        if not self._is_finished:
            directory = encode_json_page(
                {
                    "txid": self.id.txid,
                    "n": self.id.n,
                    "blobs": [
                        [blob.what, blob.offset, blob.nbytes, f"{blob.checksum:016x}"]
                        for blob in self.blobs
                    ],
                },
                is_trusted=True,
            )
            start = self._align()
            self._pieces += [directory, _TRAILER.pack(start, len(directory), TRAILER_MAGIC)]
            self._nbytes += len(directory) + _TRAILER.size
            self._is_finished = True
        return list(self._pieces)

    def take(self) -> list[Buffer]:
        """Return the bytes laid out since they were last taken, to write them early."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def _align(self) -> int:
        gap = -self._nbytes % PACK_ALIGNMENT
        if gap:
            self._pieces.append(bytes(gap))
            self._nbytes += gap
        return self._nbytes


def directory_nbytes(tail: Buffer) -> int:
    """Return the bytes of a pack's directory and trailer, as the trailer at the pack's end states.

    0 without a trailer; at most the largest page, whatever a damaged trailer states.
    """
    view = memoryview(tail).cast("B")
    if len(view) < _TRAILER.size:
        return 0
    _, nbytes, magic = _TRAILER.unpack_from(view, len(view) - _TRAILER.size)
    return _TRAILER.size + min(nbytes, MAX_PAGE_NBYTES) if magic == TRAILER_MAGIC else 0


def read_directory(data: Buffer, *, where: str) -> tuple[PackedBlob, ...]:
    """List the blobs of a pack from all its bytes, or from enough of its end.

    Raises:
        CorruptionError: The directory is damaged, or the bytes do not reach back to it.
    """
    view = memoryview(data).cast("B")
    if len(view) < _TRAILER.size:
        raise damaged(where, f"it ends after {len(view)} bytes")
    _, nbytes, magic = _TRAILER.unpack_from(view, len(view) - _TRAILER.size)
    start = len(view) - _TRAILER.size - nbytes
    if magic != TRAILER_MAGIC or start < 0:
        raise damaged(where, "it does not end with a directory")
    directory = decode_json_page(view[start : start + nbytes], where=f"directory of {where}")
    try:
        return tuple(
            PackedBlob(str(what), int(offset), int(length), int(checksum, 16))
            for what, offset, length, checksum in cast("dict[str, Any]", directory)["blobs"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(where, f"its directory is not one ({error!r})") from error
