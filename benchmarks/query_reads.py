"""The reads of queries: bytes, requests and round trips, counted at the store, over a fresh handle.

Nothing is timed against a peer here. A range over sorted values should read the chunks that it can
match; a condition on shapes, no image; a label and ten images, a few round trips.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement, stopwatch, warm_up

__all__ = ["BENCHMARKS"]

NUM_CLASSES = 80
NUM_READ = 10


class Counted:
    """A dataset in memory, opened anew for each question, and what its store was asked for."""

    def __init__(self, schema: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        from tensorlake.dataset.core.session import Session
        from tensorlake.dataset.handles.dataset import Dataset
        from tensorlake.format import Schema
        from tensorlake.storage import MemoryStore, runtime
        from tensorlake.testing import CountingStore
        from tensorlake.versions import create_dataset, resolve

        warm_up()
        self.store = CountingStore(MemoryStore())
        made = create_dataset(
            self.store, Schema.new(schema).to_json(), grace_s=86_400, exist_ok=False
        )
        with Dataset(Session(self.store, runtime.run(made))) as ds:
            ds.extend(columns)
            ds.commit("all")
        self._open = lambda: Dataset(Session(self.store, runtime.run(resolve(self.store, None))))

    def ask(self, work: Callable[[Any], object]) -> tuple[object, int, int, float]:
        """Return what work over the dataset gives, bytes read, round trips, and seconds."""
        with self._open() as ds:
            self.store.reset()
            with stopwatch() as watch:
                found = work(ds)
            return found, self.store.bytes_read, self.store.round_trips, watch.seconds


def clustered(workspace: Workspace) -> Measurement:
    """Find one row in a hundred by a range over sorted values."""
    num_rows = 1_000_000 if workspace.is_quick else 10_000_000
    values = np.sort(np.random.default_rng(2).random(num_rows, dtype=np.float32))
    low, high = (float(each) for each in np.quantile(values, [0.5, 0.51]))
    counted = Counted({"score": "float32"}, {"score": values})
    rows, read, trips, seconds = counted.ask(
        lambda ds: ds.query("WHERE score >= $low AND score < $high", low=low, high=high).rows
    )
    assert isinstance(rows, np.ndarray)
    _, needed, _, _ = counted.ask(lambda ds: ds["score"][int(rows[0]) : int(rows[-1]) + 1])
    _, whole, _, _ = counted.ask(lambda ds: ds["score"][:])
    facts = {
        "MB": read / 1e6,
        "of the chunks that hold its rows": read / needed,
        "of all chunks": read / whole,
        "round trips": float(trips),
    }
    return Measurement(seconds, 1.0, facts=facts)


def shapes(workspace: Workspace) -> Measurement:
    """Find images by their height."""
    import tensorlake as tl

    pictures = [picture(32 + number % 64) for number in range(workspace.num_images)]
    counted = Counted({"image": tl.Image("jpeg")}, {"image": pictures})
    _, read, trips, seconds = counted.ask(
        lambda ds: len(ds.query("WHERE SHAPE(image)[0] > 80").rows)
    )
    facts = {
        "kB": read / 1e3,
        "of the images": read / sum(map(len, pictures)),
        "round trips": float(trips),
    }
    return Measurement(seconds, 1.0, facts=facts)


def label_and_pictures(workspace: Workspace) -> Measurement:
    """Find the rows of a class, and read ten of their images."""
    import tensorlake as tl

    num_rows = workspace.num_images * 4
    names = tuple(f"class {number}" for number in range(NUM_CLASSES))
    codes = np.random.default_rng(3).integers(0, NUM_CLASSES // 8, num_rows)
    pictures = [picture(256)] * num_rows
    schema = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(names)}
    counted = Counted(schema, {"image": pictures, "label": codes})

    def work(ds: Any) -> object:
        found = ds.query("WHERE label = 'class 7'")
        return list(found[:NUM_READ]["image"])

    _, read, trips, seconds = counted.ask(work)
    return Measurement(seconds, 1.0, facts={"round trips": float(trips), "MB": read / 1e6})


def picture(height: int) -> bytes:
    """Return a JPEG of noise."""
    from PIL import Image

    pixels = np.random.default_rng(height).integers(0, 256, (height, 64, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


BENCHMARKS = (
    Benchmark(
        "query-clustered",
        "data read to find one row in a hundred by a range over sorted values",
        "queries",
        (Contender("tensorlake", clustered),),
        limits=(
            Limit("tensorlake", "of the chunks that hold its rows", at_most=1.1),
            Limit("tensorlake", "of all chunks", at_most=0.05),
        ),
    ),
    Benchmark(
        "query-shape",
        "data read to find images by their height",
        "queries",
        (Contender("tensorlake", shapes),),
        limits=(Limit("tensorlake", "of the images", at_most=0.1),),
    ),
    Benchmark(
        "query-pictures",
        "data read to find the rows of a class and read ten images",
        "queries",
        (Contender("tensorlake", label_and_pictures),),
        limits=(
            Limit("tensorlake", "round trips", at_most=5),
            Limit("tensorlake", "MB", at_most=2),
        ),
    ),
)
