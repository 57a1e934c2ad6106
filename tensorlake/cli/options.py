"""Options that mean the same in every command, and opening what they name.

A flag is an argument of the SDK with dashes; there is no flag without one. ``storage_options`` are
given as ``--storage-option KEY=VALUE``, the endpoint also as ``--endpoint-url``.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage

__all__ = [
    "AsJson",
    "At",
    "Columns",
    "EndpointUrl",
    "Quiet",
    "StorageOptions",
    "Url",
    "Yes",
    "open_dataset",
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Columns = Annotated[
    str | None,
    typer.Option("--columns", "-c", metavar="NAMES", help="Tensors to show, with commas between."),
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="For the store: key, secret, endpoint_url, anon, region. Repeatable.",
    ),
]
EndpointUrl = Annotated[
    str | None, typer.Option("--endpoint-url", metavar="URL", help="The S3 endpoint to ask.")
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


def parse_columns(text: str | None) -> list[str] | None:
    """Read ``a,b,c``; None stays None: every tensor."""
    if text is None:
        return None
    return [name for part in text.split(",") if (name := part.strip())]


def open_dataset(
    url: str,
    *,
    at: str | None,
    storage_option: list[str] | None,
    endpoint_url: str | None,
    read_only: bool = True,
) -> tl.Dataset:
    """Open a dataset, for reading unless told otherwise."""
    options = parse_storage_options(storage_option, endpoint_url)
    return tl.open(url, at, read_only=read_only, storage_options=options or None)


def parse_date(text: str, *, flag: str) -> datetime:
    """Read a day or a moment; without a time zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wrong_usage(f"{flag} expects a date like 2026-01-31, got {text!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
