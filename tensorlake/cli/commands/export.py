"""``tensorlake export KIND URL DST``: rows of a dataset become files of another format.

KIND is what follows ``to_`` in a method of the SDK that writes files:

    tensorlake export parquet pets.tl pets.parquet --columns label,score
    tensorlake export webdataset pets.tl shards/ --query "WHERE label = 'cat'"
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import At, Columns, Url, parse_columns
from tensorlake.cli.terms import Terms
from tensorlake.dataset import Dataset, View

__all__ = ["export"]

KINDS = ("coco", "csv", "jsonl", "mds", "numpy", "parquet", "webdataset", "zarr")
"""What files can be written; each is a method ``to_…`` that takes a destination."""


def export(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help=f"What is written: {', '.join(KINDS)}.")
    ],
    url: Url,
    dst: Annotated[Path, typer.Argument(metavar="DST", help="The file or folder to write.")],
    *,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TQL", help="Only what a query selects.")
    ] = None,
    columns: Columns = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at DST already.")
    ] = False,
    at: At = None,
    workers: Annotated[str | None, typer.Option(metavar="N", hidden=True)] = None,
    terms: Terms,
) -> None:
    """Write rows as files that other programs read; pictures stay the bytes they are."""
    if kind not in KINDS:
        wrong_usage(f"there is no export of {kind!r}; known: {', '.join(KINDS)}")
    if workers is not None:
        wrong_usage("export has no --workers: leave it out, there is no number to set")
    if str(dst) == "-":
        wrong_usage(
            "export writes files, and '-' is stdout; to a pipe:"
            f" tensorlake query {shlex.quote(url)} {shlex.quote(query or 'SELECT *')} --format csv"
            " (or jsonl, arrow)"
        )
    with terms.open(url, at=at, read_only=True) as ds:
        view: Dataset | View = ds if query is None else ds.query(query)
        names = parse_columns(columns)
        getattr(view, f"to_{kind}")(dst, columns=names, overwrite=overwrite)
        if not terms.quiet:
            print(f"{len(view):,} rows of {url} {view.version} → {dst}")
