"""Index pages in memory, and extents to fill them with."""

from __future__ import annotations

import numpy as np
from xxhash import xxh3_64_intdigest

from tensorlake.format import Extents, PackId, PageRef

__all__ = ["CHUNKS", "ROWS_A_CHUNK", "CountedPages", "extents_of"]

TXID = "0" * 31 + "1"
ROWS_A_CHUNK = 10
CHUNKS = 60_000


class CountedPages:
    """Pages in memory; counts the reads, and what was asked for at once."""

    def __init__(self) -> None:
        self.pages: list[bytes] = []
        self.reads = 0

    def add(self, page: bytes, /, *, rows: int, entries: int, height: int) -> PageRef:
        self.pages.append(bytes(page))
        number = len(self.pages) - 1
        checksum = xxh3_64_intdigest(page)
        return PageRef(PackId(TXID, 0), number, len(page), checksum, rows, entries, height)

    async def read(self, ref: PageRef, /) -> bytes:
        self.reads += 1
        return self.pages[ref.offset]


def extents_of(chunks: int, *, seed: int = 0) -> Extents:
    """Extents of chunks of ten rows in one pack."""
    checksums = np.random.default_rng(seed).integers(0, 2**63, chunks).astype(np.uint64)
    one = Extents.chunk(
        rows=ROWS_A_CHUNK,
        kind=1,
        pack=PackId(TXID, seed),
        offset=64,
        nbytes=1000,
        header_nbytes=64,
        checksum=0,
    )
    many = one.take(np.zeros(chunks, np.int64))
    offset = 64 + 1024 * np.arange(chunks, dtype=np.uint64)
    return Extents(
        **{
            name: getattr(many, name)
            for name in ("rows", "skip", "kind", "read_as", "pack", "nbytes", "header_nbytes")
        },
        offset=offset,
        checksum=checksums,
        packs=many.packs,
        statistics=many.statistics,
        units=many.units,
    )
