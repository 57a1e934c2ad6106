"""Options that mean the same in every command that has them, and reading what they say.

A flag is an argument of the SDK with dashes; there is no flag without one. Those that every command
has are gathered in ``terms``. What cannot be read is wrong usage, and says what would be right.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tensorlake.cli.exits import wrong_usage

__all__ = [
    "AsJson",
    "AsJsonLines",
    "At",
    "Columns",
    "EndpointUrl",
    "StorageOptions",
    "Url",
    "Yes",
    "check_one_name",
    "delete_option",
    "name_argument",
    "parse_columns",
    "parse_date",
    "parse_storage_options",
]

Url = Annotated[str, typer.Argument(metavar="URL", help="A path, or s3:// gs:// az:// memory://.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="A branch, a tag, or a commit like main@12."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsJsonLines = Annotated[
    bool, typer.Option("--jsonl", help="Print one JSON document a line, one for each row.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", "-c", metavar="NAMES", help="Tensors to show, with commas between."),
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="key, secret, token, region, anon … of the store. Repeatable.",
        rich_help_panel="Where it is",
    ),
]
EndpointUrl = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        metavar="URL",
        help="The S3 endpoint to ask.",
        rich_help_panel="Where it is",
    ),
]


def parse_storage_options(pairs: list[str] | None, endpoint_url: str | None) -> dict[str, str]:
    """Read ``KEY=VALUE`` pairs; wrong usage when one has no ``=``."""
    options: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            wrong_usage(f"--storage-option expects KEY=VALUE, got {pair!r}")
        options[key] = value
    if endpoint_url is not None:
        options["endpoint_url"] = endpoint_url
    return options


def name_argument(help_: str) -> Any:  # Any: typer keeps its own class to itself
    """Return the argument of commands that list what has names, or make one of them."""
    return typer.Argument(metavar="[NAME]", help=help_)


def delete_option(help_: str) -> Any:  # Any: as above
    """Return the option of these commands that ends what has a name."""
    return typer.Option("--delete", "-d", metavar="NAME", help=help_)


def check_one_name(name: str | None, delete: str | None, *, verb: str) -> None:
    """Refuse a name to make together with one to delete."""
    if name is not None and delete is not None:
        wrong_usage(f"give a NAME to {verb}, or --delete NAME, not both")


def parse_columns(text: str | None) -> list[str] | None:
    """Read ``a,b,c``; None stays None: every tensor."""
    if text is None:
        return None
    return [name for part in text.split(",") if (name := part.strip())]


def parse_date(text: str, *, flag: str) -> datetime:
    """Read a day or a moment; without a time zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wrong_usage(f"{flag} expects a date like 2026-01-31, got {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
