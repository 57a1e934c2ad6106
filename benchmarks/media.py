"""Windows of long files of media, beside the libraries that decode them from a local file.

Audio: windows of 2 s at random places of ten minutes of stereo, decoded to float32. soundfile opens
the file and seeks in it; both read from the page cache. tensorlake's bytes are those that its store
is asked for, over the window's share of the file.

Points: a level of detail and a box of a tile of airborne lidar, two million points with 19 fields.
laspy reads LAZ whole, whatever is wanted of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

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

RATE, CHANNELS = 44_100, 2
WINDOW_SECONDS = 2
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "vorbis": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
OWN, PEER = "tensorlake", "soundfile, a local file"
SHARE = "bytes ÷ share"
MAPPED = "mapped × real time"


def audio_file(workspace: Workspace, name: str) -> Path:
    """Return ten minutes of tones and noise in a format."""
    import soundfile

    form, subtype = FORMATS[name]
    file = workspace.folder / f"sound.{name}"
    if not file.exists():
        rng = np.random.default_rng(0)
        minutes = 1 if workspace.is_quick else 10
        with soundfile.SoundFile(file, "w", RATE, CHANNELS, format=form, subtype=subtype) as opened:
            for second in range(60 * minutes):
                at = (np.arange(RATE) / RATE)[:, None]
                tone = 0.5 * np.sin(2 * np.pi * (220 + second % 40 * 20) * at + np.arange(CHANNELS))
                noise = 0.1 * rng.standard_normal((RATE, CHANNELS)) * np.exp(-3 * at)
                for start in range(0, RATE, 4_410):  # libsndfile's Vorbis fails on long writes
                    opened.write((tone + noise)[start : start + 4_410])
    return file


def _starts(workspace: Workspace, frames: int) -> list[int]:
    count = 20 if workspace.is_quick else 200
    return np.random.default_rng(1).integers(0, frames - WINDOW_SECONDS * RATE, count).tolist()


def _own(workspace: Workspace, name: str) -> Measurement:
    import tensorlake as tl

    content = audio_file(workspace, name).read_bytes()
    folder = workspace.folder / f"sound-{name}.tl"
    warm_up()
    made = tl.create(str(folder), {"audio": tl.Audio()}, exist_ok=True)
    with stopwatch() as mapping:
        tl.Audio().convert([content], tensor="audio")
    if not len(made):
        made.append({"audio": content})
        made.commit("a recording")
    waveform = tl.open(str(folder))[0]["audio"]
    starts = _starts(workspace, waveform.frames)
    wide = WINDOW_SECONDS * RATE
    waveform[:wide]
    with stopwatch() as watch:
        for start in starts:
            waveform[start : start + wide]
    facts = {
        SHARE: _bytes_over_share(waveform, starts, wide),
        MAPPED: waveform.duration / mapping.cpu_seconds,
    }
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds, facts)


def _bytes_over_share(waveform: object, starts: list[int], wide: int) -> float:
    from tensorlake.types import Waveform

    assert isinstance(waveform, Waveform)
    read = 0
    for start in starts:
        region = (slice(start, start + wide),)
        wanted = waveform.type.wanted_parts(waveform.map, region, tensor="", row=0)
        spans = [waveform.map.span(part) for part in wanted.tolist()]
        read += sum(stop - start for start, stop in spans)
    return read / len(starts) / (waveform.nbytes * wide / waveform.frames)


def _peer(workspace: Workspace, name: str) -> Measurement:
    import soundfile

    file = audio_file(workspace, name)
    file.read_bytes()
    frames = soundfile.info(file).frames
    starts, wide = _starts(workspace, frames), WINDOW_SECONDS * RATE
    soundfile.read(file, wide, dtype="float32")
    with stopwatch() as watch:
        for start in starts:
            soundfile.read(file, wide, start=start, dtype="float32", always_2d=True)
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds)


def _windows(name: str) -> Benchmark:
    contenders: dict[str, Callable[..., Measurement]] = {OWN: _own, PEER: _peer}
    return Benchmark(
        name=f"audio_{name}",
        question=f"Random windows of 2 s of ten minutes of {name} in stereo",
        unit="windows",
        contenders=tuple(
            Contender(one, partial(run, name=name)) for one, run in contenders.items()
        ),
        goals=(Goal(OWN, PEER, 0.8, "CPU second"),),
        limits=(Limit(OWN, SHARE, at_most=1.6), Limit(OWN, MAPPED, at_least=1_000)),
        prepare=partial(audio_file, name=name),
    )


POINTS, POINTS_QUICK, SIDE = 2_000_000, 200_000, 1_000.0
BOX_SIDE = 100.0  # a hundredth of the area
LASPY = "laspy, the whole LAZ file"


def laz_file(workspace: Workspace) -> Path:
    """Return a square of terrain, one kilometer a side, in LAZ."""
    import laspy

    file = workspace.folder / "terrain.laz"
    if not file.exists():
        points = POINTS_QUICK if workspace.is_quick else POINTS
        rng = np.random.default_rng(0)
        header = laspy.LasHeader(version="1.2", point_format=3)
        header.scales, header.offsets = np.full(3, 0.01), np.array([637_000.0, 4_850_000.0, 0])
        las = laspy.LasData(header)
        across = rng.uniform(0, SIDE, points)
        along = np.sort(rng.uniform(0, SIDE, points))  # as an aircraft flies
        las.x, las.y = across + 637_000, along + 4_850_000
        las.z = 40 * np.sin(across / 90) * np.cos(along / 70) + rng.normal(0, 0.05, points)
        las.intensity = rng.integers(0, 2_000, points)
        las.classification = (rng.random(points) < 0.3) * np.uint8(2)
        las.gps_time = along / 70
        las.write(str(file), do_compress=True)
    return file


def _own_points(workspace: Workspace, what: str) -> Measurement:
    import tensorlake as tl
    from tensorlake.types import PointCloudHandle, PointRequest

    folder = workspace.folder / "terrain.tl"
    warm_up()
    made = tl.create(str(folder), {"points": tl.PointCloud()}, exist_ok=True)
    if not len(made):
        made.append({"points": laz_file(workspace)})
        made.commit("terrain")
    cloud = tl.open(str(folder))[0]["points"]
    assert isinstance(cloud, PointCloudHandle)
    low = cloud.bounds[0] + np.array([450, 450, -1e6])
    request = PointRequest(level=0)
    if what == "box":
        high = low + np.array([BOX_SIDE, BOX_SIDE, 2e6])
        request = PointRequest(low=tuple(low.tolist()), high=tuple(high.tolist()))
    points = len(cloud.read(request))
    runs = 20
    with stopwatch() as watch:
        for _ in range(runs):
            cloud.read(request)
    wanted = cloud.type.wanted_parts(cloud.map, request, tensor="", row=0)
    read = sum(int(np.diff(cloud.map.span(part))[0]) for part in wanted.tolist())
    share = read / (cloud.nbytes * points / len(cloud))
    return Measurement(watch.seconds, runs, watch.cpu_seconds, {SHARE: share})


def _laspy(workspace: Workspace) -> Measurement:
    import laspy

    file = laz_file(workspace)
    laspy.read(file)
    with stopwatch() as watch:
        las = laspy.read(file)
        np.stack([np.asarray(las.x), np.asarray(las.y), np.asarray(las.z)], axis=1)
    return Measurement(watch.seconds, 1, watch.cpu_seconds)


def _points(what: str, question: str, goal: float, share: float) -> Benchmark:
    return Benchmark(
        name=f"points_{what}",
        question=question,
        unit="reads",
        contenders=(Contender(OWN, partial(_own_points, what=what)), Contender(LASPY, _laspy)),
        goals=(Goal(OWN, LASPY, goal, "CPU second"),),
        limits=(Limit(OWN, SHARE, at_most=share),),
        prepare=laz_file,
    )


POINT_BENCHMARKS = (
    _points("level", "1/64 of the points of a square kilometer of lidar", 20, 1.2),
    _points("box", "A box of 1/100 of a square kilometer of lidar", 20, 6),
)

BENCHMARKS = (*(_windows(name) for name in FORMATS), *POINT_BENCHMARKS)
