"""Authentication: a request's credentials become a `Principal`, or a refusal.

    bearer token    of the token file, or the one in the link that the server printed
    cookie          what ``POST /v1/session`` exchanges a token for
    none            everybody, where the server is ``public_read``

The cookie is HttpOnly and SameSite=Strict. It holds an id and a MAC under the signing key, so that
neither the cookie gives the token away nor the token file gives cookies; its name holds the port,
because cookies do not tell ports apart. A credential that is shown must be right: a wrong one is
refused even where none is needed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from tensorlake.errors import TensorlakeError
from tensorlake_server.auth.principal import Principal
from tensorlake_server.auth.scopes import Action, Scope
from tensorlake_server.auth.tokens import StoredToken, Tokens
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from tensorlake_server.settings.settings import Settings

__all__ = ["Access", "cookie_name"]

LINK = Principal("link", (Scope(Action.ADMIN),))
ANONYMOUS = Principal("anonymous", (Scope(Action.READ),))
LINK_ID = "link"


def cookie_name(settings: Settings) -> str:
    """Name this server's cookie; servers on other ports of the host have their own."""
    return f"tensorlake-{settings.port}"


class Access:
    """Decides who asks."""

    def __init__(
        self, settings: Settings, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tokens = None if settings.auth is None else Tokens(settings.auth)

    def principal(self, headers: Headers) -> Principal:
        """Return who asks.

        Raises:
            Problem: 401, unknown credentials.
        """
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        knows_tokens = self._settings.has_link or self._tokens is not None
        if scheme and knows_tokens:
            if scheme.lower() != "bearer":
                raise _unauthorized("only bearer tokens are understood")
            return self._of_secret(bearer.strip())[1]
        shown = self._cookie(headers) if knows_tokens else None
        if shown is not None and (found := self._of_cookie(shown)) is not None:
            return found
        if self._settings.public_read:
            return ANONYMOUS
        raise _unauthorized("this server needs a token")

    def known(self, headers: Headers) -> Principal:
        """Return who asks, where it may not be just anybody.

        Raises:
            Problem: 401, unknown or missing credentials.
        """
        principal = self.principal(headers)
        if principal is ANONYMOUS:
            raise _unauthorized("this needs a token, whatever else everybody may read")
        return principal

    def cookie(self, secret: str) -> str:
        """Return the cookie's value for a token.

        Raises:
            Problem: 401, it is not a valid token.
        """
        return self._signed(self._of_secret(secret)[0])

    def _of_secret(self, secret: str) -> tuple[str, Principal]:
        """Find a token: what its cookie is made of, and whose it is."""
        if self._settings.has_link and _equal(secret, self._settings.token):
            return LINK_ID, LINK
        stored = self._known(lambda tokens: tokens.by_secret(secret))
        if stored is None:
            raise _unauthorized("this token is none of the server's")
        return stored.id, self._valid(stored)

    def _of_cookie(self, shown: str) -> Principal | None:
        """Return whose cookie it is; None for one that this server did not make: it is ignored."""
        token_id = shown.partition(".")[0]
        if token_id == LINK_ID:
            is_ours = self._settings.has_link and _equal(shown, self._signed(LINK_ID))
            return LINK if is_ours else None
        stored = self._known(lambda tokens: tokens.by_id(token_id))
        if stored is None or not _equal(shown, self._signed(stored.id)):
            return None
        return self._valid(stored)

    def _known(self, find: Callable[[Tokens], StoredToken | None]) -> StoredToken | None:
        try:
            return None if self._tokens is None else find(self._tokens)
        except TensorlakeError as error:  # closed, not open, while nobody can be known
            raise Problem(
                503, "tokens-unreadable", "the server cannot read its token file; see its log"
            ) from error

    def _valid(self, stored: StoredToken) -> Principal:
        why = stored.why_not(self._clock())
        if why is not None:
            raise _unauthorized(f"token {stored.id!r} {why}")
        name = f"token:{stored.id}:{stored.name}"
        return Principal(name, stored.parsed_scopes(), author=stored.name)

    def _cookie(self, headers: Headers) -> str | None:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return None  # a malformed cookie is no cookie
        shown = cookies.get(cookie_name(self._settings))
        return None if shown is None else shown.value

    def _signed(self, token_id: str) -> str:
        # The link's token is new at each start, and so are its cookies.
        secret = self._settings.token if token_id == LINK_ID else ""
        stated = f"session {token_id} {secret}".encode()
        mac = hmac.new(self._settings.signing_key, stated, hashlib.sha256).hexdigest()
        return f"{token_id}.{mac}"


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _unauthorized(why: str) -> Problem:
    return Problem(
        401,
        "unauthorized",
        f"{why}\nopen the link that `tensorlake serve` printed, or send a token:"
        " Authorization: Bearer <token>",
        {"WWW-Authenticate": 'Bearer realm="tensorlake"'},
    )
