"""``tensorlake check URL``: verify a dataset or a lake, even what can no longer be opened."""

from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import FAILED
from tensorlake.cli.lake import All, LakeRun
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["check"]


def check(
    url: Url,
    *,
    all_: All = False,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="Read every chunk, or only logs and index pages."),
    ] = True,
    decode: Annotated[
        bool, typer.Option("--decode", help="Also decode every media sample.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="First repair damage where possible; deletes nothing.")
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Verify digests, checksums and references of all versions; exit 1 if a problem is found.

    Example: tensorlake check pets.tl --quick
    """
    from tensorlake.dataset import check_url  # lazy: --help does not need it

    def check_one(place: str) -> tl.CheckReport:
        return check_url(
            place,
            full=full,
            decode=decode,
            repair=repair,
            progress=terms.progress,
            storage_options=terms.options_for(url),
        )

    if all_:
        lake = LakeRun(
            url, lambda _name, place: check_one(place), terms, as_json, is_ok=lambda one: one.ok
        )
        lake.run()
        lake.end()
        return
    report = check_one(url)
    print_report(report, as_json=as_json, quiet=terms.quiet, ok=report.ok)
    if not report.ok:
        raise typer.Exit(FAILED)
