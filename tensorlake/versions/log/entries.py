"""Small facts about log entries that several rooms need."""

from __future__ import annotations

import datetime as dt
import getpass
import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.format import Entry, EntryLine, Features, Fence, Parent
from tensorlake.storage import LakeStore, Store

__all__ = [
    "EPOCH",
    "author",
    "authored_by",
    "check_writable",
    "entry_number",
    "fence_of",
    "following",
    "is_given_up",
    "microseconds",
    "time_in",
    "time_of",
]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


NUMBER_DIGITS = 20  # more than any entry has: Python reads no text of thousands as a number

_author: ContextVar[str | None] = ContextVar("author", default=None)


def author(store: Store | None = None) -> str:
    """Name who commits: TENSORLAKE_AUTHOR, else the login name, else "unknown".

    Behind a server it is whom the server says that the token belongs to: it takes no other name.
    """
    told = store.author if isinstance(store, LakeStore) else None
    return told or _author.get() or os.environ.get("TENSORLAKE_AUTHOR") or _login_name()


@contextmanager
def authored_by(name: str | None) -> Generator[None]:
    """Write entries of the block in somebody's name, as a server does; None changes nothing.

    It holds for what the block calls and awaits: merges, branches and saved views write entries
    deep below, and none of them should have to hand a name through.
    """
    token = _author.set(name or _author.get())
    try:
        yield
    finally:
        _author.reset(token)


def entry_number(text: str) -> int | None:
    """Read the number of an entry, as in ``main@12``; None where the text is none.

    >>> entry_number("12"), entry_number("x"), entry_number("-1")
    (12, None, None)
    """
    is_number = text.isascii() and text.isdigit()
    return int(text.lstrip("0")[:NUMBER_DIGITS] or "0") if is_number else None


@cache
def _login_name() -> str:
    """Ask once: a file is read for it, and a process stays the same user's."""
    try:
        return getpass.getuser()  # the environment first, then the system's list of users
    except (OSError, KeyError, ImportError):  # a container's user may have no name, Windows no list
        return "unknown"


def microseconds(when: dt.datetime) -> int:
    """Write an aware time as the log does: microseconds since 1970."""
    return (when - EPOCH) // dt.timedelta(microseconds=1)


async def time_in(store: Store) -> int:
    """The store's clock, as the log writes it: that of the machine where the store tells none."""
    return microseconds(await store.now())


def time_of(entry: Entry | EntryLine) -> dt.datetime:
    """When an entry was published: as it says, or as its store says where that is earlier."""
    return EPOCH + dt.timedelta(microseconds=entry.published)


def fence_of(entry: Entry) -> Fence:
    """The largest fence of the log up to this entry."""
    return entry.fence or Fence()


def is_given_up(seq: int, *, newest: Entry) -> bool:
    """Whether a log whose newest entry is known has given up its version ``seq``.

    Such a version is cited no more, and a collector may take what only it needs.
    """
    return newest.kind == "end" or fence_of(newest).expired_before > seq


def check_writable(entry: Entry, *, url: str) -> None:
    """Refuse to build on an entry whose meaning a writer of this version would lose.

    Raises:
        UnsupportedFeatureError: It names a writer's feature that is unknown here.
    """
    if unknown := entry.features.unknown_write:
        raise UnsupportedFeatureError(
            f"{url!r} needs writers that know {', '.join(map(repr, unknown))};"
            " this tensorlake can only read it\ninstall a newer tensorlake",
            features=unknown,
        )


def following(before: Entry, *, branch: str, now: int = 0, **members: Any) -> Entry:
    """Make the entry after ``before`` on the same branch: numbered, chained, later in time.

    Without ``now`` its time is that of the entry before it, and a microsecond: ``completed`` sets
    it, when the packs are stored. What is not given (fence, features, indexes, version vector, …)
    carries over; features that the schema needs are added.
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
