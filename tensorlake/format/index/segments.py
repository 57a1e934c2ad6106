"""Row segments: the physical rows of a version, in order, in compact form.

    RANGE   base, rows                       physical rows base … base + rows - 1
    HOLES   base, span, rows, bitmap         those of base … base + span - 1 whose bit is set;
                                             bit i is bit i % 8 of byte i // 8
    PACKED  base, bits, rows, numbers        base + number, each of ``bits`` bits (1 … 56), number i
                                             from bit i * bits on, lowest bit first

Columns of a leaf page: rows u64 · kind u8 · base u64 · span u64 · bits u8 · payload_nbytes u32,
and ``payload`` u8: bitmaps and numbers end to end. ``span`` is the distance from the least
physical row to the one after the greatest, for every kind; a RANGE has no payload. Inner pages
carry the bounds of each child (``low`` and ``high`` u64), so the inverse look-up prunes.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tensorlake.format.index.bounds import PhysicalBounds
from tensorlake.format.pages.pages import Page, PageKind, SectionArray, require_columns
from tensorlake.format.pages.summaries import Summaries
from tensorlake.format.spec.integrity import damaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format.spec.spec import PackId

MAX_BITS = 56  # a number and the 7 bits before it fit into the 8 bytes read for it

_COLUMNS = ("rows", "kind", "base", "span", "bits", "payload_nbytes")
_DTYPES = dict(zip(_COLUMNS, ("<u8", "<u1", "<u8", "<u8", "<u1", "<u4"), strict=True))
_SEGMENT_NBYTES = 30
_Rows = npt.NDArray[np.int64]


class SegmentKind(IntEnum):
    """How a segment lists its rows; the numbers are the format's."""

    RANGE = 1
    HOLES = 2
    PACKED = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowSegments:
    """Segments in the order of a version's rows."""

    rows: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]
    base: npt.NDArray[np.uint64]
    span: npt.NDArray[np.uint64]
    bits: npt.NDArray[np.uint8]
    payload_nbytes: npt.NDArray[np.uint32]
    payload: npt.NDArray[np.uint8]
    stops: _Rows = field(init=False)  # rows up to each one's end
    payload_starts: _Rows = field(init=False)

    PAGE_KIND: ClassVar[PageKind] = PageKind.ROWS
    SUMMARY: ClassVar[type[Any] | None] = PhysicalBounds
    HAS_PACKS: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stops", np.cumsum(self.rows, dtype=np.int64))
        stops = np.cumsum(self.payload_nbytes, dtype=np.int64)
        object.__setattr__(self, "payload_starts", stops - self.payload_nbytes)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RowSegments({len(self)} segments of {int(self.rows.sum())} rows)"

    @property
    def num_rows(self) -> int:
        """Rows of all segments."""
        return int(self.stops[-1]) if len(self.stops) else 0

    @property
    def stored_nbytes(self) -> None:
        """None: segments have no chunks."""
        return

    @classmethod
    def empty(cls) -> Self:
        """Return no segments."""
        return cls.ranges(np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def range(cls, start: int, stop: int) -> Self:
        """Return the segment of physical rows [start, stop)."""
        if start >= stop:
            return cls.empty()
        return cls.ranges(np.array([start], np.int64), np.array([stop], np.int64))

    @classmethod
    def ranges(cls, starts: _Rows, stops: _Rows) -> Self:
        """Return a RANGE segment for each [start, stop)."""
        lengths = (stops - starts).astype(np.uint64)
        return cls(
            rows=lengths,
            kind=np.full(len(starts), SegmentKind.RANGE, np.uint8),
            base=starts.astype(np.uint64),
            span=lengths,
            bits=np.zeros(len(starts), np.uint8),
            payload_nbytes=np.zeros(len(starts), np.uint32),
            payload=np.zeros(0, np.uint8),
        )

    @classmethod
    def holes(cls, base: int, is_visible: npt.NDArray[np.bool_]) -> Self:
        """Return the HOLES segment of the physical rows from ``base`` on that are visible."""
        bitmap = np.packbits(is_visible, bitorder="little")
        rows = int(np.count_nonzero(is_visible))
        return cls._single(SegmentKind.HOLES, rows, base, len(is_visible), 0, bitmap)

    @classmethod
    def packed(cls, physical: _Rows) -> Self:
        """Return the PACKED segment of some physical rows, in their order."""
        low, high = int(physical.min()), int(physical.max())
        bits = max((high - low).bit_length(), 1)
        numbers = (physical - low).astype("<u8")
        table = np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        payload = np.packbits(table[:, :bits].reshape(-1), bitorder="little")
        return cls._single(SegmentKind.PACKED, len(physical), low, high - low + 1, bits, payload)

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join segments in order."""
        if not tables:
            return cls.empty()
        return cls(
            *(np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS),
            payload=np.concatenate([table.payload for table in tables]),
        )

    def united(self) -> Self:
        """Join neighbouring RANGE segments that continue where the previous one ends."""
        is_range = self.kind == SegmentKind.RANGE
        follows = is_range[1:] & is_range[:-1]
        follows &= self.base[1:] == self.base[:-1] + self.rows[:-1]
        if not follows.any():
            return self
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        rows = np.add.reduceat(self.rows, first)
        span = np.where(is_range[first], rows, self.span[first])
        return replace(self.take(first), rows=rows, span=span)

    def take(self, entries: _Rows) -> Self:
        """Return some segments, in that order."""
        nbytes = self.payload_nbytes[entries].astype(np.int64)
        placed = np.cumsum(nbytes) - nbytes
        at = np.arange(int(nbytes.sum())) + np.repeat(self.payload_starts[entries] - placed, nbytes)
        return type(self)(
            *(getattr(self, name)[entries] for name in _COLUMNS), payload=self.payload[at]
        )

    def slice_rows(self, start: int, stop: int) -> Self:
        """Return the segments of rows [start, stop), those at the borders cut."""
        stops = self.stops
        starts = stops - self.rows.astype(np.int64)
        touched = np.flatnonzero((stops > start) & (starts < stop) & (self.rows > 0))
        if start >= stop or not len(touched):
            return self.empty()
        first, last = int(touched[0]), int(touched[-1])
        parts = [self._part(first, max(start - int(starts[first]), 0), stop - int(starts[first]))]
        if last > first:
            parts += [self.take(touched[1:-1]), self._part(last, 0, stop - int(starts[last]))]
        return self.concat(parts)

    def expand(self, entry: int) -> _Rows:
        """Return the physical rows of one segment, in order."""
        base, rows = int(self.base[entry]), int(self.rows[entry])
        if self.kind[entry] == SegmentKind.RANGE:
            return np.arange(base, base + rows)
        if self.kind[entry] == SegmentKind.HOLES:
            return base + np.flatnonzero(self._visible(entry))
        return self._numbers(np.full(rows, entry), np.arange(rows))

    def physical_at(self, entry: _Rows, offset: _Rows) -> _Rows:
        """Return physical rows, given as segment and offset within it; fast where ascending."""
        physical = self.base[entry].astype(np.int64) + offset
        kinds = self.kind[entry]
        packed = np.flatnonzero(kinds == SegmentKind.PACKED)
        if len(packed):
            physical[packed] = self._numbers(entry[packed], offset[packed])
        holed = np.flatnonzero(kinds == SegmentKind.HOLES)
        if len(holed):
            entries, inverse = np.unique(entry[holed], return_inverse=True)
            by_entry = holed[np.argsort(inverse, kind="stable")]
            counts = np.bincount(inverse)
            for one, part in zip(
                entries.tolist(), np.split(by_entry, np.cumsum(counts)[:-1]), strict=True
            ):
                physical[part] = self.expand(one)[offset[part]]
        return physical

    def positions_of(self, physical: _Rows) -> _Rows:
        """Return the first row that shows each physical row (sorted, unique); -1 where none."""
        found = np.full(len(physical), -1, np.int64)
        starts = self.stops - self.rows.astype(np.int64)
        plain = np.flatnonzero((self.kind != SegmentKind.PACKED) & (self.rows > 0))
        low = self.base[plain].astype(np.int64)
        first = np.searchsorted(physical, low)
        last = np.searchsorted(physical, low + self.span[plain].astype(np.int64))
        for at in np.flatnonzero(last > first)[::-1].tolist():
            entry = int(plain[at])
            asked = slice(int(first[at]), int(last[at]))
            offsets = physical[asked] - int(low[at])
            if self.kind[entry] == SegmentKind.HOLES:
                visible = self._visible(entry)
                ranks = np.cumsum(visible) - 1
                offsets = np.where(visible[offsets], ranks[offsets], -1)
            hits = np.where(offsets >= 0, offsets + starts[entry], found[asked])
            found[asked] = hits
        packed = np.flatnonzero(self.kind == SegmentKind.PACKED)
        if len(packed):
            counts = self.rows[packed].astype(np.int64)
            entry = np.repeat(packed, counts)
            offset = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
            numbers = self._numbers(entry, offset)
            at = np.minimum(np.searchsorted(physical, numbers), max(len(physical) - 1, 0))
            is_hit = physical[at] == numbers if len(physical) else np.zeros(len(numbers), np.bool_)
            absent = np.iinfo(np.int64).max
            first_row = np.where(found < 0, absent, found)
            np.minimum.at(first_row, at[is_hit], (starts[entry] + offset)[is_hit])
            found = np.where(first_row == absent, -1, first_row)
        return found

    def to_ranges(self) -> tuple[_Rows, _Rows]:
        """Return (starts, stops) of the runs of consecutive physical rows, in order."""
        starts: list[_Rows] = []
        stops: list[_Rows] = []
        edges = np.flatnonzero(np.diff(self.kind != SegmentKind.RANGE, prepend=False))
        for part in np.split(np.arange(len(self)), edges):
            if len(part) and self.kind[part[0]] == SegmentKind.RANGE:
                begin = self.base[part].astype(np.int64)
                starts.append(begin)
                stops.append(begin + self.rows[part].astype(np.int64))
                continue
            for entry in part.tolist():
                physical = self.expand(entry)
                breaks = np.flatnonzero(np.diff(physical) != 1) + 1
                starts.append(physical[np.concatenate([[0], breaks])])
                stops.append(physical[np.concatenate([breaks - 1, [len(physical) - 1]])] + 1)
        none = np.zeros(0, np.int64)
        return np.concatenate([none, *starts]), np.concatenate([none, *stops])

    def leaf_weights(self) -> tuple[_Rows, _Rows]:
        """Return bytes and units of each segment, as the limits of leaves count them."""
        nbytes = self.payload_nbytes.astype(np.int64) + _SEGMENT_NBYTES
        return nbytes, np.zeros(len(self), np.int64)

    def summary(self) -> Summaries[Any]:
        """Return the bounds of all physical rows."""
        if not len(self):
            return Summaries[Any].unknown(1)
        bounds = PhysicalBounds(self.base, self.base + self.span)
        return Summaries[Any].of(bounds).merge_upward()

    def pack_ids(self) -> Sequence[PackId]:
        """Return no packs."""
        return ()

    def to_columns(self) -> dict[str, SectionArray]:
        """Return the columns of a leaf page."""
        columns: dict[str, SectionArray] = {name: getattr(self, name) for name in _COLUMNS}
        return columns | {"payload": self.payload}

    @classmethod
    def from_page(cls, page: Page, *, where: str) -> Self:
        """Read a leaf page."""
        require_columns(page, _COLUMNS, where=where)
        columns = [page.columns[name].astype(_DTYPES[name]) for name in _COLUMNS]
        return cls._checked(columns, page.columns.get("payload"), where=where)

    def to_table(self) -> Self:
        """Return the segments themselves."""
        return self

    @staticmethod
    def joined_json(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
        """Write two tails as one; None where either has more than ranges."""
        if "kind" in first or "kind" in second:
            return None
        base, rows = first["base"], first["rows"]
        goes_on = base[-1] + rows[-1] == second["base"][0]
        if goes_on:  # as rows appended do, where none before them was deleted
            rows = [*rows[:-1], rows[-1] + second["rows"][0]]
        return {
            "base": base + second["base"][goes_on:],
            "rows": rows + second["rows"][goes_on:],
        }

    def to_json(self) -> dict[str, Any]:
        """Write the segments of a tail."""
        value: dict[str, Any] = {"base": self.base.tolist(), "rows": self.rows.tolist()}
        if (self.kind != SegmentKind.RANGE).any():
            value["kind"] = self.kind.tolist()
            value["span"] = self.span.tolist()
            value["bits"] = self.bits.tolist()
            value["payload_nbytes"] = self.payload_nbytes.tolist()
            value["payload"] = base64.b64encode(self.payload.tobytes()).decode("ascii")
        return value

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Self:
        """Read a tail.

        Raises:
            CorruptionError: It is something else.
        """
        try:
            rows, base = value["rows"], value["base"]
            zeros = [0] * len(rows)
            items = {
                "rows": rows,
                "kind": value.get("kind", [int(SegmentKind.RANGE)] * len(rows)),
                "base": base,
                "span": value.get("span", rows),
                "bits": value.get("bits", zeros),
                "payload_nbytes": value.get("payload_nbytes", zeros),
            }
            columns = [np.array(items[name], _DTYPES[name]) for name in _COLUMNS]
            payload = base64.b64decode(value.get("payload", ""), validate=True)
        except (
            AttributeError, KeyError, TypeError, ValueError, OverflowError, binascii.Error
        ) as error:  # fmt: skip
            raise damaged(where, f"its tail does not hold row segments ({error!r})") from error
        return cls._checked(columns, np.frombuffer(payload, np.uint8), where=where)

    @classmethod
    def _single(
        cls, kind: int, rows: int, base: int, span: int, bits: int, payload: npt.NDArray[np.uint8]
    ) -> Self:
        items = (rows, kind, base, span, bits, len(payload))
        columns = (
            np.array([item], _DTYPES[name]) for name, item in zip(_COLUMNS, items, strict=True)
        )
        return cls(*columns, payload=payload)

    @classmethod
    def _checked(
        cls, columns: Sequence[SectionArray], payload: SectionArray | None, *, where: str
    ) -> Self:
        if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
            raise damaged(where, "its columns differ in length")
        held = np.zeros(0, np.uint8) if payload is None else payload.astype(np.uint8)
        segments = cls(*columns, payload=held)
        rows, span = segments.rows.astype(np.int64), segments.span.astype(np.int64)
        bits = np.where(segments.kind == SegmentKind.PACKED, segments.bits, 1).astype(np.int64)
        counted = np.where(segments.kind == SegmentKind.PACKED, rows, span)
        # A payload's length bounds the rows it lists, so nothing below can ask for more memory.
        is_range = segments.kind == SegmentKind.RANGE
        needed = np.where(is_range, 0, (counted * bits + 7) // 8)
        is_whole = (
            (needed == segments.payload_nbytes)
            & (rows >= 0) & (span >= 0) & (span < 1 << MAX_BITS) & (rows < 1 << MAX_BITS)
            & (bits >= 1) & (bits <= MAX_BITS)
            & (segments.base < 1 << MAX_BITS) & (~is_range | (span == rows))
            & (segments.kind >= SegmentKind.RANGE) & (segments.kind <= SegmentKind.PACKED)
        )  # fmt: skip
        total = int(segments.payload_nbytes.sum(dtype=np.int64))
        listed = segments.rows.sum(dtype=np.float64)  # int64 would wrap around in silence
        if not is_whole.all() or total != len(held) or listed > 1 << MAX_BITS:
            raise damaged(where, "a segment's numbers contradict each other")
        for entry in np.flatnonzero(segments.kind == SegmentKind.HOLES).tolist():
            if np.count_nonzero(segments._visible(entry)) != rows[entry]:
                raise damaged(where, "a bitmap does not show as many rows as it states")
        return segments

    def _visible(self, entry: int) -> npt.NDArray[np.bool_]:
        start = int(self.payload_starts[entry])
        bitmap = self.payload[start : start + int(self.payload_nbytes[entry])]
        bits = np.unpackbits(bitmap, count=int(self.span[entry]), bitorder="little")
        return bits.view(np.bool_)

    def _numbers(self, entry: _Rows, offset: _Rows) -> _Rows:
        """Return physical rows of PACKED segments."""
        bits = self.bits[entry].astype(np.int64)
        first = self.payload_starts[entry] * 8 + offset * bits
        padded = np.concatenate([self.payload, np.zeros(8, np.uint8)])
        windows = padded[(first >> 3)[:, None] + np.arange(8)].reshape(-1).view("<u8")
        numbers = (windows >> (first & 7).astype(np.uint64)) & (
            (np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1)
        )
        return (self.base[entry] + numbers).astype(np.int64)

    def _part(self, entry: int, start: int, stop: int) -> Self:
        """Return the rows [start, stop) of one segment."""
        rows = int(self.rows[entry])
        if start <= 0 and stop >= rows:
            return self.take(np.array([entry]))
        if self.kind[entry] == SegmentKind.RANGE:
            base = int(self.base[entry])
            return self.range(base + start, base + min(stop, rows))
        physical = self.expand(entry)[start:stop]
        if self.kind[entry] == SegmentKind.PACKED:
            return self.packed(physical)
        low = int(physical[0])
        visible = self._visible(entry)[low - int(self.base[entry]) :]
        return self.holes(low, visible[: int(physical[-1]) - low + 1])
