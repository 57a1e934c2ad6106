"""A progress line for long calls: in terminals and notebooks, on stderr, after a second.

    ingest photos → pets.tl  ━━━━━━━━━━━━━━━───────  68%  17,012/25,000 rows  …
    …  1.8 GB/2.6 GB  612 MB/s  2 skipped  0:00:01

The last line remains: the result, if the call has one.
"""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

from tensorlake.quantities import human_nbytes, plural

__all__ = ["Progress"]

QUIET_S = 1.0
REFRESH_S = 0.2
BAR_CELLS = 22


class Progress:
    """A progress line over bytes and rows; silent unless shown.

    Args:
        what: The operation.
        total: Bytes to do.
        rows: Rows to do, if known.
        shown: Whether it is shown; None: in a terminal or a notebook.
    """

    def __init__(
        self, what: str, *, total: int, rows: int | None = None, shown: bool | None = None
    ) -> None:
        self._what = what
        self._total = max(total, 1)
        self._total_rows = rows
        self._is_shown = _is_watched(sys.stderr) if shown is None else shown
        self._done = 0
        self._rows = 0
        self._skipped = 0
        self._started = time.monotonic()
        self._drawn = 0.0
        self._width = 0
        self._result: str | None = None

    def advance(self, nbytes: int, rows: int, *, skipped: int = 0) -> None:
        """Count finished bytes and rows."""
        self._done += nbytes
        self._rows += rows
        self._skipped += skipped
        now = time.monotonic()
        if self._is_shown and now - self._started > QUIET_S and now - self._drawn > REFRESH_S:
            self._drawn = now
            self._draw(self._line(now))

    def finish(self, result: str) -> None:
        """Print the result, the line that remains."""
        self._result = result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            self._draw(self._result or self._line(time.monotonic()))
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _draw(self, line: str) -> None:
        """Overwrite the previous line to its end: a notebook cannot clear a line."""
        sys.stderr.write(f"\r{line:<{self._width}}")
        sys.stderr.flush()
        self._width = len(line)

    def _line(self, now: float) -> str:
        share = min(1.0, self._done / self._total)
        seconds = max(now - self._started, 1e-9)
        filled = int(share * BAR_CELLS)
        left = seconds * (1 - share) / share if share else 0.0
        parts = [f"{self._what}  {'━' * filled}{'─' * (BAR_CELLS - filled)} {share:4.0%}"]
        if self._rows and self._total_rows is not None:
            parts.append(f"{self._rows:,}/{plural(self._total_rows, 'row')}")
        elif self._rows:
            parts.append(plural(self._rows, "row"))
        parts += [
            f"{human_nbytes(self._done)}/{human_nbytes(self._total)}",
            f"{human_nbytes(int(self._done / seconds))}/s",
        ]
        if self._skipped:
            parts.append(f"{self._skipped:,} skipped")
        return "  ".join([*parts, _clock(left)])


def _clock(seconds: float) -> str:
    """Format the remaining time as hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _is_watched(stream: TextIO) -> bool:
    """Whether the stream is interactive: a terminal, or the cell of a notebook."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")
