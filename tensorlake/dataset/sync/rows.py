"""Staging of items: new rows, rows brought to their source, rows deleted, and their ledger entries.

An item has one row, or any number of rows. Its cells are compared by digest, three ways: as they
were written, by the ledger (*then*), as the dataset has them (*here*), as the source has them
(*now*).

    then = now            nothing changed at the source: the row is left alone, whatever it has
    then = here ≠ now     updated in place
    here = now            the same change was made on both sides
    then ≠ here ≠ now     a conflict; also where another cell of the row changed at the source:
                          a label set by hand may not be that of the new image

A conflict that is kept stays in the ledger, without a stamp, and is reported by each run until the
dataset, or ``on_conflict="source"``, agrees with the source. Tensors ``per`` one another are
updated together or not at all. An item that has another number of rows now gets new rows at the end
of the dataset, in place of its old ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.core.stored_columns import StoredColumn
from tensorlake.dataset.history.ingest_report import (
    GONE,
    RENAMED,
    VANISHED,
    IngestReport,
    SkippedItem,
)
from tensorlake.dataset.sync.comparison import Action, Comparison, Listing
from tensorlake.dataset.sync.digests import (
    CELL_GROUPS,
    CONFLICT,
    cells_of,
    folded,
    places_of,
)
from tensorlake.dataset.sync.groups import CellGroups, RowDigests
from tensorlake.dataset.sync.ledger import Entries
from tensorlake.dataset.sync.new_items import NewItems
from tensorlake.dataset.write.by_row_id import RowsById, converted_rows, next_row_ids
from tensorlake.dataset.write.staging import extend
from tensorlake.errors import ConflictError
from tensorlake.types import Column, concat, take

__all__ = ["OnConflict", "Rows"]

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Columns = Mapping[str, Any]

COMPARED_NBYTES = 32 << 20
"""Source bytes of known items that are compared together: their changes cost memory until then, and
a rewrite of each chunk that they are in."""

OnConflict = Literal["keep", "source", "error"]

BY_HAND = "changed by hand, and at its source"
DELETED = "its row was deleted by hand, and the source has it"
_OUTCOME = {"keep": "the dataset stays as it is", "source": "the source was taken"}


class Rows:
    """The staging of items known by name.

    Args:
        session: The session of the dataset.
        listing: The items of the source.
        known: Their entries in the ledger.
        compared: The listing against the entries.
        tensors: The tensors that the source fills.
        numbers: The ids of the tensors that it fills, or once did, in the order of the ledger.
        content: Those by which an item is recognised under another name.
        on_conflict: The outcome of conflicts.
        report: Where changes are counted.
        shown_item: Returns the name of an item in messages; None: its name in the ledger.
    """

    rows_type = RowsById

    def __init__(
        self,
        session: Session,
        listing: Listing,
        known: Entries,
        compared: Comparison,
        *,
        tensors: Sequence[str],
        numbers: Sequence[str],
        content: Sequence[str] = (),
        on_conflict: OnConflict,
        report: IngestReport,
        shown_item: Callable[[str], str] | None = None,
    ) -> None:
        self._session = session
        self._listing, self._known, self._compared = listing, known, compared
        self._on_conflict, self._report, self._shown_item = on_conflict, report, shown_item
        schema = session.snapshot().schema
        self._groups = CellGroups(schema, tensors=tensors, ids=numbers, content=content)
        self._first = known.firsts
        self.rows = self.rows_type(session, known.row_ids)
        shown = np.concatenate([[0], np.cumsum(self.rows.is_shown)])
        self._num_shown = shown[self._first + known.rows] - shown[self._first]
        self._is_shown = self._num_shown > 0
        self.entries: list[Entries] = []
        """Entries that the next commit adds to the ledger."""
        self._vanished: dict[tuple[int, int], list[int]] = defaultdict(list)
        shown_last = np.argsort(self._is_shown[compared.vanished][::-1], kind="stable")
        for at in compared.vanished[::-1][shown_last].tolist():  # the last one is taken first
            content_digest = int(known.digests[at])
            if content_digest:
                self._vanished[content_digest, int(known.sizes[at])].append(at)
        self._moved: set[int] = set()
        self._waiting: list[tuple[Mapping[str, Column], Int64Array, Int64Array]] = []
        self._waiting_nbytes = 0

    def work(self, *, verify: bool = False) -> npt.NDArray[np.uint8]:
        """Decide what is to be done for each item, as `Action`; report rows deleted by hand.

        Args:
            verify: Whether items are compared that have not changed.

        Raises:
            ConflictError: With ``on_conflict="error"``, where a hand deleted rows.
        """
        listing, is_new = self._listing, self._compared.entry_of < 0
        work = np.full(len(listing.names), Action.COMPARE, np.uint8)
        if not verify:
            work[self._compared.is_same] = Action.NOTHING
        work[is_new] = Action.ADD
        if sizes := {size for _, size in self._vanished}:
            work[is_new & np.isin(listing.sizes, [*sizes])] = Action.MOVE
        deleted = self.deleted_by_hand()
        for at in np.flatnonzero(deleted).tolist():
            self._conflict(listing.names[at], DELETED, None, None)
        work[deleted] = Action.ADD if self._on_conflict == "source" else Action.NOTHING
        return work

    @property
    def num_unlisted(self) -> int:
        """Number of items in the dataset that the listing does not have."""
        return int(np.count_nonzero(self._is_shown[self._compared.vanished]))

    def deleted_by_hand(self) -> BoolArray:
        """Return which items have an entry whose rows a hand deleted."""
        at = self._compared.entry_of
        found = at >= 0
        entries = at[found]
        found[found] = ~self._is_shown[entries] & (self._known.rows[entries] > 0)
        return found

    def add(self, columns: Columns, items: Int64Array, counts: Int64Array | None = None) -> int:
        """Stage new rows; return their number.

        Args:
            columns: Their values.
            items: The items.
            counts: The rows of each; None: one.
        """
        made = self._entries_of(items, counts)
        count = int(made.rows.sum())
        with self._session.lock:
            noted = RowDigests(self._groups, self._session.staging().schema, count)
            self._give_ids(made, np.arange(len(items)))
            if count:
                extend(self._session, columns, note=noted.note)
        made.cells[:] = folded(noted.cells, made.firsts, made.rows)
        self._note_new(made, items, noted.content)
        return count

    def adopt(self, new: NewItems) -> None:
        """Stage new rows that another process has stored, one for each item."""
        items = new.items
        made = self._entries_of(items)
        with self._session.lock:
            self._give_ids(made, np.arange(len(items)))
            self._session.staging().adopt(new.rows)
        made.cells[:] = new.cells
        self._note_new(made, items, new.content)

    def _note_new(self, made: Entries, items: Int64Array, content: Any) -> None:
        if self._groups.content:
            made.digests[:] = content
        self.entries.append(made)
        self._report.name("added", self._names_of(items))
        self._report.added += len(items)
        self._report.rows += int(made.rows.sum())

    def move(self, columns: Columns, items: Int64Array) -> int:
        """Stage new rows, but for items that vanished under another name; return the new ones."""
        stored = converted_rows(self._session, columns)
        _, digests = self._groups.digests(stored)
        taken: dict[int, int] = {}
        for place, (at, digest) in enumerate(zip(items.tolist(), digests.tolist(), strict=True)):
            waiting = self._vanished.get((digest, int(self._listing.sizes[at])))
            if waiting:
                taken[place] = waiting.pop()
        new = [place for place in range(len(items)) if place not in taken]
        takes_source = self._on_conflict == "source"
        if taken:
            places = np.fromiter(taken, np.int64, len(taken))
            entries = np.fromiter(taken.values(), np.int64, len(taken))
            self.entries.append(self._known.take(entries).gone())
            self._moved.update(taken.values())
            is_shown = self._is_shown[entries]
            self._rename_deleted(items[places[~is_shown]], entries[~is_shown])
            if takes_source:
                new = sorted([*new, *places[~is_shown].tolist()])
            places, entries = places[is_shown], entries[is_shown]
            self._bring(stored, places, np.ones(len(places), np.int64), items[places], entries)
            pairs = zip(entries.tolist(), self._names_of(items[places]), strict=True)
            self._report.name(RENAMED, (f"{self._known.items[at]} → {new}" for at, new in pairs))
            self._report.renamed += len(places)
        if new:
            at = np.array(new, np.int64)
            self.add({name: _taken(values, new) for name, values in columns.items()}, items[at])
        return len(new)

    def _rename_deleted(self, items: Int64Array, entries: Int64Array) -> None:
        """Note items under their new names whose rows a hand deleted: they stay deleted."""
        for at in items.tolist():
            self._conflict(self._listing.names[at], DELETED, None, None)
        if len(items) and self._on_conflict != "source":
            made = self._entries_of(items)
            known = self._known
            made.cells[:], made.ids[:] = known.cells[entries], known.ids[entries]
            made.digests[:] = known.digests[entries]
            self.entries.append(made)

    def compare(self, columns: Columns, items: Int64Array, counts: Int64Array | None = None) -> int:
        """Take rows of known items, to be compared together; return 0: no rows are new."""
        counts = np.ones(len(items), np.int64) if counts is None else counts
        self._waiting.append((converted_rows(self._session, columns), items, counts))
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
        stored = {
            name: concat([one[name] for one, _, _ in waiting]) for name in self._groups.filled
        }
        items = np.concatenate([some for _, some, _ in waiting])
        counts = np.concatenate([some for _, _, some in waiting])
        entries = self._compared.entry_of[items]
        starts = np.cumsum(counts) - counts
        updated, unchanged = self._bring(stored, starts, counts, items, entries)
        self._report.name("updated", self._names_of(updated))
        self._report.updated += len(updated)
        self._report.unchanged += unchanged

    def forget_stamps(self, at: Int64Array) -> None:
        """Note that entries are to be compared in the next run, whatever their stamps are then."""
        made = self._known.take(at[self._known.stamps[at] != 0])
        if len(made):
            made.stamps[:] = 0
            self.entries.append(made)

    def vanish(self, *, is_absent: Callable[[str], bool], delete: bool) -> Int64Array:
        """Report the items that are no longer in the source; with ``delete`` remove their rows.

        Args:
            is_absent: Whether an item is known to have left its source.
            delete: Whether to delete.

        Returns:
            The entries that have rows, in the dataset as it was.
        """
        known = self._known
        gone = [
            at
            for at in self._compared.vanished.tolist()
            if at not in self._moved and is_absent(known.items[at])
        ]
        at = np.array(gone, np.int64)
        lost = at[~self._is_shown[at]]
        if delete and len(lost):
            self.entries.append(known.take(lost).gone())
        at = at[self._is_shown[at]]
        self._report.vanished = len(at)
        self._report.name(VANISHED, (known.items[one] for one in at.tolist()))
        if not delete or not len(at):
            return at
        gone = at
        here = self._here(at, {**self._groups.filled, **self._groups.beside, **self._groups.absent})
        by_hand = (here != known.cells[at]) & ~self._groups.is_gone
        is_by_hand = by_hand.any(axis=1)
        for place in np.flatnonzero(is_by_hand).tolist():
            entry = int(at[place])
            tensors = self._groups.names(by_hand[place])
            self._conflict(known.items[entry], GONE, ", ".join(tensors), self._row(entry))
        if self._on_conflict != "source":
            at = at[~is_by_hand]
        if not len(at):
            return gone
        rows = self._shown(at)
        self.rows.delete(rows)
        self._report.deleted += len(rows)
        self.entries.append(known.take(at).gone())
        return gone

    def _bring(
        self,
        stored: Mapping[str, Column],
        starts: Int64Array,
        counts: Int64Array,
        items: Int64Array,
        at: Int64Array,
    ) -> tuple[Int64Array, int]:
        """Bring the rows of entries to their source.

        Args:
            stored: Columns of the source's values.
            starts: The first row of each item in them.
            counts: The rows of each item.
            items: The items.
            at: The entries.

        Returns:
            The items that were updated, and how many agree with the source.
        """
        known = self._known
        sums, digests = self._groups.digests(stored)
        then = known.cells[at]
        if self._groups.beside:
            sums = sums[starts] + self._groups.sums_here(
                self.rows, self._shown(at), self._groups.beside
            )
            now = cells_of(sums)
        else:
            now = folded(cells_of(sums), starts, counts)
        now[:, self._groups.is_silent] = then[:, self._groups.is_silent]
        made = self._entries_of(items, known.rows[at])
        made.cells[:], made.ids[:] = now, known.ids[at]
        if self._groups.content:
            made.digests[:] = digests[starts]
        differs = (now != then).any(axis=1)
        changed = np.flatnonzero(differs)
        updated, num_kept = items[:0], 0
        if len(changed):
            here = self._here(at[changed], {**self._groups.filled, **self._groups.beside})
            here[:, self._groups.is_silent] = then[changed][:, self._groups.is_silent]
            by_hand = self._groups.in_units(here != then[changed])
            wants = here != now[changed]
            is_resized = counts[changed] != self._num_shown[at[changed]]
            by_hand[is_resized] = by_hand[is_resized].any(axis=1, keepdims=True)
            wants[is_resized] = True
            is_conflict = by_hand & wants
            self._report_conflicts(items[changed], at[changed], is_conflict)
            takes_source = self._on_conflict == "source"
            applied = wants if takes_source else wants & ~by_hand
            self._update(stored, starts, counts, at, changed, applied & ~is_resized[:, None])
            self._replace(stored, starts, counts, at, changed[applied[:, 0] & is_resized], made)
            updated = items[changed[applied.any(axis=1)]]
            if not takes_source:
                is_kept = is_conflict.any(axis=1)
                num_kept = int(np.count_nonzero(is_kept & ~applied.any(axis=1)))
                kept = made.cells[changed]
                kept[is_conflict] = CONFLICT
                made.cells[changed] = kept
                made.stamps[changed[is_kept]] = 0
        is_noted = (
            (made.cells != then).any(axis=1)
            | (made.stamps != known.stamps[at])
            | (made.ids != known.ids[at])
            | (
                np.array([known.items[one] for one in at.tolist()], object)
                != np.array([self._listing.names[one] for one in items.tolist()], object)
            )
        )
        noted = np.flatnonzero(is_noted)
        if len(noted):
            self.entries.append(made.take(noted))
        return updated, len(at) - len(updated) - num_kept

    def _names_of(self, items: Int64Array) -> Iterator[str]:
        return (self._listing.names[at] for at in items.tolist())

    def _update(
        self,
        stored: Mapping[str, Column],
        starts: Int64Array,
        counts: Int64Array,
        at: Int64Array,
        changed: Int64Array,
        applied: BoolArray,
    ) -> None:
        """Stage values of items in the rows that they have."""
        values: dict[str, tuple[Int64Array, Int64Array, Column]] = {}
        for name, number in self._groups.filled.items():
            some = changed[applied[:, number % CELL_GROUPS]]
            if len(some):
                places = places_of(starts[some], counts[some])
                values[name] = self._shown(at[some]), places, stored[name]
        self.rows.update(values)

    def _replace(
        self,
        stored: Mapping[str, Column],
        starts: Int64Array,
        counts: Int64Array,
        at: Int64Array,
        some: Int64Array,
        made: Entries,
    ) -> None:
        """Stage new rows for items, in place of another number of rows; note their ids."""
        if not len(some):
            return
        with self._session.lock:
            self.rows.delete(self._shown(at[some]))
            made.rows[some] = counts[some]
            self._give_ids(made, some)
            places = places_of(starts[some], counts[some])
            if len(places):
                types = self._session.staging().schema
                columns = {
                    name: StoredColumn(types[name].type, take(stored[name], places))
                    for name in self._groups.filled
                }
                extend(self._session, columns)
        self._report.rows += len(places)

    def _report_conflicts(self, items: Int64Array, at: Int64Array, conflicts: BoolArray) -> None:
        for place in np.flatnonzero(conflicts.any(axis=1)).tolist():
            row = self._row(int(at[place]))
            for tensor in self._groups.names(conflicts[place]):
                self._conflict(self._listing.names[items[place]], BY_HAND, tensor, row)

    def _conflict(self, item: str, what: str, tensor: str | None, row: int | None) -> None:
        item = item if self._shown_item is None else self._shown_item(item)
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

    def _entries_of(self, items: Int64Array, rows: Int64Array | None = None) -> Entries:
        made = Entries.blank([self._listing.names[at] for at in items.tolist()])
        made.sizes[:], made.stamps[:] = self._listing.sizes[items], self._listing.stamps[items]
        if rows is not None:
            made.rows[:] = rows
        return made

    def _give_ids(self, made: Entries, some: Int64Array) -> None:
        """Give entries the ids of the rows that are appended next; with the lock held."""
        ids = next_row_ids(self._session, int(made.rows[some].sum()) + 1)
        made.ids[some] = ids[np.cumsum(made.rows[some]) - made.rows[some]]

    def _shown(self, at: Int64Array) -> Int64Array:
        """Return the places, in the list of row ids, of the rows of entries that are shown."""
        places = places_of(self._first[at], self._known.rows[at])
        return places[self.rows.is_shown[places]]

    def _row(self, entry: int) -> int | None:
        """Return the number of the first row of an entry that is shown."""
        shown = self._shown(np.array([entry]))
        return int(self.rows.rows(shown[:1])[0]) if len(shown) else None

    def _here(self, at: Int64Array, tensors: Mapping[str, int]) -> npt.NDArray[np.uint32]:
        """Return the digests of entries as the dataset has them."""
        shown, counts = self._shown(at), self._num_shown[at]
        cells = cells_of(self._groups.sums_here(self.rows, shown, tensors))
        return folded(cells, np.cumsum(counts) - counts, counts)


def _taken(values: Any, places: list[int]) -> Any:
    """Return some values of a column, in whatever form a source gives it."""
    if isinstance(values, np.ndarray):
        return values[places]
    return [values[place] for place in places]
