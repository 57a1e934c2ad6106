"""Windows of episodes beside LeRobot's loader: ``python -m benchmarks.episodes FOLDER``.

FOLDER is a LeRobot dataset with one camera, such as pusht. Both read windows of 16 steps, state,
action and frames, in batches of 16, shuffled, with two workers; LeRobot decodes its videos by its
default backend, and tensorlake the images that `tl.ingest.lerobot` made of them. Rounds are taken
in turn: the ratio of each is printed, and their least, median and most.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import tensorlake as tl
from tensorlake.compat.lerobot import LeRobotDataset

SIZE, BATCH, WORKERS, ROUNDS = 16, 16, 2, 5
WINDOWS = 320


def rate(batches: Iterable[Any]) -> float:
    """Return windows per second after the first batch."""
    reading = iter(batches)
    next(reading)
    begun, count = time.perf_counter(), 0
    for _ in reading:
        count += BATCH
        if count >= WINDOWS:
            break
    return count / (time.perf_counter() - begun)


def main(folder: Path) -> None:
    """Measure, and print."""
    library: Any = import_module("lerobot.datasets.lerobot_dataset")
    loader: Any = import_module("torch.utils.data").DataLoader
    given = {"batch_size": BATCH, "shuffle": True, "num_workers": WORKERS}
    with tempfile.TemporaryDirectory() as lake:
        ds = tl.ingest.lerobot(folder, f"{lake}/steps.tl")
        own = LeRobotDataset(ds)
        names = ("observation.state", "action", own.meta.camera_keys[0])
        deltas = {name: [step / own.fps for step in range(SIZE)] for name in names}
        theirs = library.LeRobotDataset("own/set", root=folder, delta_timestamps=deltas)
        own = LeRobotDataset(ds.url, delta_timestamps=deltas)
        columns = ["state", "action", "frame"]
        windows = ds.windows(columns, by="episode", size=SIZE, step=1)
        ratios: dict[str, list[float]] = {"windows": [], "compat": []}
        for number in range(ROUNDS):
            peer = rate(loader(theirs, **given))
            ours = {
                "windows": rate(
                    windows.torch(batch_size=BATCH, shuffle=True, seed=number, workers=WORKERS)
                ),
                "compat": rate(loader(own, **given)),
            }
            for name, one in ours.items():
                ratios[name].append(one / peer)
                print(f"{name}: {one:,.0f} windows/s, LeRobot {peer:,.0f}, {one / peer:.2f}")
    for name, all_of in ratios.items():
        print(f"{name}: {min(all_of):.2f} {median(all_of):.2f} {max(all_of):.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
