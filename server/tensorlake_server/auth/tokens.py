"""The token file: who may come in, without what they come in with.

    {"version": 1, "tokens": [{"id": "3f2a90c1", "name": "ci", "digest": "<sha256 of the token>",
      "scopes": ["write:pets@fix-*"], "created": "…Z", "expires": "…Z"|null, "revoked": "…Z"|null}]}

A file whose name ends in ``.toml`` has the same as TOML, one ``[[tokens]]`` table a token.

A token is ``tl_<id>_<256 random bits>``: too many to guess, so one plain hash of it is enough. It
is shown once, when it is made. The file is replaced whole, through ``<file>.new``, which one
program at a time can create; servers look at the file on each request, so a revocation holds at
once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import threading
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from tensorlake.errors import AccessError, InvalidInputError, NotFoundError
from tensorlake.quantities import duration_of
from tensorlake_server.auth.scopes import Scope

__all__ = ["StoredToken", "Tokens", "create_token", "parse_lifetime", "read_tokens", "revoke_token"]

ID_NBYTES = 4
SECRET_NBYTES = 32
FILE_MODE = 0o600
FOREIGN_MODE = stat.S_IRWXO | stat.S_IWGRP
"""Permissions refused to others; a group may read, as it does a secret mounted in a container."""
TOML = ".toml"
LONGEST_LIFETIME = timedelta(days=99_999)
TOKEN = re.compile(r"tl_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")


class StoredToken(msgspec.Struct, frozen=True):
    """The record of a token; `digest` does not reveal it."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def parsed_scopes(self) -> tuple[Scope, ...]:
        """Return its scopes as values."""
        return tuple(map(Scope.parse, self.scopes))

    def why_not(self, now: datetime) -> str | None:
        """Return why it opens nothing (any more); None when it does."""
        if self.revoked is not None:
            return f"was revoked on {self.revoked:%Y-%m-%d %H:%M} UTC"
        if self.expires is not None and self.expires <= now:
            return f"expired on {self.expires:%Y-%m-%d %H:%M} UTC"
        return None


