"""Large leaves are mostly units: where only locations are asked for, only their start is read."""

import asyncio

import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import Extents, PackId, PageReader, PageRef, Parts, Root, UnitTable, tree
from tests.support.memory_pages import MemoryPages, wait

EXTENTS = 400
START_NBYTES = 48 * EXTENTS
UNITS = 300


class PageStarts:
    """Pages of which the start can be read alone; counts bytes."""

    def __init__(self, pages: MemoryPages) -> None:
        self.pages = pages
        self.nbytes = 0
        self.flipped: int | None = None

    async def read(self, ref: PageRef, /) -> bytes:
        return await self.read_start(ref, ref.nbytes)

    async def read_start(self, ref: PageRef, nbytes: int, /) -> bytes:
        await asyncio.sleep(0)
        data = bytearray(bytes(await self.pages.read(ref))[:nbytes])
        self.nbytes += len(data)
        if self.flipped is not None:
            data[self.flipped] ^= 1
        return bytes(data)


@pytest.fixture(scope="module")
def large_leaf() -> tuple[Root[Extents], MemoryPages]:
    """A leaf of 400 extents of 300 units each."""
    rng = np.random.default_rng(0)
    tables = [
        Extents.chunk(
            rows=UNITS,
            kind=3,
            pack=PackId("0" * 31 + "1", 0),
            offset=64 * (1 + at),
            nbytes=4096,
            header_nbytes=64,
            checksum=int(rng.integers(0, 2**63)),
            units=UnitTable.of([tuple(rng.integers(0, 2**32, (2, UNITS)).astype(np.uint32))]),
        )
        for at in range(EXTENTS)
    ]
    pages = MemoryPages()
    root = wait(tree.append(Root.of(Extents.empty()), Extents.concat(tables), pages, pages))
    assert root.children[0].nbytes > 2 * START_NBYTES
    return root, pages


def test_locations_of_a_large_leaf_read_its_start_and_units_all_of_it(large_leaf):
    root, pages = large_leaf
    source = PageStarts(pages)
    reader = PageReader(source)
    (ref,) = root.children

    (leaf,) = wait(reader.leaves([ref], Extents, Parts.STATISTICS))
    assert source.nbytes == START_NBYTES
    (whole,) = wait(reader.leaves([ref], Extents, Parts.UNITS))
    assert source.nbytes == START_NBYTES + ref.nbytes

    assert leaf.offset.tolist() == whole.offset.tolist()
    assert not len(leaf.units.lengths)
    assert len(whole.units.lengths) == EXTENTS * UNITS


@pytest.mark.slow
def test_a_flipped_byte_of_a_start_is_noticed_or_was_not_asked_for(large_leaf):
    root, pages = large_leaf
    source = PageStarts(pages)
    (ref,) = root.children
    (model,) = wait(PageReader(source).leaves([ref], Extents, Parts.LOCATIONS))
    noticed = 0

    for at in range(0, 4096, 5):
        source.flipped = at
        try:
            (leaf,) = wait(PageReader(source).leaves([ref], Extents, Parts.LOCATIONS))
        except CorruptionError:
            noticed += 1
        else:
            assert leaf.checksum.tolist() == model.checksum.tolist()
            assert leaf.offset.tolist() == model.offset.tolist()

    assert noticed > 300


def test_a_start_of_another_page_is_refused(large_leaf):
    root, pages = large_leaf
    (ref,) = root.children
    other = PageRef(
        ref.pack, ref.offset, ref.nbytes, ref.checksum, ref.rows + 1, ref.entries, ref.height
    )

    with pytest.raises(CorruptionError, match="rows"):
        wait(PageReader(PageStarts(pages)).leaves([other], Extents, Parts.LOCATIONS))
