"""``tensorlake rm URL``: delete a dataset with all versions; asks for its name."""

import sys
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import FAILED, wrong_usage
from tensorlake.cli.options import DryRun, Url, Yes
from tensorlake.cli.output import print_text
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes, plural

__all__ = ["rm"]

SHOWN = 8
"""Other files and folders that are named."""


def rm(
    url: Url,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Confirm with the dataset's name, the last part of URL; another is refused.",
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    terms: Terms,
) -> None:
    """Permanently delete a dataset with all versions, branches and tags.

    Other files at its place, and datasets in folders of it, are left.

    Example: tensorlake rm pets.tl --dry-run
    """
    wanted = url.rstrip("/").rpartition("/")[2]
    if name is not None and name != wanted:
        wrong_usage(f"--name {name!r} is not {wanted!r}, the name of {url}: nothing was deleted")
    try:
        with terms.open(url) as ds:  # only datasets are deleted
            rows, branches = plural(len(ds), "row"), plural(len(ds.branches), "branch")
            what = f"{url}: {rows}, {branches}, {human_nbytes(ds.nbytes)}"
    except tl.DatasetNotFoundError:
        from tensorlake.dataset import has_remains  # lazy: --help does not need it

        if not has_remains(url, storage_options=terms.options_for(url)):
            raise
        what = f"{url}: not a dataset, but an interrupted copy or deletion"
    if dry_run:
        from tensorlake.dataset import left_by_deletion  # lazy: --help does not need it

        print_text(f"would delete {what}, and its older versions")
        _print_left("would leave", left_by_deletion(url, storage_options=terms.options_for(url)))
        return
    if not yes and name is None:
        if not sys.stdin.isatty():
            wrong_usage(
                f"rm permanently deletes {what}. There is no terminal to ask on:"
                f" pass --name {wanted} or --yes, or --dry-run to preview"
            )
        print_text(f"This permanently deletes {what}, and its older versions.", file=sys.stderr)
        name = str(typer.prompt("Type its name to continue", err=True))
    if not yes and name != wanted:
        print_text(f"{name!r} is not {wanted!r}: nothing was deleted", file=sys.stderr)
        raise typer.Exit(FAILED)
    left = tl.delete(url, confirm=url, storage_options=terms.options_for(url))
    if not terms.quiet:
        print_text(f"deleted {what}")
        _print_left("left", left)


def _print_left(verb: str, left: list[str]) -> None:
    if left:
        more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
        print_text(f"{verb} what is not the dataset's: {', '.join(left[:SHOWN])}{more}")
