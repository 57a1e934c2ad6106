"""Memory of batches that are on their way: none for those of which nothing has come."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.storage import MemoryStore, runtime
from tests.support.handles import create_on, open_on

CHUNK_ROWS, BATCH, ROWS = 12, 6, 48
SIDE = 512  # six pictures of it are a group of their own


async def _set(event):
    event.set()


def test_a_batch_takes_memory_when_the_first_of_its_images_is_here():
    store = MemoryStore()
    dataset = create_on(store, {"image": tl.Image(codec="jpeg")})
    for start in range(0, ROWS, CHUNK_ROWS):
        grey = np.full((16, 16, 3), start, np.uint8)
        dataset.extend({"image": [grey] * CHUNK_ROWS})
        dataset.commit(f"rows from {start}")
    chunks = rowset_of(open_on(store)).reader().locate("image", np.arange(ROWS)).chunks
    later = {(key.pack.path, key.offset) for key in chunks[1:]}
    asked_for, may_come = set(), asyncio.Event()
    all_asked = threading.Event()

    class OnlyFirstChunk:
        def __getattr__(self, name):
            return getattr(store, name)

        async def get_range(self, path, start, stop):
            if (path, start) in later:
                asked_for.add((path, start))
                if asked_for == later:
                    all_asked.set()
                async with asyncio.timeout(60):
                    await may_come.wait()
            return await store.get_range(path, start, stop)

    loader = open_on(OnlyFirstChunk()).loader(
        batch_size=BATCH, decode={"image": tl.decode.Resize(SIDE, SIDE)}
    )
    batches = iter(loader)
    rows = len(next(batches)["image"])
    assert all_asked.wait(60)

    held_nbytes = loader.stats().batch_nbytes
    runtime.run(_set(may_come))

    assert held_nbytes <= CHUNK_ROWS * SIDE * SIDE * 3
    assert rows + sum(len(batch["image"]) for batch in batches) == ROWS
