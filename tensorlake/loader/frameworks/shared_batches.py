"""One decoded stream for many jobs: batches that a server makes once for several clients.

    plan of a request ─► SharedStreams ─► stream that has the batch ─► its batches, made once
                               └──► none ─► a stream of its own, from here

                    kept: 64 batches, or fewer bytes           not made yet
       ───────┬─────┬─────┬─────┬─────┬─────┐
       gone   │  7  │  8  │  9  │ 10  │ 11  │ 12 ◄─ made by the first member that wants it
       ───────┴─────┴─────┴─────┴─────┴─────┘
          ▲        ▲ member
          └ a member this far behind joins or begins another stream, from its own place

A client on the same host may get a batch as sealed memory, by descriptor; its bytes are copied
there when the first such client wants it, and are those that all others are sent.

No thread belongs to a stream: a member that wants the next batch makes it, while the others that
want it wait. A slow member holds up no other, and no batch is made before a member asks for it. A
stream ends with its last member.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from tensorlake.loader.runtime.batch_slabs import Slab

if TYPE_CHECKING:
    from tensorlake.loader.engine.loader import Loader
    from tensorlake.loader.frameworks.server import WrittenBatches

__all__ = ["Member", "Sent", "SharedStreams"]

KEPT: Final = 64  # batches behind the one that was made last: jobs start some seconds apart
KEPT_NBYTES: Final = 512 << 20  # of all streams: 53 batches of 64 images of 224 × 224

KEPT_SLABS: Final = 256  # descriptors of all streams; a process has 1,024 if nothing else is said

Begin = Callable[[int], "tuple[Loader, WrittenBatches]"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch for one member.

    Attributes:
        content: The bytes that the member is sent; b"" at the end.
        slab: The batch, if ``content`` only refers to it.
    """

    content: bytes
    slab: Slab | None = None


class _Batch:
    """The bytes of a batch, in sealed memory once a member asks for that."""

    def __init__(self, content: bytes) -> None:
        self.nbytes = len(content)
        self.slab: Slab | None = None
        self._content = content
        self._lock = threading.Lock()

    @property
    def content(self) -> bytes:
        """The bytes, which members on other hosts are sent."""
        with self._lock:
            return self._content if self.slab is None else self.slab.last(self.nbytes)

    def shared(self, schema: bytes) -> Slab | None:
        """Return the batch behind its schema; None without a descriptor for it."""
        with self._lock:
            if self.slab is None:
                self.slab = slab = Slab.of(schema, self._content)
                if slab is not None:
                    self._content = b""
            return self.slab


class _Stream:
    """Batches of one plan from a number on; its members hold ``turn`` while they make one."""

    def __init__(self, first: int) -> None:
        self.turn = threading.Lock()
        self.opened: tuple[Loader, WrittenBatches] | None = None
        self.schema = self.reference = b""
        # the rest changes under the lock of all streams
        self.first = first
        self.kept: deque[_Batch] = deque()
        self.members = 1
        self.is_over = False
        self.has_failed = False  # its last batch reports an error
        self.is_broken = False  # its first one could not be made

    @property
    def next(self) -> int:
        return self.first + len(self.kept)

    def has(self, number: int) -> bool:
        return self.first <= number < self.next

    def admits(self, number: int) -> bool:
        makes = number == self.next and not self.is_over
        return not (self.has_failed or self.is_broken) and (makes or self.has(number))


