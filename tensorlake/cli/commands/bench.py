"""``tensorlake bench URL``: measure how fast a dataset streams, and name the bottleneck."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import AsJson, At, Columns, Url, parse_columns
from tensorlake.cli.output import print_json, print_text
from tensorlake.cli.terms import Terms

if TYPE_CHECKING:
    from tensorlake.cli.bench.run import BenchRun

__all__ = ["bench"]

MAX_SIDE = 4096


def bench(
    url: Url,
    *,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Rows per batch.")] = 64,
    decode: Annotated[
        int,
        typer.Option(
            "--decode", metavar="SIDE", min=1, max=MAX_SIDE, help="Side that images are resized to."
        ),
    ] = 224,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Number of epochs.")] = 2,
    batches: Annotated[
        int | None, typer.Option("--batches", min=1, help="Maximum batches per epoch; default all.")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="Shuffle rows, or read in stored order.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Decode threads; default one per core.")
    ] = None,
    cache: Annotated[
        str, typer.Option("--cache", help="Memory for cached chunks: 0, 4GB, auto.")
    ] = "auto",
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with a plot.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="OPPONENT",
            help="Compare with another loader: torch, webdataset, mds, litdata or lance.",
        ),
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose", help="Find what limits the rate, and which settings help."),
    ] = False,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TQL", help="Query that selects the rows.")
    ] = None,
    columns: Columns = None,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Stream epochs as in training, and report speed and bottleneck.

    Example: tensorlake bench pets.tl --batch-size 64 --epochs 2
    """
    from tensorlake.cli.bench.run import BenchRun, measure_ours  # lazy: --help does not need it

    run = BenchRun(
        url=url,
        at=at,
        query=query,
        storage_options=terms.options_for(url),
        columns=parse_columns(columns),
        batch_size=batch_size,
        side=decode,
        epochs=epochs,
        batches=batches,
        shuffle=shuffle,
        workers=workers,
        cache=cache,
    )
    if html is not None and not html.parent.is_dir():
        wrong_usage(f"--html: folder {str(html.parent)!r} not found")  # before minutes of measuring
    if diagnose:
        if against is not None:
            wrong_usage("--diagnose and --against: give one of them")
        _diagnose(run, html, as_json=as_json)
        return
    if against is None:
        contest, measured = None, measure_ours(run, is_compared=False)
        report = measured.report
    else:
        from tensorlake.cli.bench.against import check_opponent, hold_contest

        check_opponent(against, run)
        contest = hold_contest(run, against)
        measured = contest.ours
        report = f"{measured.report}\n\n{contest.report}"
    if html is not None:
        from tensorlake.cli.bench.page import bench_page

        theirs = {} if contest is None else {contest.opponent: contest.theirs.epochs}
        page = bench_page(url, report, {"tensorlake": measured.epochs, **theirs})
        html.write_text(page, encoding="utf-8")
    if as_json:
        document = {
            "url": url,
            "batch_size": batch_size,
            "epochs": [epoch.to_json() for epoch in measured.epochs],
        }
        print_json(document | ({} if contest is None else {"against": contest.to_json()}))
    else:
        print_text(report)


def _diagnose(run: "BenchRun", html: Path | None, *, as_json: bool) -> None:
    from tensorlake.cli.bench.run import diagnose_ours

    found = diagnose_ours(run)
    if html is not None:
        found.to_html(html)
    if as_json:
        print_json({"url": run.url, "batch_size": run.batch_size, **found.to_dict()})
    else:
        print_text(found)
