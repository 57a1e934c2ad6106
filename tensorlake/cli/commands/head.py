"""``tensorlake head URL``: print the first rows."""

from typing import Annotated

import typer

from tensorlake.cli.cells import as_cell, column_names, read_rows, row_document
from tensorlake.cli.options import AsJson, AsJsonLines, At, Columns, Url, parse_columns
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms

__all__ = ["head"]


def head(
    url: Url,
    *,
    number: Annotated[
        int, typer.Option("-n", metavar="N", min=0, help="Maximum rows (0 = unlimited).")
    ] = 5,
    columns: Columns = None,
    at: At = None,
    as_json: AsJson = False,
    as_json_lines: AsJsonLines = False,
    terms: Terms,
) -> None:
    """Print the first rows; images as codec and shape, without decoding.

    Example: tensorlake head pets.tl -n 3 --columns image,label
    """
    with terms.open(url, at=at) as ds:
        view = ds[parse_columns(columns) or list(ds.tensors)]
        rows = list(read_rows(view, stop=number or None))
    names = column_names(view)
    if as_json:
        print_json([row_document(row) for row in rows])
    elif as_json_lines:
        for row in rows:
            print_json(row_document(row), indent=None)
    else:
        print_table([[as_cell(row[name]) for name in names] for row in rows], header=names)
