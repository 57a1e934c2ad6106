"""``tensorlake tag URL [NAME]``: list, create or delete tags."""

from datetime import datetime
from typing import Annotated

import typer

from tensorlake.cli.options import (
    AsJson,
    At,
    Url,
    Yes,
    check_one_name,
    confirm,
    delete_option,
    name_argument,
    parse_date,
)
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms
from tensorlake.versions import Tag

__all__ = ["tag"]


def tag(
    url: Url,
    name: Annotated[str | None, name_argument("Tag to create; omit to list tags.")] = None,
    *,
    at: At = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Date after which gc may remove the tag."),
    ] = None,
    delete: Annotated[str | None, delete_option("Delete this tag.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List tags, tag a version (default: head of main), or delete a tag.

    Example: tensorlake tag pets.tl v1 --at main@1
    """
    check_one_name(name, delete, verb="create")
    until: datetime | None = None if expires is None else parse_date(expires, flag="--expires")
    with terms.open(url, read_only=False) as ds:
        if delete is not None:
            confirm(f"Delete tag {delete!r} of {url}?", yes=yes)
            ds.delete_tag(delete)
            if as_json:
                print_json({"deleted": delete})
            return
        tags = list(ds.tags.values()) if name is None else [ds.tag(name, at, expires=until)]
    if as_json:
        print_json([_document(one) for one in tags])
    else:
        print_table([(one.name, one.version, _until(one)) for one in tags])


def _until(named: Tag) -> str:
    return "" if named.expires is None else f"until {named.expires:%Y-%m-%d}"


def _document(named: Tag) -> dict[str, object]:
    return {"name": named.name, "version": named.version, "expires": named.expires}
