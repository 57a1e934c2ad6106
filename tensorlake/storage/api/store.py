"""The `Store` protocol: the operations that tensorlake requires of object storage.

An object is bytes under a path ("packs/3f/…tlp"), relative to the store's URL.  All but hints are
immutable: written once by `put_if_absent`, the only atomic operation that commits rely on.

Invariants of every store (tested by the conformance suite in `tensorlake.testing`):
- a read returns exactly the requested bytes or raises; short data is never passed on;
- an object appears whole or not at all, and once `put_if_absent` returned it is durable, unless
  the caller passed ``durable=False``: then it is once `sync` returned;
- of any number of writers of one path exactly one succeeds, the others see `ObjectExistsError`;
- the error of a failed write shows whether nothing landed (`StorageError`, `AccessError`) or
  that is unknown (`UnknownOutcomeError`): a publisher then reads the object back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias, cast

from tensorlake.errors import CorruptionError, InvalidInputError, StorageError

Buffer: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = Buffer | Sequence[Buffer]  # an object to be written, whole or in pieces

SCRATCH: Final = ".tmp"
"""Folder of a local store's unfinished files; no object's path may pass through it."""

_ORDINARY_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """Metadata of an object.

    Attributes:
        modified: By the store's clock.
        etag: The store's tag of the content, without quotes; None where it reports none.
    """

    path: str
    nbytes: int
    modified: datetime
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that was read whole; `modified` is by the store's clock, None where unknown."""

    data: bytes
    modified: datetime | None


class ObjectExistsError(StorageError):
    """`put_if_absent` found an object under this path; a plain fact, not yet a conflict."""


class MissingObjectError(StorageError):
    """An object that must exist does not."""


class UnknownOutcomeError(StorageError):
    """A write may or may not have landed; read the object back to find out."""


class Store(Protocol):
    """Objects under one URL. Safe to share between threads; `clone` after a fork."""

    @property
    def url(self) -> str:
        """Where the objects are, for messages; never holds secrets."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether the objects are files of this machine."""
        ...

    async def get(self, path: str) -> bytes | None:
        """Read a whole object; None when there is none."""
        ...

    async def read(self, path: str) -> StoredObject | None:
        """Read an object as `get` does, with the times in the same answer."""
        ...

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        """Read bytes [start, stop) of an object that must exist and be that long."""
        ...

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read several ranges of one object, in the given order, coalesced where that pays."""
        ...

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Write a new object; fail when one exists.

        Args:
            path: Its path.
            data: Its bytes.
            durable: Whether it is durable on return. Not needed for an object that is deleted
                again, or that `sync` makes durable before anything relies on it.
            after: Called once, before the object becomes visible; if it raises, the object
                never does. A store does its own preparation first, so that the work that
                `after` waits for overlaps it. It may block only where ``runs_here()``.
        """
        ...

    async def sync(self, paths: Sequence[str]) -> None:
        """Make objects durable that were put with ``durable=False``, many for the cost of one.

        Also required before relying on an object because it exists: its writer may have been
        stopped after it became visible and before it was durable.

        After a `StorageError` it is unknown which are durable: write them again, under new names.
        """
        ...

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        """Write a whole object, replacing an existing one.

        Hints pass ``durable=False``: losing or tearing one in a power cut changes nothing, and
        an fsync saved is half of a local commit.
        """
        ...

    async def now(self) -> datetime:
        """Return the store's time as estimated from its answers: see `api/clock.py`."""
        ...

    async def head(self, path: str) -> ObjectMeta | None:
        """Look up an object's size and time; None when there is none."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        """Iterate over the objects whose path starts with `prefix`, in the order of their paths."""
        ...

    async def folders(self, prefix: str) -> Sequence[str]:
        """List the folders directly under `prefix` ("" or "a/") that contain objects, in order."""
        ...

    async def delete(self, path: str) -> None:
        """Remove an object; do nothing if it does not exist."""
        ...

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        """View bytes [start, stop) of an immutable local object in memory; None elsewhere."""
        ...

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        """Read an immutable local object from `start` on into memory that may be written to.

        For bytes that are read once and cached this costs less than a mapping.

        Args:
            path: The object's path.
            start: Offset of the bytes that fill the first piece; those of the next follow.
            pieces: Contiguous memory, as bytes.

        Returns:
            False, with nothing read, where the object is not a local file.
        """
        ...

    def clone(self) -> Store:
        """Open the same store with clients of its own, as a forked process must."""
        ...


class Unmapped:
    """A store of objects elsewhere: none is viewed or read in place, as local files are."""

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        """Return None: no object is a local file."""
        del path, start, stop
        return None

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        """Return False: no object is a local file."""
        del path, start, pieces
        return False


def check_path(path: str) -> str:
    """Return `path` if it can name an object in every store, and stays inside of it.

    >>> check_path("packs/3f/018f.tlp")
    'packs/3f/018f.tlp'
    """
    if _ORDINARY_PATH.fullmatch(path) is not None:
        return path
    # The slow path: names outside the format's own alphabet (other programs' objects in a list).
    segments = path.split("/")
    refused = {"", ".", "..", SCRATCH}
    if not refused.isdisjoint(segments) or any(c in path for c in "\\\0"):
        raise InvalidInputError(
            f"object path {path!r} is not relative to its store;\n"
            f"use names joined by '/', none of them empty, '.', '..' or {SCRATCH!r}",
            path=path,
        )
    return path


def pieces_of(data: Data) -> list[Buffer]:
    """Return the data to be written as a list of buffers."""
    pieces = [data] if isinstance(data, Buffer) else [*data]
    return cast("list[Buffer]", pieces)  # a memoryview is a Sequence too, to the type checker


def nbytes_of(data: Data) -> int:
    """Count the bytes of the data to be written."""
    return sum(
        piece.nbytes if isinstance(piece, memoryview) else len(piece) for piece in pieces_of(data)
    )


def exists(path: str, url: str) -> ObjectExistsError:
    """Build the error of a `put_if_absent` that lost."""
    return ObjectExistsError(
        f"object {path!r} of {url!r} is already there;\nread it before writing another",
        path=path,
        url=url,
    )


def missing(path: str, url: str) -> MissingObjectError:
    """Build the error of a read that needs an object."""
    return MissingObjectError(
        f"object {path!r} of {url!r} is missing;\n"
        "if no collection removed it, restore it from a copy",
        path=path,
        url=url,
    )


def short(path: str, url: str, *, start: int, stop: int, received: int) -> CorruptionError:
    """Build the error of a range that an object does not have."""
    return CorruptionError(
        f"object {path!r} of {url!r} is cut short: bytes {start} to {stop} were asked for,"
        f" {received} of {stop - start} came;\nrestore it from a copy",
        object=path,
        url=url,
        offset=start + received,
        expected=stop - start,
        actual=received,
    )


def check_range(path: str, start: int, stop: int) -> None:
    """Reject a range that no object can have."""
    if not 0 <= start <= stop:
        raise InvalidInputError(
            f"range [{start}, {stop}) of object {path!r} is not a range;\ngive 0 <= start <= stop",
            path=path,
            start=start,
            stop=stop,
        )
