"""Windows of episodes beside LeRobot's own loader: ``python -m benchmarks episodes``.

Two sets that LeRobot records: like pusht (frames of 96 × 96, two numbers of state and action) and
like aloha (480 × 640, fourteen). All read state, action and frames of consecutive steps, shuffled,
with two workers. LeRobot decodes its videos by its default backend from a local folder; tensorlake
reads the images that ``tl.ingest.lerobot`` made of them, from a folder and from a store each of
whose requests takes 20 ms longer, and by the drop-in `LeRobotDataset` in torch's own DataLoader.

LeRobot is in the environment of ``make test-extras GROUP=lerobot``: run it there, after ``pip
install psutil simplejpeg zarr`` and with the folder that ``tests/extras/lerobot/ffmpeg.py`` prints
as LD_LIBRARY_PATH, or its lines have no figure.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

BATCH, WORKERS, SEED = 16, 2, 0
LATENCY_MS = 20.0
PEER = "LeRobot, a folder"
OWN, JPEG = "tensorlake, a folder", "tensorlake, a folder, JPEG"
REMOTE, JPEG_REMOTE = f"tensorlake, {LATENCY_MS:g} ms", f"tensorlake, {LATENCY_MS:g} ms, JPEG"
DROP_IN = "tensorlake, LeRobotDataset"


@dataclass(frozen=True, slots=True)
class Recording:
    """A set to record.

    Attributes:
        sides: Height and width of a frame.
        numbers: Numbers of a state, and of an action.
        fps: Steps of a second.
        episodes: Episodes.
        steps: Steps of each.
        window: Steps of a window.
        windows: Windows that are timed.
    """

    sides: tuple[int, int]
    numbers: int
    fps: int
    episodes: int
    steps: int
    window: int
    windows: int


RECORDINGS = {
    "pusht": Recording((96, 96), 2, 10, 12, 100, 16, 320),
    "aloha": Recording((480, 640), 14, 50, 6, 100, 4, 160),
}


def frames(one: Recording, seed: int) -> np.ndarray:
    """Return a scene that moves, as smooth as photographs: uint8 (steps, height, width, 3)."""
    from PIL import Image

    height, width = one.sides
    coarse = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    large = Image.fromarray(coarse).resize((2 * width, 2 * height), Image.Resampling.BICUBIC)
    scene = np.asarray(large)
    starts = [(step * height // one.steps, step * width // one.steps) for step in range(one.steps)]
    return np.stack([scene[y : y + height, x : x + width] for y, x in starts])


def recorded(workspace: Workspace, name: str) -> Path:
    """Let LeRobot record a set, once; return its folder."""
    library: Any = import_module("lerobot.datasets.lerobot_dataset")
    one, folder = RECORDINGS[name], workspace.folder / "episodes" / name
    done = folder / "recorded.txt"
    if done.exists():
        return folder / "set"
    shutil.rmtree(folder, ignore_errors=True)
    numbers = {"dtype": "float32", "shape": (one.numbers,), "names": None}
    axes = ["height", "width", "channels"]
    features = {
        "observation.state": numbers,
        "action": numbers,
        "observation.images.top": {"dtype": "video", "shape": (*one.sides, 3), "names": axes},
    }
    made = library.LeRobotDataset.create(
        "own/set", one.fps, features, root=folder / "set", use_videos=True, vcodec="h264"
    )
    rng = np.random.default_rng(SEED)
    for episode in range(one.episodes):
        for pixels in frames(one, episode):
            state, action = rng.random((2, one.numbers), np.float32)
            made.add_frame(
                {
                    "observation.state": state,
                    "action": action,
                    "observation.images.top": pixels,
                    "task": "reach",
                }
            )
        made.save_episode()
    made.finalize()
    done.write_text("")
    return folder / "set"


def prepare(workspace: Workspace, *, name: str) -> None:
    try:
        folder = recorded(workspace, name)
    except ImportError:
        return  # its contenders say so
    import tensorlake as tl

    for codec in ("png", "jpeg"):
        image: Any = tl.Image(codec)
        tl.ingest.lerobot(folder, folder.parent / f"{codec}.tl", schema={"frame": image}).close()


def rate(batches: Iterable[Any], count: int) -> Measurement:
    """Time batches after the first."""
    reading = iter(batches)
    next(reading)
    seen = 0
    with stopwatch() as watch:
        for _ in reading:
            seen += BATCH
            if seen >= count:
                break
    return Measurement(watch.seconds, seen, watch.cpu_seconds)


def own_windows(workspace: Workspace, *, name: str, codec: str, latency: bool) -> Measurement:
    import tensorlake as tl
    from tensorlake.testing import latency_server

    one = RECORDINGS[name]
    relative = f"episodes/{name}/{codec}.tl"
    if not (workspace.folder / relative).exists():
        return Measurement(0, 0, note="lerobot is not installed")
    warm_up()
    serving = latency_server(workspace.folder, latency_ms=LATENCY_MS) if latency else nullcontext()
    with serving as server:
        url = str(workspace.folder / relative) if server is None else server.s3_url(relative)
        ds = tl.open(url, storage_options=None if server is None else server.storage_options)
        columns = ["state", "action", "frame"]
        windows = ds.windows(columns, by="episode", size=one.window, step=1)
        loader = windows.torch(batch_size=BATCH, shuffle=True, seed=SEED, workers=WORKERS)
        return rate(loader, one.windows)


def in_torch(workspace: Workspace, *, name: str, drop_in: bool) -> Measurement:
    try:
        folder = recorded(workspace, name)
    except ImportError as error:
        return Measurement(0, 0, note=f"{error.name} is not installed")
    library: Any = import_module("lerobot.datasets.lerobot_dataset")
    loader: Any = import_module("torch.utils.data").DataLoader
    torch: Any = import_module("torch")
    one = RECORDINGS[name]
    names = ("observation.state", "action", "observation.images.top")
    deltas = {name: [step / one.fps for step in range(one.window)] for name in names}
    if drop_in:
        from tensorlake.compat.lerobot import LeRobotDataset

        dataset: Any = LeRobotDataset(str(folder.parent / "png.tl"), delta_timestamps=deltas)
    else:
        dataset = library.LeRobotDataset("own/set", root=folder, delta_timestamps=deltas)
    order = torch.Generator().manual_seed(SEED)
    given = {"batch_size": BATCH, "shuffle": True, "num_workers": WORKERS, "generator": order}
    return rate(loader(dataset, **given), one.windows)


def benchmark(name: str, one: Recording) -> Benchmark:
    own = partial(partial, own_windows, name=name)
    height, width = one.sides
    return Benchmark(
        name=f"episodes-{name}",
        question=f"windows of {one.window} steps of a set like {name}, frames {height} × {width}",
        unit="windows/s",
        contenders=(
            Contender(PEER, partial(in_torch, name=name, drop_in=False)),
            Contender(OWN, own(codec="png", latency=False)),
            Contender(REMOTE, own(codec="png", latency=True)),
            Contender(JPEG, own(codec="jpeg", latency=False)),
            Contender(JPEG_REMOTE, own(codec="jpeg", latency=True)),
            Contender(DROP_IN, partial(in_torch, name=name, drop_in=True)),
        ),
        goals=(
            Goal(OWN, PEER, 2),
            Goal(REMOTE, PEER, 1),
            Goal(JPEG, PEER, 2),
            Goal(JPEG_REMOTE, PEER, 1),
            Goal(DROP_IN, PEER, 1),
        ),
        prepare=partial(prepare, name=name),
    )


BENCHMARKS = tuple(benchmark(name, one) for name, one in RECORDINGS.items())
