"""``tensorlake expire URL``: give up old versions, for ``gc`` to remove what only they needed."""

from typing import Annotated

import typer

from tensorlake.cli.confirm import DryRun, confirm
from tensorlake.cli.options import AsJson, Url, Yes
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["expire"]


def expire(
    url: Url,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Versions that another replaced that long ago: 90d."),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(metavar="N", help="All but so many commits of each branch.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Give up old versions of every branch; tags and saved views keep theirs."""
    with terms.open(url, read_only=False) as ds:
        if not (dry_run or yes):
            told = ds.expire(older_than=older_than, keep_last=keep_last, dry_run=True)
            ranges = ", ".join(map(str, told.given_up))
            confirm(f"Give up {ranges} of {url} for good?", yes=not told.given_up)
        report = ds.expire(older_than=older_than, keep_last=keep_last, dry_run=dry_run)
    print_report(report, as_json=as_json, quiet=terms.quiet)
