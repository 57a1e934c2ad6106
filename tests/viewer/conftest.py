"""A real server over a lake made here, and the browser tests of viewer/e2e run against it once.

Each ``test("…")`` of viewer/e2e is one test of pytest; vitest runs them all in one Chromium, and
what it reports is asked for one by one.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image

import tensorlake as tl

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_S = 60
BROWSER_S = 300
MARKUP = "<img src=x onerror='window.wasRun = 1'><script>window.wasRun = 1</script>"
ROWS = 40
ORIENTATION, TURN_RIGHT = 0x0112, 6  # EXIF's


def make_pets(url: str) -> None:
    """Grey pictures; every second row has one box in a known place, a dog in every fourth."""
    pets = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox("xywh", of="image"),
            "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
            "score": "float32",
        },
        durability="none",
    )
    grey = simplejpeg.encode_jpeg(np.full((120, 160, 3), 90, dtype=np.uint8))
    box = np.array([[20, 30, 60, 50]], dtype=np.float32)
    columns = {
        "image": [grey] * ROWS,
        "boxes": [box if i % 2 else box[:0] for i in range(ROWS)],
        "labels": [["dog"] if i % 4 == 3 else ["cat"] if i % 2 else [] for i in range(ROWS)],
        "score": np.linspace(0, 1, ROWS, dtype=np.float32),
    }
    half = ROWS // 2
    pets.extend({name: values[:half] for name, values in columns.items()})
    pets.commit("first half")
    pets.extend({name: values[half:] for name, values in columns.items()})
    pets.commit("second half")


def turned_picture() -> bytes:
    """Red at the left, blue at the right, with a header that tells viewers to turn it."""
    pixels = np.zeros((120, 160, 3), dtype=np.uint8)
    pixels[:, :80, 0] = pixels[:, 80:, 2] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = TURN_RIGHT
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", exif=exif, quality=95)
    return out.getvalue()


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("viewed")
    make_pets(str(root / "pets"))
    notes = tl.create(str(root / "notes"), {"text": tl.Text()}, durability="none")
    notes.extend({"text": [MARKUP, "a second note"]})
    notes.commit("two notes")
    turned = tl.create(str(root / "turned"), {"image": tl.Image("jpeg")}, durability="none")
    turned.extend({"image": [turned_picture()]})
    turned.commit("from a camera")
    numbers = tl.create(str(root / "numbers"), {"x": "int32"}, durability="none")
    numbers.extend({"x": np.arange(4_000_000, dtype=np.int32)})
    numbers.commit("four million")
    return root


@pytest.fixture(scope="session")
def link(lake: Path) -> Iterator[str]:
    """The link that a server prints when it is ready."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server")))
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", str(lake), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert server.stdout is not None
        printed = re.search(r"http://\S+", server.stdout.readline())
        assert printed is not None, "the server did not start"
        yield printed[0]
    finally:
        server.terminate()
        server.wait(START_S)
        if server.stdout is not None:
            server.stdout.close()


@pytest.fixture(scope="session")
def browser_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """What each browser test found wrong, by its name; an empty list where all is well."""
    found = (shutil.which(name) for name in BROWSERS)
    chromium = os.environ.get("CHROMIUM") or next((path for path in found if path), None)
    if chromium is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is installed")
    if shutil.which("npm") is None:
        pytest.skip("needs Node.js: npm is not installed, so the viewer cannot be built")
    subprocess.run(["make", "--no-print-directory", "viewer"], cwd=ROOT, check=True)
    report = tmp_path_factory.mktemp("browser") / "report.json"
    link = str(request.getfixturevalue("link"))
    run = subprocess.run(
        ["npm", "run", "--silent", "e2e", "--", "--reporter=json", f"--outputFile={report}"],
        cwd=ROOT / "viewer",
        env={**os.environ, "VIEWER_LINK": link, "CHROMIUM": chromium},
        capture_output=True,
        text=True,
        timeout=BROWSER_S,
        check=False,
    )
    assert report.exists(), f"vitest did not run:\n{run.stdout}\n{run.stderr}"
    files = json.loads(report.read_text())["testResults"]
    return {
        one["title"]: [] if one["status"] == "passed" else one["failureMessages"] or [one["status"]]
        for file in files
        for one in file["assertionResults"]
    }
