"""Extents: the chunk of each range of physical rows, as columns.

An extent is a window ``[skip, skip + rows)`` of the rows of one chunk, so an update splits it
without touching the chunk. Columns of a leaf page (an extent has one item in each):

    rows u32 · skip u32 · kind u8 · read_as u16 · pack u32 · offset u64 · nbytes u64
    · header_nbytes u32 · checksum u64                         the section group "locations"
    packs (20 B each: txid, n)                                 what ``pack`` counts in
    statistics.*                                               optional, see pages/statistics.py
    units.count u32 · units.lengths u32 · units.checksums u32  optional: the parts of a chunk that
                                                               can be verified alone

Fill and hole extents are in no pack (``NO_PACK``). ``read_as`` numbers the tensor's encoding. Units
describe a whole chunk; an extent cut from one loses them (the chunk's header has them too), as do
the extents of a tail. In a tail, columns are JSON arrays, left out where all items are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format.chunk.header import ChunkKind
from tensorlake.format.index.units import UnitTable
from tensorlake.format.pages.pack_table import PACK_NBYTES, PackTable, pack_column
from tensorlake.format.pages.pages import Page, PageKind, SectionArray, require_columns
from tensorlake.format.pages.statistics import joined_statistics_json
from tensorlake.format.pages.statistics_table import StatisticsTable
from tensorlake.format.pages.summaries import Summaries, columns_from_json, columns_to_json
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import PackId
from tensorlake.format.trees.nodes import read_pack_table

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PACK = 0xFFFFFFFF
MAX_EXTENT_ROWS = 0xFFFFFFFF
MIN_KIND, MAX_KIND = min(ChunkKind), max(ChunkKind)

_DTYPES: dict[str, np.dtype[Any]] = {
    "rows": np.dtype("<u4"),
    "skip": np.dtype("<u4"),
    "kind": np.dtype("<u1"),
    "read_as": np.dtype("<u2"),
    "pack": np.dtype("<u4"),
    "offset": np.dtype("<u8"),
    "nbytes": np.dtype("<u8"),
    "header_nbytes": np.dtype("<u4"),
    "checksum": np.dtype("<u8"),
}
# What an extent's location takes in a page: 14-16 B measured; the limit of 128 KiB for 4096.
_LOCATION_NBYTES = 32
_MAX_COMPARED_PACKS = 1024
_JSON_OPTIONAL = ("skip", "kind", "read_as", "pack", "header_nbytes")
_STATISTICS = "statistics."


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Extents:
    """Extents in the order of their rows."""

    rows: npt.NDArray[np.uint32]
    skip: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]
    read_as: npt.NDArray[np.uint16]
    pack: npt.NDArray[np.uint32]
    offset: npt.NDArray[np.uint64]
    nbytes: npt.NDArray[np.uint64]
    header_nbytes: npt.NDArray[np.uint32]
    checksum: npt.NDArray[np.uint64]
    packs: Sequence[PackId]
    statistics: Summaries[StatisticsTable]
    units: UnitTable
    stops: npt.NDArray[np.int64] = field(init=False)  # rows up to each one's end

    PAGE_KIND: ClassVar[PageKind] = PageKind.EXTENTS
    SUMMARY: ClassVar[type[Any] | None] = StatisticsTable
    HAS_PACKS: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "stops", self.rows.cumsum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Extents({len(self)} extents of {int(self.rows.sum())} rows)"

    @property
    def num_rows(self) -> int:
        """Rows of all extents."""
        return int(self.stops[-1]) if len(self.stops) else 0

    @property
    def stored_nbytes(self) -> int:
        """Bytes of their chunks, each counted once per extent that is a window of it."""
        return int(self.nbytes.sum())

    @classmethod
    def empty(cls) -> Self:
        """Return no extents."""
        return cls._build({}, 0, ())

    @classmethod
    def chunk(
        cls,
        *,
        rows: int,
        kind: int,
        pack: PackId,
        offset: int,
        nbytes: int,
        header_nbytes: int,
        checksum: int,
        read_as: int = 0,
        statistics: StatisticsTable | None = None,
        units: UnitTable | None = None,
    ) -> Self:
        """Return the one extent of a whole chunk in a pack."""
        return cls(
            rows=np.array([rows], np.uint32),
            skip=np.zeros(1, np.uint32),
            kind=np.array([kind], np.uint8),
            read_as=np.array([read_as], np.uint16),
            pack=np.zeros(1, np.uint32),
            offset=np.array([offset], np.uint64),
            nbytes=np.array([nbytes], np.uint64),
            header_nbytes=np.array([header_nbytes], np.uint32),
            checksum=np.array([checksum], np.uint64),
            packs=(pack,),
            statistics=Summaries[StatisticsTable].unknown(1)
            if statistics is None
            else Summaries[StatisticsTable].of(statistics),
            units=UnitTable.none(1) if units is None else units,
        )

    @classmethod
    def without_bytes(
        cls,
        kind: ChunkKind,
        rows: int,
        *,
        read_as: int = 0,
        statistics: StatisticsTable | None = None,
    ) -> Self:
        """Return extents of kind FILL or HOLE: one, unless there are more than 2^32 - 1 rows."""
        counts = [MAX_EXTENT_ROWS] * (rows // MAX_EXTENT_ROWS)
        if rows % MAX_EXTENT_ROWS:
            counts.append(rows % MAX_EXTENT_ROWS)
        columns = {
            "rows": np.array(counts, np.uint32),
            "kind": np.full(len(counts), kind, np.uint8),
            "read_as": np.full(len(counts), read_as, np.uint16),
            "pack": np.full(len(counts), NO_PACK, np.uint32),
        }
        summaries = None
        if statistics is not None:
            summaries = Summaries[StatisticsTable].of(statistics)
            summaries = summaries.take(np.zeros(len(counts), np.int64))
        return cls._build(columns, len(counts), (), summaries)

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join extents in order."""
        tables = [table for table in tables if len(table)]
        if len(tables) <= 1:
            return tables[0] if tables else cls.empty()
        columns = {name: np.concatenate([getattr(t, name) for t in tables]) for name in _DTYPES}
        packs = PackTable.concat([table.packs for table in tables])
        counts = list(accumulate((len(table.packs) for table in tables), initial=0))
        columns["pack"] = np.concatenate(
            [_counted_from(count, t.pack) for count, t in zip(counts, tables, strict=False)]
        )
        joined = cls(
            **columns,
            packs=packs,
            statistics=Summaries[StatisticsTable].concat([table.statistics for table in tables]),
            units=UnitTable.concat([table.units for table in tables]),
        )
        # A look-up joins hundreds of leaves; their packs are told apart when a page is written.
        return _with_used_packs(joined) if len(packs) <= _MAX_COMPARED_PACKS else joined

    def united(self) -> Self:
        """Join neighbours that are adjoining windows of one chunk, or alike and in no chunk."""
        follows = self.pack[1:] == self.pack[:-1]
        if not follows.any():
            return self  # of as many commits: the usual tail
        for name in ("kind", "read_as", "offset", "nbytes", "checksum"):
            column = getattr(self, name)
            follows &= column[1:] == column[:-1]
        rows = self.rows.astype(np.int64)
        skip = self.skip.astype(np.int64)
        follows &= (self.pack[1:] == NO_PACK) | (skip[1:] == skip[:-1] + rows[:-1])
        if not follows.any():
            return self
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        sums = np.add.reduceat(rows, first)
        if int(sums.max()) > MAX_EXTENT_ROWS:
            return self
        united = self.take(first)
        units = united.units.keep(sums == rows[first])
        return replace(united, rows=sums.astype(np.uint32), units=units)

    def take(self, entries: npt.NDArray[np.int64]) -> Self:
        """Return some extents, in that order."""
        return self._build(
            {name: getattr(self, name)[entries] for name in _DTYPES},
            len(entries),
            self.packs,
            self.statistics.take(entries),
            self.units.take(entries),
        )

    def with_read_as(
        self, read_as: int | Sequence[int], *, codes: Sequence[int] | None = None
    ) -> Self:
        """Return the same extents, read as other encodings of their tensor.

        Args:
            read_as: The new number of each encoding, by its old one; an int is that of all.
            codes: Where class codes change: the new code of each. The statistics follow; those
                of fills stay, since the tensor's fill is not a stored code.
        """
        table = np.asarray(read_as, _DTYPES["read_as"])
        renumbered = table[self.read_as] if table.ndim else np.full(len(self), table)
        if codes is None or self.statistics.table is None:
            return replace(self, read_as=renumbered)
        is_stored = (self.kind != ChunkKind.FILL) & (self.kind != ChunkKind.HOLE)
        mapped = self.statistics.table.with_codes(
            np.asarray(codes, np.int64), where=is_stored[self.statistics.known]
        )
        return replace(self, read_as=renumbered, statistics=replace(self.statistics, table=mapped))

    def slice_rows(self, start: int, stop: int) -> Self:
        """Return the extents of rows [start, stop); those cut at the borders lose their units."""
        start, stop = max(start, 0), min(stop, self.num_rows)
        if stop - start == self.num_rows:
            return self
        first = int(np.searchsorted(self.stops, start, side="right"))
        last = int(np.searchsorted(self.stops, stop, side="left"))
        if start >= stop or first >= len(self):
            return self.empty()
        part = self.take(np.arange(first, last + 1))
        rows = part.rows.astype(np.int64)
        skip = part.skip.astype(np.int64)
        beyond = max(0, int(self.stops[last]) - stop)
        before = start - (int(self.stops[first - 1]) if first else 0)
        rows[-1] -= beyond
        rows[0] -= before
        skip[0] += before
        is_whole = np.ones(len(part), np.bool_)
        is_whole[0] = before == 0 and (len(part) > 1 or beyond == 0)
        is_whole[-1] &= beyond == 0
        return replace(
            part,
            rows=rows.astype(np.uint32),
            skip=skip.astype(np.uint32),
            units=part.units.keep(is_whole),
        )

    def leaf_weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return bytes and units of each extent, as the limits of leaves count them."""
        return np.full(len(self), _LOCATION_NBYTES, np.int64), self.units.counts.astype(np.int64)

    def summary(self) -> Summaries[Any]:
        """Return the merged statistics; dead rows do not affect them."""
        alive = np.flatnonzero(self.kind != ChunkKind.HOLE)
        return self.statistics.take(alive).merge_upward()

    def pack_ids(self) -> Sequence[PackId]:
        """Return the packs of these extents."""
        used = np.unique(self.pack)
        return [self.packs[number] for number in used.tolist() if number != NO_PACK]

    def to_columns(self) -> dict[str, SectionArray]:
        """Return the columns of a leaf page."""
        table = _with_used_packs(self)
        columns: dict[str, SectionArray] = {name: getattr(table, name) for name in _DTYPES}
        columns["packs"] = pack_column(table.packs)
        return columns | table.statistics.to_columns(_STATISTICS) | table.units.to_columns()

    @classmethod
    def from_page(cls, page: Page, *, where: str) -> Self:
        """Read a leaf page, all of it or locations only.

        Raises:
            CorruptionError: It is not a page of extents, or contradicts itself.
        """
        require_columns(page, tuple(_DTYPES), where=where)
        columns = {
            name: page.columns[name].astype(dtype, copy=False) for name, dtype in _DTYPES.items()
        }
        return cls._checked(
            columns,
            read_pack_table(page, where=where),
            Summaries[StatisticsTable].from_columns(
                page.columns, _STATISTICS, entries=page.entries, table=StatisticsTable, where=where
            ),
            UnitTable.from_columns(page.columns, entries=page.entries, where=where),
            where=where,
        )

    def to_table(self) -> Self:
        """Return the extents themselves."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Write the extents of a tail, without units."""
        table = _with_used_packs(self)
        value: dict[str, Any] = {"rows": table.rows.tolist()}
        if table.packs:
            value["packs"] = PackTable(pack_column(table.packs)).names()
            value["offset"] = table.offset.tolist()
            value["nbytes"] = table.nbytes.tolist()
            value["checksum"] = table.checksum.astype(">u8").tobytes().hex()
        for name in _JSON_OPTIONAL:
            items: list[int] = getattr(table, name).tolist()
            if any(items):
                value[name] = [-1 if item == NO_PACK else item for item in items]
        statistics = columns_to_json(table.statistics.to_columns(""))
        return value | ({"statistics": statistics} if statistics else {})

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Self:
        """Read a tail.

        Raises:
            CorruptionError: It is something else.
        """
        try:
            entries = len(value["rows"])
            zeros = [0] * entries
            items = {name: value.get(name, zeros) for name in _DTYPES}
            items["pack"] = [NO_PACK if item == -1 else item for item in items["pack"]]
            text = value.get("checksum", "0" * 16 * entries)
            items["checksum"] = [int(text[at : at + 16], 16) for at in range(0, len(text), 16)]
            columns = {name: np.array(items[name], dtype) for name, dtype in _DTYPES.items()}
            packs = tuple(PackId.parse(pack) for pack in value.get("packs", ()))
            statistics = columns_from_json(value.get("statistics", {}), where=where)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise damaged(where, f"its tail does not hold extents ({error!r})") from error
        summaries = Summaries[StatisticsTable].from_columns(
            statistics, "", entries=entries, table=StatisticsTable, where=where
        )
        return cls._checked(columns, packs, summaries, UnitTable.none(entries), where=where)

    @staticmethod
    def joined_json(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
        """Write two tails as one: lists end to end, each pack named once.

        None where extents may unite, or statistics have different forms: joining them as tables
        converts these.
        """
        entries = len(first["rows"]), len(second["rows"])
        known = first.get("statistics", {}), second.get("statistics", {})
        if _place(first, entries[0] - 1) == _place(second, 0) or not all(known):
            return None
        if "has" in known[0] or "has" in known[1]:
            return None
        statistics = joined_statistics_json(*known, entries)
        if statistics is None:
            return None
        value: dict[str, Any] = {"rows": first["rows"] + second["rows"], "statistics": statistics}
        packs: list[str] = [*first.get("packs", ())]
        names: list[str] = second.get("packs", [])
        packs += [name for name in names if name not in packs]
        if packs:
            value["packs"] = packs
            value["checksum"] = "".join(
                one.get("checksum", "0" * 16 * count)
                for one, count in zip((first, second), entries, strict=True)
            )
        number = [packs.index(name) for name in names]
        counted = [number[at] if at >= 0 else at for at in second.get("pack", [0] * entries[1])]
        for name in ("offset", "nbytes", *_JSON_OPTIONAL):
            one, other = first.get(name), counted if name == "pack" else second.get(name)
            if one or (other and any(other)):
                value[name] = (one or [0] * entries[0]) + (other or [0] * entries[1])
        return value

    @classmethod
    def _checked(
        cls,
        columns: dict[str, SectionArray],
        packs: Sequence[PackId],
        statistics: Summaries[StatisticsTable],
        units: UnitTable,
        *,
        where: str,
    ) -> Self:
        entries = len(columns["rows"])
        if any(column.shape != (entries,) for column in columns.values()):
            raise damaged(where, "its columns differ in length")
        pack = columns["pack"]
        if bool(((pack >= len(packs)) & (pack != NO_PACK)).any()):
            raise damaged(where, "an extent is in a pack that is not in its table")
        kind = columns["kind"]
        if entries and not MIN_KIND <= kind.min() <= kind.max() <= MAX_KIND:
            raise damaged(where, "an extent is of an unknown kind")
        return cls._build(columns, entries, packs, statistics, units)

    @classmethod
    def _build(
        cls,
        columns: dict[str, SectionArray],
        entries: int,
        packs: Sequence[PackId],
        statistics: Summaries[StatisticsTable] | None = None,
        units: UnitTable | None = None,
    ) -> Self:
        return cls(
            **{
                name: columns[name] if name in columns else np.zeros(entries, dtype)
                for name, dtype in _DTYPES.items()
            },
            packs=packs,
            statistics=Summaries[StatisticsTable].unknown(entries)
            if statistics is None
            else statistics,
            units=UnitTable.none(entries) if units is None else units,
        )


E = TypeVar("E", bound=Extents)


def _place(value: dict[str, Any], entry: int) -> tuple[str, int] | None:
    """Return pack and offset of an extent of a tail; None where it is in no pack."""
    number = value["pack"][entry] if "pack" in value else 0
    return (value["packs"][number], value["offset"][entry]) if number >= 0 else None


def _counted_from(first: int, pack: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return numbers of packs in a table that has ``first`` others before them."""
    if not first:
        return pack
    return np.where(pack == NO_PACK, np.uint32(NO_PACK), pack + np.uint32(first))


def _with_used_packs(extents: E) -> E:
    """Return the same extents with each of their packs named once, and no others."""
    count = len(extents.packs)
    is_used = np.zeros(count + 1, np.bool_)
    is_used[np.minimum(extents.pack, count)] = True
    # Packs are told apart by their bytes: making their names costs more than all else here.
    data = pack_column(extents.packs).tobytes()
    names = [data[at : at + PACK_NBYTES] for at in range(0, len(data), PACK_NBYTES)]
    if is_used[:count].all() and len(set(names)) == count:
        return extents
    number: dict[bytes, int] = {}
    table = np.full(count + 1, NO_PACK, np.uint32)
    for at in np.flatnonzero(is_used[:count]).tolist():
        table[at] = number.setdefault(names[at], len(number))
    column = np.frombuffer(b"".join(number), np.uint8).reshape(-1, PACK_NBYTES)
    return replace(extents, pack=table[np.minimum(extents.pack, count)], packs=PackTable(column))
