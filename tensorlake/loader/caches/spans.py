"""The spans of one pack that a disk has: where they are, and their checksums.

    packs/3f/<dataset>-<pack>.data     the pack's bytes at their own offsets; the rest is a hole
    packs/3f/<dataset>-<pack>.spans    appended records of 32 bytes, little-endian:

        ┌───────────┬───────────┬──────────┬────────────────┬─────────────────────────────┐
        │ start u64 │ nbytes u32│ zero u32 │ xxh3 of bytes  │ xxh3 of the first 24 bytes  │
        └───────────┴───────────┴──────────┴────────────────┴─────────────────────────────┘

Bytes are written before their record, so that a process killed between the two leaves a hole that
no record names. Whatever else a file contains is caught by a checksum: of a record when it is read,
of a span whenever its bytes are. Later records of a start replace earlier ones.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

__all__ = ["RECORD_NBYTES", "PackSpans", "Span", "record_of"]

_RECORD: Final = struct.Struct("<QIIQQ")
RECORD_NBYTES: Final = _RECORD.size
_CHECKED_NBYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [start, stop) of a pack."""

    start: int
    stop: int
    checksum: int


def record_of(span: Span) -> bytes:
    """Return the record of a span."""
    head = _RECORD.pack(span.start, span.stop - span.start, 0, span.checksum, 0)[:_CHECKED_NBYTES]
    return head + struct.pack("<Q", xxh3_64_intdigest(head))


@dataclass(slots=True)
class PackSpans:
    """The known spans of a pack, for one process: none within another, so that stops ascend too.

    Attributes:
        records_nbytes: Bytes of the file of records that have been read.
        used_in: The pass of this process that used the pack last.
    """

    starts: list[int] = field(default_factory=list[int])
    spans: dict[int, Span] = field(default_factory=dict[int, Span])
    records_nbytes: int = 0
    used_in: int = -1

    def add(self, span: Span) -> None:
        """Add a span, unless a larger one contains it; those within it are removed."""
        at = bisect_right(self.starts, span.start)
        before = self.spans[self.starts[at - 1]] if at else None
        if before is not None and before.stop >= span.stop and before.start < span.start:
            return
        if before is not None and before.start == span.start:
            if before.stop > span.stop:
                return
            at -= 1
        end = at
        while end < len(self.starts) and self.spans[self.starts[end]].stop <= span.stop:
            del self.spans[self.starts[end]]
            end += 1
        self.starts[at:end] = [span.start]
        self.spans[span.start] = span

    def drop(self, span: Span) -> None:
        """Remove a span whose bytes are damaged or gone."""
        if self.spans.get(span.start) == span:
            del self.spans[span.start]
            self.starts.remove(span.start)

    def clear(self) -> None:
        """Remove all spans: their bytes are gone."""
        self.starts.clear()
        self.spans.clear()

    def around(self, start: int, stop: int) -> tuple[Span | None, Span | None]:
        """Return the last span that begins up to a start, and the first from a stop on."""
        at, end = bisect_right(self.starts, start), bisect_left(self.starts, stop)
        before = self.spans[self.starts[at - 1]] if at else None
        return before, self.spans[self.starts[end]] if end < len(self.starts) else None

    def read_new(self, path: Path) -> None:
        """Read the records that were appended since the last call, of any process.

        Raises:
            FileNotFoundError: There are none, or they have been deleted.
        """
        nbytes = path.stat().st_size
        if nbytes < self.records_nbytes:  # deleted, and begun again
            self.clear()
            self.records_nbytes = 0
        if nbytes - self.records_nbytes < RECORD_NBYTES:
            return
        with path.open("rb") as file:
            file.seek(self.records_nbytes)
            data = file.read()
        whole = len(data) // RECORD_NBYTES * RECORD_NBYTES
        self.records_nbytes += whole
        for span in _parsed(data[:whole]):
            self.add(span)

    def cover(self, start: int, stop: int) -> tuple[list[Span], tuple[int, int] | None]:
        """Return the spans within a range, and the part of it, if any, that needs a request.

        The part reaches from the first byte that no span has to the last.
        """
        found: list[Span] = []
        gap: tuple[int, int] | None = None
        place = start
        while place < stop:
            at = bisect_right(self.starts, place) - 1
            span = self.spans[self.starts[at]] if at >= 0 else None
            if span is not None and span.stop > place:
                found.append(span)
                place = span.stop
                continue
            following = self.starts[at + 1] if at + 1 < len(self.starts) else stop
            end = min(stop, following)
            gap = (place if gap is None else gap[0], end)
            place = end
        return found, gap


def _parsed(data: bytes) -> Iterable[Span]:
    for at in range(0, len(data), RECORD_NBYTES):
        start, nbytes, _, checksum, own = _RECORD.unpack_from(data, at)
        if nbytes and xxh3_64_intdigest(data[at : at + _CHECKED_NBYTES]) == own:
            yield Span(start, start + nbytes, checksum)
