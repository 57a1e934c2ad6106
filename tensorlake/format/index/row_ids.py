"""Row ids: the origin of each physical row, as runs.

A row id is (txid, offset): the transaction that first appended the row, and its number among the
rows of that transaction. A run gives ``rows`` consecutive physical rows the ids (txid, offset),
(txid, offset + 1), …; so a bulk append is one run. Columns of a leaf page:

    rows u64 · txid_high u64 · txid_low u64 · offset u64

The txid's 32 hex digits are the two halves, high first. Dead rows that pad an axis have txid 0. In
arrays an id is a record of ``ROW_ID``; ids sort by transaction time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tensorlake.format.pages.pages import Page, PageKind, SectionArray, require_columns
from tensorlake.format.pages.summaries import Summaries
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import is_txid
from tensorlake.format.trees.lookup import locate, scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.format.spec.spec import PackId
    from tensorlake.format.trees.nodes import PageSource, Root
    from tensorlake.format.trees.page_reader import PageReader

ROW_ID = np.dtype([("txid_high", "<u8"), ("txid_low", "<u8"), ("offset", "<u8")])
NO_TXID = "0" * 32

_COLUMNS = ("rows", "txid_high", "txid_low", "offset")
_RUN_NBYTES = 32
# find_rows() packs a transaction's ordinal and an offset into 64 bits.
_OFFSET_BITS = 44
MAX_OFFSET = 1 << _OFFSET_BITS
MAX_RUN_ROWS = 1 << 56  # of all runs together, as trees/nodes.py counts the rows of a tree
_U64 = npt.NDArray[np.uint64]
R = TypeVar("R", bound="RowIdRuns")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowIdRuns:
    """Runs of row ids in the order of physical rows."""

    rows: _U64
    txid_high: _U64
    txid_low: _U64
    offset: _U64
    stops: npt.NDArray[np.int64] = field(init=False)  # rows up to each one's end

    PAGE_KIND: ClassVar[PageKind] = PageKind.ROW_IDS
    SUMMARY: ClassVar[type[Any] | None] = None
    HAS_PACKS: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "stops", np.cumsum(self.rows, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RowIdRuns({len(self)} runs of {int(self.rows.sum())} rows)"

    @property
    def num_rows(self) -> int:
        """Rows of all runs."""
        return int(self.stops[-1]) if len(self.stops) else 0

    @property
    def stored_nbytes(self) -> None:
        """None: runs have no chunks."""
        return

    @classmethod
    def empty(cls) -> Self:
        """Return no runs."""
        return cls(*(np.zeros(0, np.uint64) for _ in _COLUMNS))

    @classmethod
    def run(cls, rows: int, txid: str, offset: int = 0) -> Self:
        """Return the ids of rows that one transaction appended, from its ``offset``-th on."""
        if not rows:
            return cls.empty()
        high, low = _halves(txid)
        return cls(*(np.array([item], np.uint64) for item in (rows, high, low, offset)))

    @classmethod
    def of_ids(cls, ids: npt.NDArray[Any]) -> Self:
        """Return the runs of an array of ROW_ID, one a physical row."""
        ones = np.ones(len(ids), np.uint64)
        columns = (np.ascontiguousarray(ids[name]) for name in _COLUMNS[1:])
        return cls(ones, *columns).united()

    @classmethod
    def concat(cls, tables: Sequence[Self]) -> Self:
        """Join runs in order."""
        if not tables:
            return cls.empty()
        return cls(*(np.concatenate([getattr(t, name) for t in tables]) for name in _COLUMNS))

    def united(self) -> Self:
        """Join neighbours that continue where the previous one ends."""
        follows = (
            (self.txid_high[1:] == self.txid_high[:-1])
            & (self.txid_low[1:] == self.txid_low[:-1])
            & ((self.offset[1:] == self.offset[:-1] + self.rows[:-1]) | self._is_dead[1:])
        )
        if not follows.any():
            return self
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        return replace(self.take(first), rows=np.add.reduceat(self.rows, first))

    def take(self, entries: npt.NDArray[np.int64]) -> Self:
        """Return some runs, in that order."""
        return type(self)(*(getattr(self, name)[entries] for name in _COLUMNS))

    def slice_rows(self, start: int, stop: int) -> Self:
        """Return the runs of rows [start, stop), those at the borders cut."""
        if start >= stop:
            return self.empty()
        stops = self.stops.astype(np.int64)
        starts = stops - self.rows.astype(np.int64)
        touched = np.flatnonzero((stops > start) & (starts < stop) & (self.rows > 0))
        part = self.take(touched)
        first = np.maximum(starts[touched], start)
        rows = np.minimum(stops[touched], stop) - first
        skipped = (first - starts[touched]).astype(np.uint64)
        return replace(part, rows=rows.astype(np.uint64), offset=part.offset + skipped)

    def ids_at(
        self, entry: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]
    ) -> npt.NDArray[Any]:
        """Return ROW_ID records of rows given as run and offset within it."""
        ids = np.empty(len(entry), ROW_ID)
        ids["txid_high"] = self.txid_high[entry]
        ids["txid_low"] = self.txid_low[entry]
        ids["offset"] = self.offset[entry] + offset.astype(np.uint64)
        return ids

    def leaf_weights(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return bytes and units of each run, as the limits of leaves count them."""
        return np.full(len(self), _RUN_NBYTES, np.int64), np.zeros(len(self), np.int64)

    def summary(self) -> Summaries[Any]:
        """Return nothing: runs are not pruned by content."""
        return Summaries[Any].unknown(1)

    def pack_ids(self) -> Sequence[PackId]:
        """Return no packs: a txid keeps none alive."""
        return ()

    def to_columns(self) -> dict[str, SectionArray]:
        """Return the columns of a leaf page."""
        return {name: getattr(self, name) for name in _COLUMNS}

    @classmethod
    def from_page(cls, page: Page, *, where: str) -> Self:
        """Read a leaf page."""
        require_columns(page, _COLUMNS, where=where)
        columns = (page.columns[name].astype(np.uint64) for name in _COLUMNS)
        return _checked(cls(*columns), where=where)

    def to_table(self) -> Self:
        """Return the runs themselves."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Write the runs of a tail."""
        txids = [
            f"{high:016x}{low:016x}"
            for high, low in zip(self.txid_high.tolist(), self.txid_low.tolist(), strict=True)
        ]
        table = list(dict.fromkeys(txids))
        value: dict[str, Any] = {"rows": self.rows.tolist(), "txids": table}
        if len(table) > 1:
            value["txid"] = [table.index(txid) for txid in txids]
        if self.offset.any():
            value["offset"] = self.offset.tolist()
        return value

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Self:
        """Read a tail.

        Raises:
            CorruptionError: It is something else.
        """
        try:
            rows = np.array(value["rows"], np.uint64)
            zeros = [0] * len(rows)
            table = [_halves(txid) for txid in value["txids"]]
            halves = [table[at] for at in value.get("txid", zeros)]
            high = np.array([high for high, _ in halves], np.uint64)
            low = np.array([low for _, low in halves], np.uint64)
            offset = np.array(value.get("offset", zeros), np.uint64)
        except (
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            raise damaged(where, f"its tail does not hold row ids ({error!r})") from error
        if not rows.shape == high.shape == offset.shape or rows.ndim != 1:
            raise damaged(where, "its columns differ in length")
        return _checked(cls(rows, high, low, offset), where=where)

    @staticmethod
    def joined_json(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
        """Write two tails as one; None where the second's first run may continue the last."""
        entries = len(first["rows"]), len(second["rows"])
        last = first["txid"][-1] if "txid" in first else 0
        follower = second["txids"][second["txid"][0] if "txid" in second else 0]
        if follower in (NO_TXID, first["txids"][last]):
            return None
        txids = list(dict.fromkeys([*first["txids"], *second["txids"]]))
        number = [txids.index(txid) for txid in second["txids"]]
        value: dict[str, Any] = {
            "rows": first["rows"] + second["rows"],
            "txids": txids,
            "txid": first.get("txid", [0] * entries[0])
            + [number[at] for at in second.get("txid", [0] * entries[1])],
        }
        if "offset" in first or "offset" in second:
            value["offset"] = first.get("offset", [0] * entries[0]) + second.get(
                "offset", [0] * entries[1]
            )
        return value

    @property
    def _is_dead(self) -> npt.NDArray[np.bool_]:
        return (self.txid_high | self.txid_low) == 0


async def row_ids(
    root: Root[RowIdRuns], physical: npt.NDArray[np.int64], pages: PageSource | PageReader
) -> npt.NDArray[Any]:
    """Return the ids of some physical rows, in their order, as ROW_ID records."""
    if (physical[1:] > physical[:-1]).all():  # each once already
        located = await locate(root, physical, pages)
        return located.table.ids_at(located.entry, located.offset)
    rows, inverse = np.unique(physical, return_inverse=True)
    located = await locate(root, rows, pages)
    return located.table.ids_at(located.entry, located.offset)[inverse]


async def find_rows(
    root: Root[RowIdRuns], ids: npt.NDArray[Any], pages: PageSource | PageReader
) -> npt.NDArray[np.int64]:
    """Return the physical rows that have these ids, in their order; -1 where there is none."""
    high, low = ids["txid_high"], ids["txid_low"]
    is_first = np.ones(len(ids), np.bool_)  # of a stretch of one transaction's rows
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    firsts = np.flatnonzero(is_first)
    txids = list(zip(high[firsts].tolist(), low[firsts].tolist(), strict=True))
    ordinals = {txid: at for at, txid in enumerate(dict.fromkeys(txids))}
    numbers = np.array([ordinals[txid] for txid in txids], np.uint64)
    keys = _keys(np.repeat(numbers, np.diff(firsts, append=len(ids))), ids["offset"])
    found = np.full(len(ids), -1, np.int64)
    async for start, runs in scan(root, pages):
        pairs = zip(runs.txid_high.tolist(), runs.txid_low.tolist(), strict=True)
        ordinal = np.array([ordinals.get(txid, -1) for txid in pairs], np.int64)
        asked = np.flatnonzero((ordinal >= 0) & (runs.rows > 0))
        if not len(asked):
            continue
        run_keys = _keys(ordinal[asked].astype(np.uint64), runs.offset[asked])
        order = np.argsort(run_keys, kind="stable")
        run_keys, asked = run_keys[order], asked[order]
        at = np.searchsorted(run_keys, keys, side="right") - 1
        ahead = keys - run_keys[at]
        is_hit = (at >= 0) & (ahead < runs.rows[asked[at]]) & (found < 0)
        hit = asked[at[is_hit]]
        found[is_hit] = start + runs.stops[hit] - runs.rows[hit].astype(np.int64)
        found[is_hit] += ahead[is_hit].astype(np.int64)
    return found


def txid_of(row_id: Any) -> str:
    """Return the txid of one ROW_ID record."""
    return f"{int(row_id['txid_high']):016x}{int(row_id['txid_low']):016x}"


def _checked(runs: R, *, where: str) -> R:
    """Return runs whose numbers can be added: int64 would wrap around silently."""
    offset = runs.offset.max(initial=np.uint64(0))
    if runs.rows.sum(dtype=np.float64) > MAX_RUN_ROWS or offset > MAX_OFFSET:
        raise damaged(where, "a run of row ids is longer than any axis")
    return runs


def _keys(ordinals: _U64, offsets: _U64) -> _U64:
    return (ordinals << np.uint64(_OFFSET_BITS)) | offsets


def _halves(txid: str) -> tuple[int, int]:
    if not is_txid(txid):
        raise ValueError(f"{txid!r} is not a txid of 32 hex digits")
    return int(txid[:16], 16), int(txid[16:], 16)
