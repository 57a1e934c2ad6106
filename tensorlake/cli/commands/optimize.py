"""``tensorlake optimize URL``: merge small chunks and drop dead rows."""

from typing import Annotated

import typer

from tensorlake.cli.options import AsJson, At, DryRun, Url
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["optimize"]


def optimize(
    url: Url,
    *,
    order_by: Annotated[
        str | None,
        typer.Option("--order-by", metavar="TQL", help='Sort rows: "label, score DESC".'),
    ] = None,
    dry_run: DryRun = False,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Merge small chunks and drop dead rows; values and row ids do not change.

    Example: tensorlake optimize pets.tl --dry-run
    """
    with terms.open(url, at=at, read_only=dry_run) as ds:
        report = ds.optimize(order_by, dry_run=dry_run)
    totals = {"chunks_before": report.chunks_before, "chunks_after": report.chunks_after}
    print_report(report, as_json=as_json, quiet=terms.quiet, **totals, dead_rows=report.dead_rows)
