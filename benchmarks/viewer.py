"""``python -m benchmarks.viewer``: the viewer's figures, in a real Chromium against a real server.

    million   10⁶ rows of small images: how long until the first are seen
    scenes    2,000 photographs with their boxes: scrolling through them while thumbnails stream in
    crowd     one image with 5,000 boxes, dragged about
    points    10⁵ points of a map, and a lasso around them
    swarm     10⁶ points, and what a frame of a lasso around them takes
    films     videos of 1 GB each in a store of which every request takes 20 ms

The lake is made once, under ``.benchmarks/viewer``. The browser's measurements are in
``viewer/e2e/figures.bench.ts``: tasks of the page's main thread, from a performance trace, on the
processor's clock (what else the machine does is in none of them) and on the wall's.
``--minutes 10`` scrolls long enough to trust the memory figure; ``--only boxes`` takes one of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

import tensorlake as tl
from benchmarks.harness.data import REPOSITORY
from tensorlake.testing import latency_server

__all__ = ["main"]

LAKE = REPOSITORY / ".benchmarks/viewer"
STATIC = REPOSITORY / "server/tensorlake_server/static"
COCO = REPOSITORY / "examples/data/coco"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MILLION, BATCH = 1_000_000, 100_000
SCENES, BOXES = 2_000, 5_000
STOP_S = 30
FIGURES = ("openings", "scrolling", "boxes", "map", "edits", "film", "memory")
POINTS, SWARM = 100_000, 1_000_000
FILMS, FILM_NBYTES, FAR_MS = 3, 1_000_000_000, 20
RATE, GROUP = 25, 50  # of films: frames a second, and from a key frame to the next


def main() -> None:
    """Measure, and print each figure beside its goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.viewer", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1 / 3, help="of scrolling, for memory")
    parser.add_argument("--traces", type=Path, help="folder that keeps the traces, for DevTools")
    parser.add_argument("--only", choices=FIGURES, help="one of the figures")
    asked = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None or shutil.which("npm") is None:
        sys.exit("benchmarks.viewer: needs Chromium and npm")
    subprocess.run(["make", "--no-print-directory", "viewer"], cwd=REPOSITORY, check=True)
    _make_lake()
    report = LAKE / "figures.json"
    with ExitStack() as stack:
        environment = {
            **os.environ,
            "VIEWER_LINK": stack.enter_context(_serving(str(LAKE / "lake"), {})),
            "CHROMIUM": chromium,
            "FIGURES": str(report),
            "SCROLL_S": str(60 * asked.minutes),
        }
        if asked.only in (None, "film"):
            far = stack.enter_context(latency_server(LAKE, latency_ms=FAR_MS))
            lake = far.s3_url("far"), far.storage_options
            environment["FAR_LINK"] = stack.enter_context(_serving(*lake))
        if asked.traces is not None:
            asked.traces.mkdir(parents=True, exist_ok=True)
            environment["TRACES"] = str(asked.traces.resolve())
        command = ["npm", "run", "--silent", "figures"]
        if asked.only is not None:
            command += ["--", "-t", asked.only]
        subprocess.run(command, cwd=REPOSITORY / "viewer", env=environment, check=True)
    _print(json.loads(report.read_text()), minutes=asked.minutes)


@contextmanager
def _serving(lake: str, storage_options: Mapping[str, str]) -> Generator[str]:
    paths = os.pathsep.join(str(REPOSITORY / room) for room in (".", "query", "server"))
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", lake, "--port", "0", "--write", "--child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert server.stdin is not None, "asked for above"
        assert server.stdout is not None, "likewise"
        server.stdin.write(json.dumps(storage_options) + "\n")
        server.stdin.flush()
        printed = re.search(r"http://\S+", server.stdout.readline())
        if printed is None:
            sys.exit("benchmarks.viewer: the server did not start")
        yield printed[0]
    finally:
        server.terminate()
        server.wait(STOP_S)
        for pipe in (server.stdin, server.stdout):
            assert pipe is not None, "asked for above"
            pipe.close()


