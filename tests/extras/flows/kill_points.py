"""A flow that is killed at each of its points, and continued by another process.

For each point, a child runs the flow and gets SIGKILL there; a second one continues it. Children
are forked after the imports, which take longer than all else. ``ended.json`` has how
they ended and the content of the datasets, by point; 0: without a kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

import tensorlake as tl
from tensorlake import flows

POINTS = 12
killed_at, points = 0, count(1)
here = Path()


def point() -> None:
    if next(points) == killed_at:
        os.kill(os.getpid(), signal.SIGKILL)


@flows.step
def ingest(prefix: str) -> int:
    point()
    rows = [json.loads(one.read_text()) for one in sorted(Path(prefix).glob("*.json"))]
    with tl.open(str(here / "texts.tl")) as ds:
        ds.extend(rows)
        point()
        ds.commit("arrived", key=flows.key())
        point()
    return len(rows)


@flows.step
def lengths() -> None:
    def length(row: dict[str, Any]) -> dict[str, Any]:
        if row["text"] == "txxx":
            point()  # two commits are there
        return {"length": len(row["text"])}

    point()
    with tl.open(str(here / "texts.tl")) as ds:
        to = str(here / "lengths.tl")
        ds.map(length, schema={"length": "int64"}, to=to, workers=1, commit_every=1).close()
    point()


@flows.step
def correct() -> None:
    with tl.open(str(here / "texts.tl")) as ds:
        if "fix" not in ds.branches:
            ds.branch("fix").close()
        point()
        with ds.at("fix") as fix:
            fix["text"][0] = "corrected"
            point()
            fix.commit("corrected", key=flows.key())
    point()


@flows.step
def merge() -> None:
    with tl.open(str(here / "texts.tl")) as ds:
        point()
        ds.merge("fix")
    point()


@flows.flow
def arrive(prefix: str) -> int:
    rows = ingest(prefix)
    lengths()
    correct()
    merge()
    point()
    return rows


def child(folder: Path, kill_at: int) -> int:
    """Run the flow in a process of its own; return how it ended."""
    global here, killed_at
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    here, killed_at = folder, kill_at
    status = 1
    try:
        flows.connect(folder / "flows.sqlite")
        ids = [one.id for one in flows.list()] or [flows.start(arrive, str(folder / "in")).id]
        flows.run(until=lambda: flows.inspect(ids[0]).state in ("done", "failed"))
        status = 0 if flows.inspect(ids[0]).state == "done" and len(ids) == 1 else 2
    finally:
        os._exit(status)


def content(folder: Path) -> list[Any]:
    with tl.open(str(folder / "texts.tl")) as texts, tl.open(str(folder / "lengths.tl")) as made:
        return [texts["text"][:], made["length"][:].tolist(), len(texts.log())]


def main(root: Path) -> None:
    ended: dict[int, Any] = {}
    for kill_at in range(POINTS + 1):
        folder = root / str(kill_at)
        (folder / "in").mkdir(parents=True)
        for number in range(5):
            text = json.dumps({"text": "t" + "x" * number})
            (folder / "in" / f"{number}.json").write_text(text)
        ended[kill_at] = [child_of_new(folder, kill_at), child(folder, 0)]
    found = {at: [*how, content(root / str(at))] for at, how in ended.items()}
    (root / "ended.json").write_text(json.dumps(found))


def child_of_new(folder: Path, kill_at: int) -> int:
    """Make the dataset in another process too: this one starts no thread before it forks."""
    pid = os.fork()
    if not pid:
        tl.create(str(folder / "texts.tl"), {"text": "str"}).close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    return child(folder, kill_at)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
