"""show: checks what it was asked for, then becomes the server."""

import subprocess
import sys

import pytest

import tensorlake as tl
from tensorlake.cli.commands import show as show_module


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A dataset of three numbers; the viewer's pages count as built."""
    monkeypatch.setattr(show_module, "check_viewer_is_built", lambda: None)
    url = str(tmp_path / "notes")
    ds = tl.create(url, {"x": "int64"})
    ds.extend({"x": range(3)})
    ds.commit("three")
    return url


def test_what_is_not_there_fails_before_a_server_starts(notes, run):
    missing, wrong = run("show", f"{notes}-not"), run("show", notes, "--query", "WHERE z > 1")

    assert missing.code == 1
    assert "dataset-not-found" in missing.err
    assert wrong.code == 1
    assert "'z'" in wrong.err


@pytest.mark.slow  # a server that starts from nothing
def test_the_link_leads_to_the_version_and_the_rows_asked_for(notes):
    command = [sys.executable, "-m", "tensorlake_server", notes, "--port", "0"]
    command += ["--place", "at=main%401&q=WHERE+x+%3E+1"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
        finally:
            server.terminate()

    assert "/notes?at=main%401&q=WHERE+x+%3E+1#token=" in line
