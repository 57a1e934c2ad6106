"""Classify obstore's exceptions: the kind of failure, and what a caller may conclude from it.

obstore's exceptions name a few kinds; the rest is in their text: the HTTP status on the first line,
"kind: Timeout" or "kind: Connect" below "Debug source".  Only that first line reaches our messages,
without query strings (signatures), users and passwords of URLs, and the secrets that the store was
opened with; the exception itself is never chained, because a traceback would print all of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from obstore import exceptions

from tensorlake.errors import (
    AccessError,
    StorageError,
    StorageTimeoutError,
    TensorlakeError,
    UnsupportedStoreError,
)

MAX_DETAIL: Final = 300  # characters of a store's own text in a message
_STATUS = re.compile(r"status code: (\d{3})")
_TRANSPORT = re.compile(r"\bkind: (Timeout|Connect)\b")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound")  # as S3, Google and Azure spell it
_USER_INFO = re.compile(r"(?<=://)[^/?#\s\"']*@")
_QUERY_STRING = re.compile(r"\?[^\s\"']*")


class FailureKind(Enum):
    """The outcomes of a failed request, by what a caller may conclude from them."""

    MISSING = "missing"
    EXISTS = "exists"
    DENIED = "denied"
    OUT_OF_RANGE = "out of range"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"  # the store refused, and would again
    UNREACHABLE = "unreachable"  # nothing was sent
    TIMEOUT = "timeout"
    TRANSIENT = "transient"  # a server or connection failure; a write may have landed


TRANSIENT: Final = frozenset({FailureKind.UNREACHABLE, FailureKind.TIMEOUT, FailureKind.TRANSIENT})
_BY_STATUS: Final = {
    401: FailureKind.DENIED,
    403: FailureKind.DENIED,
    404: FailureKind.MISSING,
    405: FailureKind.UNSUPPORTED,  # obstore: not found, also of a file that is there
    408: FailureKind.TRANSIENT,
    # S3's answer to a conditional PUT that met a concurrent one; this one did not land, but the
    # # other may still fail, so it is not yet "exists".
    409: FailureKind.TRANSIENT,
    412: FailureKind.EXISTS,
    416: FailureKind.OUT_OF_RANGE,
    429: FailureKind.TRANSIENT,
    501: FailureKind.UNSUPPORTED,
}
_BY_EXCEPTION: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (FileNotFoundError, FailureKind.MISSING),
    (exceptions.AlreadyExistsError, FailureKind.EXISTS),
    (exceptions.PreconditionError, FailureKind.EXISTS),
    (exceptions.PermissionDeniedError, FailureKind.DENIED),
    (exceptions.UnauthenticatedError, FailureKind.DENIED),
    (exceptions.NotSupportedError, FailureKind.UNSUPPORTED),
    (NotImplementedError, FailureKind.UNSUPPORTED),
    (exceptions.InvalidPathError, FailureKind.REFUSED),
    (ValueError, FailureKind.REFUSED),
    (TimeoutError, FailureKind.TIMEOUT),
)


REPORTED: Final = (exceptions.BaseError, OSError, NotImplementedError, ValueError)
"""Exceptions that obstore raises about a request; any other is a programming error."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request, classified."""

    kind: FailureKind
    detail: str
    status: int | None = None


class RequestFailedError(Exception):
    """Carry a `Failure` from an attempt to the code that handles it; never leaves the store."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


def understand(error: Exception, *, secrets: Collection[str] = ()) -> Failure:
    """Classify an exception of obstore, keeping only the text that is safe to print."""
    text = str(error)
    headline, _, debug = text.partition("\n\nDebug source")
    match = _STATUS.search(headline)
    status = int(match[1]) if match else None
    return Failure(_kind(error, status, debug), _printable(headline, secrets), status)


def translate(failure: Failure, *, verb: str, path: str, url: str) -> TensorlakeError:
    """Build the error to raise where nothing more specific is known."""
    what = f"object {path!r} of {url!r}"
    facts = {"path": path, "url": url, "status": failure.status}
    match failure.kind:
        case FailureKind.DENIED:
            return AccessError(
                f"may not {verb} {what} ({failure.status or 'refused'});\n"
                "check the credentials in storage_options or the environment, and what they permit",
                **facts,
            )
        case FailureKind.TIMEOUT:
            return StorageTimeoutError(
                f"could not {verb} {what} in time ({failure.detail});\n"
                "try again, or check the connection to the store",
                **facts,
            )
        case FailureKind.UNREACHABLE:
            return StorageError(
                f"could not reach the store to {verb} {what} ({failure.detail});\n"
                "check endpoint_url and the network, then try again",
                **facts,
            )
        case FailureKind.UNSUPPORTED:
            return UnsupportedStoreError(
                f"the store cannot {verb} {what} ({failure.detail});\n"
                "use another store, as with tl.copy(src, dst)",
                **facts,
            )
        case FailureKind.MISSING if _NO_BUCKET.search(failure.detail):
            bucket = url.partition("://")[2].partition("/")[0]
            return StorageError(
                f"there is no bucket {bucket!r} to {verb} {what} in;\n"
                "make it, or check its name, and endpoint_url and region in storage_options",
                **facts,
            )
        case _:
            return StorageError(
                f"could not {verb} {what} ({failure.detail});\n"
                "try again, or check the bucket, its region and storage_options",
                **facts,
            )


def _kind(error: Exception, status: int | None, debug: str) -> FailureKind:
    if status is not None and status in _BY_STATUS:
        return _BY_STATUS[status]
    for exception, kind in _BY_EXCEPTION:
        if isinstance(error, exception):
            return kind
    transport = _TRANSPORT.search(debug)
    if transport is not None:
        is_timeout = transport[1] == "Timeout"
        return FailureKind.TIMEOUT if is_timeout else FailureKind.UNREACHABLE
    if status is not None and status < 500:  # noqa: PLR2004 - HTTP's border: the client's fault
        return FailureKind.REFUSED
    return FailureKind.TRANSIENT


def _printable(headline: str, secrets: Collection[str]) -> str:
    text = _QUERY_STRING.sub("?…", _USER_INFO.sub("", " ".join(headline.split())))
    for secret in secrets:
        text = text.replace(secret, "…")
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}…"
