"""A dataset that runs were trained on: each step's rows and losses are known."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa

import tensorlake as tl
from tests.viewer.editable import GREY

__all__ = ["make_trained"]

ROWS, BATCH = 24, 4
SPIKE = 7  # the row whose loss is large
GONE = 5  # a row that was deleted since
LONG = 100_000
LONG_SPIKE = 41_200


def make_trained(root: Path) -> None:
    """Make ``trained``: two epochs in order, a run that stopped, of ranks, of a mix, damaged."""
    ds = tl.create(
        str(root / "trained"),
        {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])},
        durability="none",
    )
    ds.extend({"image": [GREY] * ROWS, "label": [row % 2 for row in range(ROWS)]})
    ds.commit("two dozen")
    with ds.run("first", config={"lr": 0.1, "note": "<b>bold</b>"}) as run:
        loader = run.loader(batch_size=BATCH, columns=["label", "_row"])
        for _ in range(2):
            for batch in loader:
                loss = np.where(batch["_row"] == SPIKE, 9.0, batch["_row"] / 100)
                run.log(loss=loss.mean(), acc=0.5, per_row={"loss": loss}, rows=batch["_row"])
    with ds.run("stopped") as run:
        for number, batch in enumerate(run.loader(batch_size=BATCH, columns=["label", "_row"])):
            run.log(loss=1.0 + len(batch["_row"]))
            if number == 2:
                break
    for rank in range(2):
        with ds.run("ranked") as run:
            for batch in run.loader(batch_size=BATCH, rank=rank, world_size=2, columns=["_row"]):
                run.log(loss=float(rank), per_row={"loss": batch["_row"]}, rows=batch["_row"])
    mix = tl.mix({"low": (ds[:12], 0.5), "high": (ds[12:], 0.5)}, stop="first")
    with ds.run("mixed") as run:
        for batch in run.loader(mix, batch_size=BATCH, columns=["label", "_row", "_source"]):
            loss = batch["_row"] / 10
            run.log(loss=loss.mean(), per_row={"loss": loss}, rows=batch)
    with ds.run("long") as run:
        run.log(loss=0.0)
    with ds.run("damaged"):
        pass
    ds.delete([GONE])
    ds.commit("one less")
    records = root / "trained/runs"
    (records / "damaged/run.json").write_text("{")
    _write_long(next((records / "long").rglob("events-*")))
    for part in (records / "first").rglob("events-*"):
        _write_later(part)
    for path in records.rglob("*"):  # long ago
        made = path.stat().st_mtime - 3600
        os.utime(path, (made, made))


def _write_later(path: Path) -> None:
    """Let the steps of a part be two minutes later, so that its run is the newest."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        table = reader.read_all()
    at = table.column_names.index("time")
    later = pa.array(table.column("time").to_numpy() + 120)
    table = table.set_column(at, "time", later)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _write_long(path: Path) -> None:
    """Replace the steps of a run by many, one of which has a spike."""
    steps = np.arange(LONG)
    zeros = np.zeros(LONG)
    columns = {
        "step": steps,
        "steps": np.ones(LONG, np.int32),
        "time": 1.79e9 + steps,
        "rank": np.zeros(LONG, np.int32),
        "epoch": np.full(LONG, -1),
        "position": np.full(LONG, -1),
        "wait_s": zeros,
        "compute_s": zeros,
        "loss": 1 / (1 + steps / 1000) + 5 * (steps == LONG_SPIKE),
    }
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
