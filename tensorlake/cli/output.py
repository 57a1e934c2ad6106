"""Output: text and tables for people, JSON documents for programs.

On a terminal a table has a bold header and is truncated to the width; in a pipe it is plain text
with two spaces between columns, neither truncated nor coloured. rich itself respects ``NO_COLOR``.
JSON is one document: NULL is ``null``, and numbers that JSON cannot represent are strings ("NaN",
"Infinity", "-Infinity"), so that no value is lost silently.
"""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, TextIO
from unicodedata import category, east_asian_width

import numpy as np

__all__ = ["as_document", "print_json", "print_report", "print_table", "print_text"]

# they turn the direction of all that follows
TURNING = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def print_table(
    rows: Iterable[Sequence[str]],
    *,
    header: Sequence[str] | None = None,
    right: Sequence[int] = (),
    file: TextIO | None = None,
) -> None:
    """Print rows as a table; the columns in ``right`` are aligned to the right."""
    target = file or sys.stdout
    cells = [list(map(_plain, row)) for row in rows]
    header = None if header is None else list(map(_plain, header))
    if target.isatty():
        _print_rich(cells, header, right)
        return
    shown = [list(header), *cells] if header else cells
    widths = [max(map(_width, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = [
            _pad(cell, width, right=column in right)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(padded).rstrip(), file=target)


def _print_rich(cells: list[list[str]], header: Sequence[str] | None, right: Sequence[int]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, show_header=header is not None, pad_edge=False, padding=(0, 2, 0, 0))
    width = len(header) if header else max(map(len, cells), default=0)
    first = [row[0] for row in (*([header] if header else []), *cells) if row]
    # rich shrinks columns that may wrap, the widest first. The first says which row it is.
    is_kept = max(map(_width, first), default=0) <= console.width // 2
    for column in range(width):
        table.add_column(
            Text(header[column] if header else "", no_wrap=True),
            justify="right" if column in right else "left",
            no_wrap=column == 0 and is_kept,
            overflow="ellipsis",
        )
    for row in cells:
        # Text: [brackets] in a cell are not markup
        table.add_row(*(Text(cell, no_wrap=True) for cell in row))
    console.print(table)


def print_text(text: object, *, file: TextIO | None = None, flush: bool = False) -> None:
    """Print lines that may quote data: what a terminal would obey is replaced."""
    print(_plain(str(text), keeps="\n\t"), file=file or sys.stdout, flush=flush)


def _plain(text: str, *, keeps: str = "") -> str:
    """Return text of the data without what a terminal would obey, such as colours and titles."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if one in TURNING or (category(one) == "Cc" and one not in keeps)
        else one
        for one in text
    )


def _width(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def as_document(value: object) -> object:
    """Convert a value to JSON types: NumPy arrays become lists, timestamps ISO strings."""
    if isinstance(value, np.ndarray):
        return as_document(value.tolist())
    if isinstance(value, np.generic):
        return as_document(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {str(key): as_document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_document(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return {"nbytes": len(value)}
    return value


def print_report(report: Any, *, as_json: bool, quiet: bool, **facts: object) -> None:
    """Print the report (a dataclass) of a command; as JSON, its fields and the other facts."""
    if as_json:
        print_json({**facts, **asdict(report)})
    elif not quiet:
        print_text(report)


def print_json(value: object, *, indent: int | None = 2, file: TextIO | None = None) -> None:
    """Print one JSON document (on one line with ``indent=None``)."""
    document = json.dumps(as_document(value), ensure_ascii=False, allow_nan=False, indent=indent)
    print(document, file=file or sys.stdout)
