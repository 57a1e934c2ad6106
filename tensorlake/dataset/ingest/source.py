"""A source: what is to be ingested, item by item, and how it is cut and named.

Items (small: a path and what is known of it) have a fixed order. Batches are cut by bytes alone,
so the same source gives the same batches; a batch's key is a digest of its items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tensorlake.dataset.ingest.report import SkippedItem

__all__ = ["Item", "Source"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """What is to be ingested.

    Attributes:
        kind: Name of the format, part of the keys.
        schema: Types of the tensors.
        items: In the order of the rows to be.
        sizes: Bytes of each item, known without reading it.
        name: What errors and the report call an item; part of the keys.
        load: Read items into columns; called with a few hundred at once, in a thread.
        row_name: What a row of loaded items is called, where an item has several rows.
        place: Where it comes from, as progress says it; the kind where it is in memory.
        maker: What else decides the rows that items become, such as a tokenizer; part of the keys.
        left_out: What of the source has no place in the rows, for the report; loading may add.
        takes_schema: Whether the call has ``schema=``, for errors.
    """

    kind: str
    schema: Mapping[str, Any]
    items: Sequence[Item]
    sizes: Sequence[int]
    name: Callable[[Item], str]
    load: Callable[[Sequence[Item]], Mapping[str, Any]]
    row_name: Callable[[Sequence[Item], int], str] | None = None
    place: str = ""
    maker: str = ""
    left_out: Collection[SkippedItem] = ()
    takes_schema: bool = False

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

    def key(self, batch: range) -> str:
        """The key of the commit that some items become."""
        named = "".join(f"{self.name(self.items[at])}\0{self.sizes[at]}\0" for at in batch)
        digest = hashlib.blake2b(named.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return f"{self.key_start}{digest}"
