"""Flows and jobs in the viewer: viewer/e2e/flows in a browser, on a server with a database."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dbos")

import tensorlake as tl
from tensorlake import flows
from tests.extras.flows.served import ROOT, serving_link

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_S = 380


@flows.step(retries=0)
def publish(name):
    if name == "broken":
        raise ValueError("no such dataset")
    return name.upper()


@flows.flow(name="release")
def release_shown(name):
    return flows.approval(f"publish {name}?") and publish(name)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """A process that runs flows: here this one."""
    database = flows.connect(tmp_path / "flows.sqlite")
    ended = threading.Event()
    thread = threading.Thread(target=flows.run, kwargs={"until": ended.is_set})
    thread.start()
    yield str(tmp_path / "flows.sqlite")
    assert database
    ended.set()
    thread.join()


@pytest.mark.timeout(BROWSER_S + 60)
def test_flows_and_jobs_are_shown_and_changed_in_the_viewer(tmp_path: Path, service: str) -> None:
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None or shutil.which("npm") is None:
        pytest.skip(f"needs npm, and a browser: {', '.join(BROWSERS)}")
    subprocess.run(["make", "--no-print-directory", "viewer"], cwd=ROOT, check=True)
    for name in ("pets", "vision"):
        with tl.create(str(tmp_path / "lake" / name), {"x": "int64"}, durability="none") as ds:
            ds.extend({"x": list(range(10))})
            ds.commit("rows")
    for name in ("pets", "broken", "late"):
        flows.start(release_shown, name)

    with serving_link(str(tmp_path / "lake"), "--flows", service, "--write") as link:
        run = subprocess.run(
            ["npm", "run", "--silent", "e2e", "--", "e2e/flows/flows.spec.ts"],
            cwd=ROOT / "viewer",
            env={**os.environ, "VIEWER_LINK": link, "CHROMIUM": chromium},
            capture_output=True,
            text=True,
            timeout=BROWSER_S,
            check=False,
        )

    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]
