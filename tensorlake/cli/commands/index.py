"""``tensorlake index ls|create|drop URL``: the indexes of a dataset."""

import json
from typing import Annotated, Any

import typer

from tensorlake.cli.exits import exits_cleanly, wrong_usage
from tensorlake.cli.options import AsJson, At, Url
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms, with_terms
from tensorlake.quantities import human_nbytes

__all__ = ["index"]

index = typer.Typer(
    name="index",
    help="List, create and drop indexes.\n\nExample: tensorlake index ls pets.tl",
    no_args_is_help=True,
)


@index.command("ls")
@exits_cleanly
@with_terms
def list_indexes(url: Url, *, at: At = None, as_json: AsJson = False, terms: Terms) -> None:
    """List indexes with their kind, column, coverage and size.

    Example: tensorlake index ls pets.tl --json
    """
    with terms.open(url, at=at, read_only=True) as ds:
        found = list(ds.indexes.values())
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "column": one.column,
                    "coverage": one.coverage,
                    "nbytes": one.nbytes,
                    "recall": one.recall,
                }
                for one in found
            ]
        )
        return
    header = ("name", "kind", "column", "coverage", "size")
    rows = [
        (one.name, one.kind, one.column, f"{one.coverage:.1%}", human_nbytes(one.nbytes))
        for one in found
    ]
    if rows:
        print_table(rows, header=header, right=(3, 4))


@index.command()
@exits_cleanly
@with_terms
def create(
    url: Url,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="Tensor to index.")],
    *,
    kind: Annotated[
        str | None, typer.Option(help="Kind of index; default: the one for the column's type.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name; default: the column's.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of the kind. Repeatable."),
    ] = None,
    at: At = None,
    terms: Terms,
) -> None:
    """Build an index of a column and commit it.

    Example: tensorlake index create pets.tl label
    """
    options = dict(map(_option, option or ()))
    with terms.open(url, at=at, read_only=False) as ds:
        ds.create_index(column, kind, name, **options)
        ds.commit(f"index {name or column}")
        if not terms.quiet:
            print_text(ds.indexes[name or column])


@index.command()
@exits_cleanly
@with_terms
def drop(
    url: Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the index.")],
    *,
    at: At = None,
    terms: Terms,
) -> None:
    """Drop an index and commit; older versions keep it.

    Example: tensorlake index drop pets.tl label
    """
    with terms.open(url, at=at, read_only=False) as ds:
        ds.drop_index(name)
        ds.commit(f"drop index {name}")


def _option(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE: a JSON value, else a string."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        wrong_usage(f"--option {text!r}: write KEY=VALUE")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
