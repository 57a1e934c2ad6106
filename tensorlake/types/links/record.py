"""The record of a link: all that a dataset stores of a file that stays where it is.

    url · etag · bytes · digest of the file        to find it, and to see that it is the same
    head · cuts                                    the map of the linked sample, as its type made it
    sums                                           of each part, so that a part is verified alone

Written in MessagePack. The record is the stored sample and the head of its map, so that a read of
chunk headers finds everything that a part of a linked file needs.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import msgspec
import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest, xxh3_128, xxh3_128_hexdigest

from tensorlake.types.base.column import Buffer, SampleMap
from tensorlake.types.base.file import Content, pieces_of

__all__ = ["LinkRecord", "read_record", "record_of", "write_record"]

_VERSION = 1
_KEPT = 1024
_MAX_PARTS = 1 << 26
_NUMBER = np.dtype("<u8")


class LinkRecord(msgspec.Struct, array_like=True, frozen=True):
    """The stored facts of a linked file.

    Attributes:
        version: Version of the record's form.
        url: The file; relative to the dataset's URL if it has no scheme.
        etag: The store's tag of the content, or a local file's time of change; "" if unknown.
        nbytes: Size of the file.
        digest: XXH3-128 of its content, in hexadecimal.
        media_type: Its MIME type.
        head: The head of the linked sample's map.
        cuts: Where its parts end: differences, compressed.
        sums: XXH3-64 of each part.
    """

    version: int
    url: str
    etag: str
    nbytes: int
    digest: str
    media_type: str
    head: bytes
    cuts: bytes
    sums: bytes

    @property
    def map(self) -> SampleMap:
        """The map of the linked sample.

        Raises:
            ValueError: It is damaged.
        """
        count = len(self.sums) // _NUMBER.itemsize
        if not 0 < count <= _MAX_PARTS:
            raise ValueError(f"a record with {count:,} parts")
        try:
            plain = zlib.decompressobj().decompress(self.cuts, _NUMBER.itemsize * count + 1)
        except zlib.error as error:
            raise ValueError(f"a damaged record ({error})") from error
        if len(plain) != _NUMBER.itemsize * count:
            raise ValueError(f"a record with other than {count:,} parts")
        made = SampleMap(self.head, np.cumsum(np.frombuffer(plain, _NUMBER).astype(np.int64)))
        if made.nbytes != self.nbytes:
            raise ValueError(f"a record of {self.nbytes:,} bytes whose parts have {made.nbytes:,}")
        return made

    def at(self, url: str) -> LinkRecord:
        """Return the record of the same file by another URL."""
        return msgspec.structs.replace(self, url=url)

    def is_content(self, data: Buffer) -> bool:
        """Whether bytes are those that the file had when the link was made."""
        return len(data) == self.nbytes and xxh3_128_hexdigest(data) == self.digest

    def is_part(self, number: int, data: Buffer) -> bool:
        """Whether bytes are those that a part had when the link was made."""
        return xxh3_64_intdigest(data) == int(np.frombuffer(self.sums, _NUMBER)[number])


def record_of(
    content: Content, own: SampleMap, *, url: str, etag: str, media_type: str
) -> LinkRecord:
    """Make the record of a file, which is read once more, from the map of its sample."""
    digest, sums = xxh3_128(), np.empty(own.num_parts, _NUMBER)
    for number in range(own.num_parts):
        part = xxh3_64()
        for piece in pieces_of(content, *own.span(number)):
            part.update(piece)
            digest.update(piece)
        sums[number] = part.intdigest()
    cuts = zlib.compress(np.diff(own.cuts, prepend=0).astype(_NUMBER).tobytes())
    return LinkRecord(
        *(_VERSION, url, etag, len(content), digest.hexdigest(), media_type),
        *(own.head, cuts, sums.tobytes()),
    )


def write_record(record: LinkRecord) -> bytes:
    """Return the bytes of a record."""
    return msgspec.msgpack.encode(record)


@lru_cache(_KEPT)
def read_record(data: bytes) -> LinkRecord:
    """Parse what `write_record` wrote.

    Raises:
        ValueError: It is damaged, or of a newer version.
    """
    try:
        read = msgspec.msgpack.decode(data, type=LinkRecord)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its bytes are not a link's ({error})") from error
    if read.version != _VERSION:
        raise ValueError(f"it is a link of version {read.version}, not {_VERSION}")
    return read
