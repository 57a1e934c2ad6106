"""Ask another Python for figures: a process with a limit, whose last line of output is JSON.

The command may start workers of its own; when the time is up they end with it, so that they are
in no later contender's way. Its scratch files lie in a folder that is removed when it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Answer", "ask"]

SHOWN_LETTERS = 80
SCRATCH_VARIABLE = "TMPDIR"


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures that a process printed, or why there are none."""

    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    note: str = ""


def ask(
    command: Sequence[str | Path],
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Run a command; its last line of output is the measurement.

    Args:
        command: The program and its arguments.
        limit_s: How long it may take; what it has started is ended with it.
        environment: Variables beside this process's own.
    """
    # what cannot be removed was left by workers that end while it is
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        variables = {**os.environ, SCRATCH_VARIABLE: scratch, **(environment or {})}
        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            return Answer(note=f"does not start: {error!s:.{SHOWN_LETTERS}}")
        with process:
            try:
                told, complaints = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return Answer(note=f"failed: more than {limit_s:g} s")
            finally:
                _end_group(process.pid)
    if process.returncode:
        return Answer(note=f"fails: {_last_line(complaints)}")
    line = _last_line(told, whole=True)
    try:
        return Answer(json.loads(line))
    except json.JSONDecodeError:
        return Answer(note=f"tells no figures: {line:.{SHOWN_LETTERS}}")


def _end_group(leader: int) -> None:
    """End a process and what it started, where any of it still lives."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it has ended


def _last_line(text: str, *, whole: bool = False) -> str:
    lines = [line for line in text.splitlines() if line.strip()] or ["no message"]
    return lines[-1] if whole else lines[-1][:SHOWN_LETTERS]
