"""Tokens of an OpenID provider: signed JWTs, of whose claims principals are made.

    ISSUER/.well-known/openid-configuration ──► jwks_uri ──► public keys, by ``kid``
    header {alg, kid}              one of ALGORITHMS; a key of this id that fits it, from that list
    claims {iss, aud, exp, iat, sub}    all there and right, with SKEW_S for clocks that differ
    claim  "tensorlake:read:pets"       a scope, or a role; other values name groups, or nothing

The key never comes from the token: headers such as ``jwk``, ``jku`` and ``x5u`` are not read, keys
that are not public are not kept, and symmetric algorithms are not in the list. So the header
chooses among the issuer's own keys, and a key's type decides which algorithms it verifies.

Keys are fetched again every FRESH_S, and when an unknown ``kid`` comes, at most every AGAIN_S; a
key that the issuer no longer lists is gone then. An issuer that does not answer leaves the keys as
they are for KEPT_S.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tensorlake.errors import AccessError, InvalidInputError, StorageError
from tensorlake.storage import public_url
from tensorlake_server.auth.principal import Principal
from tensorlake_server.auth.scopes import Scope

__all__ = ["Issuer", "check_issuer_url", "read_groups"]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
CURVES = {"ES256": "secp256r1", "ES384": "secp384r1"}
RSA_BITS_MIN = 2048  # NIST SP 800-57: 112 bits of security
TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})  # not, say, logout+jwt
SKEW_S = 30.0
SUBJECT_LENGTH_MAX = 255  # OpenID Connect Core, section 2
FRESH_S = 600.0
KEPT_S = 3600.0
AGAIN_S = 10.0
TIMEOUT_S = 5.0
DOCUMENT_NBYTES_MAX = 1 << 20
PREFIX = "tensorlake:"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

logger = logging.getLogger("tensorlake.server")


@dataclass(frozen=True, slots=True)
class _Key:
    kid: str
    algorithm: str | None  # the only one that the issuer uses it for
    public: Any  # cryptography's, of one of three types

    def verifies(self, algorithm: str) -> bool:
        """Whether a signature of this algorithm can be one of this key."""
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        match self.public:
            case RSAPublicKey():
                return algorithm[:2] in ("RS", "PS") and self.public.key_size >= RSA_BITS_MIN
            case EllipticCurvePublicKey():
                return CURVES.get(algorithm) == self.public.curve.name
            case Ed25519PublicKey():
                return algorithm == "EdDSA"
            case _:  # a secret, or of a type that ALGORITHMS does not use
                return False


class Issuer:
    """One OpenID provider, and the scopes that its tokens have here. Thread-safe.

    Args:
        url: Its identifier, the ``iss`` of its tokens.
        audience: The ``aud`` of tokens that are meant for this server.
        claim: The claim with the scopes: text with spaces, or a list; dots lead into objects.
        groups: Scopes of each value of the claim that is not one itself.
        clock: Seconds, for the age of keys.
    """

    def __init__(
        self,
        url: str,
        *,
        audience: str,
        claim: str,
        groups: Mapping[str, tuple[Scope, ...]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._audience = audience
        self._claim = claim
        self._groups = groups
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Sequence[_Key] = ()
        self._fetched = self._asked = -float("inf")

    def principal(self, token: str) -> tuple[Principal, float]:
        """Return whose token it is, and until when it is taken, in seconds since 1970. Does no I/O.

        Raises:
            AccessError: It is refused; the message has the reason.
            StorageError: There are no keys to verify it with.
        """
        if self._clock() - self._fetched > KEPT_S:
            raise StorageError(
                f"the keys of {self._url} could not be fetched"
                "\nask again; the reason is in the server's log"
            )
        try:
            claims = self._verified(token)
        except jwt.PyJWTError as error:
            raise AccessError(f"this token of {self._url} is refused: {error}") from error
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise AccessError(f"this is not a token of {self._url}") from error
        subject = claims["sub"]
        if not _is_name(subject):
            raise AccessError("the claim 'sub' of this token is not a name")
        shown = claims.get("preferred_username")
        author = shown if _is_name(shown) else subject
        until = float(claims["exp"]) + SKEW_S  # as for the token itself
        return Principal(f"oidc:{subject}", self._scopes(claims), author), until

    def needs_keys(self, token: str) -> bool:
        """Whether `fetch_keys` is to be called first: it takes seconds if the issuer is slow."""
        now = self._clock()
        if now - self._asked < AGAIN_S:
            return False
        if now - self._fetched > FRESH_S:
            return True
        kid = _header(token).get("kid")
        return all(key.kid != kid for key in self._keys)

    def fetch_keys(self, token: str) -> None:
        """Fetch the keys of the issuer, if no other thread just did; keep those there are if not.

        The log has the reason of a failure: a client does not learn what the issuer answers.
        """
        with self._lock:
            if not self.needs_keys(token):
                return
            self._asked = self._clock()
            try:
                keys = _fetch_keys(self._url)
            except (OSError, HTTPException, ValueError, RecursionError) as error:
                logger.warning("the keys of %s cannot be fetched: %s", self._url, error)
                return
            self._keys, self._fetched = keys, self._clock()

    def _verified(self, token: str) -> Mapping[str, Any]:
        """Check the signature and the claims of a token."""
        header = _header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError(f"its algorithm is none of {', '.join(ALGORITHMS)}")
        if "crit" in header or "b64" in header:
            raise jwt.InvalidTokenError("it has extensions that this server does not know")
        if str(header.get("typ", "")).lower() not in TYPES:
            raise jwt.InvalidTokenError("it is of another type than JWT")
        fit = [key for key in self._keys if key.kid == kid and key.verifies(algorithm)]
        if not fit:
            raise jwt.InvalidKeyError("the issuer has no key of its 'kid' and algorithm")
        claims = jwt.decode(
            token,
            fit[0].public,
            algorithms=[algorithm],
            audience=self._audience,
            issuer=self._url,
            leeway=SKEW_S,
            options={"require": ["iss", "aud", "exp", "iat", "sub"]},
        )
        if any(type(claims[name]) not in (int, float) for name in ("exp", "iat")):
            raise jwt.InvalidTokenError("its times are not numbers")
        return claims

    def _scopes(self, claims: Mapping[str, Any]) -> tuple[Scope, ...]:
        found: list[Scope] = []
        for value in _values(claims, self._claim):
            if value.startswith(PREFIX):
                try:
                    found.append(Scope.parse(value.removeprefix(PREFIX)))
                except InvalidInputError as error:
                    raise AccessError(
                        f"the claim {self._claim!r} of this token: {error}"
                    ) from error
            else:
                found += self._groups.get(value, ())
        if not found:
            raise AccessError(
                f"the claim {self._claim!r} of this token has no scope: neither {PREFIX}SCOPE, nor"
                " a group that this server knows"
            )
        return tuple(dict.fromkeys(found))


def check_issuer_url(url: str) -> None:
    """Check the URL of an issuer: keys that come over plain HTTP are anybody's.

    Raises:
        InvalidInputError: It is not ``https``, nor on this machine, or has a query or a fragment.
    """
    if not _is_safe(url) or urlsplit(url).query or urlsplit(url).fragment:
        raise InvalidInputError(
            f"--oidc {public_url(url)!r} is not the https:// URL of an issuer"
            "\ngive the 'issuer' of its /.well-known/openid-configuration, letter by letter",
            actual=public_url(url),
        )


def read_groups(path: Path) -> dict[str, tuple[Scope, ...]]:
    """Read which scopes each group has: TOML of ``group = ["scope", …]``.

    Raises:
        InvalidInputError: It cannot be read, or is not that.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise _bad_groups(path, str(why)) from error
    groups: dict[str, tuple[Scope, ...]] = {}
    for name, scopes in given.items():
        if not isinstance(scopes, list) or not all(isinstance(one, str) for one in scopes):
            raise _bad_groups(path, f"{name!r} is not a list of scopes")
        groups[name] = tuple(map(Scope.parse, scopes))
    return groups


