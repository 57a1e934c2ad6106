"""``tensorlake bench URL``: how fast a dataset streams from here, and what holds it back."""

from pathlib import Path
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import AsJson, At, Columns, Url, parse_columns
from tensorlake.cli.output import print_json
from tensorlake.cli.terms import Terms

__all__ = ["bench"]

MAX_SIDE = 4096


def bench(
    url: Url,
    *,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Rows a batch.")] = 64,
    decode: Annotated[
        int, typer.Option("--decode", metavar="SIDE", min=1, max=MAX_SIDE, help="Resize pictures.")
    ] = 224,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="How many passes.")] = 2,
    batches: Annotated[
        int | None, typer.Option("--batches", min=1, help="Leave each pass after so many.")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="In a training order, or as stored.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Decode threads; default one a core.")
    ] = None,
    cache: Annotated[
        str, typer.Option("--cache", help="Memory for chunks: 0, 4GB, auto.")
    ] = "auto",
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with a plot.")
    ] = None,
    columns: Columns = None,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Stream epochs as training would, throw the batches away, and say what held them back."""
    from tensorlake.loader import measure_epochs  # --help does not wait for it

    with terms.open(url, at=at) as ds:
        names = parse_columns(columns) or list(ds.tensors)
        if unknown := [name for name in names if name not in ds.schema]:
            wrong_usage(f"--columns: no tensor {unknown[0]!r}; there are {', '.join(ds.schema)}")
        types = {name: ds.schema[name] for name in names}
        # NULL and arrays of any shape are listed: whatever the dataset, it streams
        listed = [n for n, t in types.items() if not t.is_media and (t.nullable or None in t.shape)]
        with ds.loader(
            batch_size=batch_size,
            shuffle=shuffle,
            columns=names,
            workers=workers,
            cache=cache,
            decode={n: tl.decode.Resize(decode, decode) for n, t in types.items() if t.is_media},
            collate=dict.fromkeys(listed, "list"),
        ) as loader:
            plan = loader.explain()
            measured = measure_epochs(loader, epochs, max_batches=batches)
    if html is not None:
        from tensorlake.cli.bench_page import bench_page

        html.write_text(bench_page(ds.url, plan, measured), encoding="utf-8")
    if as_json:
        print_json(
            {"url": ds.url, "batch_size": batch_size, "epochs": [e.to_json() for e in measured]}
        )
        return
    print(plan)
    for epoch in measured:
        first_ms = epoch.first_batch_s * 1000
        print(
            f"\nepoch {epoch.number}: {epoch.stats.rows:,} rows in {epoch.seconds:.2f} s,"
            f" {epoch.rows_per_s:,.0f} rows/s, first batch after {first_ms:,.0f} ms"
        )
        print(epoch.stats)
