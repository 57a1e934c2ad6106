"""``tensorlake ingest KIND SRC… URL``: ingest files into a dataset.

KIND is a function of ``tl.ingest``; sources come before the destination, as in the SDK:

    tensorlake ingest images photos/ pets.tl
    tensorlake ingest coco instances.json train2017/ coco.tl
    tensorlake ingest csv "tables/*.csv.gz" table.tl
    tensorlake ingest idx t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz digits.tl
"""

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import tensorlake as tl
from tensorlake.cli.cells import as_cell, read_rows, row_document
from tensorlake.cli.exits import ingest_in_shell, wrong_usage
from tensorlake.cli.options import AsJson
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.errors import did_you_mean
from tensorlake.types import from_json

__all__ = ["ingest"]


IN_MEMORY = ("arrow", "huggingface", "torch")
"""Kinds whose source is a Python object."""


class OnConflict(StrEnum):
    """How to handle a row changed by hand, whose item changed at its source, too."""

    KEEP = "keep"
    SOURCE = "source"
    ERROR = "error"


class OnError(StrEnum):
    """How to handle an item that cannot be ingested."""

    RAISE = "raise"
    SKIP = "skip"
    QUARANTINE = "quarantine"


class Engine(StrEnum):
    """Where new items are read."""

    THREADS = "threads"
    RAY = "ray"


