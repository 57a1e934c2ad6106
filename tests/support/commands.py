"""The command line program as a process of its own, started in milliseconds.

Python and the imports take a second at every start; here each process is forked from one that has
them already. What it prints, and how it ends, is what a shell would see.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tensorlake.cli import main
from tests.support.writers import fork_server

END_S = 120


def tensorlake(arguments: Sequence[str], *, folder: Path) -> tuple[int, str]:
    """Run ``tensorlake …`` in a folder; its exit status, and all that it printed."""
    with TemporaryDirectory() as scratch:
        printed = Path(scratch) / "printed"
        process = fork_server().Process(
            target=_run, args=([*arguments], {**os.environ}, str(folder), str(printed))
        )
        process.start()
        process.join(END_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        return process.exitcode or 0, printed.read_text(encoding="utf-8")


def _run(arguments: list[str], environment: dict[str, str], folder: str, printed: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    output = os.open(printed, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    main(arguments)
