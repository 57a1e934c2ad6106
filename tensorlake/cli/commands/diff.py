"""``tensorlake diff URL A [B]``: show the changes between two versions, by row identity."""

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
