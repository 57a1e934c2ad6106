"""``tensorlake serve URL``: the HTTP API and the viewer over a lake or a dataset.

The server is a program of its own, ``python -m tensorlake_server``: this command checks that it can
start and then becomes it, so that signals and the exit code are the server's.
"""

import importlib.util
import os
import sys
from typing import Annotated

import typer

from tensorlake.cli.options import EndpointUrl, StorageOptions, Url, parse_storage_options
from tensorlake.errors import missing_extra

__all__ = ["serve"]

NEEDED = ("fastapi", "uvicorn", "pyarrow")


def serve(
    url: Url,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0)] = 8300,
    public_read: Annotated[
        bool, typer.Option("--public-read", help="Let everybody who reaches the port read.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each request.")] = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Serve a lake, or one dataset, with the viewer, until Ctrl-C."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise missing_extra("tensorlake serve", "server")
    command = [sys.executable, "-m", "tensorlake_server", url, "--host", host, "--port", str(port)]
    if public_read:
        command.append("--public-read")
    if verbose:
        command.append("--verbose")
    for key, value in parse_storage_options(storage_option, endpoint_url).items():
        command += ["--storage-option", f"{key}={value}"]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 the same interpreter, no shell in between
