"""``tensorlake restore URL VERSION``: a new commit with the content of an older one."""

from typing import Annotated

import typer

from tensorlake.cli.log import commit_document, commit_line
from tensorlake.cli.options import AsJson, EndpointUrl, StorageOptions, Url, open_dataset
from tensorlake.cli.output import print_json, print_table

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
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Publish a commit whose content is that of an older version; nothing is lost."""
    with open_dataset(
        url, at=at, storage_option=storage_option, endpoint_url=endpoint_url, read_only=False
    ) as ds:
        commit = ds.restore(version)
    if as_json:
        print_json(commit_document(commit))
    else:
        print_table([commit_line(commit)])
