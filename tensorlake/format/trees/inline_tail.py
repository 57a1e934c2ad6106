"""Tails: the newest entries of a tree, inline in its root, as a table and as JSON.

A commit adds an entry or two to the tail of every tensor, writes all of the tail, and reads none
of it. So its JSON is extended, not rebuilt: lists are concatenated instead of a dozen arrays
joined, split and written, for each tensor.

    commit 1    table ──to_json──► JSON
    commit 2    added ──to_json──► JSON of it ──joined_json──► JSON of both
    a reader    table, added ──concat──► table of both, kept from then on

It is the same JSON that the joined table would write. Where ``joined_json`` cannot tell what that
is (entries at the border may become one, the sides have columns of different form) it declines, and
the tables are joined at once, as they are when a tail has grown too long to be written.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tensorlake.format.spec.canonical_json import trusted_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format.pages.pages import Page, PageKind, SectionArray
    from tensorlake.format.pages.summaries import Summaries
    from tensorlake.format.spec.spec import PackId

__all__ = ["Addition", "LeafTable", "Tail"]

WRITTEN_ENTRIES_MAX = 128
"""A longer tail is never written: an entry has room for 64, and 128 after a rebase."""

T_co = TypeVar("T_co", bound="LeafTable", covariant=True)


class Addition(Protocol[T_co]):
    """Entries that may be added to a tail: a table, or what one can be made of."""

    def __len__(self) -> int: ...

    @property
    def num_rows(self) -> int:
        """Rows of all entries."""
        ...

    @classmethod
    def concat(cls, tables: Sequence[Self], /) -> Self:
        """Join several, in order."""
        ...

    def united(self) -> Self:
        """Return the entries with neighbours that make one entry united."""
        ...

    def to_table(self) -> T_co:
        """Return the entries as a table."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Write the entries as those of a tail."""
        ...


class LeafTable(Protocol):
    """A table whose entries each stand for a run of rows: what the leaves of a tree hold."""

    PAGE_KIND: ClassVar[PageKind]
    SUMMARY: ClassVar[type[Any] | None]
    HAS_PACKS: ClassVar[bool]  # whether entries point into packs

    @property
    def rows(self) -> npt.NDArray[Any]:
        """Rows of each entry."""
        ...

    @property
    def stops(self) -> npt.NDArray[np.int64]:
        """Rows up to the end of each entry."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows of all entries."""
        ...

    @property
    def stored_nbytes(self) -> int | None:
        """Bytes of the chunks of all entries; None where entries have no chunks."""
        ...

    def __len__(self) -> int: ...

    @classmethod
    def empty(cls) -> Self:
        """Return the table without entries."""
        ...

    @classmethod
    def concat(cls, tables: Sequence[Self], /) -> Self:
        """Join tables, entry by entry."""
        ...

    def united(self) -> Self:
        """Return the table with neighbours that make one entry united."""
        ...

    def take(self, entries: npt.NDArray[np.int64], /) -> Self:
        """Return some entries."""
        ...

    def slice_rows(self, start: int, stop: int, /) -> Self:
        """Return the rows [start, stop) of this table, entries at the borders cut."""
        ...

    def leaf_weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return bytes and units of each entry, as the limits of leaves count them."""
        ...

    def summary(self) -> Summaries[Any]:
        """Return the merged summary of all entries: one row."""
        ...

    def pack_ids(self) -> Sequence[PackId]:
        """Return the packs that entries refer to."""
        ...

    def to_columns(self) -> dict[str, SectionArray]:
        """Return the columns of a leaf page."""
        ...

    @classmethod
    def from_page(cls, page: Page, /, *, where: str) -> Self:
        """Read a leaf page, all of its columns or only those of locations."""
        ...

    def to_table(self) -> Self:
        """Return the table itself: an ``Addition`` of its own kind."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Write a tail for a log entry."""
        ...

    @classmethod
    def from_json(cls, value: Any, /, *, where: str) -> Self:
        """Read a tail."""
        ...

    @staticmethod
    def joined_json(first: dict[str, Any], second: dict[str, Any], /) -> dict[str, Any] | None:
        """Write two tails, neither empty nor with neighbours to unite, as one that has none.

        None where that takes the joined table.
        """
        ...


T = TypeVar("T", bound=LeafTable)


class Tail(Generic[T]):
    """Entries as a table, as JSON, or both: the missing form is created on demand.

    A value: adding to it returns another. Thread-safe, since two threads create equal forms.
    """

    __slots__ = ("_held", "_json", "_nbytes", "entries", "leaf_type", "num_rows")

    def __init__(
        self,
        leaf_type: type[T],
        held: T | tuple[Addition[T], ...],
        json: dict[str, Any] | None,
        *,
        entries: int,
        num_rows: int,
    ) -> None:
        self.leaf_type = leaf_type
        self.entries = entries
        self.num_rows = num_rows
        # One attribute, so that a thread sees the parts or the table, never neither.
        self._held = held
        self._json = json
        self._nbytes: int | None = None

    @classmethod
    def of(cls, table: T) -> Self:
        """Return the tail that has these entries."""
        return cls(type(table), table, None, entries=len(table), num_rows=table.num_rows)

    def __len__(self) -> int:
        return self.entries

    @property
    def table(self) -> T:
        """The entries as a table."""
        held = self._held
        if isinstance(held, tuple):
            held = self._held = _table_of(held, self.leaf_type)
        return held

    @property
    def nbytes(self) -> int:
        """Their number of bytes in a log entry."""
        if self._nbytes is None:
            self._nbytes = len(trusted_bytes(self.to_json()))
        return self._nbytes

    def to_json(self) -> dict[str, Any]:
        """Write them for a log entry; callers must not change the result."""
        if self._json is None:
            self._json = self.table.to_json()
        return self._json

    def grown(self, added: Addition[T]) -> Tail[T]:
        """Return the tail with more entries at its end."""
        if not len(added):
            return self
        if not isinstance(held := self._held, tuple):
            united = held.united()  # as a table read from an entry need not be
            if united is not held:
                return Tail.of(united).grown(added)
        if self.entries + len(added) <= WRITTEN_ENTRIES_MAX:
            added = added.united()
            json = added.to_json()
            if self.entries:
                json = self.leaf_type.joined_json(self.to_json(), json)
            if json is not None:
                return Tail(
                    self.leaf_type,
                    (*self._parts(), added),
                    json,
                    entries=len(json["rows"]),
                    num_rows=self.num_rows + added.num_rows,
                )
        return Tail.of(self.leaf_type.concat([self.table, added.to_table()]).united())

    def _parts(self) -> tuple[Addition[T], ...]:
        held = self._held
        if isinstance(held, tuple):
            return held
        return (cast("Addition[T]", held),) if self.entries else ()


def _table_of(parts: tuple[Addition[T], ...], leaf_type: type[T]) -> T:
    """Join what a tail grew by; of each kind that follows itself, all at once."""
    tables = [kind.concat([*group]).to_table() for kind, group in groupby(parts, key=type)]
    return leaf_type.concat(tables).united()
