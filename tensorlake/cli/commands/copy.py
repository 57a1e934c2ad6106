"""``tensorlake copy SRC DST``: copy a dataset; repeating the command resumes or updates."""

from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.options import AsJson, At, DryRun, parse_storage_options
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["copy"]

Source = Annotated[str, typer.Argument(metavar="SRC", help="Dataset to copy.")]
Target = Annotated[str, typer.Argument(metavar="DST", help="Destination URL.")]


def copy(
    src: Source,
    dst: Target,
    *,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Copy all versions, or only one.")
    ] = True,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Make a read-only copy that later runs update.")
    ] = False,
    at: At = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Packs copied concurrently; default 8.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    src_storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--src-storage-option",
            metavar="KEY=VALUE",
            help="Option for the store of SRC, if it differs. Repeatable.",
        ),
    ] = None,
    terms: Terms,
) -> None:
    """Copy a dataset with its history; data already at DST is not copied again.

    Example: tensorlake copy pets.tl backup/pets.tl
    """
    report = tl.copy(
        src,
        dst,
        version=at,
        history=history,
        mirror=mirror,
        dry_run=dry_run,
        workers=workers,
        storage_options=terms.options_for(dst),
        src_storage_options=parse_storage_options(src_storage_option, None) or None,
        progress=terms.progress,
    )
    print_report(report, as_json=as_json, quiet=terms.quiet)
