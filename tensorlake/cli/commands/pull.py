"""``tensorlake pull URL [VERSION]``: merge the base of a fork into the fork, row by row."""

from typing import Annotated

import typer

from tensorlake.cli.commands.merge import on_conflict_of, print_merge
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.terms import Terms

__all__ = ["pull"]


def pull(
    url: Url,
    version: Annotated[
        str | None,
        typer.Argument(metavar="[VERSION]", help="Version of the base; default its newest."),
    ] = None,
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="BRANCH", help="Branch to merge into; default main."),
    ] = None,
    ours: Annotated[
        bool, typer.Option("--ours", help="Resolve conflicts in favour of the fork.")
    ] = False,
    theirs: Annotated[
        bool, typer.Option("--theirs", help="Resolve conflicts in favour of the base.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the result without merging; exit with 1 on conflicts."
        ),
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Merge the newest version of a fork's base into the fork, atomically.

    Example: tensorlake pull labels.tl --dry-run
    """
    how = on_conflict_of(ours=ours, theirs=theirs)
    with terms.open(url, at=at, read_only=False) as ds:
        report = ds.pull(version, on_conflict=how, dry_run=dry_run)
    print_merge(report, as_json=as_json)
