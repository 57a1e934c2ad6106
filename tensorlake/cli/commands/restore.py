"""``tensorlake restore URL VERSION``: commit the content of an older version."""

from typing import Annotated

import typer

from tensorlake.cli.commands.log import commit_document, commit_line
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms

__all__ = ["restore"]


def restore(
    url: Url,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Version to restore, such as main@3.")
    ],
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="BRANCH", help="Branch to commit to; default main."),
    ] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Create a commit with the content of an older version; history is kept.

    Example: tensorlake restore pets.tl main@1
    """
    with terms.open(url, at=at, read_only=False) as ds:
        newest = ds.log(1)[0].version
        commit = ds.restore(version)
    if as_json:
        print_json(commit_document(commit))
    elif commit.version == newest:
        print_text(f"nothing to restore: {version} is {newest}, the newest version")
    else:
        print_table([commit_line(commit)])
