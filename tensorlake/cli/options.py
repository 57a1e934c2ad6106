"""Options that mean the same in every command, and the parsers of their values.

Every flag is an argument of the SDK, written with dashes. Options that every command accepts are in
``terms``. A value that cannot be parsed is a usage error whose message shows the expected form.
"""

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tensorlake.cli.exits import FAILED, wrong_usage

__all__ = [
    "AsJson",
    "AsJsonLines",
    "At",
    "Columns",
    "DryRun",
    "EndpointUrl",
    "StorageOptions",
    "Url",
    "Yes",
    "check_one_name",
    "confirm",
    "delete_option",
    "name_argument",
    "parse_columns",
    "parse_date",
    "parse_storage_options",
]

Url = Annotated[
    str, typer.Argument(metavar="URL", help="Dataset: a path, or s3:// gs:// az:// http(s)://.")
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="Branch, tag, or commit such as main@12."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsJsonLines = Annotated[
    bool, typer.Option("--jsonl", help="Print JSON Lines: one document per row.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", "-c", metavar="NAMES", help="Columns to include, separated by commas."
    ),
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Option of the store: key, secret, token, region, anon, … Repeatable.",
        rich_help_panel="Storage options",
    ),
]
EndpointUrl = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        metavar="URL",
        help="S3 endpoint.",
        rich_help_panel="Storage options",
    ),
]


def parse_storage_options(pairs: list[str] | None, endpoint_url: str | None) -> dict[str, str]:
    """Parse ``KEY=VALUE`` pairs; a pair without ``=`` is a usage error."""
    options: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            wrong_usage(f"--storage-option expects KEY=VALUE, got {pair!r}")
        options[key] = value
    if endpoint_url is not None:
        options["endpoint_url"] = endpoint_url
    return options


def name_argument(help_: str) -> Any:  # Any: typer does not export the class
    """Return the NAME argument of commands that list named objects, or create one."""
    return typer.Argument(metavar="[NAME]", help=help_)


def delete_option(help_: str) -> Any:  # Any: as above
    """Return the --delete option of these commands."""
    return typer.Option("--delete", "-d", metavar="NAME", help=help_)


def check_one_name(name: str | None, delete: str | None, *, verb: str) -> None:
    """Reject a name to create together with a name to delete."""
    if name is not None and delete is not None:
        wrong_usage(f"NAME (to {verb}) and --delete NAME exclude each other; pass one of them")


def parse_columns(text: str | None) -> list[str] | None:
    """Parse ``a,b,c``; None (all columns) stays None."""
    if text is None:
        return None
    return [name for part in text.split(",") if (name := part.strip())]


def parse_date(text: str, *, flag: str) -> datetime:
    """Parse a date or a timestamp; without a time zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wrong_usage(f"{flag} expects a date like 2026-01-31, got {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]


def confirm(question: str, *, yes: bool, has_dry_run: bool = False) -> None:
    """Return if the answer is yes; otherwise end the command without changing anything."""
    if yes:
        return
    if not sys.stdin.isatty():
        preview = ", or --dry-run to preview" if has_dry_run else ""
        wrong_usage(f"{question} There is no terminal to ask on: pass --yes{preview}")
    if not typer.confirm(question, err=True):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(FAILED)
