"""docker/start.sh, run as a container runs it: replicas over S3, healthy, drained by SIGTERM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.testing import s3_server
from tests.support.serving import reserved_port

ROOT = Path(__file__).parents[3]
WAIT_S = 60


@contextmanager
def started(
    environment: dict[str, str], programs: Path
) -> Iterator[tuple[str, subprocess.Popen[str], dict[str, str]]]:
    """A server that start.sh began: its address, its process, what it was told."""
    with reserved_port() as port:
        told = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server"))),
            "HOME": str(programs),
            "TENSORLAKE_SERVE_HOST": "127.0.0.1",
            "TENSORLAKE_SERVE_PORT": str(port),
            "TENSORLAKE_SERVE_PUBLIC_READ": "true",
            **environment,
        }
        process = subprocess.Popen(
            [str(ROOT / "docker/start.sh")], stdout=subprocess.PIPE, text=True, env=told
        )
        try:
            assert process.stdout is not None
            assert "Viewer at" in process.stdout.readline(), "the server did not start"
            yield f"http://127.0.0.1:{port}", process, told
        finally:
            process.kill()
            process.wait(WAIT_S)
            if process.stdout is not None:
                process.stdout.close()


def is_healthy(told: dict[str, str]) -> bool:
    check = [sys.executable, str(ROOT / "docker/healthy.py")]
    return subprocess.run(check, env=told, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program ``tensorlake``, as the wheel installs one."""
    folder = tmp_path_factory.mktemp("programs")
    program = folder / "tensorlake"
    code = "from tensorlake.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.soak
def test_replicas_answer_alike_and_read_the_views_of_each_other(programs: Path) -> None:
    with s3_server() as s3:
        lake = s3.fresh_url()
        with tl.create(f"{lake}/pets", {"x": "int64"}, storage_options=s3.storage_options) as ds:
            ds.extend({"x": np.arange(9)})
            ds.commit("nine")
        options = s3.storage_options
        environment = {
            "TENSORLAKE_URL": lake,
            "TENSORLAKE_SIGNING_KEY": "for this test only",
            "AWS_ACCESS_KEY_ID": options["key"],
            "AWS_SECRET_ACCESS_KEY": options["secret"],
            "AWS_ENDPOINT_URL": options["endpoint_url"],
            "AWS_REGION": "us-east-1",
        }

        with started(environment, programs) as one, started(environment, programs) as other:
            assert is_healthy(one[2])
            assert is_healthy(other[2])
            asked = httpx.post(
                f"{one[0]}/v1/datasets/pets/query", json={"tql": "WHERE x > 6"}, timeout=WAIT_S
            )
            view = asked.json()["view"]
            rows = httpx.get(
                f"{other[0]}/v1/datasets/pets/rows", params={"view": view}, timeout=WAIT_S
            )

    assert [row["x"] for row in rows.json()["rows"]] == [7, 8]


@pytest.mark.slow
def test_a_server_that_is_told_to_stop_ends_its_streams_and_goes(
    tmp_path: Path, programs: Path
) -> None:
    with tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none") as ds:
        ds.extend({"x": np.arange(9)})
        ds.commit("nine")

    with started({"TENSORLAKE_URL": str(tmp_path)}, programs) as (address, process, told):
        events = f"{address}/v1/datasets/pets/events"
        with httpx.stream("GET", events, params={"after": "main@0"}, timeout=WAIT_S) as stream:
            lines = stream.iter_lines()
            first = next(line for line in lines if line.startswith("id:"))
            process.send_signal(signal.SIGTERM)
            rest = list(lines)  # to its end: a connection that broke would raise
        stopped = process.wait(WAIT_S)
        was_healthy = is_healthy(told)

    assert first == "id: main@1"
    assert not [line for line in rest if line.startswith("event: error")]
    assert stopped == -signal.SIGTERM  # by the signal itself: start.sh left no shell in between
    assert not was_healthy
