"""One line that says how far a long call is: on terminals only, on stderr, after a second."""

from __future__ import annotations

import sys
import time
from typing import Self

from tensorlake.dataset.words import human_nbytes, plural

__all__ = ["Progress"]

QUIET_S = 1.0
REFRESH_S = 0.2
BAR_CELLS = 22


class Progress:
    """A progress line over bytes and rows; silent unless shown.

    Args:
        what: What is being done.
        total: Bytes to do.
        shown: True and False decide; None shows it on a terminal.
    """

    def __init__(self, what: str, *, total: int, shown: bool | None = None) -> None:
        self._what = what
        self._total = max(total, 1)
        self._is_shown = sys.stderr.isatty() if shown is None else shown
        self._done = 0
        self._rows = 0
        self._started = time.monotonic()
        self._drawn = 0.0

    def advance(self, nbytes: int, rows: int) -> None:
        """Count what was done."""
        self._done += nbytes
        self._rows += rows
        now = time.monotonic()
        if self._is_shown and now - self._started > QUIET_S and now - self._drawn > REFRESH_S:
            self._drawn = now
            sys.stderr.write(f"\r{self._line(now)}\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            sys.stderr.write(f"\r{self._line(time.monotonic())}\x1b[K\n")
            sys.stderr.flush()

    def _line(self, now: float) -> str:
        share = min(1.0, self._done / self._total)
        seconds = max(now - self._started, 1e-9)
        filled = int(share * BAR_CELLS)
        left = seconds * (1 - share) / share if share else 0.0
        rows = f"  {plural(self._rows, 'row')}" if self._rows else ""
        return (
            f"{self._what}  {'━' * filled}{'─' * (BAR_CELLS - filled)} {share:4.0%}{rows}"
            f"  {human_nbytes(self._done)}/{human_nbytes(self._total)}"
            f"  {human_nbytes(int(self._done / seconds))}/s  {left:.0f} s left"
        )
