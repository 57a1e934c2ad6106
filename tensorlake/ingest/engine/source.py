"""A source: what is to be ingested, item by item, and how it is cut and named.

Items (small: a path and what is known of it) have a fixed order. Batches are cut by bytes alone,
so the same source gives the same batches; a batch's key is a digest of all items up to its end.
What a commit keeps of this, to recognise the source again, is in `provenance.py`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Generic, TypeVar

from tensorlake.dataset import SkippedItem
from tensorlake.types import as_type

__all__ = ["DIGEST_NBYTES", "Item", "LoadedRows", "Refused", "Source", "given_settings", "part_of"]

Item = TypeVar("Item")

DIGEST_NBYTES = 16

Refused = tuple[SkippedItem, Mapping[str, Any]]
"""What was left out, with the values that it had, where it had any."""


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """What items became that have many rows each, some of which could not be parsed.

    Attributes:
        columns: Of the others.
        refused: Those that could not.
        row_name: What a row of the columns is called.
    """

    columns: Mapping[str, Any]
    refused: Sequence[Refused]
    row_name: Callable[[int], str]


def part_of(row: int, counts: Sequence[int]) -> tuple[int, int]:
    """Return which part has a row, where parts lie one behind another, and its row there.

    >>> part_of(3, [2, 0, 4])
    (2, 1)
    """
    stops = [*accumulate(counts)]
    part = bisect_right(stops, row)
    return part, row - (stops[part] - counts[part])


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """What is to be ingested.

    Attributes:
        kind: Name of the format, part of the keys.
        schema: Types of the tensors.
        items: In the order of the rows to be.
        sizes: Bytes of each item, known without reading it.
        name: What errors and the report call an item; part of the keys.
        load: Read items into columns, or into `LoadedRows`; called with a few hundred at once, in
            a thread.
        row_name: What a row of loaded items is called, where an item has several rows.
        place: Where it comes from, as progress says it; the kind where it is in memory.
        maker: What else decides the rows that items become, such as a tokenizer; part of the keys.
        left_out: What of the source has no place in the rows, for the report; loading may add.
        takes_schema: Whether the call has ``schema=``, for errors.
        stamp: What changes where an item does, beside its name and size: a time, or a digest.
        file: The file that an item is part of, as errors name it; None: items are files.
        unit: What such a file is called: "image", "sample".
        settings: Arguments of the call that decide the rows.
        has_identity: Whether name, size and stamp tell an item from any other: not those of an
            object in memory of which no more than type and length is known.
        apart: How some items alone are given, for errors: what follows "give them by themselves".
    """

    kind: str
    schema: Mapping[str, Any]
    items: Sequence[Item]
    sizes: Sequence[int]
    name: Callable[[Item], str]
    load: Callable[[Sequence[Item]], Mapping[str, Any] | LoadedRows]
    row_name: Callable[[Sequence[Item], int], str] | None = None
    place: str = ""
    maker: str = ""
    left_out: Collection[SkippedItem] = ()
    takes_schema: bool = False
    stamp: Callable[[Item], object] | None = None
    file: Callable[[Item], str] | None = None
    unit: str = "file"
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_identity: bool = True
    apart: str = ""

    @property
    def key_start(self) -> str:
        """What the keys of all its commits begin with, and those of no other making do."""
        return f"ingest:{self.kind}:" + (f"{self.maker}:" if self.maker else "")

    def row_called(self, items: Sequence[Item], row: int) -> str:
        """What a row of loaded items is called."""
        return self.name(items[row]) if self.row_name is None else self.row_name(items, row)

    def cut(self, items: range, size: int) -> Iterator[range]:
        """Cut items into runs of about ``size`` bytes, the same for the same items."""
        start, nbytes = items.start, 0
        for at in items:
            if nbytes and nbytes + self.sizes[at] > size:
                yield range(start, at)
                start, nbytes = at, 0
            nbytes += self.sizes[at]
        if start < items.stop:
            yield range(start, items.stop)

    def nbytes(self, items: range) -> int:
        """How many bytes some items have."""
        return sum(self.sizes[items.start : items.stop])

    def file_of(self, at: int) -> str:
        """Return the file that an item is of."""
        return (self.file or self.name)(self.items[at])

    def state_of(self, at: int) -> str:
        """Return what changes where the file of an item does."""
        return str(self.sizes[at] if self.stamp is None else self.stamp(self.items[at]))

    def identity(self, items: range) -> bytes:
        """Return what tells some items from others."""
        each = (
            f"{self.name(self.items[at])}\0{self.sizes[at]}\0{self.state_of(at)}\0" for at in items
        )
        return "".join(each).encode(errors="surrogateescape")

    def digest(self, stop: int) -> str:
        """Return a digest of the items before ``stop``."""
        return hashlib.blake2b(self.identity(range(stop)), digest_size=DIGEST_NBYTES).hexdigest()

    def first_key(self, batch: range) -> str:
        """Return the key by which tensorlake 0.1.0 committed some items: without their stamps."""
        named = "".join(f"{self.name(self.items[at])}\0{self.sizes[at]}\0" for at in batch)
        content = named.encode(errors="surrogateescape")
        digest = hashlib.blake2b(content, digest_size=DIGEST_NBYTES).hexdigest()
        return f"{self.key_start}{digest}"


def given_settings(schema: Mapping[str, Any] | None, **arguments: object) -> dict[str, Any]:
    """Return the arguments of a call that decide its rows, types in place of their short forms."""
    if schema:
        arguments["schema"] = {name: as_type(one) for name, one in schema.items()}
    return {name: one for name, one in arguments.items() if one is not None}
