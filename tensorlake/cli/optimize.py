"""``tensorlake optimize URL``: merge small chunks, drop what deleted rows left behind."""

from dataclasses import asdict
from typing import Annotated

import typer

from tensorlake.cli.confirm import DryRun
from tensorlake.cli.options import (
    AsJson,
    At,
    EndpointUrl,
    Quiet,
    StorageOptions,
    Url,
    open_dataset,
)
from tensorlake.cli.output import print_json

__all__ = ["optimize"]


def optimize(
    url: Url,
    *,
    order_by: Annotated[
        str | None,
        typer.Option("--order-by", metavar="TQL", help='Another order: "label, score DESC".'),
    ] = None,
    dry_run: DryRun = False,
    at: At = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Merge small chunks and drop dead rows; no value, row id or order changes by it."""
    with open_dataset(
        url, at=at, storage_option=storage_option, endpoint_url=endpoint_url, read_only=dry_run
    ) as ds:
        report = ds.optimize(order_by, dry_run=dry_run)
    if as_json:
        totals = {"chunks_before": report.chunks_before, "chunks_after": report.chunks_after}
        print_json({**asdict(report), **totals, "dead_rows": report.dead_rows})
    elif not quiet:
        print(report)
