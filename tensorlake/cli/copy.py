"""``tensorlake copy SRC DST``: a dataset to another place; run again, it goes on."""

from dataclasses import asdict
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.confirm import DryRun
from tensorlake.cli.options import (
    AsJson,
    At,
    EndpointUrl,
    Quiet,
    StorageOptions,
    parse_storage_options,
)
from tensorlake.cli.output import print_json

__all__ = ["copy"]

Source = Annotated[str, typer.Argument(metavar="SRC", help="The dataset.")]
Target = Annotated[str, typer.Argument(metavar="DST", help="Where the copy goes.")]


def copy(
    src: Source,
    dst: Target,
    *,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="All versions, or one alone.")
    ] = True,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="A read-only copy that later runs bring up to date.")
    ] = False,
    at: At = None,
    dry_run: DryRun = False,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="A line of progress.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    src_storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--src-storage-option",
            metavar="KEY=VALUE",
            help="For the store of SRC, where it needs others. Repeatable.",
        ),
    ] = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Copy a dataset, with its history, to another place; what is there already is not copied."""
    report = tl.copy(
        src,
        dst,
        version=at,
        history=history,
        mirror=mirror,
        dry_run=dry_run,
        storage_options=parse_storage_options(storage_option, endpoint_url) or None,
        src_storage_options=parse_storage_options(src_storage_option, None) or None,
        progress=False if quiet else progress,
    )
    if as_json:
        print_json(asdict(report))
    elif not quiet:
        print(report)
