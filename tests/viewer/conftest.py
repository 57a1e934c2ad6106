"""A real server over a lake made here, and the browser tests of viewer/e2e run against it once.

Each ``test("…")`` of viewer/e2e is one test of pytest; vitest runs the files of those that were
selected in one Chromium, and what it reports is asked for one by one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.viewer.lakes import make_lake

ROOT = Path(__file__).parents[2]
SPEC_OF = {
    claim: spec.name
    for spec in sorted((ROOT / "viewer/e2e").glob("*.spec.ts"))
    for claim in re.findall(r'^test\("([^"]+)"', spec.read_text(), re.MULTILINE)
}
TOUR = "tour.spec.ts"  # it takes the pictures that other tests compare
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_S = 60
SLOWNESS = float(os.environ.get("VIEWER_SLOW", "1"))  # see viewer/e2e/browser.ts
BROWSER_S = 840 * SLOWNESS  # less than the first test may take


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("viewed")
    make_lake(root)
    return root


@pytest.fixture(scope="session")
def link(lake: Path) -> Iterator[str]:
    """The link that a server prints when it is ready."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server")))
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", str(lake), "--port", "0", "--write", "--child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("{}\n")  # as ds.show() does: no storage options
        server.stdin.flush()
        printed = re.search(r"http://\S+", server.stdout.readline())
        assert printed is not None, "the server did not start"
        yield printed[0]
    finally:
        server.terminate()
        server.wait(START_S)
        if server.stdin is not None:
            server.stdin.close()
        if server.stdout is not None:
            server.stdout.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser puts pictures of the tour's pages."""
    return tmp_path_factory.mktemp("shots")


@pytest.fixture(scope="session")
def browser_results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shots: Path
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
    asked = (getattr(item, "callspec", None) for item in request.session.items)
    claims = {one.params["claim"] for one in asked if one is not None and "claim" in one.params}
    specs = sorted({TOUR, *(SPEC_OF[claim] for claim in claims if claim in SPEC_OF)})
    run = subprocess.run(
        [
            *("npm", "run", "--silent", "e2e", "--", "--reporter=json", f"--outputFile={report}"),
            *(f"e2e/{spec}" for spec in specs),
        ],
        cwd=ROOT / "viewer",
        env={**os.environ, "VIEWER_LINK": link, "CHROMIUM": chromium, "SHOTS": str(shots)},
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
