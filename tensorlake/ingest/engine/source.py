"""A source: the items to ingest, how an ingestion knows them again, and how it reads them.

This is all that an importer makes; `run_ingest` does the rest. Items (small: a path and its
attributes) have a fixed order, and are of one of two kinds:

    by name       One row per item. ``file(item)``, or ``name(item)``, is the name by which the item
                  is known in the next run, and ``stamp(item)`` changes when the item may have
                  changed: size and time, an ETag, a fingerprint. A changed item is loaded again,
                  and the cells that differ are updated.
    by position   ``by_position=True``: pieces with any number of rows, such as a row group. The
                  next run may have more rows at the end, and nothing else may have changed: pieces
                  whose names or stamps differ are read, and compared by digest.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Generic, TypeVar

from xxhash import xxh3_64_intdigest

from tensorlake.dataset import SkippedItem
from tensorlake.errors import InvalidInputError, SchemaError
from tensorlake.types import as_type

__all__ = [
    "Item",
    "Load",
    "LoadedRows",
    "Refused",
    "Source",
    "given_settings",
    "no_rows",
    "part_of",
]

Item = TypeVar("Item")

DIGEST_NBYTES = 16

Load = Callable[[Sequence[Item]], "Mapping[str, Any] | LoadedRows"]
"""Reads items into columns."""

Refused = tuple[SkippedItem, Mapping[str, Any]]
"""An item left out, with its values, if any."""


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """Rows of items with many rows each, some of which could not be parsed.

    Attributes:
        columns: Columns of the valid rows.
        refused: Rows that could not be parsed.
        row_name: Returns the name of a row of the columns.
    """

    columns: Mapping[str, Any]
    refused: Sequence[Refused]
    row_name: Callable[[int], str]


def no_rows(kind: str, rejected: Sequence[SkippedItem] = ()) -> InvalidInputError:
    """Return the error for a source without rows from which types could follow.

    Where types are known without rows, by an index, by metadata or by ``schema=``, a source of
    which every item is rejected makes an empty dataset instead.

    Args:
        kind: Name of the format.
        rejected: Items that were left out; the message names the first and its reason.
    """
    message = f"there are no rows to ingest as {kind}"
    if rejected:
        first, count = rejected[0], len(rejected)
        message += f": {first.item}: {first.reason.splitlines()[0]}"
        message += f"\nthe first of {count:,} items that were rejected" if count > 1 else ""
    return InvalidInputError(message, kind=kind, items=[one.item for one in rejected])


def part_of(row: int, counts: Sequence[int]) -> tuple[int, int]:
    """Return the part that contains a row of consecutive parts, and the row within it.

    >>> part_of(3, [2, 0, 4])
    (2, 1)
    """
    stops = [*accumulate(counts)]
    part = bisect_right(stops, row)
    return part, row - (stops[part] - counts[part])


@dataclass(frozen=True, slots=True)
class Source(Generic[Item]):
    """Items to ingest.

    Attributes:
        kind: Name of the format, part of the keys.
        schema: Types of the tensors.
        items: Items, in the order of their rows.
        sizes: Bytes of each item, known without reading it.
        name: Returns the name of an item in errors and reports; part of the keys.
        load: Reads items into columns, or into `LoadedRows`; called in a thread, with a few
            hundred items.
        row_name: Returns the name of a row of loaded items that have several rows each.
        place: Location of the source, for progress; the kind for a source in memory.
        maker: Other inputs that determine the rows, such as a tokenizer; part of the keys.
        left_out: Parts of the source that have no rows, for the report; loading may add some.
        may_be_there: Returns whether an item that is not listed may be in a part of the source that
            was left out, beside those that ``left_out`` names; None: never.
        takes_schema: Whether the call has ``schema=``, for errors.
        stamp: Returns a value that changes with the item, beside name and size: a time or a digest.
        file: Returns the name by which the next run knows an item, such as its path in the source;
            None: ``name`` does. By position: the file that it is part of, for errors.
        unit: Noun for such a file: "image", "sample".
        settings: Arguments of the call that determine the rows.
        has_identity: Whether name, size and stamp identify an item: not for an object in memory
            of which only type and length are known.
        apart: How to pass some items alone, for errors: follows "pass only them".
        header: Members of the source that belong to all items, for exports, as JSON.
        optional: Tensors that earlier versions of the format's importer did not make: a dataset
            without them gets rows without them.
        absent: Optional tensors of which the source has no values now: a new dataset does not get
            them, and one that has them is given their empty values.
        where: Path or URL of the source, by which it is known again; "" for one in memory.
        by_position: Whether items are known by position: pieces with any number of rows.
        fingerprint: By position: returns a hash of the content of a range of items; None: their
            names, sizes and stamps decide.
        content: Tensors by which an item is recognised under another name.
        names_classes: Whether ``load`` gives classes by name, not by code.
        key_advice: By position: how to ingest items by name, for errors.
        hides_names: Whether some items could not be read, and so have no names: no item is known to
            have left the source then.
        key: The column whose value is an item's name, as ``key=value``.
        parts: By position: the tensor that names the part of each row, such as a split.
        in_order: By position: returns the source with its parts in the order of an earlier run, new
            ones at the end, given their names.
        cut_item: By position: cuts an item, to which rows were added, after the bytes that it had:
            returns the item as it was, the rest, and the bytes of the rest; None if no row ends
            there.
    """

    kind: str
    schema: Mapping[str, Any]
    items: Sequence[Item]
    sizes: Sequence[int]
    name: Callable[[Item], str]
    load: Load[Item]
    row_name: Callable[[Sequence[Item], int], str] | None = None
    place: str = ""
    maker: str = ""
    left_out: Collection[SkippedItem] = ()
    may_be_there: Callable[[str], bool] | None = None
    takes_schema: bool = False
    stamp: Callable[[Item], object] | None = None
    file: Callable[[Item], str] | None = None
    unit: str = "file"
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    has_identity: bool = True
    apart: str = ""
    header: Mapping[str, Any] | None = None
    optional: Collection[str] = ()
    absent: Collection[str] = ()
    where: str = ""
    by_position: bool = False
    fingerprint: Callable[[range], int] | None = None
    content: Sequence[str] = ("image",)
    names_classes: bool = False
    key_advice: str = ""
    hides_names: bool = False
    key: str | None = None
    parts: str = ""
    in_order: Callable[[Sequence[str]], Source[Item]] | None = None
    cut_item: Callable[[Item, int], tuple[Item, Item, int] | None] | None = None

    @property
    def schema_to_create(self) -> dict[str, Any]:
        """Types of the tensors that a new dataset gets.

        Raises:
            SchemaError: A column has the name of a virtual one.
        """
        for name in self.schema:
            self.refuse_virtual(name)
        return {name: kind for name, kind in self.schema.items() if name not in self.absent}

    def refuse_virtual(self, column: str) -> None:
        """Refuse a column that no tensor can be named after.

        Raises:
            SchemaError: Its name begins with "_".
        """
        if column.startswith("_"):
            names = [name for name in self.schema if not name.startswith("_")]
            advice = "rename it in the source, or leave it out there"
            if self.kind == "parquet":
                advice = f"to ingest the others: columns={names}; to have it, too: rename it there"
            raise SchemaError(
                f'the source has {column!r}, and the name of a tensor does not begin with "_"'
                f"\n{advice}",
                tensor=column,
            )

    def absence(self, skipped: Sequence[SkippedItem]) -> Callable[[str], bool]:
        """Return whether an item left the source, and neither it nor its folder was skipped."""
        names = {one.item for one in skipped}
        folders = tuple(f"{name}/" for name in names)

        def is_absent(item: str) -> bool:
            if item in names or item.startswith(folders):
                return False
            return self.may_be_there is None or not self.may_be_there(item)

        return is_absent

    @property
    def key_start(self) -> str:
        """Prefix of the keys of its commits, unique to this kind of source."""
        return f"ingest:{self.kind}:" + (f"{self.maker}:" if self.maker else "")

    def row_called(self, items: Sequence[Item], row: int) -> str:
        """Return the name of a row of loaded items."""
        return self.name(items[row]) if self.row_name is None else self.row_name(items, row)

    def cut(self, items: range, size: int) -> Iterator[range]:
        """Split items into runs of about ``size`` bytes, deterministically."""
        start, nbytes = items.start, 0
        for at in items:
            if nbytes and nbytes + self.sizes[at] > size:
                yield range(start, at)
                start, nbytes = at, 0
            nbytes += self.sizes[at]
        if start < items.stop:
            yield range(start, items.stop)

    def nbytes(self, items: range) -> int:
        """Return the size of some items in bytes."""
        return sum(self.sizes[items.start : items.stop])

    def file_of(self, at: int) -> str:
        """Return the file of an item."""
        return (self.file or self.name)(self.items[at])

    def state_of(self, at: int) -> str:
        """Return a string that changes with the file of an item."""
        return str(self.sizes[at] if self.stamp is None else self.stamp(self.items[at]))

    def identity(self, items: range) -> bytes:
        """Return bytes that identify some items."""
        each = (
            f"{self.name(self.items[at])}\0{self.sizes[at]}\0{self.state_of(at)}\0" for at in items
        )
        return "".join(each).encode(errors="surrogateescape")

    def stamp_of_pieces(self, items: range) -> int:
        """Return a hash that changes with items known by position; never 0."""
        if self.fingerprint is not None:
            return self.fingerprint(items) or 1
        return xxh3_64_intdigest(self.identity(items)) or 1

    def first_key(self, batch: range) -> str:
        """Return the key by which tensorlake 0.1.0 committed some items: without their stamps."""
        named = "".join(f"{self.name(self.items[at])}\0{self.sizes[at]}\0" for at in batch)
        content = named.encode(errors="surrogateescape")
        digest = hashlib.blake2b(content, digest_size=DIGEST_NBYTES).hexdigest()
        return f"{self.key_start}{digest}"


def given_settings(schema: Mapping[str, Any] | None, **arguments: object) -> dict[str, Any]:
    """Return the arguments of a call that determine its rows, with types in their long form."""
    if schema:
        arguments["schema"] = {name: as_type(one) for name, one in schema.items()}
    return {name: one for name, one in arguments.items() if one is not None}
