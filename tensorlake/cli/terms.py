"""On which terms a command runs: how stores are reached, how much is said. The same everywhere.

A command that asks for ``terms: Terms`` has these options of ``_read_terms`` beside its own:

    --storage-option KEY=VALUE, --endpoint-url, --profile, --token     how its stores are reached
    -v, -q, --no-progress                                               how much it says

``with_terms`` writes them into the command's signature, which is what typer reads, and hands the
command one value in their place: a new shared option is added here, and every command has it.
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

STORE_PANEL = "Where it is"
TALK_PANEL = "What is said"
TOKEN_VARIABLE = "TENSORLAKE_TOKEN"  # noqa: S105 - the name of a variable

Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Credentials of the shared AWS files, for s3://.",
        rich_help_panel=STORE_PANEL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="For http(s)://; better in TENSORLAKE_TOKEN, which no process list shows.",
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
        help="Say on stderr what goes on, and where a failure came from; -vv: more.",
        rich_help_panel=TALK_PANEL,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Say only what was asked for, and errors.",
        rich_help_panel=TALK_PANEL,
    ),
]
NoProgress = Annotated[
    bool,
    typer.Option(
        "--no-progress",
        help="No line of progress; without a terminal there is none.",
        rich_help_panel=TALK_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Terms:
    """How stores are reached, and how much is said.

    Attributes:
        storage_options: What was given, by fsspec's key names.
        quiet: Nothing but errors, and answers to questions.
        progress: As the SDK takes it: None leaves it to the terminal.
    """

    storage_options: dict[str, str] = field(default_factory=dict[str, str])
    quiet: bool = False
    progress: bool | None = None

    def options_for(self, url: str) -> dict[str, str] | None:
        """Give the ``storage_options=`` of one URL."""
        options = self.storage_options
        if "profile" in options and not url.startswith("s3://"):
            wrong_usage(f"--profile names credentials for s3://, and {url!r} is none; leave it out")
        return options or None

    def open(self, url: str, *, at: str | None = None, read_only: bool = True) -> tl.Dataset:
        """Open a dataset, for reading unless told otherwise."""
        return tl.open(url, at, read_only=read_only, storage_options=self.options_for(url))


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared options, where it asks for ``terms``."""
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
        os.environ[TOKEN_VARIABLE] = token  # of this process: every call of the SDK looks there
    return Terms(options, quiet, progress=False if quiet or no_progress else None)


def _log_to_stderr(level: int) -> None:
    logger = logging.getLogger("tensorlake")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level)