def _bad_groups(path: Path, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot read the groups of {str(path)!r}: {why}"
        '\nwrite a line for each group, as: annotators = ["labeller:pets"]',
        path=str(path),
    )


def _header(token: str) -> Mapping[str, Any]:
    """Return a token's header, before it is verified; an empty one if it has none."""
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return {}


def _values(claims: Mapping[str, Any], claim: str) -> Sequence[str]:
    """Return the values of a claim: ``realm_access.roles`` is one by that name, or in an object."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for name in claim.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, str):
        return found.split()
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _is_name(value: object) -> bool:
    """Whether it fits into a log and a commit, where one of spaces alone would look like none."""
    if not isinstance(value, str) or len(value) > SUBJECT_LENGTH_MAX:
        return False
    return value.isprintable() and bool(value.strip())


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
    return bool(parts.hostname) and (parts.scheme == "https" or is_local)


def _fetch_keys(issuer: str) -> Sequence[_Key]:
    """Fetch the keys that an issuer signs with.

    Raises:
        ValueError: Its documents are not those of an issuer.
        OSError: It does not answer.
    """
    about = _document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if about.get("issuer") != issuer:
        raise ValueError(f"it calls itself {public_url(str(about.get('issuer')))!r}")
    where = about.get("jwks_uri")
    if not isinstance(where, str) or not _is_safe(where):
        raise ValueError(f"its jwks_uri is {public_url(str(where))!r}, and not https://")
    listed = _document(where).get("keys")
    if not isinstance(listed, list):
        raise ValueError("its key set has no list of keys")  # noqa: TRY004 - of a document
    return [key for one in listed if (key := _parsed(one)) is not None]


def _parsed(one: Any) -> _Key | None:
    """Read a key; None for one that signs no tokens, or that this server cannot use (RFC 7517)."""
    if not isinstance(one, dict) or one.get("kty") not in ("RSA", "EC", "OKP") or "d" in one:
        return None
    kid, algorithm = one.get("kid"), one.get("alg")
    if not isinstance(kid, str) or one.get("use", "sig") != "sig":
        return None
    try:
        return _Key(kid, algorithm, jwt.PyJWK(one, algorithm).key)
    except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError):
        return None


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would lead keys past the check of their URL."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        raise HTTPError(req.full_url, code, f"{msg}: to {newurl!r}", headers, fp)


def _document(url: str) -> dict[str, Any]:
    with build_opener(_NoRedirects).open(url, timeout=TIMEOUT_S) as answer:
        data = answer.read(DOCUMENT_NBYTES_MAX + 1)
    if len(data) > DOCUMENT_NBYTES_MAX:
        raise ValueError(f"{url} has more than {DOCUMENT_NBYTES_MAX:,} bytes")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"{url} is not an object of JSON")  # noqa: TRY004 - of a document
    return found
