"""``tensorlake export KIND URL DST``: export rows of a dataset to files of another format.

KIND is the name of an SDK method that writes files, without its prefix ``to_``, or a plug-in's:

    tensorlake export parquet pets.tl pets.parquet --columns label,score
    tensorlake export webdataset pets.tl s3://bucket/shards --query "WHERE label = 'cat'"
"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import At, Columns, Url, parse_columns
from tensorlake.cli.output import print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import FILE_FORMATS, Dataset, View, export_formats

__all__ = ["export"]


def export(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help=f"Format: {', '.join(FILE_FORMATS)}.")
    ],
    url: Url,
    dst: Annotated[
        str, typer.Argument(metavar="DST", help="File or folder to write: a path, or a URL.")
    ],
    *,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TQL", help="Query that selects the rows.")
    ] = None,
    columns: Columns = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier export of the same format.")
    ] = False,
    about: Annotated[
        Path | None,
        typer.Option("--about", metavar="FILE", help="JSON with properties, for croissant."),
    ] = None,
    fps: Annotated[
        float | None, typer.Option("--fps", metavar="N", help="Steps per second, for lerobot.")
    ] = None,
    at: At = None,
    workers: Annotated[str | None, typer.Option(metavar="N", hidden=True)] = None,
    terms: Terms,
) -> None:
    """Export rows to files of another format; images are written as stored, without re-encoding.

    Example: tensorlake export csv pets.tl pets.csv --columns label,score
    """
    known = export_formats()
    if kind not in known:
        wrong_usage(f"unknown export format {kind!r}; known: {', '.join(known)}")
    if workers is not None:
        wrong_usage("export does not support --workers; leave it out")
    if dst == "-":
        wrong_usage(
            "export writes files, and '-' is stdout; to a pipe:"
            f" tensorlake query {shlex.quote(url)} {shlex.quote(query or 'SELECT *')} --format csv"
            " (or jsonl, arrow)"
        )
    if about is not None and kind != "croissant":
        wrong_usage(f"--about is for croissant, and the format is {kind}; leave it out")
    if fps is not None and kind != "lerobot":
        wrong_usage(f"--fps is for lerobot, and the format is {kind}; leave it out")
    options: dict[str, Any] = {} if about is None else {"about": _properties(about)}
    options |= {} if fps is None else {"fps": fps}
    storage_options = terms.options_for(url, dst)
    if "://" in dst:
        options["storage_options"] = storage_options
    with tl.open(url, at, read_only=True, storage_options=storage_options) as ds:
        view: Dataset | View = ds if query is None else ds.query(query)
        names = parse_columns(columns)
        done = view.export(kind, dst, columns=names, overwrite=overwrite, **options)
        if kind == "croissant" and done:
            typer.echo(
                f"Croissant requires properties that --about lacks: {', '.join(done)}", err=True
            )
        if not terms.quiet:
            print_text(f"{len(view):,} rows of {url} {view.version} → {dst}")


def _properties(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        wrong_usage(f"--about {path}: expected a file of JSON; {error}")
