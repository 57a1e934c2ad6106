"""``tensorlake copy SRC DST``: copy a dataset, or a lake; the same command resumes or updates."""

from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.lake import All, LakeRun, check_apart
from tensorlake.cli.options import AsJson, At, DryRun, parse_storage_options
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms
from tensorlake.storage import join_url

__all__ = ["copy"]

Source = Annotated[str, typer.Argument(metavar="SRC", help="Dataset or lake to copy.")]
Target = Annotated[str, typer.Argument(metavar="DST", help="Destination URL.")]


def copy(
    src: Source,
    dst: Target,
    *,
    all_: All = False,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Copy all versions, or only one.")
    ] = True,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Make a read-only copy that later runs update.")
    ] = False,
    bases: Annotated[
        bool,
        typer.Option("--bases", help="Also copy the data that a fork reads in its bases."),
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

    With --all, DST becomes a backup of the lake SRC: each dataset with its branches and tags, forks
    with the data of their bases. Datasets that SRC no longer has stay at DST.

    Example: tensorlake copy pets.tl backup/pets.tl
    """

    def copy_one(source: str, target: str, *, bases: bool) -> tl.CopyReport:
        return tl.copy(
            source,
            target,
            version=at,
            history=history,
            mirror=mirror,
            bases=bases,
            dry_run=dry_run,
            workers=workers,
            storage_options=terms.options_for(src, dst),
            src_storage_options=parse_storage_options(src_storage_option, None) or None,
            progress=terms.progress,
        )

    if not all_:
        report = copy_one(src, dst, bases=bases)
        print_report(report, as_json=as_json, quiet=terms.quiet)
        return
    if at is not None:
        wrong_usage(f"--at {at} is a version of one dataset: leave it out, or leave out --all")
    check_apart(src, dst)
    lake = LakeRun(
        src,
        lambda name, place: copy_one(place, join_url(dst, name), bases=True),
        terms,
        as_json,
    )
    lake.run(looks_again=True)
    lake.end()