def _print(figures: dict[str, Any], *, minutes: float) -> None:
    rows: list[tuple[str, str, str]] = []
    if "openings" in figures:
        firsts, wholes, seen = zip(*figures["openings"], strict=True)
        rows += [
            ("first thumbnail, 10⁶ rows", f"{statistics.median(firsts):.0f} ms", "≤ 1,000 ms"),
            (f"all {seen[0]} in sight", f"{statistics.median(wholes):.0f} ms", ""),
        ]
    if "scrolling" in figures:
        work = figures["scrolling"]
        rows += [
            *_frames("scrolling", work, "≤ 8 ms"),
            ("  longest task, processor", f"{work['longestCpu']:.0f} ms", "≤ 50 ms"),
            ("  longest task, wall", f"{work['longestWall']:.0f} ms", ""),
            ("  frames, dropped", f"{work['frames']}, {work['dropped']}", ""),
        ]
    if "boxes" in figures:
        work = figures["boxes"]
        rows += [*_frames("5,000 boxes", work, "≤ 16 ms"), ("  frames", f"{work['frames']}", "")]
    if "map" in figures:
        work = figures["map"]
        rows += [
            *_frames("lasso over 10⁶ points", work, "≤ 8 ms"),
            ("  frames", f"{work['frames']}", ""),
            ("10⁵ points: lasso to rows, min / median / max", _spread(work["found"]), "≤ 300 ms"),
        ]
    if "edits" in figures:
        work = figures["edits"]
        rows += [*_frames("label by a key", work, "≤ 16 ms"), ("  frames", f"{work['frames']}", "")]
    if "film" in figures:
        pictures, own = zip(*figures["film"], strict=True)
        rows += [
            ("first frame of 1 GB, min / median / max", _spread(pictures), "≤ 400 ms"),
            ("  the browser's own", _spread(own), ""),
        ]
    rows += [("initial JavaScript, gzipped", f"{_initial_nbytes() / 1000:.0f} kB", "≤ 250 kB")]
    width = max(len(name) for name, _, _ in rows)
    for name, figure, goal in rows:
        print(f"{name:<{width}}  {figure:>14}  {goal}".rstrip())
    if "memory" in figures:
        _print_memory(figures["memory"], minutes=minutes)


def _spread(times_ms: Sequence[float]) -> str:
    found = sorted(times_ms)
    return f"{found[0]:.0f} / {statistics.median(found):.0f} / {found[-1]:.0f} ms"


def _frames(what: str, work: dict[str, float], goal: str) -> list[tuple[str, str, str]]:
    return [
        (f"{what}: main thread a frame, p95", f"{work['p95']:.1f} ms", goal),
        ("  p50, longest", f"{work['p50']:.1f}, {work['most']:.1f} ms", ""),
        ("  of it drawing, p95", f"{work['drawingP95']:.1f} ms", ""),
    ]


def _print_memory(sizes: list[dict[str, float]], *, minutes: float) -> None:
    print("\nmemory while scrolling, MB: flat from the first quarter on")
    print(f"{'minutes':>8}{'heap':>8}{'page':>8}{'browser':>9}")
    for part, size in enumerate(sizes):
        passed = part * minutes / (len(sizes) - 1)
        print(f"{passed:8.2g}{size['heap']:8.1f}{size['process']:8.0f}{size['browser']:9.0f}")


def _initial_nbytes() -> int:
    """Size of the scripts that the page loads before it shows anything."""
    named = re.findall(r'(?:src|href)="\./(assets/[^"]+\.js)"', (STATIC / "index.html").read_text())
    return sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in named)


# The lake


def _make_lake() -> None:
    makers: dict[str, Callable[[str], None]] = {
        "lake/million": _make_million,
        "lake/scenes": _make_scenes,
        "lake/crowd": _make_crowd,
        "lake/points": partial(_make_points, count=POINTS),
        "lake/swarm": partial(_make_points, count=SWARM),
        "far/films": _make_films,
    }
    for name, make in makers.items():
        if (LAKE / name).exists():
            continue
        unfinished = LAKE / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        make(str(unfinished))
        (LAKE / name).parent.mkdir(parents=True, exist_ok=True)
        unfinished.rename(LAKE / name)


