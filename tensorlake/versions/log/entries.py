"""Properties of log entries that several packages need, and the strings that users give them."""

from __future__ import annotations

import datetime as dt
import getpass
import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from tensorlake.errors import (
    InvalidInputError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.format import Entry, EntryLine, Features, Fence, Parent
from tensorlake.storage import LakeStore, Store

__all__ = [
    "EPOCH",
    "author",
    "authored_by",
    "check_text",
    "check_writable",
    "entry_number",
    "expired_error",
    "fence_of",
    "following",
    "is_expired",
    "microseconds",
    "time_in",
    "time_of",
]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


NUMBER_DIGITS = 20  # more than any entry has: Python does not parse numbers of thousands of digits

_author: ContextVar[str | None] = ContextVar("author", default=None)


def author(store: Store | None = None) -> str:
    """Return the author of commits: TENSORLAKE_AUTHOR, else the login name, else "unknown".

    For a dataset on a server, it is the owner of the token as reported by the server, which accepts
    no other name.
    """
    name = store.author if isinstance(store, LakeStore) else None
    return name or _author.get() or os.environ.get("TENSORLAKE_AUTHOR") or _login_name()


@contextmanager
def authored_by(name: str | None) -> Generator[None]:
    """Set the author of entries written in the block, as a server does; None changes nothing.

    It applies to everything that the block calls and awaits: merges, branches and saved views write
    entries at a lower level, without passing a name through.
    """
    token = _author.set(name or _author.get())
    try:
        yield
    finally:
        _author.reset(token)


def check_text(text: object, *, what: str) -> str:
    """Return a user's message, key or name if it is a string that can be stored for good.

    Any other value would be published in its JSON form, and the entry could not be read again.

    Raises:
        InvalidInputError: It is not a string, or contains a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{what} {shown(text)} is {type(text).__name__}, not a string"
            f"\ngive a str: {shown(shown(text))}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} {shown(text)} has a lone surrogate (half a character) at {error.start}, which"
            " cannot be stored\nleave it out"
        ) from None
    return text


def entry_number(text: str) -> int | None:
    """Parse the number of an entry, as in ``main@12``; None if the text is not one.

    >>> entry_number("12"), entry_number("x"), entry_number("-1")
    (12, None, None)
    """
    is_number = text.isascii() and text.isdigit()
    return int(text.lstrip("0")[:NUMBER_DIGITS] or "0") if is_number else None


@cache
def _login_name() -> str:
    """Return the login name, cached: it reads a file, and the user of a process does not change."""
    try:
        return getpass.getuser()  # the environment first, then the system's list of users
    except (OSError, KeyError, ImportError):  # containers' users may have no name, Windows no list
        return "unknown"


def microseconds(when: dt.datetime) -> int:
    """Convert an aware time to the log's unit: microseconds since 1970."""
    return (when - EPOCH) // dt.timedelta(microseconds=1)


async def time_in(store: Store) -> int:
    """Return the store's time in the log's unit, or the machine's if the store has no clock."""
    return microseconds(await store.now())


def time_of(entry: Entry | EntryLine) -> dt.datetime:
    """Return the publication time of an entry: its own or its store's, whichever is earlier."""
    return EPOCH + dt.timedelta(microseconds=entry.published)


def fence_of(entry: Entry) -> Fence:
    """Return the largest fence of the log up to this entry."""
    return entry.fence or Fence()


def is_expired(seq: int, *, newest: Entry) -> bool:
    """Return whether version ``seq`` of a log with a known newest entry has expired.

    An expired version is no longer referenced, and a collector may delete data that only it needs.
    """
    return newest.kind == "end" or fence_of(newest).expired_before > seq


def expired_error(
    version: str, url: str, *, newest: Entry, consequence: str, advice: str
) -> SnapshotExpiredError:
    """Return the error of a version that expired, before or during a call, and its cause."""
    what = "its branch has ended" if newest.kind == "end" else "by expire()"
    return SnapshotExpiredError(
        f"{version} of {url!r} has expired ({what}), so {consequence}\n{advice}", version=version
    )


def check_writable(entry: Entry, *, url: str) -> None:
    """Refuse to build on an entry with features that this version's writer would lose.

    Raises:
        UnsupportedFeatureError: It names a writer feature that is unknown here.
    """
    if unknown := entry.features.unknown_write:
        raise UnsupportedFeatureError(
            f"{url!r} needs writers that support {', '.join(map(repr, unknown))};"
            " this tensorlake can only read it\ninstall a newer tensorlake",
            features=unknown,
        )


def following(before: Entry, *, branch: str, now: int = 0, **members: Any) -> Entry:
    """Make the entry after ``before`` on the same branch: numbered, chained, later in time.

    Without ``now`` its time is one microsecond after the previous entry's: ``completed`` sets it,
    when the packs are stored. Members not given (fence, features, indexes, version vector, …) carry
    over; features that the schema needs are added.
    """
    own_parent = Parent(branch=branch, seq=before.seq, digest=before.digest)
    carried: dict[str, Any] = {
        "seq": before.seq + 1,
        "prev": before.digest,
        "time": max(now, before.time + 1),
        "parents": (own_parent,) if before.has_body else (),
        "of": None,
        "keys": (),
        "meta": {},
    }
    features: Features = members.get("features", before.features)
    needed = features.with_schema(members.get("schema"))
    return before.changed(**{**carried, **members, "features": needed})
