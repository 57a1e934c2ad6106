"""A diff row by row: the output of ``diff --rows``, as text and as JSON.

    + row 9    x=100  label=cat
    - row 4    x=4    label=dog
    ~ row 3 → 2   label   cat → dog

Rows that moved show both row numbers. Media are shown by codec, shape and size, never decoded.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tensorlake.cli.cells import as_cell, display_values, read_rows, row_document
from tensorlake.dataset import Diff, Updated, View

__all__ = ["changed_rows", "row_documents"]


def changed_rows(found: Diff, *, tensor: str | None, limit: int) -> Iterator[str]:
    """Format a diff line by line: at most ``limit`` rows of each kind, then the number left out."""
    if tensor is None:
        for sign, view in (("+", found.added), ("-", found.removed)):
            for row, cells in islice(_rows(view), limit):
                shown = "  ".join(f"{name}={as_cell(one)}" for name, one in cells.items())
                yield f"{sign} row {row}    {shown}"
            yield from _more(len(view), limit)
    for name, updated in found.updated.items():
        if tensor is not None and name != tensor:
            continue
        for before_row, after_row, old, new in islice(_cells(updated), limit):
            moved = f"{before_row}" if before_row == after_row else f"{before_row} → {after_row}"
            yield f"~ row {moved}    {name}   {as_cell(old)} → {as_cell(new)}"
        yield from _more(len(updated), limit)


def row_documents(found: Diff, *, tensor: str | None, limit: int) -> dict[str, object]:
    """Return the same diff as a JSON object."""
    document: dict[str, object] = {}
    if tensor is None:
        for what, view in (("added", found.added), ("removed", found.removed)):
            document[what] = [
                {"_row": row, **row_document(cells)} for row, cells in islice(_rows(view), limit)
            ]
    document["updated"] = {
        name: [
            {
                "row_before": before_row,
                "row_after": after_row,
                **row_document({"before": old, "after": new}),
            }
            for before_row, after_row, old, new in islice(_cells(updated), limit)
        ]
        for name, updated in found.updated.items()
        if tensor is None or name == tensor
    }
    return document


def _rows(view: View) -> Iterator[tuple[int, dict[str, Any]]]:
    return zip(view.rows.tolist(), read_rows(view), strict=True)


def _cells(updated: Updated) -> Iterator[tuple[int, int, Any, Any]]:
    return zip(
        updated.rows_before.tolist(),
        updated.rows_after.tolist(),
        display_values(updated.view_before, updated.before.name),
        display_values(updated.view_after, updated.after.name),
        strict=True,
    )


def _more(count: int, limit: int) -> Iterator[str]:
    if count > limit:
        yield f"  … {count - limit:,} more: --limit {count}"