def _make_million(url: str) -> None:
    schema = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["even", "odd"])}
    ds = tl.create(url, schema, durability="none")
    shades = np.arange(50, dtype=np.uint8) * 5
    pictures = [
        simplejpeg.encode_jpeg(np.full((32, 32, 3), shade, dtype=np.uint8), 40) for shade in shades
    ]
    images, labels = pictures * (BATCH // len(pictures)), np.arange(BATCH) % 2
    for _ in range(MILLION // BATCH):
        ds.extend({"image": images, "label": labels})
    ds.commit("a million small images")


def _make_scenes(url: str) -> None:
    """The repository's photographs, again and again."""
    once = tl.ingest.coco(COCO / "instances.json", COCO / "images", "memory://scenes-once")
    names = ("image", "boxes", "label")
    columns: dict[str, list[Any]] = {
        "image": [once["image"].bytes(row) for row in range(len(once))],
        "boxes": list(once["boxes"][:]),
        "label": list(once["label"][:]),
    }
    ds = tl.create(url, {name: once.schema[name] for name in names}, durability="none")
    for _ in range(0, SCENES, len(once)):
        ds.extend(columns)
    ds.commit("scenes")


def _make_crowd(url: str) -> None:
    schema = {
        "image": tl.Image("jpeg"),
        "boxes": tl.BBox("xywh", of="image"),
        "labels": tl.ClassLabel([f"kind {i}" for i in range(20)], per="boxes"),
    }
    random = np.random.default_rng(0)
    corners = random.uniform(0, [1800, 1000], size=(BOXES, 2))
    boxes = np.hstack([corners, random.uniform(10, 80, size=(BOXES, 2))]).astype(np.float32)
    ds = tl.create(url, schema, durability="none")
    grey = simplejpeg.encode_jpeg(np.full((1080, 1920, 3), 90, dtype=np.uint8))
    ds.append({"image": grey, "boxes": boxes, "labels": random.integers(20, size=BOXES)})
    ds.commit("a crowd")


def _make_points(url: str, count: int) -> None:
    """Ten clouds on a plane, one a class."""
    schema = {
        "plane": tl.Array("float32", (2,)),
        "label": tl.ClassLabel([f"cloud {i}" for i in range(10)]),
    }
    random = np.random.default_rng(0)
    labels = random.integers(10, size=count)
    centers = random.uniform(-10, 10, size=(10, 2))
    ds = tl.create(url, schema, durability="none")
    ds.extend({"plane": centers[labels] + random.normal(size=(count, 2)), "label": labels})
    ds.commit("points")


def _make_films(url: str) -> None:
    """Films of noise, whose packets are those of two seconds again and again."""
    film = LAKE / "film.mp4"
    _write_film(film)
    ds = tl.create(url, {"film": tl.Video()}, durability="none")
    for _ in range(FILMS):
        ds.append({"film": str(film)})
        ds.commit("a film")
    film.unlink()


def _write_film(path: Path) -> None:
    import av  # of the extra media

    once = path.with_name("once.mp4")
    random = np.random.default_rng(0)
    with av.open(str(once), "w") as out:
        options = {"g": str(GROUP), "bf": "0", "preset": "ultrafast", "qp": "12"}
        stream: Any = out.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for _ in range(GROUP):
            noise = random.integers(0, 255, (720, 1280, 3), np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(noise, format="rgb24")))
        out.mux(stream.encode())
    with av.open(str(once)) as source, av.open(str(path), "w") as out:
        own: Any = source.streams.video[0]
        copied: Any = out.add_stream_from_template(own)
        packets = [(bytes(one), one.pts, one.is_keyframe) for one in source.demux(own) if one.size]
        length = (packets[1][1] - packets[0][1]) * len(packets)
        nbytes = sum(len(data) for data, _, _ in packets)
        for turn in range(-(-FILM_NBYTES // nbytes)):
            for data, pts, is_key in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base = copied, own.time_base
                packet.pts = packet.dts = pts + turn * length
                packet.is_keyframe = is_key
                out.mux(packet)
    once.unlink()


if __name__ == "__main__":
    main()
