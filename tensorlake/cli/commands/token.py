"""``tensorlake token create|ls|revoke``: manage access tokens of a server.

The token file belongs to the server, and so does the program that changes it,
``python -m tensorlake_server.token_command``: these commands replace themselves with it (exec).
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
        "--auth", metavar="FILE", envvar="TENSORLAKE_SERVE_AUTH", help="Token file of the server."
    ),
]

token = typer.Typer(
    name="token",
    help="Manage access tokens.\n\nExample: tensorlake token ls --auth tokens.toml",
    no_args_is_help=True,
)


@token.command()
@exits_cleanly
def create(
    *,
    auth: Auth = TOKENS,
    name: Annotated[str, typer.Option(help="Owner, as shown in the audit log.")],
    scope: Annotated[
        list[str],
        typer.Option(
            help="Scope: read:pets, read:pets#view, write:pets@fix-*, or a role: viewer:pets, …"
            " Repeatable."
        ),
    ],
    expires: Annotated[str, typer.Option(help="Lifetime: 90d, 12h, 30min or never.")] = "90d",
) -> None:
    """Create a token and print it; it is shown only once.

    Example: tensorlake token create --name ana --scope read:pets
    """
    scopes = [part for one in scope for part in ("--scope", one)]
    _become("create", "--name", name, *scopes, f"--expires={expires}", auth=auth)


@token.command("ls")
@exits_cleanly
def list_tokens(*, auth: Auth = TOKENS, as_json: AsJson = False) -> None:
    """List the tokens of a file, and whether each is valid.

    Example: tensorlake token ls --auth tokens.toml
    """
    _become("ls", *(["--json"] if as_json else []), auth=auth)


@token.command()
@exits_cleanly
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Token id, as shown by `ls`.")],
    *,
    auth: Auth = TOKENS,
) -> None:
    """Revoke a token.

    Example: tensorlake token revoke 3f9c2a71 --auth tokens.toml
    """
    _become("revoke", token_id, auth=auth)


def _become(*arguments: str, auth: Path) -> None:
    check_server_is_installed("tensorlake token")
    program = [sys.executable, "-m", "tensorlake_server.token_command"]
    sys.stdout.flush()
    os.execv(sys.executable, [*program, *arguments, "--auth", str(auth)])  # noqa: S606 the same interpreter, no shell in between
