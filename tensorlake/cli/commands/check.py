"""``tensorlake check URL``: verify a dataset, also one that cannot be opened any more."""

from typing import Annotated

import typer

from tensorlake.cli.exits import FAILED
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["check"]


def check(
    url: Url,
    *,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="Read every chunk, or logs and index pages only."),
    ] = True,
    decode: Annotated[
        bool, typer.Option("--decode", help="Also decode every sample of media.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="First mend what can be mended; nothing is deleted.")
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Verify digests, checksums and references of every version; exit 1 when anything is found."""
    from tensorlake.dataset import check_url  # --help does not wait for it

    report = check_url(
        url,
        full=full,
        decode=decode,
        repair=repair,
        progress=terms.progress,
        storage_options=terms.options_for(url),
    )
    print_report(report, as_json=as_json, quiet=terms.quiet, ok=report.ok)
    if not report.ok:
        raise typer.Exit(FAILED)