class _TokenFile(msgspec.Struct, frozen=True):
    version: int = 1
    tokens: tuple[StoredToken, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    stamp: tuple[int, int, int, int]
    tokens: dict[str, StoredToken]


class Tokens:
    """The tokens of a file, read again whenever it changed. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: _Seen | None = None

    def by_id(self, token_id: str) -> StoredToken | None:
        """Return what is known of a token, whether it still opens anything or not.

        Raises:
            AccessError: The file cannot be read.
            InvalidInputError: It is not a token file.
        """
        return self._current().get(token_id)

    def by_secret(self, secret: str) -> StoredToken | None:
        """Find the token that was shown; None when it is none of the file's.

        Raises:
            AccessError: The file cannot be read.
            InvalidInputError: It is not a token file.
        """
        found = TOKEN.fullmatch(secret)
        known = self.by_id(found[1]) if found else None
        if known is None or not hmac.compare_digest(known.digest, _digest(secret)):
            return None
        return known

    def _current(self) -> dict[str, StoredToken]:
        with self._lock:
            stamp = _stamp(self._path)
            if self._seen is None or self._seen.stamp != stamp:
                tokens = {token.id: token for token in read_tokens(self._path)}
                self._seen = _Seen(stamp, tokens)
            return self._seen.tokens


def read_tokens(path: Path) -> tuple[StoredToken, ...]:
    """Read the tokens of a file.

    Raises:
        AccessError: It cannot be read, or other users may read or change it.
        InvalidInputError: It is not a token file.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = file.read()
    except OSError as error:
        raise _unreadable(path, error) from error
    if os.name == "posix" and mode & FOREIGN_MODE:
        raise AccessError(
            f"other users may read or change the token file {str(path)!r} (mode {mode:04o}):"
            " it decides who gets access"
            f"\nchmod 600 {path}",
            path=str(path),
        )
    try:
        read = _decoded(path, data)
    except ValueError as error:
        raise InvalidInputError(
            f"{str(path)!r} is not a token file: {error}"
            "\nmake one: tensorlake token create --name NAME --scope read --auth FILE",
            path=str(path),
        ) from error
    for token in read.tokens:
        token.parsed_scopes()
    return read.tokens


def create_token(
    path: Path, *, name: str, scopes: Sequence[str], expires: datetime | None, now: datetime
) -> tuple[str, StoredToken]:
    """Add a token to a file, created if absent; return the token and its record.

    Raises:
        InvalidInputError: A scope is not valid, or the file is not a token file.
    """
    token_id = secrets.token_hex(ID_NBYTES)
    secret = f"tl_{token_id}_{secrets.token_urlsafe(SECRET_NBYTES)}"
    stored = StoredToken(
        id=token_id,
        name=name,
        digest=_digest(secret),
        scopes=tuple(str(Scope.parse(scope)) for scope in scopes),
        created=now,
        expires=expires,
    )
    if not stored.scopes:
        raise InvalidInputError("a token needs a scope\ngive one: --scope read:pets")
    with _replacing(path) as tokens:
        tokens.append(stored)
    return secret, stored


def revoke_token(path: Path, token_id: str, *, now: datetime) -> StoredToken:
    """Make a token open nothing from now on; the file keeps it, so that the log can be understood.

    Raises:
        NotFoundError: The file has no such token.
    """
    with _replacing(path) as tokens:
        for position, token in enumerate(tokens):
            if token.id == token_id:
                tokens[position] = msgspec.structs.replace(token, revoked=token.revoked or now)
                return tokens[position]
        raise NotFoundError(
            f"{str(path)!r} has no token {token_id!r}"
            f"\ntensorlake token ls --auth {path} lists them",
            token=token_id,
        )


def parse_lifetime(text: str) -> timedelta | None:
    """Read ``90d``, ``12h``, ``30min``, or ``never``.

    >>> parse_lifetime("90d"), parse_lifetime("never")
    (datetime.timedelta(days=90), None)
    """
    if text == "never":
        return None
    try:
        lifetime = duration_of(text, what="--expires")
    except InvalidInputError as error:
        raise _no_lifetime(text) from error
    if not lifetime or lifetime > LONGEST_LIFETIME:
        raise _no_lifetime(text)
    return lifetime


def _no_lifetime(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"--expires {text!r} is not a lifetime of more than 0 and at most"
        f" {LONGEST_LIFETIME.days:,} days\ngive one like 90d, 12h or 30min, or never",
        argument="expires",
        actual=text,
    )


@contextmanager
def _replacing(path: Path) -> Generator[list[StoredToken]]:
    """Change the tokens of a file: all of what the block did, or nothing."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError as error:
        raise AccessError(
            f"another program is changing {str(path)!r}\nif none is: rm {fresh}", path=str(path)
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        with os.fdopen(opened, "wb") as out:
            tokens = list(read_tokens(path)) if path.exists() else []
            yield tokens
            out.write(_encoded(path, _TokenFile(tokens=tuple(tokens))))
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _decoded(path: Path, data: bytes) -> _TokenFile:
    if path.suffix != TOML or data.lstrip().startswith(b"{"):  # 0.1.0 wrote JSON under any name
        return msgspec.json.decode(data, type=_TokenFile)
    return msgspec.convert(tomllib.loads(data.decode()), type=_TokenFile)


def _encoded(path: Path, file: _TokenFile) -> bytes:
    if path.suffix != TOML:
        return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"
    lines = [f"version = {file.version}"]
    for token in file.tokens:
        lines += ["", "[[tokens]]"]
        for name, value in msgspec.structs.asdict(token).items():
            if isinstance(value, datetime):
                lines.append(f"{name} = {value.isoformat()}")
            elif value is not None:  # TOML's strings and arrays of strings are JSON's, but for DEL
                text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
                lines.append(f"{name} = {text}")
    return "\n".join(lines).encode() + b"\n"


def _stamp(path: Path) -> tuple[int, int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _unreadable(path: Path, error: OSError) -> AccessError:
    return AccessError(
        f"cannot read the token file {str(path)!r}: {error.strerror}"
        "\nmake one: tensorlake token create --name NAME --scope read --auth FILE",
        path=str(path),
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
