"""``tensorlake query URL "TQL"``: ask, and print rows as a table, JSON or CSV."""

import csv
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from tensorlake.cli.cells import as_cell, column_names, read_rows, row_document
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import AsJson, At, EndpointUrl, StorageOptions, Url, open_dataset
from tensorlake.cli.output import print_json, print_table
from tensorlake.dataset import View

__all__ = ["query"]


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


def query(
    url: Url,
    tql: Annotated[
        str | None, typer.Argument(metavar="TQL", help="The query; - or none reads stdin.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the query from a file.")
    ] = None,
    number: Annotated[
        int, typer.Option("-n", metavar="N", min=0, help="Show so many rows; 0 shows all.")
    ] = 20,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="For $NAME: JSON, or else text. Repeatable."),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Print only how many rows.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how it is evaluated instead of rows.")
    ] = False,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also save the rows as a view that others can open."),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="How rows are written.")
    ] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write to a file instead of stdout.")
    ] = None,
    at: At = None,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Run a TQL query and show the rows that it selects."""
    text = _query_text(tql, file)
    chosen = Format.JSON if as_json else output_format
    with open_dataset(
        url,
        at=at,
        storage_option=storage_option,
        endpoint_url=endpoint_url,
        read_only=save is None,
    ) as ds:
        view = ds.query(text, **parse_parameters(param))
        if explain:
            print(view.explain())
            return
        if save is not None:
            view.save(save)
        if count:
            print_json({"count": len(view)}) if as_json else print(len(view))
            return
        with _destination(output) as target:
            _write(view, chosen, number or None, target)
        if chosen is Format.TABLE and number and len(view) > number:
            print(f"… {len(view) - number:,} more rows (-n 0 shows all)", file=sys.stderr)


def parse_parameters(pairs: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value that is JSON is that, any other is text."""
    parameters: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            wrong_usage(f"--param expects NAME=VALUE, got {pair!r}")
        try:
            parameters[name] = json.loads(value)
        except json.JSONDecodeError:
            parameters[name] = value
    return parameters


def _query_text(tql: str | None, file: Path | None) -> str:
    if tql is not None and file is not None:
        wrong_usage("give the query as an argument or with -f, not both")
    if file is not None:
        return file.read_text(encoding="utf-8")
    return sys.stdin.read() if tql in {None, "-"} else str(tql)


@contextmanager
def _destination(output: Path | None) -> Generator[TextIO]:
    if output is None or str(output) == "-":
        yield sys.stdout
        return
    with output.open("w", encoding="utf-8", newline="") as file:
        yield file


def _write(view: View, chosen: Format, stop: int | None, target: TextIO) -> None:
    names = column_names(view)
    rows = read_rows(view, stop=stop)
    if chosen is Format.TABLE:
        print_table(
            [[as_cell(row[name]) for name in names] for row in rows], header=names, file=target
        )
    elif chosen is Format.JSON:
        print_json([row_document(row) for row in rows], file=target)
    elif chosen is Format.JSONL:
        for row in rows:
            print_json(row_document(row), indent=None, file=target)
    else:
        writer = csv.writer(target)
        writer.writerow(names)
        for row in rows:
            writer.writerow([_csv_field(value) for value in row_document(row).values()])


def _csv_field(value: object) -> object:
    if value is None:
        return ""
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
