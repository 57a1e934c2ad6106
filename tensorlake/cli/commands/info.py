"""``tensorlake info URL``: describe a dataset from its index alone, and its last commits."""

from typing import Annotated

import typer

from tensorlake.cli.commands.log import commit_document, commit_line
from tensorlake.cli.options import AsJson, At, Url
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes

__all__ = ["info"]

COMMITS_SHOWN = 3
FORMAT = "format 1"


def info(
    url: Url,
    *,
    schema: Annotated[bool, typer.Option("--schema", help="Print only tensors and types.")] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Also read columns of numbers and labels.")
    ] = False,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show size, tensors, types and last commits of a dataset; reads only the index.

    Example: tensorlake info pets.tl
    """
    with terms.open(url, at=at) as ds:
        if schema:
            types = {name: type_.describe() for name, type_ in ds.schema.items()}
            print_json(types) if as_json else print_table(list(types.items()))
            return
        summary = ds.summary(full=stats)
        commits = ds.log(COMMITS_SHOWN)
        bases = [f"{base.version} of {base.url}" for base in ds.bases]
        if as_json:
            print_json(
                {
                    "url": url,
                    "version": summary.version,
                    "rows": summary.num_rows,
                    "stored_nbytes": summary.stored_nbytes,
                    "bases": bases,
                    "branches": summary.branches,
                    "tags": summary.tags,
                    "tensors": [
                        {
                            "name": tensor.name,
                            "type": tensor.type,
                            "shape": tensor.shape,
                            "stored_nbytes": tensor.stored_nbytes,
                            "codec": tensor.codec,
                            "nulls": tensor.nulls,
                            "values": tensor.values,
                        }
                        for tensor in summary.tensors
                    ],
                    "log": [commit_document(commit) for commit in commits],
                }
            )
            return
    facts = (
        url,
        summary.version,
        f"{summary.num_rows:,} rows",
        human_nbytes(summary.stored_nbytes),
        f"{len(summary.tensors)} tensors",
        FORMAT,
    )
    print_text("   ".join(facts))
    for base in bases:
        print_text(f"fork of {base}")
    print_table(
        [
            (
                tensor.name,
                tensor.type,
                tensor.shape,
                human_nbytes(tensor.stored_nbytes),
                tensor.values,
            )
            for tensor in summary.tensors
        ],
        right=(3,),
    )
    print_table([commit_line(commit) for commit in commits])
