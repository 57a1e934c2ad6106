"""Units of an index that is read from an object store: when they are, and how many bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from tensorlake.format import LIMITS, Extents, PackId, PageRef, Root, UnitTable, encode_page
from tensorlake.format import PageReader as Pages
from tensorlake.reading import ChunkIndex
from tensorlake.storage import runtime

TXID = "0" * 31 + "1"


class StartPages:
    """Pages of an object store: a start of one can be read alone; counts reads and bytes."""

    def __init__(self) -> None:
        self.pages: list[bytes] = []
        self.reads = self.nbytes = 0

    def add(self, page: bytes, *, rows: int, entries: int) -> PageRef:
        self.pages.append(page)
        number = len(self.pages) - 1
        checksum = xxh3_64_intdigest(page)
        return PageRef(PackId(TXID, 0), number, len(page), checksum, rows, entries, 0)

    async def read(self, ref: PageRef, /) -> bytes:
        return await self.read_start(ref, ref.nbytes)

    async def read_start(self, ref: PageRef, nbytes: int, /) -> bytes:
        self.reads += 1
        self.nbytes += min(nbytes, ref.nbytes)
        return self.pages[ref.offset][:nbytes]


def leaves_with_units(count: int) -> tuple[Root[Extents], StartPages, int]:
    """A tree of so many full leaves of random units; what one of them weighs."""
    pages = StartPages()
    units = 100
    chunks = LIMITS.leaf_units // units
    random = np.random.default_rng(0)
    counts = np.full(chunks, units, np.uint32)
    one = Extents.chunk(
        rows=units,
        kind=1,
        pack=PackId(TXID, 0),
        offset=64,
        nbytes=1000,
        header_nbytes=64,
        checksum=0,
    )
    many = one.take(np.zeros(chunks, np.int64))
    offset = 64 + 1024 * np.arange(chunks, dtype=np.uint64)
    known = random.integers(0, 2**63, chunks).astype(np.uint64)
    lengths, checksums = random.integers(0, 2**32, (2, chunks * units)).astype(np.uint32)
    table = UnitTable(counts, lengths, checksums)
    leaf = replace(many, offset=offset, checksum=known, units=table)
    page = encode_page(leaf.PAGE_KIND, leaf.to_columns(), entries=chunks, rows=leaf.num_rows)
    refs = [pages.add(page, rows=leaf.num_rows, entries=chunks) for _ in range(count)]
    return Root.of(Extents.empty(), children=tuple(refs)), pages, len(page)


def test_rows_of_many_leaves_afar_are_looked_up_without_units_and_no_leaf_twice():
    root, pages, page_nbytes = leaves_with_units(60)
    step = root.rows // 60
    few, many = np.arange(5) * step, np.arange(25) * step

    index = ChunkIndex(root, Pages(pages), is_local=False)
    index.locate(few)
    recorded = runtime.run(index.units(few))
    assert pages.nbytes == 5 * page_nbytes
    assert [one is not None and len(one.lengths) for one in recorded] == [100] * 5

    index.locate(many)
    assert pages.reads == 25
    assert pages.nbytes < 5 * page_nbytes + 20 * page_nbytes // 5
    again = runtime.run(index.units(many))
    index.locate(many[7:9])

    assert pages.reads == 25
    assert [one is None for one in again] == [False] * 5 + [True] * 20


@pytest.mark.parametrize("leaves", [1, 5, 10, 11, 20, 40, 64])
def test_a_first_batch_in_all_leaves_afar_reads_each_once_and_few_bytes(leaves):
    """64 rows of a loader: the tree is made flat, of many leaves without their units."""
    root, pages, page_nbytes = leaves_with_units(leaves)
    rows = np.arange(64) * (root.rows // 64)
    index = ChunkIndex(root, Pages(pages), is_local=False)

    runtime.run(index.look_ahead(rows))
    index.locate(rows)
    recorded = runtime.run(index.units(rows))

    assert index.is_at_hand
    assert pages.reads == leaves
    assert pages.nbytes < 11_000_000
    has_units = leaves <= 10
    assert pages.nbytes == leaves * page_nbytes or not has_units
    assert [one is not None for one in recorded] == [has_units] * 64


def test_a_flat_index_afar_reads_units_once_headers_were_as_dear():
    root, pages, page_nbytes = leaves_with_units(20)
    rows = np.arange(60) * (root.rows // 60)
    index = ChunkIndex(root, Pages(pages), is_local=False)
    index.locate(rows)

    first, second = (runtime.run(index.units(rows)) for _ in range(2))
    read = pages.reads, pages.nbytes
    third = runtime.run(index.units(rows))

    assert not any(first)  # 15 MiB of units are worth 59 headers
    assert all(second)
    assert read[0] == 2 * 20
    assert read[1] < 20 * page_nbytes * 6 // 5
    assert all(third)
    assert (pages.reads, pages.nbytes) == read
