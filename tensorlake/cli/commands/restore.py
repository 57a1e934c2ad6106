"""``tensorlake restore URL VERSION``: a new commit with the content of an older one."""

from typing import Annotated

import typer

from tensorlake.cli.commands.log import commit_document, commit_line
from tensorlake.cli.options import AsJson, Url
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms

__all__ = ["restore"]


def restore(
    url: Url,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="What comes back: main@3.")],
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="BRANCH", help="The branch to commit to; none: main."),
    ] = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Publish a commit whose content is that of an older version; nothing is lost."""
    with terms.open(url, at=at, read_only=False) as ds:
        commit = ds.restore(version)
    if as_json:
        print_json(commit_document(commit))
    else:
        print_table([commit_line(commit)])
