"""``tensorlake serve URL``: the HTTP API and the viewer over a lake or a dataset.

The server is a program of its own, ``python -m tensorlake_server``: this command checks that it can
start and then becomes it, so that signals and the exit code are the server's.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorlake.cli.options import EndpointUrl, StorageOptions, Url, parse_storage_options
from tensorlake.dataset import check_server_is_installed

__all__ = ["check_server_is_installed", "serve"]


def serve(
    context: typer.Context,
    url: Url,
    *,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; 127.0.0.1 if nothing says it.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 0 takes a free one, 8300 is usual.", min=0)
    ] = None,
    public_read: Annotated[
        bool, typer.Option("--public-read", help="Let everybody who reaches the port read.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML: what no flag or variable says.")
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show what holds, secrets hidden, and stop.")
    ] = False,
    auth: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Let in who has a token of this file: `token create`."),
    ] = None,
    oidc: Annotated[
        str | None, typer.Option(metavar="ISSUER", help="Not supported yet.", hidden=True)
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let those write whose scopes allow it.")
    ] = False,
    presign: Annotated[
        bool, typer.Option("--presign", help="Let packs be read by signed links, past the server.")
    ] = False,
    is_opened: Annotated[
        bool, typer.Option("--open", help="Open the viewer in a browser.")
    ] = False,
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Note who did what, when.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each request.")] = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Serve a lake, or one dataset, with the viewer, until Ctrl-C.

    Every other option of the server is a flag too, as --max-query-s 10: docs/reference/rest.md.
    """
    check_server_is_installed("tensorlake serve")
    command = [sys.executable, "-m", "tensorlake_server", url]
    if public_read:
        command.append("--public-read")
    if write:
        command.append("--write")
    if presign:
        command.append("--presign")
    if is_opened:
        command.append("--open")
    if print_config:
        command.append("--print-config")
    valued = {
        "--host": host,
        "--port": port,
        "--auth": auth,
        "--oidc": oidc,
        "--audit-log": audit_log,
        "--config": config,
    }
    for flag, value in valued.items():
        command += [] if value is None else [flag, str(value)]
    if verbose:
        command.append("--verbose")
    for key, value in parse_storage_options(storage_option, endpoint_url).items():
        command += ["--storage-option", f"{key}={value}"]
    command += context.args  # the server's own parser knows them, or refuses them
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 the same interpreter, no shell in between
