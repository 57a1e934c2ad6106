"""Canonical JSON, sealed with a digest.

Every JSON object of a dataset is one line of UTF-8: keys sorted by code point, no spaces, no NaN,
and ``digest`` as its last member, outside that order:

    {"a":1,"b":[2,3],"digest":"<40 hex digits>"}
    └─────── body ───────┘

The digest is blake2b-160 of the object without that member, ``{"a":1,"b":[2,3]}``. So a reader
checks the bytes that it got and need not be able to write them: cut from the last comma on, put
back the brace, hash. It guards history against tampering; parents are cited by it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

import msgspec

from tensorlake.errors import InvalidInputError
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import MAX_PAGE_NBYTES

DIGEST_NBYTES = 20  # blake2b-160 (format.md, "Layout")

_STRICT = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
_FAST = msgspec.json.Encoder(order="sorted")

_DIGEST_KEY = b'"digest":"'
_SEAL_NBYTES = len(_DIGEST_KEY) + 2 * DIGEST_NBYTES + len(b'"}')


def canonical_bytes(value: Any) -> bytes:
    """Write a JSON value in the one way that the format knows.

    Raises:
        InvalidInputError: JSON cannot represent the value (NaN, bytes, …).
    """
    try:
        return _STRICT.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"a value cannot be written as JSON: {error}\nuse only None, bool, int, finite float,"
            " str, list and dict with str keys"
        ) from error


def trusted_bytes(value: Any) -> bytes:
    """Write a value that is known to be JSON: created here, or checked by ``canonical_bytes``.

    Ten times faster than that function, because nothing is checked: values that JSON cannot
    represent would be written as something else. Floats may be shorter: 1e16 for 1e+16.
    """
    try:
        return _FAST.encode(value)
    except (OverflowError, TypeError, ValueError):  # integers beyond 64 bits, lone surrogates
        return canonical_bytes(value)


def parse_json(data: bytes, *, where: str) -> Any:
    """Read JSON strictly: UTF-8, no NaN, no deeper than the interpreter's stack.

    Raises:
        CorruptionError: The bytes are anything else.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise damaged(where, f"it is not JSON ({error})") from error


def digest_of(data: bytes) -> str:
    """Return the blake2b-160 of some bytes in hex."""
    return hashlib.blake2b(data, digest_size=DIGEST_NBYTES).hexdigest()


def seal(value: dict[str, Any], *, is_trusted: bool = False) -> bytes:
    """Write an object and end it with its digest; a ``digest`` it has is replaced.

    Args:
        value: The object.
        is_trusted: Whether it is known to hold nothing but JSON, see ``trusted_bytes``.
    """
    members = {key: item for key, item in value.items() if key != "digest"}
    body = trusted_bytes(members) if is_trusted else canonical_bytes(members)
    comma = b"" if body == b"{}" else b","
    return body[:-1] + comma + _DIGEST_KEY + digest_of(body).encode("ascii") + b'"}'


def sealed_digest(data: bytes) -> str:
    """Return the digest that ends some sealed bytes, without checking it."""
    return data[-2 - 2 * DIGEST_NBYTES : -2].decode("ascii")


def verified_body(
    data: bytes, *, where: str, max_nbytes: int = MAX_PAGE_NBYTES
) -> tuple[bytes, str]:
    """Check a sealed object, and return it without its digest, unparsed, and the digest.

    Args:
        data: The whole object.
        where: Name of the object, for the error.
        max_nbytes: Larger objects are refused unread.

    Raises:
        CorruptionError: Any byte is missing, added or changed.
    """
    if len(data) > max_nbytes:
        raise damaged(where, f"it has {len(data)} bytes where {max_nbytes} are allowed")
    start = len(data) - _SEAL_NBYTES
    digest = data[start + len(_DIGEST_KEY) : -2]
    if start < 1 or data[start : start + len(_DIGEST_KEY)] != _DIGEST_KEY or data[-2:] != b'"}':
        raise damaged(where, "it does not end with its digest")
    body = (data[:start] if start == 1 else data[: start - 1]) + b"}"
    separator = b"{" if start == 1 else data[start - 1 : start]
    if digest_of(body).encode("ascii") != digest or separator not in (b"{", b","):
        raise damaged(where, "its bytes do not match its digest")
    return body, digest.decode("ascii")


def unseal(data: bytes, *, where: str, max_nbytes: int = MAX_PAGE_NBYTES) -> dict[str, Any]:
    """Read a sealed object, ``digest`` included, after checking it as ``verified_body`` does.

    Raises:
        CorruptionError: Any byte is missing, added or changed, or it is not an object.
    """
    body, digest = verified_body(data, where=where, max_nbytes=max_nbytes)
    value = parse_json(body, where=where)
    if not isinstance(value, dict) or "digest" in value:
        raise damaged(where, "it is not one sealed object")
    return {**cast("dict[str, Any]", value), "digest": digest}
