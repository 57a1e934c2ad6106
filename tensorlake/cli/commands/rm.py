"""``tensorlake rm URL``: remove a dataset with every version; it asks for its name."""

import sys
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.confirm import DryRun
from tensorlake.cli.exits import FAILED, wrong_usage
from tensorlake.cli.options import Url, Yes
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes

__all__ = ["rm"]


def rm(
    url: Url,
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The answer: the last part of URL."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    terms: Terms,
) -> None:
    """Remove a dataset with all its versions, branches and tags, for good."""
    wanted = url.rstrip("/").rpartition("/")[2]
    try:
        with terms.open(url) as ds:  # what is not a dataset is not removed
            rows, branches = f"{len(ds):,} rows", f"{len(ds.branches)} branches"
            what = f"{url}: {rows}, {branches}, {human_nbytes(ds.nbytes)}"
    except tl.DatasetNotFoundError:
        from tensorlake.dataset import has_remains  # --help does not wait for it

        if not has_remains(url, storage_options=terms.options_for(url)):
            raise
        what = f"{url}: not a dataset, but a copy or a deletion that was stopped"
    if dry_run:
        print(f"would remove {what}, and its older versions")
        return
    if not yes and name is None:
        if not sys.stdin.isatty():
            wrong_usage(
                f"rm removes {what}, for good. There is no terminal to ask:"
                f" give --name {wanted}, or --yes, or --dry-run to look"
            )
        print(f"This removes {what}, and its older versions, for good.", file=sys.stderr)
        name = str(typer.prompt("Type its name to go on", err=True))
    if not yes and name != wanted:
        print(f"{name!r} is not {wanted!r}: nothing was done", file=sys.stderr)
        raise typer.Exit(FAILED)
    tl.delete(url, confirm=url, storage_options=terms.options_for(url))
    if not terms.quiet:
        print(f"removed {what}")
