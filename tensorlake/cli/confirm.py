"""Asking before something is deleted or given up; without a terminal, ``--yes`` must say so."""

import sys
from typing import Annotated

import typer

from tensorlake.cli.exits import FAILED, wrong_usage

__all__ = ["DryRun", "confirm"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def confirm(question: str, *, yes: bool) -> None:
    """Go on when the answer is yes; otherwise end the command, with nothing done."""
    if yes:
        return
    if not sys.stdin.isatty():
        wrong_usage(f"{question} There is no terminal to ask: give --yes, or --dry-run to look")
    if not typer.confirm(question, err=True):
        print("nothing was done", file=sys.stderr)
        raise typer.Exit(FAILED)
