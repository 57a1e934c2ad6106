"""``tensorlake expire URL``: expire old versions, so that ``gc`` can remove their data."""

from typing import Annotated

import typer

from tensorlake.cli.options import AsJson, DryRun, Url, Yes, confirm
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["expire"]


def expire(
    url: Url,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Expire versions superseded more than TIME ago (e.g. 90d)."
        ),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the last N commits of each branch.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Expire old versions of every branch, except those with tags and saved views.

    Example: tensorlake expire pets.tl --keep-last 10 --dry-run
    """
    with terms.open(url, read_only=False) as ds:
        if not (dry_run or yes):
            preview = ds.expire(older_than=older_than, keep_last=keep_last, dry_run=True)
            ranges = ", ".join(map(str, preview.given_up))
            question = f"Permanently expire {ranges} of {url}?"
            confirm(question, yes=not preview.given_up, has_dry_run=True)
        report = ds.expire(older_than=older_than, keep_last=keep_last, dry_run=dry_run)
    print_report(report, as_json=as_json, quiet=terms.quiet)
