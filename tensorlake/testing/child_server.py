"""Run a test server in a child process: its own interpreter, so it does not slow the test.

    parent                                  child
    start: python -c "… main()" ──────────► listens on port 0, prints the port
    stop: closes the child's stdin ───────► reads the end of it, exits

A child whose parent died reads the end of its input too, so no server outlives a killed test run.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

START_TIMEOUT_S: Final = 300.0  # imports take minutes of a very busy machine; a dead child ends it
STOP_TIMEOUT_S: Final = 30.0


@contextmanager
def child_server(module: str, arguments: Sequence[str] = ()) -> Generator[str]:
    """Run `main()` of a module as a server; yields its endpoint, as "http://127.0.0.1:40001"."""
    child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-c", f"from {module} import main; main()", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        is_ready, _, _ = select.select([child.stdout], [], [], START_TIMEOUT_S)
        port = child.stdout.readline().strip() if is_ready else b""
        if not port.isdigit():
            raise RuntimeError(f"{module} did not start (exit code {child.poll()})")
        yield f"http://127.0.0.1:{int(port)}"
    finally:
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_TIMEOUT_S)


def announce(port: int) -> None:
    """In the child: tell the parent where the server listens."""
    print(port, flush=True)  # noqa: T201 - the parent reads it


def exit_with_parent() -> None:
    """In the child: end the process once the parent closed our input, or is gone."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="exit-with-parent", daemon=True).start()
