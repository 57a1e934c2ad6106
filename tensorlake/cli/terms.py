"""Options that every command shares: access to stores, and verbosity.

A command with a parameter ``terms: Terms`` accepts the options of ``_read_terms`` beside its own:

    --storage-option KEY=VALUE, --endpoint-url, --profile, --token     storage options
    -v, -q, --no-progress                                               output options

``with_terms`` adds them to the command's signature, which typer reads, and passes the command one
value in their place: a shared option that is added here is available in every command.
"""

import inspect
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.options import EndpointUrl, StorageOptions, parse_storage_options

__all__ = ["Terms", "with_terms"]

STORE_PANEL = "Storage options"
OUTPUT_PANEL = "Output options"
TOKEN_VARIABLE = "TENSORLAKE_TOKEN"  # noqa: S105 - the name of a variable

Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Profile of the shared AWS credentials files, for s3://.",
        rich_help_panel=STORE_PANEL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Access token for http(s)://. Prefer TENSORLAKE_TOKEN: process lists do not show it.",
        rich_help_panel=STORE_PANEL,
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        metavar="",
        show_default=False,
        help="Log progress to stderr, and tracebacks of failures; -vv logs more.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only results and errors.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
NoProgress = Annotated[
    bool,
    typer.Option(
        "--no-progress",
        help="Do not show progress (never shown without a terminal).",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Terms:
    """Values of the shared options.

    Attributes:
        storage_options: Options of the store, by fsspec's key names.
        quiet: Print only results and errors.
        progress: The SDK's ``progress=``; None shows progress on a terminal only.
    """

    storage_options: dict[str, str] = field(default_factory=dict[str, str])
    quiet: bool = False
    progress: bool | None = None

    def options_for(self, *urls: str) -> dict[str, str] | None:
        """Return the ``storage_options=`` for a command's URLs, one of which has to use them."""
        options = self.storage_options
        given = " and ".join(map(repr, urls))
        if "profile" in options and not any(url.startswith("s3://") for url in urls):
            wrong_usage(f"--profile applies to s3:// only, got {given}; leave it out")
        if "endpoint_url" in options and not any("://" in url for url in urls):
            wrong_usage(
                "--endpoint-url applies to object stores, such as s3://, and"
                f" {given} {'is a folder' if len(urls) == 1 else 'are folders'}; leave it out"
            )
        return options or None

    def open(self, url: str, *, at: str | None = None, read_only: bool = True) -> tl.Dataset:
        """Open a dataset, read-only by default."""
        return tl.open(url, at, read_only=read_only, storage_options=self.options_for(url))


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command that has a parameter ``terms``."""
    signature = inspect.signature(command)
    if "terms" not in signature.parameters:
        return command
    shared = inspect.signature(_read_terms).parameters
    own = [one for name, one in signature.parameters.items() if name != "terms"]

    @wraps(command)
    def called(**options: Any) -> None:  # what typer parsed, by name
        terms = _read_terms(**{name: options.pop(name) for name in shared})
        command(**options, terms=terms)

    parameters = [*own, *shared.values()]
    called.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue] - what inspect reads
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _read_terms(
    *,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
    profile: Profile = None,
    token: Token = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    no_progress: NoProgress = False,
) -> Terms:
    if verbose and quiet:
        wrong_usage("--verbose and --quiet exclude each other")
    if verbose:
        _log_to_stderr(logging.DEBUG if verbose > 1 else logging.INFO)
    options = parse_storage_options(storage_option, endpoint_url)
    if profile is not None:
        options["profile"] = profile
    if token is not None:
        os.environ[TOKEN_VARIABLE] = token  # for this process: every call of the SDK reads it
    return Terms(options, quiet, progress=False if quiet or no_progress else None)


def _log_to_stderr(level: int) -> None:
    logger = logging.getLogger("tensorlake")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level)
