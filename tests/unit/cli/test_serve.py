"""serve: becomes the server."""

import subprocess
import sys

import tensorlake as tl


def test_serve_says_where_the_viewer_is_and_ends_with_a_signal(tmp_path):
    tl.create(str(tmp_path / "small.tl"), {"x": "int64"}).close()
    command = [sys.executable, "-m", "tensorlake", "serve", str(tmp_path), "--port", "0"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
        finally:
            server.terminate()

    assert line.startswith("Viewer at http://127.0.0.1:")
    assert "small" in line


def test_serve_refuses_what_is_no_lake(tmp_path):
    command = [sys.executable, "-m", "tensorlake", "serve", "nonsense://x", "--port", "0"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "nonsense" in done.stderr
