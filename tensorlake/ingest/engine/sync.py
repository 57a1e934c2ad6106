"""Staging of items: new rows, rows brought to their source, rows deleted, and their ledger entries.

A row's cells are compared by digest, three ways: as they were written, by the ledger
(*then*), as the dataset has them (*here*), as the source has them (*now*).

    then = now            nothing changed at the source: the row is left alone, whatever it has
    then = here ≠ now     updated in place
    here = now            the same change was made on both sides
    then ≠ here ≠ now     a conflict; also where another cell of the row changed at the source:
                          a label set by hand may not be that of the new image

A conflict that is kept stays in the ledger, without a stamp, and is reported by each run until the
dataset, or ``on_conflict="source"``, agrees with the source. Tensors ``per`` one another are
updated together or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64

from tensorlake.dataset import (
    Dataset,
    IngestReport,
    RowsById,
    SkippedItem,
    converted_rows,
    extend_rows,
    next_row_ids,
    session_of,
)
from tensorlake.errors import ConflictError
from tensorlake.ingest.engine.comparison import Comparison, Listing
from tensorlake.ingest.engine.digests import (
    CELL_GROUPS,
    CONFLICT,
    cell_digests,
    column_digests,
    update_digest,
)
from tensorlake.ingest.engine.ledger import Entries
from tensorlake.ingest.engine.options import OnConflict
from tensorlake.ingest.engine.source import Source
from tensorlake.types import Column, concat

__all__ = ["Pieces", "Rows"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Columns = Mapping[str, Any]

COMPARED_NBYTES = 32 << 20
"""Source bytes of known items that are compared together: their changes cost memory until then, and
a rewrite of each chunk that they are in."""

BY_HAND = "changed by hand, and at its source"
DELETED = "its row was deleted by hand, and the source has it"
GONE = "changed by hand, and no longer in the source"
_OUTCOME = {"keep": "the dataset stays as it is", "source": "the source was taken"}


def _tensors_of(dataset: Dataset, source: Source[Any]) -> list[str]:
    """Return the dataset's tensors that the source fills, in the order of the source."""
    names = list(dataset.schema)
    return [
        name
        for given in source.schema
        for name in names
        if name == given or name.startswith(f"{given}/")
    ]


