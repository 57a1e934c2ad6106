"""The id of a query's result: not a key of something kept, but the query itself, signed.

Any replica that has the signing key evaluates it again, to the same rows, because the version in it
is a commit. A server's copy of a result is only a cache.

    token = base64url(zlib(JSON of ViewQuery)) "." base64url(first 16 bytes of HMAC-SHA256)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib
from typing import Any

import msgspec

from tensorlake.errors import QueryLimitError, ViewNotFoundError

__all__ = ["ViewQuery", "read_token", "write_token"]

MAC_NBYTES = 16
MAX_QUERY_NBYTES = 1 << 18  # what a token may unpack to


class ViewQuery(msgspec.Struct, frozen=True):
    """All that a result depends on.

    Attributes:
        dataset: Its name in the lake.
        version: A commit, as ``main@12``.
        digest: The digest of that commit: a dataset created again under the same
            name has other ones.
        tql: The text.
        params: Values of its ``$parameters``, as JSON.
        seed: The seed of RANDOM() and SAMPLE BY; None when the query uses neither.
        saved: The name of a saved view, whose rows these are; the text is then only shown.
        rows: The name of rows that a client selected (lake/staged_rows.py); there is no text then.
        batch: The batch of a run's step: the run, the step, the rank or None, and the attempt that
            recorded it, which a resumed run may replace; there is no text either.
    """

    dataset: str
    version: str
    digest: str
    tql: str
    params: dict[str, Any] = {}
    seed: int | None = None
    saved: str | None = None
    rows: str | None = None
    batch: tuple[str, int, int | None, str] | None = None


def write_token(query: ViewQuery, *, key: bytes) -> str:
    """Write a query as a token; equal queries give equal tokens.

    Raises:
        QueryLimitError: It has more bytes than `read_token` takes.
    """
    encoded = msgspec.json.encode(query, order="deterministic")
    if len(encoded) > MAX_QUERY_NBYTES:
        raise QueryLimitError(
            f"the query and its parameters have {len(encoded):,} bytes as JSON, and"
            f" {MAX_QUERY_NBYTES:,} is the most that the id of a result holds"
            "\ngive a shorter text, or fewer or smaller parameters"
        )
    packed = zlib.compress(encoded, 9)
    return f"{_text(packed)}.{_text(_mac(packed, key))}"


def read_token(token: str, *, key: bytes) -> ViewQuery:
    """Read a token that this lake's servers wrote.

    Raises:
        ViewNotFoundError: It is none of theirs.
    """
    body, _, mac = token.partition(".")
    try:
        packed = _bytes(body)
        if not hmac.compare_digest(_bytes(mac), _mac(packed, key)):
            raise _unknown(token)
        unpacked = zlib.decompressobj().decompress(packed, MAX_QUERY_NBYTES)
        return msgspec.json.decode(unpacked, type=ViewQuery)
    except (binascii.Error, UnicodeEncodeError, zlib.error, msgspec.DecodeError) as error:
        raise _unknown(token) from error


def _unknown(token: str) -> ViewNotFoundError:
    return ViewNotFoundError(
        f"no view {token[:24]!r}: it was made by another server, or by this one before it restarted"
        "\nrun the query again: POST /v1/datasets/{name}/query",
        view=token,
    )


def _mac(packed: bytes, key: bytes) -> bytes:
    return hmac.new(key, packed, hashlib.sha256).digest()[:MAC_NBYTES]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(
        text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True
    )
