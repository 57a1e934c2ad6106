"""Coverage: the rows whose cells are as they were when something was derived from a tensor.

    {"state": ROOT of extents, "reads": {"digest": "9f3c…", "encodings": 1, "classes": 3}}

A derived index or column keeps the tensor's index as it then was: its
``state``. A cell is unchanged where the extents of its row have equal pack, offset, skip and
``read_as`` in the state and in a version, wherever in the two trees they are, and ``reads`` is
equal: a digest of the tensor's type, fill, class names and encodings. Classes and encodings added
since change no stored cell, so only as many as there were count.

So whatever happened in between (updates, merges, restores, writers that know nothing of it), a row
is covered only if nothing of its cell has changed. The pages of a state are kept, the chunks that
it names are not: pages alone are compared, and not even these where a writer has noted what differs
(``comparison.py``). Operations that move cells without changing values
(``optimize``) restate each state on their new tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from tensorlake.format.chunk.header import ChunkKind
from tensorlake.format.comparison import Comparison, is_one_tree
from tensorlake.format.index.extents import NO_PACK, Extents
from tensorlake.format.spec.canonical_json import canonical_bytes
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.trees import tree
from tensorlake.format.trees.nodes import PageSink, PageSource, Root
from tensorlake.format.trees.page_reader import PageReader, Parts, as_page_reader
from tensorlake.quantities import is_whole_number
from tensorlake.storage import runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tensorlake.format.spec.spec import PackId

__all__ = [
    "Coverage",
    "Reads",
    "carried",
    "cells_at",
    "covering",
    "edits_between",
    "restated",
    "rewritten_rows",
    "same_cells",
    "same_extents",
    "unchanged_rows",
    "with_cells",
]

RowRanges = npt.NDArray[np.int64]
"""Physical rows as ranges [start, stop), shape (n, 2): ascending, and apart from each other."""

RANGES_AT_ONCE = 16
"""Ranges of two trees that are compared concurrently."""

SMALL_GAP = 4096
"""Ranges this close are compared as one: a leaf has as many extents."""

DIGEST_NBYTES = 10

_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Reads:
    """How the cells of a tensor are read.

    Attributes:
        digest: A digest of the type, the fill, the first class names and encodings, as hex.
        encodings: How many encodings it is of.
        classes: How many class names it is of.
    """

    digest: str
    encodings: int
    classes: int

    @classmethod
    def of(cls, spec: Mapping[str, Any], like: Reads | None = None) -> Self:
        """Describe a tensor.

        Args:
            spec: Its spec, as JSON.
            like: The result is of as many classes and encodings as this; None: of all.
        """
        kind, encodings = dict(spec["type"]), list(spec["encodings"])
        names = list(kind.get("names", ()))
        if like is not None:
            encodings, names = encodings[: like.encodings], names[: like.classes]
        if "names" in kind:
            kind["names"] = names
        read = canonical_bytes({"type": kind, "fill": spec["fill"], "encodings": encodings})
        digest = blake2b(read, digest_size=DIGEST_NBYTES).hexdigest()
        return cls(digest, len(encodings), len(names))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"digest": self.digest, "encodings": self.encodings, "classes": self.classes}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read the JSON form.

        Raises:
            TypeError, KeyError: It is something else.
        """
        digest, encodings, classes = value["digest"], value["encodings"], value["classes"]
        if not (isinstance(digest, str) and all(map(is_whole_number, (encodings, classes)))):
            raise TypeError(f"reads {value!r:.80}")
        return cls(digest, encodings, classes)


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """The cells of a tensor that something was derived from.

    Attributes:
        state: The tensor's index as it was; holes where nothing was derived.
        reads: How its cells were read.
        compared: Which of its cells differ in a later index, if a writer noted it.
        unknown: Members of other versions, preserved.
    """

    state: Root[Extents]
    reads: Reads
    compared: Comparison | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        own = {"state": self.state.to_json(), "reads": self.reads.to_json()}
        if self.compared is not None:
            own["compared"] = self.compared.to_json()
        return {**self.unknown, **own}

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Self:
        """Read the JSON form.

        Raises:
            CorruptionError: It is malformed.
        """
        try:
            members = dict(cast("Mapping[str, Any]", value))
            reads = Reads.from_json(members.pop("reads"))
            noted = members.pop("compared", None)
            compared = None if noted is None else Comparison.from_json(noted)
            state = Root.from_json(members.pop("state"), Extents, where=f"{where}, its state")
        except _MALFORMED as error:
            raise damaged(where, f"it is not a coverage ({error!r:.300})") from error
        return cls(state, reads, compared, members)

    async def rows(
        self, spec: Mapping[str, Any], now: Root[Extents], pages: PageSource | PageReader
    ) -> RowRanges:
        """Return the physical rows of a version that are covered and unchanged.

        Args:
            spec: The tensor's spec in the version, as JSON.
            now: Its index there.
            pages: Where to read pages.

        Raises:
            CorruptionError: A page is damaged or missing.
        """
        if not self.is_read_as(spec):
            return np.empty((0, 2), np.int64)
        return await self.same_rows(now, pages)

    async def same_rows(self, now: Root[Extents], pages: PageSource | PageReader) -> RowRanges:
        """Return the rows that the state and an index have in one place, however they are read."""
        apart = self.known_apart(now)
        if apart is None:
            return await unchanged_rows(self.state, now, pages)
        rows = min(self.state.rows, now.rows)
        edges = np.minimum(np.concatenate(([0], apart.reshape(-1), [rows])), rows)
        return _joined([edges.reshape(-1, 2)])

    def known_apart(self, now: Root[Extents]) -> RowRanges | None:
        """Return the rows that have another place in an index, where no page tells; else None."""
        if self.compared is not None and self.compared.is_of(self.state, now):
            return self.compared.apart
        return np.empty((0, 2), np.int64) if is_one_tree(self.state, now) else None

    def is_read_as(self, spec: Mapping[str, Any]) -> bool:
        """Whether a tensor's stored cells are read as they were."""
        return Reads.of(spec, self.reads) == self.reads