class Rows:
    """The staging of items known by name.

    Args:
        dataset: The dataset.
        source: The source.
        listing: Its items.
        known: Their entries in the ledger.
        compared: The listing against the entries.
        on_conflict: The outcome of conflicts.
        report: Where changes are counted.
    """

    def __init__(
        self,
        dataset: Dataset,
        source: Source[Any],
        listing: Listing,
        known: Entries,
        compared: Comparison,
        *,
        on_conflict: OnConflict,
        report: IngestReport,
    ) -> None:
        self._session = session_of(dataset)
        self._listing, self._known, self._compared = listing, known, compared
        self._on_conflict, self._report = on_conflict, report
        self._tensors = _tensors_of(dataset, source)
        self._content = [name for name in source.content if name in self._tensors]
        self._units = _units_of(dataset, self._tensors)
        self.rows = RowsById(self._session, known.ids)
        self.entries: list[Entries] = []
        """Entries that the next commit adds to the ledger."""
        self._vanished: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at in reversed(compared.vanished[self.rows.is_shown[compared.vanished]].tolist()):
            content = int(known.digests[at])
            if content:
                self._vanished[content, int(known.sizes[at])].append(at)
        self._moved: set[int] = set()
        self._waiting: list[tuple[Mapping[str, Column], Int64Array]] = []
        self._waiting_nbytes = 0

    @property
    def sizes_vanished(self) -> set[int]:
        """Sizes of the items that vanished: an item of another size is none of them."""
        return {size for _, size in self._vanished}

    def deleted_by_hand(self) -> BoolArray:
        """Return which items have an entry whose row a hand deleted."""
        at = self._compared.entry_of
        is_known = at >= 0
        found = is_known.copy()
        found[is_known] = ~self.rows.is_shown[at[is_known]]
        return found

    def note_deleted(self, items: Int64Array) -> None:
        """Report items whose rows were deleted by hand.

        Raises:
            ConflictError: With ``on_conflict="error"``.
        """
        for at in items.tolist():
            self._conflict(self._listing.names[at], DELETED, None, None)

    def add(self, columns: Columns, items: Int64Array) -> int:
        """Stage new rows, one per item; return their number."""
        made = self._entries_of(items)
        done = 0

        def note(stored: Mapping[str, Column]) -> None:
            nonlocal done
            cells, digests = self._digests({spec: stored[id_] for spec, id_ in ids})
            stop = done + len(cells)
            made.cells[done:stop], made.digests[done:stop] = cells, digests
            done = stop

        with self._session.lock:
            schema = self._session.staging().schema
            ids = [(name, schema[name].id) for name in self._tensors]
            made.ids[:] = next_row_ids(self._session, len(items))
            extend_rows(self._session, columns, note=note)
        self.entries.append(made)
        self._report.added += len(items)
        self._report.rows += len(items)
        return len(items)

    def move(self, columns: Columns, items: Int64Array) -> int:
        """Stage new rows, but for items that vanished under another name; return the new ones."""
        stored = converted_rows(self._session, columns)
        _, digests = self._digests(stored)
        taken: dict[int, int] = {}
        for place, (at, digest) in enumerate(zip(items.tolist(), digests.tolist(), strict=True)):
            waiting = self._vanished.get((digest, int(self._listing.sizes[at])))
            if waiting:
                taken[place] = waiting.pop()
        new = [place for place in range(len(items)) if place not in taken]
        if taken:
            places = np.fromiter(taken, np.int64, len(taken))
            entries = np.fromiter(taken.values(), np.int64, len(taken))
            self._bring(stored, places, items[places], entries)
            self.entries.append(self._known.take(entries).gone())
            self._moved.update(taken.values())
            self._report.renamed += len(taken)
        if new:
            at = np.array(new, np.int64)
            self.add({name: _taken(values, new) for name, values in columns.items()}, items[at])
        return len(new)

    def compare(self, columns: Columns, items: Int64Array) -> int:
        """Take rows of known items, to be compared together; return 0: no rows are new."""
        self._waiting.append((converted_rows(self._session, columns), items))
        self._waiting_nbytes += int(self._listing.sizes[items].sum())
        if self._waiting_nbytes > COMPARED_NBYTES:
            self.flush()
        return 0

    def flush(self) -> None:
        """Compare the rows taken, and stage what differs: a chunk of theirs is written once.

        Raises:
            ConflictError: With ``on_conflict="error"``.
        """
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_nbytes = self._waiting, [], 0
        stored = {name: concat([one[name] for one, _ in waiting]) for name in self._tensors}
        items = np.concatenate([some for _, some in waiting])
        entries = self._compared.entry_of[items]
        updated, unchanged = self._bring(stored, np.arange(len(items)), items, entries)
        self._report.updated += updated
        self._report.unchanged += unchanged

    def vanish(self, *, is_absent: Callable[[str], bool], delete: bool) -> None:
        """Report the items that are no longer in the source; with ``delete`` remove their rows.

        Args:
            is_absent: Whether an item is known to have left its source.
            delete: Whether to delete.
        """
        known = self._known
        gone = [
            at
            for at in self._compared.vanished.tolist()
            if at not in self._moved and is_absent(known.items[at])
        ]
        at = np.array(gone, np.int64)
        if delete and len(at):
            self.entries.append(known.take(at[~self.rows.is_shown[at]]).gone())
        at = at[self.rows.is_shown[at]]
        self._report.vanished = len(at)
        if not delete or not len(at):
            return
        by_hand = self._here(at) != known.cells[at]
        is_by_hand = by_hand.any(axis=1)
        numbers = self.rows.rows(at)
        for place in np.flatnonzero(is_by_hand).tolist():
            tensors = self._names(by_hand[place])
            name = known.items[at[place]]
            self._conflict(name, GONE, ", ".join(tensors), int(numbers[place]))
        if self._on_conflict != "source":
            at = at[~is_by_hand]
        self.rows.delete(at)
        self._report.deleted += len(at)
        self.entries.append(known.take(at).gone())

    def _bring(
        self, stored: Mapping[str, Column], places: Int64Array, items: Int64Array, at: Int64Array
    ) -> tuple[int, int]:
        """Bring the rows of entries to their source.

        Args:
            stored: Columns of the source's values.
            places: Positions in them.
            items: The items.
            at: The entries.

        Returns:
            How many were updated, and how many have nothing that differs.
        """
        known = self._known
        now_cells, digests = self._digests(stored)
        now, then = now_cells[places], known.cells[at]
        made = self._entries_of(items)
        made.cells[:], made.digests[:], made.ids[:] = now, digests[places], known.ids[at]
        differs = (now != then).any(axis=1)
        changed = np.flatnonzero(differs)
        num_updated = 0
        if len(changed):
            here = self._here(at[changed])
            by_hand = self._in_units(here != then[changed])
            wants = here != now[changed]
            is_conflict = by_hand & wants
            self._report_conflicts(items[changed], at[changed], is_conflict)
            takes_source = self._on_conflict == "source"
            applied = wants if takes_source else wants & ~by_hand
            values: dict[str, tuple[Int64Array, Int64Array, Column]] = {}
            for number, name in enumerate(self._tensors):
                rows = changed[applied[:, number % CELL_GROUPS]]
                if len(rows):
                    values[name] = at[rows], places[rows], stored[name]
            self.rows.update(values)
            num_updated = int(np.count_nonzero(applied.any(axis=1)))
            if not takes_source:
                kept = made.cells[changed]
                kept[is_conflict] = CONFLICT
                made.cells[changed] = kept
                made.stamps[changed[is_conflict.any(axis=1)]] = 0
        is_noted = (
            differs
            | (made.stamps != known.stamps[at])
            | (
                np.array([known.items[one] for one in at.tolist()], object)
                != np.array([self._listing.names[one] for one in items.tolist()], object)
            )
        )
        noted = np.flatnonzero(is_noted)
        if len(noted):
            self.entries.append(made.take(noted))
        return num_updated, len(at) - len(changed)

    def _report_conflicts(self, items: Int64Array, at: Int64Array, conflicts: BoolArray) -> None:
        rows = np.flatnonzero(conflicts.any(axis=1))
        if not len(rows):
            return
        numbers = self.rows.rows(at[rows])
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            for tensor in self._names(conflicts[row]):
                self._conflict(self._listing.names[items[row]], BY_HAND, tensor, number)

    def _conflict(self, item: str, what: str, tensor: str | None, row: int | None) -> None:
        if self._on_conflict == "error":
            where = "" if row is None else f" (row {row})"
            of = "" if tensor is None else f", tensor {tensor!r}"
            raise ConflictError(
                f"{item!r}{where}{of}: {what}"
                "\nto keep the dataset's values: on_conflict='keep'; to take the source's:"
                " on_conflict='source'",
                item=item,
                tensor=tensor,
                row=row,
            )
        reason = f"{what}: {_OUTCOME[self._on_conflict]}"
        self._report.conflicts.append(SkippedItem(item, reason, tensor, row))

    def _entries_of(self, items: Int64Array) -> Entries:
        made = Entries.blank([self._listing.names[at] for at in items.tolist()])
        made.sizes[:], made.stamps[:] = self._listing.sizes[items], self._listing.stamps[items]
        return made

    def _digests(
        self, stored: Mapping[str, Column]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """Return the digests of cells, and of the content, of each row."""
        known = {name: column_digests(stored[name]) for name in self._content}
        columns = [stored[name] for name in self._tensors]
        cells = cell_digests(columns, [known.get(name) for name in self._tensors])
        content = np.zeros(len(cells), np.uint64)
        for digests in known.values():
            content = content * np.uint64(31) + digests
        return cells, content

    def _here(self, at: Int64Array) -> npt.NDArray[np.uint32]:
        """Return the digests of rows as the dataset has them."""
        columns = [self.rows.read(name, at) for name in self._tensors]
        return cell_digests(columns, [None] * len(columns))

    def _in_units(self, flags: BoolArray) -> BoolArray:
        """Extend flags of cells to those of tensors ``per`` one another."""
        for unit in self._units:
            flags[:, unit] = flags[:, unit].any(axis=1, keepdims=True)
        return flags

    def _names(self, groups: BoolArray) -> list[str]:
        return [name for number, name in enumerate(self._tensors) if groups[number % CELL_GROUPS]]


@dataclass(slots=True)
class Pieces:
    """The staging of pieces known by position.

    Attributes:
        dataset: The dataset.
        source: The source.
        report: Where rows are counted.
        entries: Entries that the next commit adds to the ledger.
    """

    dataset: Dataset
    source: Source[Any]
    report: IngestReport
    entries: list[Entries] = field(default_factory=list[Entries])
    _digests: dict[str, tuple[xxh3_64, xxh3_64]] = field(
        default_factory=dict[str, tuple[xxh3_64, xxh3_64]]
    )

    def add(self, columns: Columns, _items: Int64Array) -> int:
        """Stage rows of a piece."""
        session = session_of(self.dataset)
        rows = len(next(iter(columns.values())))
        extend_rows(session, columns, note=self._note)
        self.report.rows += rows
        self.report.added += rows
        return rows

    def close(self, items: range, rows: int) -> None:
        """Note a piece whose last ``rows`` rows are all staged."""
        # Files in several folders may have one name: its position makes it the piece's own.
        made = Entries.blank([f"{self.source.name(self.source.items[items.start])} {items.start}"])
        made.sizes[:], made.stamps[:] = (
            self.source.nbytes(items),
            self.source.stamp_of_pieces(items),
        )
        made.digests[:] = self._digest()
        made.rows[:], made.spans[:] = max(1, rows), len(items)
        made.ids[:] = next_row_ids(session_of(self.dataset), 1)
        made.ids["offset"] -= np.uint64(rows)
        self.entries.append(made)

    def digest_of(self, parts: Iterable[Columns]) -> int:
        """Return the digest that a piece with these rows has in the ledger."""
        session = session_of(self.dataset)
        schema = session.snapshot().schema
        self._digests = {}
        for columns in parts:
            stored = converted_rows(session, columns)
            self._note({schema[name].id: column for name, column in stored.items()})
        return self._digest()

    def renew(self, known: Entries) -> None:
        """Note all pieces again, with the stamps that they have now."""
        made = known.take(np.arange(len(known)))
        stops = np.cumsum(made.spans).tolist()
        runs = [range(start, stop) for start, stop in pairwise([0, *stops])]
        made.sizes[:] = [self.source.nbytes(items) for items in runs]
        made.stamps[:] = [self.source.stamp_of_pieces(items) for items in runs]
        self.entries.append(made)

    def _note(self, stored: Mapping[str, Column]) -> None:
        for id_, column in stored.items():
            digests = self._digests.setdefault(id_, (xxh3_64(), xxh3_64()))
            update_digest(*digests, column)

    def _digest(self) -> int:
        whole = xxh3_64()
        for id_, (content, shapes) in sorted(self._digests.items()):
            whole.update(id_.encode())
            whole.update(content.digest() + shapes.digest())
        self._digests = {}
        return whole.intdigest()


def _units_of(dataset: Dataset, tensors: Sequence[str]) -> list[list[int]]:
    """Return the groups of digests of tensors that have one value for each item of another."""
    units: dict[str, set[int]] = defaultdict(set)
    for number, name in enumerate(tensors):
        per = getattr(dataset.schema[name], "per", None)
        units[per or name].add(number % CELL_GROUPS)
    return [sorted(unit) for unit in units.values() if len(unit) > 1]


def _taken(values: Any, places: list[int]) -> Any:
    """Return some values of a column, in whatever form a source gives it."""
    if isinstance(values, np.ndarray):
        return values[places]
    return [values[place] for place in places]
