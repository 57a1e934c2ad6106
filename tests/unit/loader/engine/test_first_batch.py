"""The first batch from afar: what is done before it, and what waits until it is made."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.loader import SelectedRows, make_loader
from tensorlake.storage import MemoryStore, runtime
from tests.support.handles import create_on, open_on, wait_for_storage

ROWS, COMMITS, BATCH = 240, 3, 4
ROW_NBYTES = 6000


@pytest.fixture
def dataset():
    """Rows worth a request each, in a few chunks of an object store."""
    store = MemoryStore()
    writer = create_on(store, {"x": tl.Array("uint8", shape=(ROW_NBYTES,))})
    random = np.random.default_rng(0)
    for _ in range(COMMITS):
        rows = random.integers(0, 255, (ROWS // COMMITS, ROW_NBYTES), np.uint8)
        writer.extend({"x": rows})
        writer.commit()
    wait_for_storage()
    return open_on(store)


class WatchedReader:
    """A reader that notes what it is asked, and answers for rows once a second plan was made."""

    def __init__(self, reader):
        self._reader = reader
        self._is_planned = asyncio.Event()
        self.noted = []

    def through(self, near, hedge):
        return self

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def locate(self, tensor, physical):
        self.noted.append(("planned", len(physical)))
        if [what for what, _ in self.noted].count("planned") == 2:
            runtime.run(self._go_on())
        return self._reader.locate(tensor, physical)

    async def fetch(self, tensor, physical):
        await self._is_planned.wait()
        make = await self._reader.fetch(tensor, physical)

        def noted():
            self.noted.append(("read", len(physical)))
            return make()

        return noted

    async def _go_on(self):
        self._is_planned.set()


def test_only_what_follows_next_is_planned_before_the_first_batch_is_made(dataset):
    reader = WatchedReader(rowset_of(dataset).reader())
    loader = make_loader(
        SelectedRows(rowset_of(dataset).selection, reader),
        "numpy",
        batch_size=BATCH,
        shuffle=True,
        timeout=60,
    )

    batches = [batch["x"] for batch in loader]

    assert sum(map(len, batches)) == ROWS
    planned = [at for at, (what, _) in enumerate(reader.noted) if what == "planned"]
    read = [at for at, (what, _) in enumerate(reader.noted) if what == "read"]
    assert sum(reader.noted[at][1] for at in read) == BATCH
    assert [reader.noted[at][1] for at in planned[:2]] == [BATCH, 2 * BATCH]
    assert planned[1] < read[-1] < planned[2]
