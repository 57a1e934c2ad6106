"""Items known by position, cut between two of their rows: rows were added at the end of the last.

A compressed file, and a row group, are one item however many rows they get. The rows that were
ingested become one item and the rest another; the ledger has the number of the row in the name of
the second (``x.csv.gz[0:-1] from row 3``), so that the next run cuts the item there again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from tensorlake.dataset import Entries
from tensorlake.ingest.engine.source import Item, LoadedRows, Source

__all__ = ["cut_at_row", "cut_at_rows", "first_nbytes", "num_rows"]

T = TypeVar("T")

_FROM_ROW = re.compile(r" from row (\d+) \d+\Z")


@dataclass(frozen=True, slots=True)
class _Rows(Generic[T]):
    """Rows [start, stop) of an item; ``stop`` None: to its end."""

    item: T
    start: int
    stop: int | None


def num_rows(columns: Mapping[str, Any]) -> int:
    """Return the number of rows of columns."""
    return len(next(iter(columns.values()), ()))


def cut_at_row(source: Source[Item], at: int, row: int, nbytes: int) -> Source[Item]:
    """Cut an item before one of its rows.

    Args:
        source: The source.
        at: The item.
        row: The first row of the second part, among the rows of the item as it is cut now.
        nbytes: Size of the first part.
    """
    item: Any = source.items[at]
    is_cut = any(isinstance(one, _Rows) for one in source.items)
    whole = cast("_Rows[Any]", item) if isinstance(item, _Rows) else _Rows(item, 0, None)
    middle = whole.start + row
    parts = [replace(whole, stop=middle), replace(whole, start=middle)]
    rest = max(1, source.sizes[at] - nbytes)
    items: list[Any] = [*source.items[:at], *parts, *source.items[at + 1 :]]
    sizes = [*source.sizes[:at], nbytes, rest, *source.sizes[at + 1 :]]
    return replace(source if is_cut else _of_rows(source), items=items, sizes=sizes)


def cut_at_rows(source: Source[Item], known: Entries) -> Source[Item]:
    """Cut items where earlier runs cut them."""
    start = stop = last_size = 0
    entries = zip(known.items, known.sizes.tolist(), known.spans.tolist(), strict=True)
    for name, size, span in entries:
        found = _FROM_ROW.search(name)
        if found is not None and 0 < stop <= len(source.items):
            item: Any = source.items[stop - 1]
            before = item.start if isinstance(item, _Rows) else 0
            nbytes = first_nbytes(source, range(start, stop), last_size)
            source = cut_at_row(source, stop - 1, int(found[1]) - before, nbytes)
        start, stop, last_size = stop, stop + span, size
    return source


def first_nbytes(source: Source[Any], items: range, size: int) -> int:
    """Return the size of the last of some items before rows were added to it.

    Args:
        source: The source.
        items: The items.
        size: Their size then.
    """
    last = items.stop - 1
    before = source.nbytes(range(items.start, last))
    return min(max(1, size - before), source.sizes[last])


def _of_rows(source: Source[Item]) -> Source[Item]:
    """Let the functions of a source take parts of its items, too."""

    def inner(item: Any) -> Any:
        return item.item if isinstance(item, _Rows) else item

    def name(item: Any) -> str:
        part = f" from row {item.start}" if isinstance(item, _Rows) and item.start else ""
        return f"{source.name(inner(item))}{part}"

    def load(items: Sequence[Any]) -> Mapping[str, Any] | LoadedRows:
        if not any(isinstance(one, _Rows) for one in items):
            return source.load(items)
        parts = [_loaded(source, one) for one in items]
        if len(parts) == 1:
            return parts[0]
        rows = [num_rows(part.columns) for part in parts]
        columns = {
            key: [value for part in parts for value in part.columns[key]]
            for key in parts[0].columns
        }

        def row_name(row: int) -> str:
            at = 0
            while row >= rows[at]:
                row -= rows[at]
                at += 1
            return parts[at].row_name(row)

        return LoadedRows(columns, [one for part in parts for one in part.refused], row_name)

    def of_item(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        if function is None:
            return None

        def of(item: Any) -> Any:
            return function(inner(item))

        return of

    return replace(
        source,
        name=name,
        load=load,
        stamp=of_item(source.stamp),
        file=of_item(source.file),
        cut_item=None,
    )


def _loaded(source: Source[Item], part: Any) -> LoadedRows:
    """Load a part of an item."""
    rows = part if isinstance(part, _Rows) else _Rows(part, 0, None)
    loaded = source.load([rows.item])
    if not isinstance(loaded, LoadedRows):
        loaded = LoadedRows(loaded, (), lambda row: source.row_called([rows.item], row))
    of_row = loaded.row_name
    return LoadedRows(
        {name: values[rows.start : rows.stop] for name, values in loaded.columns.items()},
        loaded.refused if rows.stop is None else (),
        lambda row: of_row(rows.start + row),
    )
