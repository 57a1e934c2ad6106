"""Run the package as on a system that lacks names of the standard library; prints "done".

`python -m tests.support.other_systems PLATFORM FOLDER NAMES`, where NAMES is JSON: for each module
the names that it lacks there, or "*". Other libraries are imported before: they have builds of
their own for each system, and the standard library has fallbacks of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

OTHERS = (
    "aiohttp",
    "asyncio",
    "fastapi",
    "lark",
    "ml_dtypes",
    "mmap",
    "msgspec",
    "multiprocessing.reduction",
    "numcodecs",
    "obstore",
    "pyarrow.parquet",
    "random",
    "select",
    "simplejpeg",
    "socket",
    "subprocess",
    "tempfile",
    "uvicorn",
    "xxhash",
)


def become(platform: str, lacking: dict[str, list[str]]) -> None:
    """Take names away from the standard library."""
    for name in (*OTHERS, *lacking):
        importlib.import_module(name)
    for module, names in lacking.items():
        if "*" in names:
            sys.modules[module] = None  # an import of it fails
            continue
        for name in names:
            vars(sys.modules[module]).pop(name, None)
    sys.platform = platform


def work(folder: Path) -> None:
    """Write, read, branch, merge, train, compute, ingest, export and maintain."""
    import tensorlake as tl

    lake = folder / "scenes.tl"
    pixels = np.full((8, 8, 3), 200, np.uint8)
    ds = tl.create(lake, {"x": "float32", "image": tl.Image()})
    ds.extend({"x": np.arange(40, dtype=np.float32), "image": [pixels] * 40})
    ds.commit("first")
    with ds.transaction("less"):
        ds.delete(ds.query("WHERE x < 8"))
    other = ds.branch("dev")
    other["x"][0] = 99.0
    other.commit("dev")
    ds.merge("dev")
    ds = tl.open(lake)
    assert ds["x"][:3].tolist() == [99.0, 9.0, 10.0]

    loader = ds.loader(batch_size=4, shuffle=True, seed=1)
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == [*range(9, 40), 99]

    ds.map(lambda row: {"y": row["x"] * 2}, schema={"y": "float32"}, columns=["x"])
    ds.commit("twice")
    ds.optimize()
    tl.open(lake).gc()
    assert tl.open(lake).check().ok
    assert tl.open(lake)["y"][1] == 18.0

    ds.to_parquet(folder / "rows")
    write_jpeg(folder / "files", pixels)
    assert len(tl.ingest.images(folder / "files", folder / "ingested.tl")) == 1
    refused(
        lambda: ds.loader(batch_size=4, engine="processes", transform=abs), "use engine='threads'"
    )


def write_jpeg(folder: Path, pixels: np.ndarray) -> None:
    """Write one image."""
    import simplejpeg

    folder.mkdir()
    (folder / "a.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))


def refused(call: Any, remedy: str) -> None:
    """Assert that a call is refused with a remedy."""
    import tensorlake as tl

    try:
        call()
    except tl.UnsupportedFeatureError as error:
        if remedy not in str(error):
            raise
    else:
        raise AssertionError(remedy)


def serve(folder: Path) -> None:
    """Import the server; it refuses an audit log where files cannot be locked."""
    from tensorlake_server.app.app import create_app
    from tensorlake_server.request.audit import AuditLog

    assert callable(create_app)
    if sys.platform == "win32":
        refused(
            lambda: AuditLog(folder / "audit", most_nbytes=100, files=1),
            "run the server on Linux or macOS",
        )


if __name__ == "__main__":
    become(sys.argv[1], json.loads(sys.argv[3]))
    work(Path(sys.argv[2]))
    serve(Path(sys.argv[2]))
    sys.stdout.write("done\n")
