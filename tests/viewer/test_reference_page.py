"""``/v1/docs`` in headless Chromium: it is drawn, and its policy had nothing to refuse."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tensorlake_server import Settings, create_app
from tests.support.serving import listening
from tests.viewer.conftest import BROWSERS

BROWSER_S = 120


@pytest.mark.viewer
@pytest.mark.slow
def test_the_page_of_the_api_is_drawn_and_asks_for_nothing_else(tmp_path: Path) -> None:
    found = (shutil.which(name) for name in BROWSERS)
    chromium = os.environ.get("CHROMIUM") or next((path for path in found if path), None)
    if chromium is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is installed")
    log = tmp_path / "requests.jsonl"
    app = create_app(Settings(url=str(tmp_path), public_read=True, audit_log=log))
    with listening(app) as address:
        run = subprocess.run(
            [
                *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0"),
                f"{address}/v1/docs",
            ],
            capture_output=True,
            text=True,
            timeout=BROWSER_S,
            check=True,
        )

    assert '<details id="run_query">' in run.stdout
    assert "Content Security Policy" not in run.stderr, run.stderr
    assert "CONSOLE" not in run.stderr, run.stderr
    asked = {line.split('"path":"')[1].split('"')[0] for line in log.read_text().splitlines()}
    assert asked == {"/v1/docs"}
