"""A server with flows as a process, and PostgreSQL, for the tests of this room."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.support.serving import reserved_port

ROOT = Path(__file__).parents[3]
POSTGRES = Path("/usr/lib/postgresql")
WAIT_S = 120


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and its address; killed at the end if it still runs."""
    with _started(*arguments) as (server, link):
        yield server, f"http://{urlsplit(link).netloc}"  # the link may lead to the one dataset


@contextmanager
def serving_link(*arguments: str) -> Iterator[str]:
    """The link with its token that a server prints; the server is killed at the end."""
    with _started(*arguments) as (_, link):
        yield link


@contextmanager
def _started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "query", ROOT / "server")))
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorlake_server", *arguments, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "TENSORLAKE_SIGNING_KEY": "k" * 16},
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None, "the server did not start"
        yield server, found[0]
    finally:
        server.kill()
        server.wait(WAIT_S)
        if server.stdout is not None:
            server.stdout.close()


def stop(server: subprocess.Popen[str], how: signal.Signals) -> None:
    server.send_signal(how)
    server.wait(WAIT_S)


def client_of(address: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=address, headers=headers, timeout=WAIT_S)


@contextmanager
def postgres() -> Iterator[str]:
    """PostgreSQL in a folder of its own; yields the URL of a database."""
    found = sorted(POSTGRES.glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    bin_ = found[-1].parent
    # its programs refuse to run as root
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="tensorlake-postgres-"))
    if as_user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    try:
        with reserved_port() as port:
            initdb = [bin_ / "initdb", "-D", data, "-U", "flows", "-A", "trust", "--no-sync"]
            subprocess.run([*as_user, *initdb], check=True, capture_output=True, cwd=folder)
        options = f"-p {port} -k {folder} -h 127.0.0.1 -F"
        start = [bin_ / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"]
        subprocess.run([*as_user, *start], check=True, capture_output=True, cwd=folder)
        try:
            yield f"postgresql://flows@127.0.0.1:{port}/postgres"
        finally:
            end = [bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run([*as_user, *end], check=True, capture_output=True, cwd=folder)
    finally:
        shutil.rmtree(folder)
