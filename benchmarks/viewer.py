"""``python -m benchmarks.viewer``: the viewer's figures, in a real Chromium against a real server.

    million   10⁶ rows of small images: how long until the first are seen
    scenes    2,000 photographs with their boxes: scrolling through them while thumbnails stream in
    crowd     one image with 5,000 boxes, dragged about

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
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

import tensorlake as tl
from benchmarks.harness.data import REPOSITORY

__all__ = ["main"]

LAKE = REPOSITORY / ".benchmarks/viewer"
STATIC = REPOSITORY / "server/tensorlake_server/static"
COCO = REPOSITORY / "examples/data/coco"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MILLION, BATCH = 1_000_000, 100_000
SCENES, BOXES = 2_000, 5_000
STOP_S = 30
FIGURES = ("openings", "scrolling", "boxes", "map", "memory")
POINTS = 100_000


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
    with _serving(LAKE / "lake") as link:
        environment = {
            **os.environ,
            "VIEWER_LINK": link,
            "CHROMIUM": chromium,
            "FIGURES": str(report),
            "SCROLL_S": str(60 * asked.minutes),
        }
        if asked.traces is not None:
            asked.traces.mkdir(parents=True, exist_ok=True)
            environment["TRACES"] = str(asked.traces.resolve())
        command = ["npm", "run", "--silent", "figures"]
        if asked.only is not None:
            command += ["--", "-t", asked.only]
        subprocess.run(command, cwd=REPOSITORY / "viewer", env=environment, check=True)
    _print(json.loads(report.read_text()), minutes=asked.minutes)


@contextmanager
def _serving(lake: Path) -> Generator[str]:
    paths = os.pathsep.join(str(REPOSITORY / room) for room in (".", "query", "server"))
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", str(lake), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert server.stdout is not None, "asked for above"
        printed = re.search(r"http://\S+", server.stdout.readline())
        if printed is None:
            sys.exit("benchmarks.viewer: the server did not start")
        yield printed[0]
    finally:
        server.terminate()
        server.wait(STOP_S)


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
        found = sorted(work["found"])
        spread = f"{found[0]:.0f} / {statistics.median(found):.0f} / {found[-1]:.0f} ms"
        rows += [
            *_frames("lasso over 10⁵ points", work, "≤ 8 ms"),
            ("  drawing calls of a frame", f"{work['drawn']:.1f} ms", ""),
            ("  lasso to rows, min / median / max", spread, "≤ 300 ms"),
        ]
    rows += [("initial JavaScript, gzipped", f"{_initial_nbytes() / 1000:.0f} kB", "≤ 250 kB")]
    width = max(len(name) for name, _, _ in rows)
    for name, figure, goal in rows:
        print(f"{name:<{width}}  {figure:>14}  {goal}".rstrip())
    if "memory" in figures:
        _print_memory(figures["memory"], minutes=minutes)


def _frames(what: str, work: dict[str, float], goal: str) -> list[tuple[str, str, str]]:
    return [
        (f"{what}: main thread a frame, p95", f"{work['p95']:.1f} ms", goal),
        ("  p50", f"{work['p50']:.1f} ms", ""),
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
    _make_first()
    if not (LAKE / "lake/points").exists():
        _make_points(str(LAKE / "lake/points"))


def _make_first() -> None:
    made = LAKE / "made"
    if made.exists():
        return
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir(parents=True)
    _make_million(str(LAKE / "lake/million"))
    _make_scenes(str(LAKE / "lake/scenes"))
    _make_crowd(str(LAKE / "lake/crowd"))
    made.touch()


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


def _make_points(url: str) -> None:
    """Ten clouds on a plane, one a class."""
    schema = {
        "plane": tl.Array("float32", (2,)),
        "label": tl.ClassLabel([f"cloud {i}" for i in range(10)]),
    }
    random = np.random.default_rng(0)
    labels = random.integers(10, size=POINTS)
    centers = random.uniform(-10, 10, size=(10, 2))
    ds = tl.create(url, schema, durability="none")
    ds.extend({"plane": centers[labels] + random.normal(size=(POINTS, 2)), "label": labels})
    ds.commit("points")


if __name__ == "__main__":
    main()