async def unchanged_rows(
    one: Root[Extents], other: Root[Extents], pages: PageSource | PageReader
) -> RowRanges:
    """Return the rows that two trees of one tensor have in one place, as ``same_extents`` does.

    Pages that both have at the same rows are not read.
    """
    reader = as_page_reader(pages)
    rows = min(one.rows, other.rows)
    apart = _united(await tree.differing_rows(one, other, reader), rows)

    async def compared(start: int, stop: int) -> RowRanges:
        sides = [await _extents(root, reader, start, stop) for root in (one, other)]
        return start + same_extents(*sides)

    reads = [partial(compared, start, stop) for start, stop in apart.tolist()]
    found = await runtime.gather_bounded(reads, limit=RANGES_AT_ONCE)
    edges = np.concatenate(([0], apart.reshape(-1), [rows])).reshape(-1, 2)
    return _joined([edges, *found])


async def same_cells(
    one: Root[Extents], other: Root[Extents], rows: RowRanges, pages: PageSource | PageReader
) -> RowRanges:
    """Return those of some rows, sorted, that two trees have in one place."""
    reader = as_page_reader(pages)
    found: list[RowRanges] = []
    for start, stop in _united(rows, min(one.rows, other.rows)).tolist():
        sides = [await _extents(root, reader, start, stop) for root in (one, other)]
        found.append(_common(start + same_extents(*sides), rows))
    return _joined(found)


async def rewritten_rows(
    one: Root[Extents],
    other: Root[Extents],
    pages: PageSource | PageReader,
    known: RowRanges,
    most_nbytes: int,
) -> RowRanges:
    """Return rows that two trees have in different chunks, whose values may be equal.

    Args:
        one: A tree.
        other: Another tree of the tensor.
        pages: Where to read pages.
        known: Rows that need not be among them.
        most_nbytes: Chunks that take more, in both trees together, are left out.
    """
    reader = as_page_reader(pages)
    rows = min(one.rows, other.rows)
    edges = np.minimum(np.concatenate(([0], known.reshape(-1), [rows])), rows).reshape(-1, 2)
    found: list[RowRanges] = []
    seen: set[tuple[PackId, int]] = set()
    for start, stop in _united(edges, rows).tolist():
        sides = [await _extents(root, reader, start, stop) for root in (one, other)]
        most_nbytes -= sum(_unseen_nbytes(side, seen) for side in sides)
        if most_nbytes < 0:
            break
        cuts = np.union1d(*(side.stops for side in sides))
        starts = np.concatenate(([0], cuts[:-1])).astype(np.int64)
        is_stored = np.ones(len(cuts), np.bool_)
        for side in sides:
            entry = np.searchsorted(side.stops, starts, side="right")
            is_stored &= side.pack[entry] != NO_PACK
        found.append(start + np.stack((starts, cuts), axis=1)[is_stored])
    return _joined(found)


