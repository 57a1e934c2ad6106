"""Confirmation before anything is deleted or expired; without a terminal, ``--yes`` is required."""

import sys
from typing import Annotated

import typer

from tensorlake.cli.exits import FAILED, wrong_usage

__all__ = ["DryRun", "confirm"]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes; otherwise end the command without changing anything."""
    if yes:
        return
    if not sys.stdin.isatty():
        wrong_usage(
            f"{question} There is no terminal to ask on: pass --yes, or --dry-run to preview"
        )
    if not typer.confirm(question, err=True):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(FAILED)
