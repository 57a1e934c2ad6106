"""Damaged bytes, each tried on whatever reads it.

    probe            a version as it opens, or one thing that is read of it
    probe.asked      the ranges of objects that it asks a whole store for

A read of a store in memory is a function of the bytes that it asks for: one that asks for none of
the damaged ones does what it did before. So of all probes only those that ask for a byte need be
tried on its flip, and where a version does not open, nothing of it can be read. Where opening asks
for none of them, what it found in the whole store is what it would find again. What is left is
little enough to try every byte there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import CorruptionError
from tensorlake.storage import Buffer, MemoryStore, ObjectMeta, run
from tensorlake.versions import Resolved, resolve
from tests.support.handles import open_on

Read = Callable[[Dataset], Any]
Objects = Mapping[str, bytes]


class WatchedStore(MemoryStore):
    """A store that remembers which bytes it was asked for, and of what it told the size."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int, int]] = []
        self.measured: set[str] = set()

    async def get(self, path: str) -> bytes | None:
        found = await super().get(path)
        self.asked.append((path, 0, len(found or b"")))
        return found

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        self.asked.append((path, start, stop))
        return await super().get_range(path, start, stop)

    async def head(self, path: str) -> ObjectMeta | None:
        self.measured.add(path)
        return await super().head(path)


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to read, and what it gives of a store that is whole."""

    version: str | None
    read: Read
    expected: Any
    asked: tuple[tuple[str, int, int], ...]
    measured: frozenset[str]

    @classmethod
    def of(cls, objects: Objects, version: str | None, read: Read) -> Probe:
        """Try it once, and see what it asks for."""
        store = WatchedStore()
        fill(store, objects)
        expected = read(open_on(store, version))
        return cls(version, read, expected, tuple(store.asked), frozenset(store.measured))

    def asks(self, path: str, start: int, stop: int) -> bool:
        """Whether it reads any of these bytes, or the size of the object that loses them."""
        return path in self.measured or any(
            path == one and first < stop and start < last for one, first, last in self.asked
        )

    def failure(
        self, store: MemoryStore, what: str, *, opened: Resolved | None = None
    ) -> CorruptionError | tl.DamagedTagWarning | None:
        """Read it of a damaged store: an error, or what it always was.

        Args:
            store: Where the damage is.
            what: Was done, for the message.
            opened: What opening gives, where that asks for nothing that is damaged.
        """
        try:
            again = None if opened is None else Dataset(Session(store, opened))
            found = self.read(open_on(store, self.version) if again is None else again)
        except (CorruptionError, tl.DamagedTagWarning) as error:  # warnings are errors in tests
            return error
        assert found == self.expected, f"{what}: read as something else"
        return None


@dataclass(frozen=True, slots=True)
class Opening:
    """A version that opens, and what is read of it then."""

    opened: Probe
    resolved: Resolved
    reads: tuple[Probe, ...] = field(default=())


def openings(objects: Objects, wanted: Mapping[str | None, Sequence[Read]]) -> list[Opening]:
    """Make the probes of some versions."""
    store = MemoryStore()
    fill(store, objects)
    return [
        Opening(
            Probe.of(objects, version, lambda one: (one.version, session_of(one).head.to_bytes())),
            run(resolve(store, version)),
            tuple(Probe.of(objects, version, read) for read in reads),
        )
        for version, reads in wanted.items()
    ]


def fill(store: MemoryStore, objects: Objects) -> None:
    """Put objects into a store."""
    for path, data in objects.items():
        run(store.put(path, data))


def objects_of(store: MemoryStore) -> dict[str, bytes]:
    """Take all objects out of a store."""

    async def read() -> dict[str, bytes]:
        return {meta.path: await store.get(meta.path) or b"" async for meta in store.list("")}

    return run(read())


def flips(data: bytes, stride: int = 1) -> Iterator[tuple[str, bytes, int, int]]:
    """Flip one bit of one byte after another: what was done, what came of it, which bytes."""
    for at in range(0, len(data), stride):
        flipped = data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
        yield f"byte {at} flipped", flipped, at, at + 1


def cuts(data: bytes, stride: int) -> Iterator[tuple[str, bytes, int, int]]:
    """Cut an object short here and there."""
    for stop in range(0, len(data), stride):
        yield f"cut after {stop} bytes", data[:stop], stop, len(data)


def failures(
    store: MemoryStore, probes: Sequence[Opening], path: str, start: int, stop: int, what: str
) -> list[CorruptionError | tl.DamagedTagWarning]:
    """Try all that asks for the damaged bytes; each answers as before, or names the object."""
    found: list[CorruptionError | tl.DamagedTagWarning] = []
    for one in probes:
        is_asked = one.opened.asks(path, start, stop)
        error = one.opened.failure(store, what) if is_asked else None
        if error is not None:
            found.append(error)
            continue  # whatever is read of it opens it first
        known = None if is_asked else one.resolved
        tried = [probe for probe in one.reads if probe.asks(path, start, stop)]
        errors = [probe.failure(store, what, opened=known) for probe in tried]
        found += [error for error in errors if error is not None]
    for error in found:
        assert path in str(error), f"{what}: {error} names another object"
    return found
