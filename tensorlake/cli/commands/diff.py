"""``tensorlake diff URL A [B]``: what differs between two versions, by row identity."""

from typing import Annotated

import typer

from tensorlake.cli.changed_rows import changed_rows, row_documents
from tensorlake.cli.exits import FAILED
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_json
from tensorlake.cli.terms import Terms

__all__ = ["diff"]


def diff(
    url: Url,
    a: Annotated[str, typer.Argument(metavar="A", help="The version to start from: main@11.")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="The version to end at; none: main's head.")
    ] = None,
    *,
    stat: Annotated[
        bool, typer.Option("--stat", help="Counts of rows and values; the default.")
    ] = True,
    tensor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only what changed of this tensor.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Each row, with its value before and after.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --rows: at most so many of each kind.")
    ] = 20,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when there are differences.")
    ] = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show what changed between two versions: rows, values of tensors, schema."""
    del stat  # what is printed in any case
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
                document["rows"] = row_documents(found, tensor=tensor, limit=limit)
            print_json(document)
        elif rows:
            print(f"{found.before} → {found.after}")
            for line in changed_rows(found, tensor=tensor, limit=limit):
                print(line)
        elif tensor is None:
            print(found)
        else:
            print(f"{tensor}: {updated.get(tensor, 0):,} rows updated")
    if exit_code and differs:
        raise typer.Exit(FAILED)
