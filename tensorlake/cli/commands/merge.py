"""``tensorlake merge URL NAME``: merge a branch into another, row by row."""

from typing import Annotated, Literal

import typer

from tensorlake.cli.exits import FAILED, wrong_usage
from tensorlake.cli.options import AsJson, Url, parse_columns
from tensorlake.cli.output import print_json, print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import MergeReport

__all__ = ["merge", "on_conflict_of", "print_merge"]


def merge(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Branch or version to merge.")],
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="BRANCH", help="Branch to merge into; default main."),
    ] = None,
    ours: Annotated[
        bool, typer.Option("--ours", help="Resolve conflicts in favour of the branch merged into.")
    ] = False,
    theirs: Annotated[
        bool, typer.Option("--theirs", help="Resolve conflicts in favour of NAME.")
    ] = False,
    tensors: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Merge only updates of these tensors, separated by commas."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the result without merging; exit with 1 on conflicts."
        ),
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Merge a branch into another, atomically.

    Example: tensorlake merge pets.tl fix-labels --dry-run
    """
    how = on_conflict_of(ours=ours, theirs=theirs)
    with terms.open(url, at=at, read_only=False) as ds:
        report = ds.merge(name, on_conflict=how, tensors=parse_columns(tensors), dry_run=dry_run)
    print_merge(report, as_json=as_json)


def on_conflict_of(*, ours: bool, theirs: bool) -> Literal["ours", "theirs", "error"]:
    """Return how conflicts are resolved; exit where both flags are given."""
    if ours and theirs:
        wrong_usage("--ours and --theirs exclude each other")
    return "ours" if ours else "theirs" if theirs else "error"


def print_merge(report: MergeReport, *, as_json: bool) -> None:
    """Print the report of a merge; exit with 1 if it is refused."""
    if as_json:
        print_json(_document(report))
    else:
        print_text(report)
    if report.is_refused:
        raise typer.Exit(FAILED)


def _document(report: MergeReport) -> dict[str, object]:
    return {
        "ours": report.ours,
        "theirs": report.theirs,
        "bases": list(report.bases),
        "how": report.how,
        "version": None if report.published is None else report.version,
        "added": report.added,
        "removed": report.removed,
        "updated": dict(report.updated),
        "schema": list(report.schema),
        "indexes": list(report.indexes),
        "conflicts": list(report.conflicts),
    }
