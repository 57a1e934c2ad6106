"""``tensorlake query URL "TQL"``: run a query; print a table, JSON, CSV, Arrow or Parquet.

A table shows the first 20 rows and the number of further rows; formats for programs contain all
rows, unless ``-n`` limits them.
"""

import json
import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from tensorlake.cli.cells import as_cell, column_names, display_values, read_rows, row_document
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import AsJson, AsJsonLines, At, Url
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import View

__all__ = ["query"]


SHOWN_IN_A_TABLE = 20
EXPLAINS = re.compile(r"(\s|--[^\n]*\n)*EXPLAIN\b", re.IGNORECASE)  # after comments
NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')


class Format(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


ENDINGS = {
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".arrows": Format.ARROW,
    ".txt": Format.TABLE,
}
"""The format of an output file by its ending."""


def query(
    url: Url,
    tql: Annotated[
        str | None, typer.Argument(metavar="TQL", help="Query; - or omitted: read stdin.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Read the query from a file.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "-n",
            metavar="N",
            min=0,
            help="Maximum rows (0 = unlimited; default 20 for table output).",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Value of $NAME: JSON, otherwise a string. Repeatable."
        ),
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Print only the number of rows.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the query plan instead of rows.")
    ] = False,
    save: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also save the rows as a view."),
    ] = None,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="Output format; default table.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to a file instead of stdout, in the format of its ending.",
        ),
    ] = None,
    at: At = None,
    as_json: AsJson = False,
    as_json_lines: AsJsonLines = False,
    terms: Terms,
) -> None:
    """Run a TQL query and print its rows.

    Example: tensorlake query pets.tl "WHERE label = 'cat'" -n 5
    """
    text = _query_text(tql, file)
    given = _given(output_format, as_json=as_json, as_json_lines=as_json_lines)
    chosen = given or Format.TABLE
    if output is not None and str(output) != "-":
        chosen = _format_of(output, given)
        _check_output(output)
    with terms.open(url, at=at, read_only=save is None) as ds:
        view = ds.query(text, **parse_parameters(param))
        if explain:
            print_json({"plan": view.explain()}) if as_json else print_text(view.explain())
            return
        if save is not None:
            view.save(save)
        if count:
            print_json({"count": len(view)}) if as_json else print(len(view))
            return
        stop = SHOWN_IN_A_TABLE if number is None and chosen is Format.TABLE else number or None
        if chosen in {Format.ARROW, Format.PARQUET}:
            _write_arrow(view[:stop], chosen, output)
            return
        if chosen is Format.TABLE and EXPLAINS.match(text):  # its indentation is the tree
            with _destination(output) as target:
                target.writelines(
                    f"{line}\n" for line in display_values(view[: number or None], "plan")
                )
            return
        with _destination(output) as target:
            _write(view, chosen, stop, target)
        if chosen is Format.TABLE and stop and len(view) > stop and not terms.quiet:
            print(f"… {len(view) - stop:,} more rows (-n 0 shows all)", file=sys.stderr)


def _given(output_format: Format | None, *, as_json: bool, as_json_lines: bool) -> Format | None:
    """Return --format, or the format of its short flags."""
    short = [Format.JSON] * as_json + [Format.JSONL] * as_json_lines
    given = {*short, *([] if output_format is None else [output_format])}
    if len(given) > 1:
        wrong_usage(f"pass one of --format, --json and --jsonl, got {' and '.join(sorted(given))}")
    return given.pop() if given else None


def _format_of(output: Path, given: Format | None) -> Format:
    """Return the format of a file: as given, or of its ending; they may not contradict."""
    ending = output.suffix.lower()
    named = ENDINGS.get(ending)
    if given is None and named is None and ending:
        wrong_usage(
            f"-o {str(output)!r}: {ending!r} is the ending of no format"
            f"; use one of {', '.join(ENDINGS)}, or give --format"
        )
    if given is not None and named not in {None, given}:
        wrong_usage(
            f"-o {str(output)!r} is named as {named}, but {given} was asked for"
            "; give one of both, or another ending"
        )
    return given or named or Format.TABLE


def _check_output(output: Path) -> None:
    """Refuse a file that cannot be written, before the query runs."""
    if output.is_dir():
        wrong_usage(f"-o {str(output)!r} is a folder; give the path of a file")
    if not output.parent.is_dir():
        wrong_usage(f"-o {str(output)!r}: there is no folder {str(output.parent)!r}; make it first")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        wrong_usage(f"-o {str(output)!r} may not be written; give another path")


def parse_parameters(pairs: list[str] | None) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` pairs; a value that is not valid JSON is a string."""
    parameters: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            wrong_usage(f"--param expects NAME=VALUE, got {pair!r}")
        if name in parameters:
            wrong_usage(f"--param gives {name!r} twice; give each parameter one value")
        try:
            parameters[name] = json.loads(value)
        except json.JSONDecodeError:
            parameters[name] = value
    return parameters


def _query_text(tql: str | None, file: Path | None) -> str:
    if tql is not None and file is not None:
        wrong_usage("give the query as an argument or with -f, not both")
    if file is not None and str(file) != "-":
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            wrong_usage(f"-f {str(file)!r} cannot be read: {error}")
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
        target.write(_csv_line(names))
        for row in rows:
            target.write(_csv_line(row_document(row).values()))


def _write_arrow(view: View, chosen: Format, output: Path | None) -> None:
    """Write a Parquet file, or Arrow's IPC stream, a batch at a time."""
    is_stdout = output is None or str(output) == "-"
    if chosen is Format.PARQUET:
        if output is None or is_stdout:
            wrong_usage(
                "--format parquet writes a file: give -o FILE, or --format arrow for a pipe"
            )
        view.to_parquet(output, overwrite=True)
        return
    if is_stdout and sys.stdout.isatty():
        wrong_usage("--format arrow is not text: give -o FILE, or a pipe to what reads it")
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(view)
    sink = sys.stdout.buffer if output is None or is_stdout else pa.OSFile(str(output), "wb")
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    if not is_stdout:
        sink.close()


def _csv_line(values: Iterable[object]) -> str:
    return ",".join(map(_csv_field, values)) + "\n"


def _csv_field(value: object) -> str:
    """Write NULL as nothing and an empty string in quotes, as ``export csv`` does."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text and not NEEDS_QUOTES.search(text):
        return text
    return '"{}"'.format(text.replace('"', '""'))
