"""The tutorial "From an empty environment to a colleague", as one session of a shell.

Nothing is installed: the commands run in the environment of the tests. The server takes a free
port, and not the one of the page. `make release-check` follows the page whole, with a wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensorlake as tl
from tests.support.page_data import lay_out_data
from tests.support.serving import reserved_port
from tests.tools.release import walk

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 500

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a page for bash"),
]


def test_a_folder_is_trained_on_corrected_served_and_merged(tmp_path: Path) -> None:
    lay_out_data(tmp_path)
    text = (ROOT / walk.PAGE).read_text("utf-8")

    with reserved_port() as port:
        session = walk.script(text, installs=False).replace(":8300/", f":{port}/")
        done = subprocess.run(
            ["bash", "-c", session],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "TENSORLAKE_SERVE_PORT": str(port),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "pip install" not in session
    assert f"Viewer at http://127.0.0.1:{port}/" in (tmp_path / "serve.log").read_text()
    assert done.stdout.count("label  1 row updated") == 3  # here, by the shell, and over HTTP
    ds = tl.open(tmp_path / "lake" / "photos")
    assert ds["label"][0] == ds["label"].names[-1]
    assert (tmp_path / "checkpoint.pt").stat().st_size > 0
