"""Authentication: a request's credentials become a `Principal`, or a refusal.

    bearer token    of the token file, or the one in the link that the server printed
    bearer JWT      of the OpenID provider, where the server has one (auth/oidc.py)
    cookie          what ``POST /v1/session`` exchanges a token for
    none            everybody, where the server is ``public_read``

The cookie is HttpOnly and SameSite=Strict. It holds an id and a MAC under the signing key, so that
neither the cookie gives the token away nor the token file gives cookies; of a JWT, which is not
kept, it holds the principal and the time of its end. Its name holds the port, because cookies do
not tell ports apart. A credential that is shown must be right: a wrong one is refused even where
none is needed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

import msgspec
from anyio import CapacityLimiter, to_thread

from tensorlake.errors import AccessError, TensorlakeError
from tensorlake_server.auth.principal import Principal
from tensorlake_server.auth.scopes import Action, Scope
from tensorlake_server.auth.tokens import StoredToken, Tokens
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from tensorlake_server.auth.oidc import Issuer
    from tensorlake_server.settings.settings import Settings

__all__ = ["Access", "cookie_name"]

LINK = Principal("link", (Scope(Action.ADMIN),))
ANONYMOUS = Principal("anonymous", (Scope(Action.READ),))
LINK_ID = "link"
JWT_ID = "oidc"
JWT_DOTS = 2
COOKIE_NBYTES_MAX = 3800  # browsers drop a cookie that has, with its name, more than 4096


def cookie_name(settings: Settings) -> str:
    """Name this server's cookie; servers on other ports of the host have their own."""
    return f"tensorlake-{settings.port}"


class _Session(msgspec.Struct, frozen=True, array_like=True):
    """Whose a JWT was, in a cookie."""

    name: str
    author: str | None
    scopes: tuple[str, ...]
    expires: float


class Access:
    """Decides who asks."""

    def __init__(
        self, settings: Settings, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._tokens = None if settings.auth is None else Tokens(settings.auth)
        self._issuer = _issuer_of(settings)
        self._fetching = CapacityLimiter(1)  # of keys; no other thread waits for the issuer

    async def prepare(self, headers: Headers) -> None:
        """Fetch the keys of the issuer that a request's token may need, off the event loop."""
        if self._issuer is not None:
            bearer = _credentials(headers)[1]
            if _is_jwt(bearer) and self._issuer.needs_keys(bearer):
                await to_thread.run_sync(self._issuer.fetch_keys, bearer, limiter=self._fetching)

    def principal(self, headers: Headers) -> Principal:
        """Return who asks.

        Raises:
            Problem: 401, unknown credentials.
        """
        scheme, bearer = _credentials(headers)
        knows_tokens = self._settings.has_link or self._settings.knows_people
        if scheme and knows_tokens:
            if scheme.lower() != "bearer":
                raise _unauthorized("only bearer tokens are understood")
            if self._issuer is not None and _is_jwt(bearer):
                return self._of_jwt(self._issuer, bearer)[0]
            return self._of_secret(bearer)[1]
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
        if self._issuer is None or not _is_jwt(secret):
            return self._signed(self._of_secret(secret)[0])
        self._issuer.fetch_keys(secret)
        principal, expires = self._of_jwt(self._issuer, secret)
        scopes = tuple(map(str, principal.scopes))
        session = _Session(principal.name, principal.author, scopes, expires)
        cookie = self._signed(
            f"{JWT_ID}.{base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()}"
        )
        if len(cookie) > COOKIE_NBYTES_MAX:
            raise _unauthorized("this token has more scopes than a cookie can hold")
        return cookie

    def _of_jwt(self, issuer: Issuer, token: str) -> tuple[Principal, float]:
        """Find whose a token of the issuer is, and when it ends."""
        try:
            return issuer.principal(token)
        except AccessError as error:
            raise _unauthorized(str(error)) from error
        except TensorlakeError as error:
            raise Problem(503, "issuer-unavailable", str(error), {"Retry-After": "10"}) from error

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
        if token_id == JWT_ID:
            return self._of_session(shown)
        if token_id == LINK_ID:
            is_ours = self._settings.has_link and _equal(shown, self._signed(LINK_ID))
            return LINK if is_ours else None
        stored = self._known(lambda tokens: tokens.by_id(token_id))
        if stored is None or not _equal(shown, self._signed(stored.id)):
            return None
        return self._valid(stored)

    def _of_session(self, shown: str) -> Principal | None:
        """Return whose cookie it is that was made of a JWT; None for one that is not ours."""
        stated = shown.rpartition(".")[0]
        if self._issuer is None or not _equal(shown, self._signed(stated)):
            return None
        session = msgspec.json.decode(
            base64.urlsafe_b64decode(stated.partition(".")[2]), type=_Session
        )
        if session.expires <= self._clock().timestamp():
            raise _unauthorized("the session has ended, with its token")
        return Principal(session.name, tuple(map(Scope.parse, session.scopes)), session.author)

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


def _issuer_of(settings: Settings) -> Issuer | None:
    if settings.oidc is None or settings.oidc_audience is None:
        return None
    from tensorlake_server.auth.oidc import Issuer, read_groups

    groups = {} if settings.oidc_groups is None else read_groups(settings.oidc_groups)
    return Issuer(
        settings.oidc, audience=settings.oidc_audience, claim=settings.oidc_claim, groups=groups
    )


def _credentials(headers: Headers) -> tuple[str, str]:
    """Return the scheme of a request's ``Authorization``, and the rest."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return scheme, bearer.strip()


def _is_jwt(secret: str) -> bool:
    """Whether it has the three parts of one; tokens of the file and of the link have one."""
    return secret.count(".") == JWT_DOTS


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
