"""``tensorlake copy SRC DST``: a dataset to another place; run again, it goes on."""

from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.confirm import DryRun
from tensorlake.cli.options import AsJson, At, parse_storage_options
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

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
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Packs copied at once; default 8.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    src_storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--src-storage-option",
            metavar="KEY=VALUE",
            help="For the store of SRC, where it needs others. Repeatable.",
        ),
    ] = None,
    terms: Terms,
) -> None:
    """Copy a dataset, with its history, to another place; what is there already is not copied."""
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