class SharedStreams:
    """The streams of a server. Thread-safe.

    Attributes:
        made: Number of batches that were made.
        sent: Number of batches that members got.
    """

    def __init__(self, *, kept: int = KEPT, nbytes: int = KEPT_NBYTES) -> None:
        self._most = kept
        self._nbytes = nbytes
        self._lock = threading.Lock()  # never held while a batch is made, or a loader opened
        self._streams: dict[Hashable, list[_Stream]] = {}
        self._slabs: WeakSet[Slab] = WeakSet()  # whose descriptors are open
        self.made = self.sent = 0

    @property
    def count(self) -> int:
        """How many streams are open."""
        with self._lock:
            return sum(map(len, self._streams.values()))

    def enter(self, plan: Hashable, number: int, begin: Begin) -> Member:
        """Become a member of a stream that has a batch, or of a new one.

        Args:
            plan: All that batches depend on besides their place.
            number: The first batch, counted from the same place for all members of a plan.
            begin: Opens the loader of a new stream at a batch.
        """
        return Member(self, plan, number, begin)

    def join(self, plan: Hashable, number: int) -> _Stream:
        """Return a stream that has a batch, or makes it next."""
        with self._lock:
            streams = self._streams.setdefault(plan, [])
            for stream in streams:
                if stream.admits(number):
                    stream.members += 1
                    return stream
            streams.append(_Stream(number))
            return streams[-1]

    def leave(self, plan: Hashable, stream: _Stream) -> None:
        """End a membership; the last one closes the stream."""
        with self._lock:
            stream.members -= 1
            if stream.members:
                return
            self._streams[plan].remove(stream)
            if not self._streams[plan]:
                del self._streams[plan]
        if stream.opened is not None:
            stream.opened[0].close()

    @property
    def has_descriptors(self) -> bool:
        """Whether another batch may be shared by descriptor."""
        return len(self._slabs) < KEPT_SLABS

    def shared(self, batch: _Batch, schema: bytes) -> Slab | None:
        """Return a batch as sealed memory; None without a descriptor for it."""
        if batch.slab is None and not self.has_descriptors:
            return None
        slab = batch.shared(schema)
        if slab is not None:
            with self._lock:
                self._slabs.add(slab)
        return slab

    def batch(self, stream: _Stream, number: int, begin: Begin) -> _Batch | None:
        """Return a batch of a stream, made now if it is the next; `END` at the end, None if gone.

        Raises:
            TensorlakeError: The first batch cannot be made.
        """
        if (found := self._kept_batch(stream, number)) is not None:
            return found
        with stream.turn:
            if stream.admits(number) and not stream.has(number):
                self._make(stream, begin)
            return self._kept_batch(stream, number)

    def _kept_batch(self, stream: _Stream, number: int) -> _Batch | None:
        with self._lock:
            if stream.has(number):
                self.sent += 1
                return stream.kept[number - stream.first]
            return END if stream.is_over and number == stream.next else None

    def _make(self, stream: _Stream, begin: Begin) -> None:
        try:
            if stream.opened is None:
                stream.opened = begin(stream.first)
            written = stream.opened[1]
            batch = next(written, b"")
        except BaseException:
            with self._lock:
                stream.is_broken = True
            raise
        stream.schema, stream.reference = written.schema, written.reference
        with self._lock:
            stream.has_failed = written.has_failed
            stream.is_over = not batch or written.has_failed
            if batch:
                stream.kept.append(_Batch(batch))
                self.made += 1
            most = self._nbytes // sum(map(len, self._streams.values()))
            nbytes = sum(one.nbytes for one in stream.kept)
            while len(stream.kept) > self._most or (len(stream.kept) > 1 and nbytes > most):
                nbytes -= stream.kept.popleft().nbytes
                stream.first += 1


END: Final = _Batch(b"")


class Member:
    """One client of a stream; used by one thread at a time."""

    def __init__(self, streams: SharedStreams, plan: Hashable, number: int, begin: Begin) -> None:
        self._streams = streams
        self._plan = plan
        self._number = number
        self._begin = begin
        self._has_schema = False
        self._stream: _Stream | None = None

    def next(self, *, by_descriptor: bool = False) -> Sent:
        """Wait for the next batch, the first of them behind the schema.

        Args:
            by_descriptor: Whether the member takes a reference and the batch's sealed memory.

        Raises:
            TensorlakeError: The first batch of a stream cannot be made.
        """
        while True:
            if self._stream is None:
                self._stream = self._streams.join(self._plan, self._number)
            batch = self._streams.batch(self._stream, self._number, self._begin)
            if batch is None:  # too far behind, or the stream has failed: from here by another
                self.leave()
                continue
            if batch is END:
                return Sent(b"")
            self._number += 1
            schema = b"" if self._has_schema else self._stream.schema
            self._has_schema = True
            if by_descriptor:
                slab = self._streams.shared(batch, self._stream.schema)
                if slab is not None:
                    return Sent(schema + self._stream.reference, slab)
            return Sent(schema + batch.content if schema else batch.content)

    def leave(self) -> None:
        """End the membership."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._streams.leave(self._plan, stream)
