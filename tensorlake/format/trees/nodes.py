"""Nodes of the counted trees: references to pages, inner pages, roots.

    Root (in the log entry)   rows · ≤16 children · a tail of the newest entries, inline
      └ inner page            ≤512 children, each with rows, address, checksum, merged summary
          └ leaf page         ≤4096 entries of one table (extents, row segments, row id runs)

Trees are counted: a node knows how many rows it holds, never where they start. So concatenating
two trees rewrites no page. Children of one node may differ in height. A leaf records how often it
was merged (``merges``): a spilled tail 0 times, and after two eightfold merges it is settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Protocol,
    Self,
    TypeVar,
    runtime_checkable,
)

import numpy as np
import numpy.typing as npt

from tensorlake.format.pages.pack_table import PACK_NBYTES, PackTable, pack_column
from tensorlake.format.pages.pages import (
    Page,
    PageKind,
    PageTable,
    SectionArray,
    decode_page,
    encode_page,
    require_columns,
)
from tensorlake.format.pages.summaries import (
    Summaries,
    SummaryTable,
    columns_from_json,
    columns_to_json,
)
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import PackId
from tensorlake.format.trees.inline_tail import LeafTable, Tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.storage import Buffer

SETTLED = 2  # merges after which a leaf is left alone (format.md: rewritten at most twice)
CHILDREN_KEPT = 128  # roots whose children are kept as JSON: of a few commits of twenty tensors
MAX_HEIGHT = 16  # 512^16 leaves: a greater height is damage
MAX_ROWS = (
    1 << 56
)  # as row segments count them (index/segments.py); NumPy's int64 holds sums of them

_INNER_COLUMNS = ("rows", "entries", "height", "merges", "pack", "offset", "nbytes", "checksum")
_STORED = "stored"
_SUMMARY = "summary."


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """How large the parts of a tree may become (format.md, "The log entry" and "Chunk index")."""

    leaf_entries: int = 4096
    leaf_nbytes: int = 128 * 1024
    leaf_units: int = 131_072  # 10⁹ rows then are 16 × 477 leaves: two pages above a chunk
    fan_out: int = 512
    root_children: int = 16
    tail_entries: int = 64
    tail_nbytes: int = 2048
    merge_width: int = 8


LIMITS = TreeLimits()


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page's address, size, and number of rows below it; height 0 is a leaf.

    ``stored_nbytes`` is the bytes of the chunks of all extents below, each counted once per extent
    that names it; None where that is not recorded, or there are none.
    """

    pack: PackId
    offset: int
    nbytes: int
    checksum: int
    rows: int
    entries: int
    height: int
    merges: int = SETTLED
    stored_nbytes: int | None = field(default=None, compare=False, repr=False)
    summary: Summaries[Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"page {self.pack}[{self.offset}:{self.offset + self.nbytes}]"


class PageSource(Protocol):
    """Reads pages; the tree checks what it gets."""

    async def read(self, ref: PageRef, /) -> Buffer:
        """Return the page's bytes."""
        ...


@runtime_checkable
class PageStartSource(Protocol):
    """A source that can read a page's first bytes alone; one that cannot reads pages whole."""

    async def read_start(self, ref: PageRef, nbytes: int, /) -> Buffer:
        """Return the first ``nbytes`` of a page."""
        ...


class PageSink(Protocol):
    """Takes new pages into the packs of a transaction."""

    def add(self, page: Buffer, /, *, rows: int, entries: int, height: int) -> PageRef:
        """Place a page and return its reference."""
        ...


T = TypeVar("T", bound=LeafTable)


@lru_cache(maxsize=CHILDREN_KEPT)
def _written_children(children: tuple[PageRef, ...], ids: tuple[int, ...]) -> dict[str, Any]:
    """Return a root's children as JSON: they stay for dozens of commits, so they are kept.

    Their ids are part of the key because references that differ in their summaries are equal.
    Cached entries keep them alive, so no id is reused meanwhile.
    """
    del ids
    packs = list(dict.fromkeys(str(child.pack) for child in children))
    value: dict[str, Any] = {
        "packs": packs,
        "children": [
            [
                packs.index(str(child.pack)),
                child.offset,
                child.nbytes,
                f"{child.checksum:016x}",
                child.rows,
                child.entries,
                child.height,
                child.merges,
            ]
            for child in children
        ],
    }
    if any(child.stored_nbytes is not None for child in children):
        value["stored"] = [child.stored_nbytes for child in children]
    summary = columns_to_json(_summaries(children).to_columns(""))
    return {**value, "summary": summary} if summary else value


@dataclass(frozen=True, slots=True)
class Root(Generic[T]):
    """The top of a tree, small enough for a log entry: children, then the newest entries."""

    children: tuple[PageRef, ...]
    newest: Tail[T]

    @classmethod
    def of(cls, table: T, *, children: Sequence[PageRef] = ()) -> Self:
        """Return a tree with this tail; ``append`` spills what is too large for one."""
        return cls(tuple(children), Tail.of(table))

    @property
    def tail(self) -> T:
        """The newest entries, as a table."""
        return self.newest.table

    @property
    def leaf_type(self) -> type[T]:
        """The kind of table that its leaves are."""
        return self.newest.leaf_type

    @property
    def body_rows(self) -> int:
        """Rows below the children: where the tail starts."""
        return sum(child.rows for child in self.children)

    @property
    def rows(self) -> int:
        """Rows of the whole tree."""
        return self.body_rows + self.newest.num_rows

    @property
    def stored_nbytes(self) -> int | None:
        """Bytes of the chunks of all extents, from the root alone; None where not recorded."""
        return _total([*(child.stored_nbytes for child in self.children), self.tail.stored_nbytes])

    @property
    def height(self) -> int:
        """Pages between the root and an entry, at most."""
        return max((child.height + 1 for child in self.children), default=0)

    def to_json(self) -> dict[str, Any]:
        """Write the root for a log entry; parts that are empty are left out."""
        value: dict[str, Any] = {"height": self.height, "rows": self.rows}
        if self.children:
            value |= _written_children(self.children, tuple(map(id, self.children)))
        if len(self.newest):
            value["tail"] = self.newest.to_json()
        return value

    @classmethod
    def from_json(cls, value: Any, table: type[T], *, where: str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            CorruptionError: It is something else, or its numbers contradict each other.
        """
        try:
            packs = [PackId.parse(text) for text in value.get("packs", ())]
            listed = value.get("children", ())
            stored = value.get("stored", [None] * len(listed))
            children = tuple(
                _parse_child(child, packs, nbytes)
                for child, nbytes in zip(listed, stored, strict=True)
            )
            columns = columns_from_json(value.get("summary", {}), where=where)
            tail = table.from_json(value["tail"], where=where) if "tail" in value else table.empty()
            stated = (value["rows"], value["height"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise damaged(where, f"it is not a root ({error!r})") from error
        summaries = Summaries[SummaryTable].from_columns(
            columns, "", entries=len(children), table=table.SUMMARY, where=where
        )
        root = cls(_with_summaries(children, summaries), Tail.of(tail))
        if root.rows > MAX_ROWS:
            raise damaged(where, f"it states {root.rows:,} rows, and a tree has {MAX_ROWS:,}")
        if (root.rows, root.height) != stated:
            raise damaged(where, f"its rows and height are not the {stated} that it states")
        return root


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """A decoded inner page."""

    columns: Mapping[str, SectionArray]
    packs: Sequence[PackId]
    summaries: Summaries[Any]
    stops: npt.NDArray[np.int64]  # rows up to the end of each child

    @property
    def height_of_children(self) -> int:
        """The greatest height of a child."""
        return int(self.columns["height"].max())

    @property
    def stored_nbytes(self) -> int | None:
        """Bytes of the chunks of all extents below; None where not recorded."""
        stored = self.columns.get(_STORED)
        return None if stored is None else int(stored.sum())

    def ref(self, child: int) -> PageRef:
        """Return one child, without its summary."""
        pack, offset, nbytes, checksum, rows, entries, height, merges = (
            int(self.columns[name][child])
            for name in (
                "pack", "offset", "nbytes", "checksum", "rows", "entries", "height", "merges"
            )
        )  # fmt: skip
        stored = self.columns.get(_STORED)
        return PageRef(
            self.packs[pack],
            offset,
            nbytes,
            checksum,
            rows,
            entries,
            height,
            merges,
            None if stored is None else int(stored[child]),
        )

    def refs(self) -> tuple[PageRef, ...]:
        """Return all children with their summaries."""
        refs = tuple(self.ref(child) for child in range(len(self.stops)))
        return _with_summaries(refs, self.summaries)


def write_leaf(table: LeafTable, sink: PageSink, *, merges: int = SETTLED) -> PageRef:
    """Write a leaf page."""
    rows = int(table.rows.sum())
    page = encode_page(table.PAGE_KIND, table.to_columns(), entries=len(table), rows=rows)
    ref = sink.add(page, rows=rows, entries=len(table), height=0)
    return replace(ref, merges=merges, stored_nbytes=table.stored_nbytes, summary=table.summary())


def write_inner(children: Sequence[PageRef], sink: PageSink) -> PageRef:
    """Write an inner page over some children."""
    packs = list(dict.fromkeys(child.pack for child in children))
    number = {pack: at for at, pack in enumerate(packs)}
    summaries = _summaries(children)
    columns: dict[str, SectionArray] = {
        "rows": np.array([child.rows for child in children], np.uint64),
        "entries": np.array([child.entries for child in children], np.uint32),
        "height": np.array([child.height for child in children], np.uint8),
        "merges": np.array([child.merges for child in children], np.uint8),
        "pack": np.array([number[child.pack] for child in children], np.uint32),
        "offset": np.array([child.offset for child in children], np.uint64),
        "nbytes": np.array([child.nbytes for child in children], np.uint32),
        "checksum": np.array([child.checksum for child in children], np.uint64),
        "packs": pack_column(packs),
        **summaries.to_columns(_SUMMARY),
    }
    stored_nbytes = _total([child.stored_nbytes for child in children])
    if stored_nbytes is not None:
        columns[_STORED] = np.array([child.stored_nbytes for child in children], np.uint64)
    rows = sum(child.rows for child in children)
    height = 1 + max(child.height for child in children)
    page = encode_page(PageKind.INNER, columns, entries=len(children), rows=rows)
    ref = sink.add(page, rows=rows, entries=len(children), height=height)
    return replace(ref, stored_nbytes=stored_nbytes, summary=summaries.merge_upward())


def read_inner(
    data: Buffer, table: type[LeafTable], *, where: str, sections: PageTable | None = None
) -> Inner:
    """Read an inner page of a tree of such tables.

    Args:
        data: The page.
        table: The type of the tree's leaves.
        where: The page's name, for errors.
        sections: The result of ``read_table``, if available.

    Raises:
        CorruptionError: It is damaged, or not an inner page.
    """
    page = decode_page(data, where=where, table=sections)
    if page.kind != PageKind.INNER:
        raise damaged(where, f"it is of kind {page.kind}, not an inner page")
    optional = (_STORED,) if _STORED in page.columns else ()
    require_columns(page, (*_INNER_COLUMNS, *optional), where=where)
    packs = read_pack_table(page, where=where)
    rows = page.columns["rows"]
    stops = np.cumsum(rows, dtype=np.int64)
    if not page.entries or int(stops[-1]) != page.rows or int(rows.max()) > page.rows:
        raise damaged(where, f"its children do not hold the {page.rows} rows that it states")
    if int(page.columns["pack"].max()) >= len(packs):
        raise damaged(where, "a child is in a pack that is not in its table")
    summaries = Summaries[SummaryTable].from_columns(
        page.columns, _SUMMARY, entries=page.entries, table=table.SUMMARY, where=where
    )
    return Inner(page.columns, packs, summaries, stops)


def read_pack_table(page: Page, *, where: str) -> PackTable:
    """Read the column that ``pack_column`` made."""
    column = page.columns.get("packs")
    if column is None or column.ndim != 2 or column.shape[1] != PACK_NBYTES:  # noqa: PLR2004 a table
        raise damaged(where, "its table of packs is missing or of another form")
    return PackTable(column.astype(np.uint8, copy=False))


def _parse_child(value: Any, packs: Sequence[PackId], stored: Any) -> PageRef:
    pack, offset, nbytes, checksum, rows, entries, height, merges = value
    numbers = [pack, offset, nbytes, rows, entries, height, merges]
    numbers += [] if stored is None else [stored]
    is_whole = all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
    if not is_whole or height > MAX_HEIGHT:
        raise ValueError(f"{value!r} is not the address of a page")
    digest = int(checksum, 16)
    return PageRef(packs[pack], offset, nbytes, digest, rows, entries, height, merges, stored)


def _total(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _summaries(children: Sequence[PageRef]) -> Summaries[Any]:
    unknown = Summaries[Any].unknown(1)
    return Summaries[Any].concat([child.summary or unknown for child in children])


def _with_summaries(refs: tuple[PageRef, ...], summaries: Summaries[Any]) -> tuple[PageRef, ...]:
    if summaries.table is None:
        return refs
    return tuple(
        replace(ref, summary=summaries.take(np.array([at], np.int64)))
        for at, ref in enumerate(refs)
    )