def _unseen_nbytes(extents: Extents, seen: set[tuple[PackId, int]]) -> int:
    """Return the bytes of chunks that were not seen before; they have been from now on."""
    total = 0
    columns = extents.pack.tolist(), extents.offset.tolist(), extents.nbytes.tolist()
    for pack, offset, nbytes in zip(*columns, strict=True):
        if pack != NO_PACK and (place := (extents.packs[pack], offset)) not in seen:
            seen.add(place)
            total += nbytes
    return total


def same_extents(one: Extents, other: Extents) -> RowRanges:
    """Return the rows that two tables of as many rows have in one place.

    That is the same row of the same chunk, read as one encoding; or a fill, or a hole, in both.
    """
    edges = np.union1d(one.stops, other.stops)
    starts = np.concatenate(([0], edges[:-1])).astype(np.int64)
    packs: dict[PackId, int] = {}
    left, right = (_places(side, starts, packs) for side in (one, other))
    is_same = np.all(left == right, axis=0)
    return _joined([np.stack((starts, edges), axis=1)[is_same]])


async def restated(
    covered: Coverage,
    before: Root[Extents],
    after: Root[Extents],
    pages: PageSource | PageReader,
    sink: PageSink,
) -> Coverage:
    """Return a coverage on a tree that has the values of another one, stored in other places.

    Rows that the state did not have as ``before`` has them become holes.

    Args:
        covered: The coverage.
        before: The tree whose cells were moved.
        after: The tree with the same values, at the same rows.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    same = await covered.same_rows(before, pages)
    state = await covering(after, same, pages, sink)
    edges = np.concatenate(([0], same.reshape(-1), [state.rows])).reshape(-1, 2)
    return replace(covered, state=state, compared=Comparison.of(state, after, _joined([edges])))


async def covering(
    root: Root[Extents], rows: RowRanges, pages: PageSource | PageReader, sink: PageSink
) -> Root[Extents]:
    """Return a state that has some rows of a tree, and holes at its others.

    Args:
        root: The tree.
        rows: The rows, sorted.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    edges = np.concatenate(([0], rows.reshape(-1))).reshape(-1)
    gaps = [(start, stop) for start, stop in edges[:-1].reshape(-1, 2).tolist() if start < stop]
    edits = [
        (start, stop, Extents.without_bytes(ChunkKind.HOLE, stop - start)) for start, stop in gaps
    ]
    if int(edges[-1]) < root.rows:
        edits.append((int(edges[-1]), root.rows, Extents.empty()))
    return await tree.replace(root, edits, pages, sink) if edits else root


async def carried(
    state: Root[Extents],
    before: Root[Extents],
    after: Root[Extents],
    rows: RowRanges,
    pages: PageSource | PageReader,
    sink: PageSink,
) -> Root[Extents]:
    """Return a state that still has cells which were written again with their values.

    Args:
        state: The state.
        before: The tree before.
        after: The tree with the new places.
        rows: Rows with equal values in both, sorted. Those that the state has as ``before`` has
            them, it gets as ``after`` has them.
        pages: Where to read pages.
        sink: Takes the new pages.
    """
    reader = as_page_reader(pages)
    rows = np.minimum(rows, min(state.rows, before.rows))
    edits: list[tuple[int, int, Extents]] = []
    for start, stop in _united(rows, state.rows).tolist():
        sides = [await _extents(root, reader, start, stop) for root in (state, before)]
        same = _common(start + same_extents(*sides), rows)
        edits += await cells_at(after, same, reader)
    return await with_cells(state, edits, state.rows, reader, sink)


async def cells_at(
    root: Root[Extents], rows: RowRanges, pages: PageSource | PageReader
) -> list[tuple[int, int, Extents]]:
    """Return the places of some rows, sorted, as edits of a state: without statistics."""
    reader = as_page_reader(pages)
    edits: list[tuple[int, int, Extents]] = []
    for start, stop in _united(rows, root.rows).tolist():
        table = await _extents(root, reader, start, stop)
        inside = _common(rows, np.array([[start, stop]], np.int64))
        edits += [(a, b, table.slice_rows(a - start, b - start)) for a, b in inside.tolist()]
    return edits


