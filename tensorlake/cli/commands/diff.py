"""``tensorlake diff URL A [B]``: show the changes between two versions, by row identity.

With ``--rows``, row by row:

    + row 9    x=100  label=cat
    - row 4    x=4    label=dog
    ~ row 3 → 2   label   cat → dog

Rows that moved show both row numbers. Media are shown by codec, shape and size, never decoded.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from tensorlake.cli.cells import as_cell, display_values, read_rows, row_document
from tensorlake.cli.exits import FAILED
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_json, print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import Diff, Updated, View

__all__ = ["diff"]


def diff(
    url: Url,
    a: Annotated[str, typer.Argument(metavar="A", help="Version before, such as main@11.")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Version after; default: head of main.")
    ] = None,
    *,
    stat: Annotated[
        bool, typer.Option("--stat", help="Print counts of rows and values (default).")
    ] = True,
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only changes of this tensor.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print each row with its values before and after.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum rows of each kind with --rows.")
    ] = 20,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if the versions differ.")
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show the changes between two versions: rows, values, schema.

    Example: tensorlake diff pets.tl main@1 main@2 --rows
    """
    del stat  # the default output
    with terms.open(url, at=b) as ds:
        found = ds.diff(a)
        if tensor is not None:
            _ = ds[tensor]  # an unknown name is an error, not an empty difference
        updated = {
            name: len(changed)
            for name, changed in found.updated.items()
            if tensor is None or name == tensor
        }
        differs = bool(updated) if tensor else bool(found)
        if as_json:
            document: dict[str, object] = {
                "before": found.before,
                "after": found.after,
                "added": len(found.added),
                "removed": len(found.removed),
                "updated": updated,
                "schema": list(found.schema),
            }
            if rows:
                document["rows"] = _row_documents(found, tensor=tensor, limit=limit)
            print_json(document)
        elif rows:
            print_text(f"{found.before} → {found.after}")
            for line in _changed_rows(found, tensor=tensor, limit=limit):
                print_text(line)
        elif tensor is None:
            print_text(found)
        else:
            print_text(f"{tensor}: {updated.get(tensor, 0):,} rows updated")
    if exit_code and differs:
        raise typer.Exit(FAILED)


def _changed_rows(found: Diff, *, tensor: str | None, limit: int) -> Iterator[str]:
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


def _row_documents(found: Diff, *, tensor: str | None, limit: int) -> dict[str, object]:
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
