"""Clips of 16 frames at random places of videos, in two threads, beside what others decode with.

A camera passes over a scene with noise, 640 × 480 at 30 frames per second, in H.264 with a key
frame each second, or each ten; everybody reads from the page cache, and decodes by one thread a
clip. tensorlake's bytes are those of the parts that it reads, over the span from the key frame to
the clip's last packet.

Each clip of an epoch is of another video, so every contender opens its video for every clip: PyAV
seeks to the key frame before the clip and decodes up to its last frame; torchcodec seeks by its
index of the file, or without one (approximate); decord, which was last released in 2021, indexes
too. torchcodec needs FFmpeg's libraries on the system; one that does not load has a line with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import LAKE, Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)
from benchmarks.peers.packages import Package

__all__ = ["BENCHMARKS"]

HEIGHT, WIDTH, RATE, CLIP, THREADS = 480, 640, 30, 16, 2
OWN, PEER = "tensorlake", "PyAV by hand, a local file"
TORCHCODEC, DECORD = "torchcodec", "decord"
PEERS = {TORCHCODEC: Package("torchcodec==0.12.0"), DECORD: Package("decord==0.6.0")}
"""torchcodec is built for one release of torch: 0.12 beside 2.13."""
LOCAL = "tensorlake, local folder"
VIDEOS, BATCH = 48, 8
SEEK_MODES = ("exact", "approximate")
SPAN = "bytes ÷ span"
MAPPED = "mapped × real time"


def video_file(workspace: Workspace, group: int) -> Path:
    """Return a minute of video with a key frame every `group` frames."""
    import av

    file = workspace.folder / f"video-{group}.mp4"
    if file.exists():
        return file
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 255, (HEIGHT // 16, WIDTH // 16, 3))
    scene = np.kron(np.tile(coarse, (2, 2, 1)), np.ones((16, 16, 1), np.int16)).astype(np.int16)
    noise = rng.integers(-12, 13, (16, HEIGHT, WIDTH, 3), dtype=np.int16)
    with av.open(str(file), "w") as out:
        options = {"g": str(group), "preset": "veryfast", "crf": "21"}
        stream: Any = out.add_stream("libx264", rate=RATE, options=options)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for number in range((10 if workspace.is_quick else 60) * RATE):
            y, x = number % HEIGHT, 2 * number % WIDTH
            pixels = scene[y : y + HEIGHT, x : x + WIDTH] + noise[number * 7 % 16]
            frame = av.VideoFrame.from_ndarray(
                np.clip(pixels, 0, 255).astype(np.uint8), format="rgb24"
            )
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return file


def _starts(workspace: Workspace, frames: int) -> list[int]:
    count = 20 if workspace.is_quick else 120
    return np.random.default_rng(1).integers(0, frames - CLIP, count).tolist()


def _own(workspace: Workspace, group: int) -> Measurement:
    import tensorlake as tl
    from tensorlake.types.video.containers import Limits
    from tensorlake.types.video.index import map_packets

    content = video_file(workspace, group).read_bytes()
    folder = workspace.folder / f"video-{group}.tl"
    warm_up()
    with stopwatch() as mapping:
        map_packets(content, "mov", Limits())
    made = tl.create(str(folder), {"video": tl.Video()}, exist_ok=True)
    if not len(made):
        made.append({"video": content})
        made.commit("a video")
    videos = tl.open(str(folder))["video"]
    clip = videos[0]
    starts = _starts(workspace, len(clip))
    clip[:CLIP]

    def shape(start: int) -> tuple[int, ...]:
        return videos[0][start : start + CLIP].shape

    with stopwatch() as watch, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(shape, starts))
    facts = {SPAN: _bytes_over_span(clip, starts), MAPPED: clip.duration / mapping.cpu_seconds}
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds, facts)


def _bytes_over_span(clip: Any, starts: list[int]) -> float:
    from tensorlake.types.video.map import read_map
    from tensorlake.types.video.plan import plan_runs

    video, read, spans = read_map(clip.head), 0, 0
    for start in starts:
        region = (slice(start, start + CLIP),)
        wanted = clip.type.wanted_parts(clip.map, region, tensor="", row=0)
        read += sum(int(np.diff(clip.map.span(part))[0]) for part in wanted.tolist())
        for run in plan_runs(video, np.arange(start, start + CLIP)):
            last = run.stop - 1
            spans += int(video.offsets[last] + video.sizes[last] - video.offsets[run.start])
    return read / spans


def _peer(workspace: Workspace, group: int) -> Measurement:
    import av

    file = video_file(workspace, group)
    frames = (10 if workspace.is_quick else 60) * RATE
    starts = _starts(workspace, frames)

    def decode(start: int) -> int:
        made: list[np.ndarray] = []
        with av.open(str(file)) as opened:
            stream: Any = opened.streams.video[0]
            stream.codec_context.thread_count = 1
            opened.seek(int(start / RATE / stream.time_base), stream=stream)
            for frame in opened.decode(stream):
                number = round(float(frame.pts * stream.time_base) * RATE)
                if number >= start:
                    made.append(frame.to_ndarray(format="rgb24"))
                if number >= start + CLIP - 1:
                    break
        return len(np.stack(made))

    decode(0)
    with stopwatch() as watch, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(decode, starts))
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds)


def _torchcodec(workspace: Workspace, group: int, seek_mode: str) -> Measurement:
    if reason := PEERS[TORCHCODEC].find("torchcodec.decoders"):
        return Measurement(0, 0, note=reason)
    from torchcodec.decoders import VideoDecoder  # pyright: ignore[reportMissingImports] - a peer

    def decode(file: str, start: int) -> int:
        opened = VideoDecoder(
            file, num_ffmpeg_threads=1, dimension_order="NHWC", seek_mode=seek_mode
        )
        return len(opened.get_frames_in_range(start, start + CLIP).data)

    return _by_library(workspace, group, decode)


def _decord(workspace: Workspace, group: int) -> Measurement:
    if reason := PEERS[DECORD].find("decord"):
        return Measurement(0, 0, note=reason)
    from decord import VideoReader  # pyright: ignore[reportMissingImports] - a peer

    def decode(file: str, start: int) -> int:
        opened = VideoReader(file, num_threads=1)
        return len(opened.get_batch(range(start, start + CLIP)).asnumpy())

    return _by_library(workspace, group, decode)


def _by_library(workspace: Workspace, group: int, decode: Callable[[str, int], int]) -> Measurement:
    file = str(video_file(workspace, group))
    starts = _starts(workspace, (10 if workspace.is_quick else 60) * RATE)
    assert decode(file, 0) == CLIP
    with stopwatch() as watch, ThreadPoolExecutor(THREADS) as pool:
        counts = list(pool.map(partial(decode, file), starts))
    assert {*counts} == {CLIP}
    return Measurement(watch.seconds, len(starts), watch.cpu_seconds)


def _prepare(workspace: Workspace, group: int) -> None:
    video_file(workspace, group)
    for package in PEERS.values():
        package.install()


def _clips(group: int) -> Benchmark:
    return Benchmark(
        name=f"video_{group // RATE}s",
        question=f"Random clips of {CLIP} frames of a minute of video, a key frame each"
        f" {group // RATE} s",
        unit="clips",
        contenders=(
            Contender(OWN, partial(_own, group=group)),
            Contender(PEER, partial(_peer, group=group)),
            *(
                Contender(
                    f"{TORCHCODEC}, {mode}", partial(_torchcodec, group=group, seek_mode=mode)
                )
                for mode in SEEK_MODES
            ),
            Contender(DECORD, partial(_decord, group=group)),
        ),
        goals=(
            Goal(OWN, PEER, 1.0, "CPU second"),
            *(Goal(OWN, f"{TORCHCODEC}, {mode}", 1.0, "CPU second") for mode in SEEK_MODES),
            Goal(OWN, DECORD, 1.0, "CPU second"),
        ),
        limits=(Limit(OWN, SPAN, at_most=1.05), Limit(OWN, MAPPED, at_least=1_000)),
        prepare=partial(_prepare, group=group),
    )


def clips_dataset(workspace: Workspace) -> Path:
    """Return the dataset of videos that an epoch of clips reads."""
    import tensorlake as tl

    folder = workspace.lake / "clips.tl"
    if not folder.exists():
        content = video_file(workspace, RATE).read_bytes()
        with tl.create(str(folder), {"video": tl.Video()}) as made:
            for _ in range(VIDEOS):
                made.append({"video": content})
            made.commit("videos")
    return folder


def epoch_of_clips(workspace: Workspace, *, latency_ms: float | None) -> Measurement:
    """Stream a first epoch of random clips, of a folder or of a server with added latency."""
    import tensorlake as tl
    from tensorlake.testing import latency_server

    folder, facts = clips_dataset(workspace), dict[str, float]()
    warm_up()
    if latency_ms is None:
        with tl.open(str(folder), read_only=True) as ds:
            return _first_epoch(ds, facts)
    with latency_server(workspace.folder, latency_ms=latency_ms) as server:
        url, options = server.s3_url(f"{LAKE}/{folder.name}"), server.storage_options
        with tl.open(url, read_only=True, storage_options=options) as ds:
            measured = _first_epoch(ds, facts)
        seen = server.counters()
    facts |= {"requests": float(seen.requests), "MB": seen.bytes_sent / 1e6}
    return measured


def _first_epoch(ds: Any, facts: dict[str, float]) -> Measurement:
    import tensorlake as tl

    loader = ds.loader(
        batch_size=BATCH,
        shuffle=True,
        seed=7,
        decode={"video": tl.decode.Clip(CLIP)},
        workers=THREADS,
    )
    with stopwatch() as watch:
        clips = sum(len(batch["video"]) for batch in loader)
    assert clips == VIDEOS
    return Measurement(watch.seconds, clips, watch.cpu_seconds, facts)


BENCHMARKS = (
    *(_clips(group) for group in (RATE, 10 * RATE)),
    Benchmark(
        name="clips-20ms",
        question=f"a first epoch of a random clip of {CLIP} frames of each of {VIDEOS} videos of a"
        " minute; 20 ms added latency per request",
        unit="clips/s",
        contenders=(
            Contender(LOCAL, partial(epoch_of_clips, latency_ms=None)),
            Contender(OWN, partial(epoch_of_clips, latency_ms=20.0)),
        ),
        goals=(Goal(OWN, LOCAL, at_least=0.8),),
        prepare=clips_dataset,
    ),
)
