"""Write golden data of a fork: ``python tests/golden/make_v1_fork.py FOLDER``.

Run once. Its bytes are in the repository and are never made again: they must be readable for ever.
FOLDER gets ``base`` and ``fork``, the objects of two datasets of one store in memory, where the
fork finds its base.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import tensorlake as tl
from tensorlake.storage import MemoryStore

STORE = "golden-v1-fork"


def main(folder: Path) -> None:
    base = tl.create(f"memory://{STORE}/base", {"x": "int64", "name": "str"})
    base.extend({"x": [*range(50)], "name": [f"row {row}" for row in range(50)]})
    base.commit("fifty")
    ds = tl.fork(base.url, f"memory://{STORE}/fork")
    ds["x"][3] = -3
    ds.append({"x": 50, "name": "row 50"})
    ds.commit("corrected")
    fix = ds.branch("fix")
    fix["x"][4] = -4
    fix.commit("on a branch")
    for part in ("base", "fork"):
        asyncio.run(save(MemoryStore(STORE, prefix=part), folder / part))


async def save(store: MemoryStore, folder: Path) -> None:
    async for meta in store.list(""):
        path = folder / meta.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(await store.get(meta.path) or b"")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
