"""The command line: ``tensorlake`` and ``python -m tensorlake``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program on the arguments (default: the process's own) and exit with its code."""
    try:
        from tensorlake.cli.program import main as run  # takes a second, in which Ctrl-C may come
    except KeyboardInterrupt:
        sys.exit(130)
    run(arguments)
