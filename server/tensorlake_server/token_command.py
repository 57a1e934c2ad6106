"""``python -m tensorlake_server.token_command``: what ``tensorlake token`` starts.

A token is printed once, when it is made, alone on stdout: a script can take it from there.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake_server.auth.tokens import create_token, parse_lifetime, read_tokens, revoke_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake_server.auth.tokens import StoredToken

__all__ = ["main"]

USAGE_ERROR = 2
DEFAULT_LIFETIME = "90d"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one command; return the exit code."""
    given = _parser().parse_args(arguments)
    now = datetime.now(UTC).replace(microsecond=0)
    try:
        match given.command:
            case "create":
                _create(given, now)
            case "ls":
                _list(given, now)
            case _:
                revoked = revoke_token(given.auth, given.id, now=now)
                sys.stderr.write(f"revoked {revoked.id} ({revoked.name})\n")
    except TensorlakeError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE_ERROR if isinstance(error, InvalidInputError) else 1
    return 0


def _create(given: argparse.Namespace, now: datetime) -> None:
    lifetime = parse_lifetime(given.expires)
    expires = None if lifetime is None else now + lifetime
    secret, stored = create_token(
        given.auth, name=given.name, scopes=given.scope, expires=expires, now=now
    )
    until = "never expires" if expires is None else f"expires {expires:%Y-%m-%d %H:%M} UTC"
    sys.stdout.write(f"{secret}\n")
    sys.stderr.write(
        f"token {stored.id} ({stored.name}): {', '.join(stored.scopes)}; {until}\n"
        "it is shown this once: the file keeps a hash of it\n"
    )


def _list(given: argparse.Namespace, now: datetime) -> None:
    tokens = read_tokens(given.auth)
    if given.json:
        shown = [{**msgspec.to_builtins(token), "state": _state(token, now)} for token in tokens]
        for one in shown:
            del one["digest"]
        sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")
        return
    for token in tokens:
        scopes = ",".join(token.scopes)
        sys.stdout.write(f"{token.id}  {token.name:<16}  {scopes:<32}  {_state(token, now)}\n")


def _state(token: StoredToken, now: datetime) -> str:
    why = token.why_not(now)
    if why is not None:
        return why
    return "valid" if token.expires is None else f"valid until {token.expires:%Y-%m-%d %H:%M} UTC"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tensorlake token", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a token, and print it")
    create.add_argument("--name", required=True, help="whose it is, for the log")
    create.add_argument("--scope", action="append", default=[], help="repeatable")
    create.add_argument("--expires", default=DEFAULT_LIFETIME, help="90d, 12h, 30min or never")
    listing = commands.add_parser("ls", help="list the tokens")
    listing.add_argument("--json", action="store_true")
    revoke = commands.add_parser("revoke", help="make a token open nothing")
    revoke.add_argument("id")
    for command in (create, listing, revoke):
        command.add_argument("--auth", type=Path, required=True, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
