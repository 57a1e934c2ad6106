"""``tensorlake lint URL``: find what is wrong with the content of a dataset."""

from typing import Annotated

import typer

from tensorlake.cli.exits import FAILED
from tensorlake.cli.options import AsJson, At, Columns, Url, parse_columns
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms

__all__ = ["lint"]


def lint(
    url: Url,
    *,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME", help="Apply only this rule. Repeatable."),
    ] = None,
    columns: Columns = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="Read N rows, chosen at random."),
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option("--max-bytes", metavar="SIZE", help="Fail rather than read more: 100GiB."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Fail after this time: 10min.")
    ] = None,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Find NaN, damaged or black images, leakage and the like; exit 1 if something is found.

    Example: tensorlake lint pets.tl --sample 10000
    """
    with terms.open(url, at=at) as ds:
        chosen = parse_columns(columns)
        view = ds.query("SELECT *") if chosen is None else ds.select(chosen)
        if sample is not None:
            view = view.sample(min(sample, len(view)))
        report = view.lint(rule, max_bytes=max_bytes, timeout=timeout, progress=terms.progress)
    print_report(report, as_json=as_json, quiet=terms.quiet, ok=report.ok)
    if not report.ok:
        raise typer.Exit(FAILED)
