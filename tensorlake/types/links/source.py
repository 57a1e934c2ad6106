"""Linked samples: a `PartSource` whose bytes are in a file elsewhere.

    chunk header ─► record ─► map of the linked sample ─► wanted parts ─► ranges of the file
                                                                           └► verified one by one

Types open no file: a `LinkOpener`, which the storage layer has, reads the ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types.base.column import Buffer, SampleMap
from tensorlake.types.base.parts import Each, MemorySample
from tensorlake.types.links.record import LinkRecord, read_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LinkOpener", "LinkedSample", "OpenedLink"]


class LinkOpener(Protocol):
    """Reads files that links name."""

    def read(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read byte ranges [start, stop) of a file.

        Raises:
            AccessError: Links are not followed here.
            FileNotFoundError: There is no such file.
            EOFError: It is shorter.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSample:
    """One linked sample.

    Attributes:
        tensor: Name of its tensor, for errors.
        row: Its row, for errors.
        record: Its record.
        map: The map of the linked sample.
        shape: Shape of the decoded sample, where recorded.
        opener: Reads its file.
    """

    tensor: str
    row: int
    record: LinkRecord
    map: SampleMap
    shape: tuple[int, ...] | None
    opener: LinkOpener = field(repr=False)

    @classmethod
    def of(
        cls,
        head: bytes,
        shape: tuple[int, ...] | None,
        opener: LinkOpener,
        *,
        tensor: str,
        row: int,
    ) -> LinkedSample:
        """Read the record of a link.

        Raises:
            CorruptSampleError: It is damaged.
        """
        try:
            record = read_record(head)
            return cls(tensor, row, record, record.map, shape, opener)
        except ValueError as error:
            raise CorruptSampleError(
                f"row {row} of {tensor!r} is not a link: {error}\ngive the row its URL again",
                tensor=tensor,
                row=row,
            ) from error

    @property
    def each(self) -> Each:
        """Pieces are decoded one after another."""
        return map

    def ranges(self, parts: np.ndarray) -> list[tuple[int, int]]:
        """Return the byte ranges of parts in the file."""
        return [self.map.span(part) for part in parts.tolist()]

    def fetch(self, parts: np.ndarray) -> Mapping[int, Buffer]:
        """Read and verify parts.

        Raises:
            CorruptSampleError: The file is gone, or is not the one that was linked.
        """
        return self.verified(parts, self.answered(self.opener.read, self.ranges(parts)))

    def answered(self, read: Any, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Call a function that reads ranges; a file that is gone or short is this sample's error.

        Raises:
            CorruptSampleError: The file is gone, or shorter than it was.
        """
        try:
            return read(self.record.url, ranges)
        except FileNotFoundError as error:
            raise self.gone() from error
        except EOFError as error:
            raise self.changed() from error

    def verified(self, parts: np.ndarray, buffers: Sequence[Buffer]) -> dict[int, Buffer]:
        """Verify the bytes of parts; return them by their numbers.

        Raises:
            CorruptSampleError: They are not those that the file had when it was linked.
        """
        found = dict(zip(parts.tolist(), buffers, strict=True))
        for number, data in found.items():
            if not self.record.is_part(number, data):
                raise self.changed()
        return found

    def gone(self) -> CorruptSampleError:
        """Build the error for a file that is not there."""
        return self._lost("is gone")

    def changed(self) -> CorruptSampleError:
        """Build the error for a file that is not the one that was linked."""
        return self._lost("has changed since it was linked")

    def _lost(self, why: str) -> CorruptSampleError:
        place = f"row {self.row} of {self.tensor!r}"
        return CorruptSampleError(
            f"{place} is a link to {self.record.url!r}, which {why}"
            f"\nrestore the file, or link it again: ds[{self.tensor!r}][{self.row}] = URL;"
            " to find all: ds.check(links=True); to train without them: on_error='skip'",
            tensor=self.tensor,
            row=self.row,
            url=self.record.url,
        )

    @property
    def content(self) -> bytes:
        """The whole file, read and verified.

        Raises:
            CorruptSampleError: It is gone, or is not the one that was linked.
        """
        return b"".join(self.fetch(np.arange(self.map.num_parts)).values())

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySample, (self.content, self.map, self.shape, self.tensor, self.row)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedLink(SampleMap):
    """The map of a stored link in a column, with the sample that it leads to."""

    sample: LinkedSample | None = None