def ingest(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind of source: images, coco, csv, …")
    ],
    places: Annotated[
        list[str], typer.Argument(metavar="SRC… URL", help="Sources, then the destination.")
    ],
    *,
    append: Annotated[
        bool, typer.Option("--append", help="Append to an existing dataset.")
    ] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete rows whose items are no longer in the source.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare unchanged items by digest, too.")
    ] = False,
    on_conflict: Annotated[
        OnConflict | None,
        typer.Option(
            help="How to handle rows changed by hand and at their source: keep the rows as they are"
            " (default; exit status 1), take the source, or raise an error. If given, conflicts do"
            " not change the exit status.",
            show_default=False,
        ),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="How to handle invalid items: raise, skip, or quarantine (written to"
            " URL-quarantine)."
        ),
    ] = OnError.RAISE,
    engine: Annotated[
        Engine, typer.Option(help="Read here by threads, or by workers of a Ray cluster.")
    ] = Engine.THREADS,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of read-ahead threads, or of workers of the cluster."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Types that override the inferred ones; JSON: name → type."
        ),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(metavar="CHAR", help="CSV delimiter.")] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="CSV text encoding, such as latin-1.")
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Column names for CSV without a header; class names."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Parquet columns to ingest.")
    ] = None,
    labels: Annotated[
        bool | None,
        typer.Option("--labels/--no-labels", help="Use folder names as class labels."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies a row of a table."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Fields of file names, such as '{label}_{id}.jpg'."),
    ] = None,
    masks: Annotated[
        bool | None, typer.Option("--masks/--no-masks", help="Ingest COCO masks.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="YOLO task: detect, segment, obb or pose.")
    ] = None,
    commit_every: Annotated[
        str, typer.Option(metavar="SIZE", help="Source bytes per commit.")
    ] = "8GiB",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing; show the schema, the first 3 rows, and what would change.",
        ),
    ] = False,
    split: Annotated[str | None, typer.Option(metavar="SHARES", hidden=True)] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Bring a dataset to its source: create it, or repeat the command to update it.

    Prints the numbers of items added, updated, unchanged, vanished and rejected. The exit status is
    1 if rows changed by hand and at their source were kept.

    Example: tensorlake ingest images photos pets.tl
    """
    if split is not None:
        wrong_usage(
            "ingest does not split; split the dataset afterwards, without a copy:"
            " ds.split({'train': 0.9, 'val': 0.1})"
        )
    function = _function(kind)
    sources = _positional(function)
    if len(places) != len(sources):
        wrong_usage(f"ingest {kind} takes {' '.join(map(str.upper, sources))}, got {places}")
    options: dict[str, Any] = {
        "mode": "append" if append else "create",
        "delete": delete,
        "verify": verify,
        "on_conflict": (on_conflict or OnConflict.KEEP).value,
        "on_error": on_error.value,
        "engine": engine.value,
        "workers": workers,
        "commit_every": commit_every,
        "progress": terms.progress,
        "dry_run": dry_run,
        "storage_options": terms.options_for(*places),
    }
    own: dict[str, Any] = {
        "delimiter": delimiter,
        "encoding": encoding,
        "names": _listed(names),
        "columns": _listed(columns),
        "key": key,
        "pattern": pattern,
        "labels": labels,
        "masks": masks,
        "task": task,
        "schema": None if schema is None else _read_schema(schema),
    }
    options |= _checked(kind, function, own)
    with function(*places, **options) as ds:
        report = ds.ingest_report
        assert report is not None  # every dataset that tl.ingest returns has one
        if dry_run:
            _show(ds, report, places[-1], as_json=as_json)
        else:
            if as_json:
                print_json({"rejected": report.rejected, **asdict(report)})
            elif not terms.quiet:
                print_text(ingest_in_shell(str(report)))
            is_told = on_error is not OnError.RAISE
            if (report.conflicts and on_conflict is None) or (report.rejected and not is_told):
                raise typer.Exit(1)


def _show(ds: tl.Dataset, report: tl.IngestReport, url: str, *, as_json: bool) -> None:
    types = {name: type_.describe() for name, type_ in ds.schema.items()}
    rows = list(read_rows(ds))
    if as_json:
        documents = [row_document(row) for row in rows]
        changes = {"rejected": report.rejected, **asdict(report)}
        print_json({"url": url, "schema": types, "rows": documents, "changes": changes})
        return
    if report.url:  # it exists
        print_text(ingest_in_shell(str(report)))
        print()
    else:
        print_text(f"{url} would be created, with {len(types)} tensors")
    print_table([(f"  {name}", described) for name, described in types.items()])
    print()
    print_table([[as_cell(row[name]) for name in types] for row in rows], header=list(types))
    print("nothing was written; to ingest, leave out --dry-run", file=sys.stderr)


def _function(kind: str) -> Callable[..., tl.Dataset]:
    found = {
        name: function
        for name in tl.ingest.__all__
        if inspect.isfunction(function := getattr(tl.ingest, name)) and name not in IN_MEMORY
    }
    plugged = None if kind in vars(tl.ingest) else getattr(tl.ingest, kind, None)
    if plugged is not None:
        return plugged
    if kind not in found:
        near = did_you_mean(kind, found)
        wrong_usage(f"unknown kind {kind!r}{near}; known: {', '.join(found)}")
    return found[kind]


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else names.split(",")


def _checked(
    kind: str, function: Callable[..., tl.Dataset], given: dict[str, Any]
) -> dict[str, Any]:
    """Return the options that were passed; each must be an argument of the function."""
    passed = {name: one for name, one in given.items() if one is not None}
    known = inspect.signature(function).parameters
    strange = next((name for name in passed if name not in known), None)
    if strange is not None:
        mine = ", ".join(f"--{name}" for name in given if name in known)
        wrong_usage(
            f"ingest {kind} does not support --{strange}; its own options: {mine or 'none'}"
        )
    return passed


def _positional(function: Callable[..., tl.Dataset]) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]


def _read_schema(file: Path) -> dict[str, Any]:
    """Read types by tensor name: a short form such as "float32", or a JSON object."""
    try:
        written = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        wrong_usage(f"--schema {str(file)!r} cannot be read: {error}")
    if not isinstance(written, dict):
        wrong_usage(f"--schema {str(file)!r} is not a JSON object of types by tensor name")
    return {
        str(name): from_json(one) if isinstance(one, dict) else one for name, one in written.items()
    }
