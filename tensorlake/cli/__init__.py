"""The command line: ``tensorlake`` and ``python -m tensorlake``."""

from tensorlake.cli.program import main

__all__ = ["main"]
