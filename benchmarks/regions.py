"""Regions of one sample of 100 MB: which bytes they read, in how many requests, beside Zarr.

Both store a scan of 16 bits in tiles of 256 × 256, shuffled and compressed by Zstandard at one
level, in a store in memory that counts requests: neither waits for anything. The regions are the
same. ``bytes ÷ tiles`` compares what was read with the stored bytes of the tiles over the regions,
counted from the map of the sample; for Zarr, from the objects that it reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

SHAPE, QUICK_SHAPE = (8192, 6400), (2048, 1600)
TILE = 256
SIDE = 512
REGIONS = 64
ZSTD_LEVEL = 5
OWN, ZARR = "tensorlake", "Zarr"
RATIO, REQUESTS = "bytes ÷ tiles", "requests a region"


def scan(workspace: Workspace) -> np.ndarray:
    """Make a smooth scan with noise in its lower bits, so that it compresses to about a half."""
    shape = QUICK_SHAPE if workspace.is_quick else SHAPE
    rng = np.random.default_rng(0)
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    smooth = 20_000 + 9_000 * np.sin(rows / 97) * np.cos(columns / 131)
    return (smooth + rng.integers(0, 64, shape)).astype(np.uint16)


def corners(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    rng = np.random.default_rng(1)
    room = (shape[0] - SIDE + 1, shape[1] - SIDE + 1)
    return [(int(rng.integers(room[0])), int(rng.integers(room[1]))) for _ in range(REGIONS)]


def own_regions(workspace: Workspace) -> Measurement:
    import tensorlake as tl
    from tensorlake.storage import MemoryStore
    from tensorlake.testing import CountingStore
    from tensorlake.types import box_of
    from tensorlake.types.tiles.sample import TileHead
    from tests.support.handles import create_on, open_on, wait_for_storage

    warm_up()
    values = scan(workspace)
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"scan": tl.Array("uint16", (None, None), tiles=(TILE, TILE))})
    ds.append({"scan": values})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    store.reset()
    with stopwatch() as watch:
        read = [ds["scan"][0, a : a + SIDE, b : b + SIDE] for a, b in corners(values.shape)]
    nbytes, requests = store.bytes_read, len(store.requests)
    (source,) = ds.__rowset__.samples("scan", np.array([0]))
    assert source is not None
    grid, tiles = TileHead.parse(source.map.head).grid, 0
    lengths = np.diff(source.map.cuts, prepend=0)
    for (a, b), one in zip(corners(values.shape), read, strict=True):
        assert np.array_equal(one, values[a : a + SIDE, b : b + SIDE])
        box = box_of(values.shape, (slice(a, a + SIDE), slice(b, b + SIDE)), ValueError)  # pyright: ignore[reportArgumentType] - never called
        tiles += int(lengths[grid.over(box)].sum())
    facts = {RATIO: nbytes / tiles, REQUESTS: requests / REGIONS, "read MB": nbytes / 1e6}
    return Measurement(watch.seconds, REGIONS, watch.cpu_seconds, facts)


def zarr_regions(workspace: Workspace) -> Measurement:
    import zarr
    from zarr.codecs import BloscCodec
    from zarr.storage import MemoryStore

    sizes: list[int] = []

    class Counting(MemoryStore):
        async def get(self, key: str, *more: Any, **named: Any) -> Any:
            found = await super().get(key, *more, **named)
            sizes.append(0 if found is None else len(found))
            return found

    warm_up()
    values = scan(workspace)
    store = Counting()
    array = zarr.create_array(
        store,
        shape=values.shape,
        chunks=(TILE, TILE),
        dtype=values.dtype,
        compressors=BloscCodec(cname="zstd", clevel=ZSTD_LEVEL, shuffle="shuffle"),
    )
    array[:] = values
    sizes.clear()
    with stopwatch() as watch:
        read = [array[a : a + SIDE, b : b + SIDE] for a, b in corners(values.shape)]
    for (a, b), one in zip(corners(values.shape), read, strict=True):
        assert np.array_equal(one, values[a : a + SIDE, b : b + SIDE])
    nbytes, requests = sum(sizes), len(sizes)
    facts = {RATIO: 1.0, REQUESTS: requests / REGIONS, "read MB": nbytes / 1e6}
    return Measurement(watch.seconds, REGIONS, watch.cpu_seconds, facts)


BENCHMARKS = (
    Benchmark(
        name="regions-of-a-sample",
        question=f"{REGIONS} regions of {SIDE} × {SIDE} of one array of 105 MB, in tiles",
        unit="regions/s",
        contenders=(Contender(OWN, own_regions), Contender(ZARR, zarr_regions)),
        goals=(
            Goal(OWN, ZARR, at_least=1.0),
            Goal(OWN, ZARR, at_least=1.0, per="CPU second"),
        ),
        limits=(
            Limit(OWN, RATIO, at_most=1.05),
            Limit(OWN, REQUESTS, at_most=9.0),
        ),
    ),
)
