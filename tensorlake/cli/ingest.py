"""``tensorlake ingest KIND SRC… URL``: files become a dataset.

KIND is a function of ``tl.ingest``; the sources stand before the destination, as there:

    tensorlake ingest images photos/ pets.tl
    tensorlake ingest coco instances.json train2017/ coco.tl
"""

import inspect
from enum import StrEnum
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import (
    AsJson,
    EndpointUrl,
    Quiet,
    StorageOptions,
    parse_storage_options,
)
from tensorlake.cli.output import print_json

__all__ = ["ingest"]


class OnError(StrEnum):
    """What happens with a file that cannot be taken in."""

    RAISE = "raise"
    SKIP = "skip"
    QUARANTINE = "quarantine"


def ingest(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="What the sources are: images, coco.")
    ],
    places: Annotated[
        list[str], typer.Argument(metavar="SRC… URL", help="The sources, then the destination.")
    ],
    *,
    append: Annotated[
        bool, typer.Option("--append", help="Add to a dataset that is there already.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many files are read at the same time.")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="A file that cannot be taken in: raise, skip, quarantine.")
    ] = OnError.RAISE,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="Show no progress on stderr.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Make a dataset of files; run again after a kill, it goes on where it stopped."""
    if kind not in tl.ingest.__all__:
        wrong_usage(f"there is no ingestion of {kind!r}; known: {', '.join(tl.ingest.__all__)}")
    function = getattr(tl.ingest, kind)
    positional = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    if len(places) != len(positional):
        wrong_usage(f"ingest {kind} takes {' '.join(map(str.upper, positional))}, got {places}")
    options = {
        "mode": "append" if append else "create",
        "workers": workers,
        "on_error": on_error.value,
        "progress": False if quiet or no_progress else None,
        "storage_options": parse_storage_options(storage_option, endpoint_url) or None,
    }
    with function(*places, **options) as ds:
        report = ds.ingest_report
        if as_json:
            print_json({"url": places[-1], "version": ds.version, "rows": len(ds)})
        elif not quiet:
            print(f"{places[-1]}   {ds.version}   {len(ds):,} rows")
            print(report)