async def with_cells(
    state: Root[Extents],
    edits: Sequence[tuple[int, int, Extents]],
    rows: int,
    pages: PageSource | PageReader,
    sink: PageSink,
) -> Root[Extents]:
    """Return a state with other places of some cells; it grows to ``rows`` rows, by holes."""
    if not edits:
        return state
    if state.rows < rows:
        hole = Extents.without_bytes(ChunkKind.HOLE, rows - state.rows)
        state = await tree.append(state, hole, pages, sink)
    return await tree.replace(state, edits, pages, sink)


async def edits_between(
    one: Root[Extents], other: Root[Extents], pages: PageSource | PageReader
) -> list[tuple[int, int, Extents]]:
    """Return edits that make one tree the other, as ``tree.replace`` takes them."""
    reader = as_page_reader(pages)
    apart = _united(await tree.differing_rows(one, other, reader), max(one.rows, other.rows))
    return [
        (
            min(start, one.rows),
            min(stop, one.rows),
            await _extents(other, reader, start, stop, parts=Parts.ALL),
        )
        for start, stop in apart.tolist()
    ]


async def _extents(
    root: Root[Extents],
    reader: PageReader,
    start: int,
    stop: int,
    *,
    parts: Parts = Parts.LOCATIONS,
) -> Extents:
    found = tree.scan(root, reader, start, stop, parts=parts)
    return Extents.concat([table async for _, table in found])


def _places(
    extents: Extents, rows: npt.NDArray[np.int64], packs: dict[PackId, int]
) -> npt.NDArray[np.int64]:
    """Return (pack, offset, row in the chunk, read_as) of some rows; of no chunk, the kind."""
    entry = np.searchsorted(extents.stops, rows, side="right")
    numbers = [packs.setdefault(pack, len(packs)) for pack in extents.packs]
    is_stored = extents.pack[entry] != NO_PACK
    pack = np.array([*numbers, -1], np.int64)[np.minimum(extents.pack[entry], len(numbers))]
    starts = extents.stops - extents.rows.astype(np.int64)
    in_chunk = extents.skip[entry].astype(np.int64) + rows - starts[entry]
    return np.stack(
        (
            pack,
            np.where(is_stored, extents.offset[entry].astype(np.int64), 0),
            np.where(is_stored, in_chunk, extents.kind[entry].astype(np.int64)),
            np.where(is_stored, extents.read_as[entry].astype(np.int64), 0),
        )
    )


def _united(ranges: RowRanges, rows: int) -> RowRanges:
    """Unite ranges, sorted by their starts, that overlap or nearly touch; cut them at ``rows``."""
    ranges = np.minimum(ranges, rows)
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if not len(ranges):
        return ranges
    reach = np.maximum.accumulate(ranges[:, 1])
    is_first = np.concatenate(([True], ranges[1:, 0] - reach[:-1] > SMALL_GAP))
    return np.stack((ranges[is_first, 0], reach[np.append(is_first[1:], [True])]), axis=1)


def _common(ranges: RowRanges, others: RowRanges) -> RowRanges:
    """Return the rows in both of two sorted sets of disjoint ranges."""
    first = np.searchsorted(others[:, 1], ranges[:, 0], side="right")
    stop = np.searchsorted(others[:, 0], ranges[:, 1], side="left")
    counts = np.maximum(stop - first, 0)
    which = np.repeat(np.arange(len(ranges)), counts)
    other = np.arange(len(which)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    starts = np.maximum(ranges[which, 0], others[other, 0])
    stops = np.minimum(ranges[which, 1], others[other, 1])
    return _joined([np.stack((starts, stops), axis=1)])


def _joined(parts: Sequence[RowRanges] | Iterable[RowRanges]) -> RowRanges:
    """Sort disjoint ranges, and unite those that touch."""
    ranges = np.concatenate([*parts, np.empty((0, 2), np.int64)])
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    if not len(ranges):
        return ranges
    is_first = np.concatenate(([True], ranges[1:, 0] > ranges[:-1, 1]))
    return np.stack((ranges[is_first, 0], ranges[np.append(is_first[1:], [True]), 1]), axis=1)
