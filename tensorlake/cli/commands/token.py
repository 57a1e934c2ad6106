"""``tensorlake token create|ls|revoke``: who a server lets in.

The token file is the server's, and so is the program that changes it,
``python -m tensorlake_server.token_command``: these commands become it.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorlake.cli.commands.serve import check_server_is_installed
from tensorlake.cli.exits import exits_cleanly
from tensorlake.cli.options import AsJson

__all__ = ["token"]

TOKENS = Path("tokens.toml")
Auth = Annotated[
    Path,
    typer.Option(
        "--auth", metavar="FILE", envvar="TENSORLAKE_SERVE_AUTH", help="The server's token file."
    ),
]

token = typer.Typer(
    name="token",
    help="Who a server lets in: tokens with scopes, kept as hashes in a file.",
    no_args_is_help=True,
)


@token.command()
@exits_cleanly
def create(
    *,
    auth: Auth = TOKENS,
    name: Annotated[str, typer.Option(help="Whose it is, for the audit log.")],
    scope: Annotated[
        list[str], typer.Option(help="read:pets, write:pets@fix-*, admin:* … Repeatable.")
    ],
    expires: Annotated[str, typer.Option(help="90d, 12h, 30min or never.")] = "90d",
) -> None:
    """Make a token, and print it: it is shown this once."""
    scopes = [part for one in scope for part in ("--scope", one)]
    _become("create", "--name", name, *scopes, "--expires", expires, auth=auth)


@token.command("ls")
@exits_cleanly
def list_tokens(*, auth: Auth = TOKENS, as_json: AsJson = False) -> None:
    """List the tokens of a file, and whether each still opens anything."""
    _become("ls", *(["--json"] if as_json else []), auth=auth)


@token.command()
@exits_cleanly
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `ls` shows it.")],
    *,
    auth: Auth = TOKENS,
) -> None:
    """Make a token open nothing from now on."""
    _become("revoke", token_id, auth=auth)


def _become(*arguments: str, auth: Path) -> None:
    check_server_is_installed("tensorlake token")
    program = [sys.executable, "-m", "tensorlake_server.token_command"]
    sys.stdout.flush()
    os.execv(sys.executable, [*program, *arguments, "--auth", str(auth)])  # noqa: S606 the same interpreter, no shell in between
