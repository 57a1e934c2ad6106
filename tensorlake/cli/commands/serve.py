"""``tensorlake serve URL``: serve the HTTP API and the viewer for a lake or a dataset.

The server is a separate program, ``python -m tensorlake_server``: this command checks that it is
installed and then replaces itself with it (exec), so that signals and exit code are the server's.
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
        str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 = any free port; default 8300.", min=0)
    ] = None,
    public_read: Annotated[
        bool, typer.Option("--public-read", help="Allow reads without a token.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that serve together; default 1.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML configuration file; flags and environment variables take precedence.",
        ),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print the effective configuration (secrets redacted) and exit.",
        ),
    ] = False,
    auth: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Token file for access control; see `token create`."),
    ] = None,
    oidc: Annotated[
        str | None,
        typer.Option(metavar="ISSUER", help="OpenID provider whose tokens are accepted."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Allow writes, as far as token scopes permit.")
    ] = False,
    presign: Annotated[
        bool, typer.Option("--presign", help="Redirect pack reads to presigned URLs.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Read the files that links name.")
    ] = False,
    is_opened: Annotated[
        bool, typer.Option("--open", help="Open the viewer in a browser.")
    ] = False,
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an audit log of requests.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every request.")] = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Serve a lake or a dataset over HTTP, with the viewer, until Ctrl-C.

    All other server options are flags too, such as --max-query-s 10: see docs/reference/rest.md.

    Example: tensorlake serve pets.tl --port 8300
    """
    check_server_is_installed("tensorlake serve")
    command = [sys.executable, "-m", "tensorlake_server", url]
    if public_read:
        command.append("--public-read")
    if write:
        command.append("--write")
    if presign:
        command.append("--presign")
    if follow_links:
        command.append("--follow-links")
    if is_opened:
        command.append("--open")
    if print_config:
        command.append("--print-config")
    valued = {
        "--host": host,
        "--port": port,
        "--workers": workers,
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
    command += context.args  # the server's own parser accepts or rejects them
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 the same interpreter, no shell in between
