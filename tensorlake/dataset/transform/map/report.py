"""The report of ``ds.map``: rows read and made, tensors filled, rows that were skipped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.history.ingest_report import IngestReport, SkippedItem
from tensorlake.dataset.transform.map.calls import Piece, row_numbers, rows_shown
from tensorlake.errors import SkippedRowsWarning, shown
from tensorlake.quantities import plural

__all__ = ["MapCount", "MapReport"]

Int64Array = npt.NDArray[np.int64]

NAMED_ITEMS = 1000
"""Skipped rows (or batches) that the report describes; of all others it has the row numbers."""


@dataclass(frozen=True, slots=True)
class MapReport:
    """The result of a call of ``map``, as ``ds.map_report``; prints as one line.

    Attributes:
        rows: Rows for which this call has outputs of the function.
        rows_made: In place the same number; with ``to=``, rows that this call added to the new
            dataset.
        already_there: With ``to=``: rows whose outputs are there already, from earlier calls.
        updated: With ``to=``: of ``rows``, those that an earlier call had mapped, and that have
            changed since.
        vanished: With ``to=``: rows that an earlier call had mapped, and that are gone.
        deleted: Rows of the new dataset that ``delete=True`` removed for them.
        conflicts: With ``to=``: outputs changed by hand, of rows that have changed since: one for
            each row and tensor.
        tensors: The tensors of the outputs.
        added: Those of them that this call added to the dataset.
        skipped: Rows (or batches) for which the function raised, with ``on_error="skip"``: the
            first 1,000, with the reason.
        skipped_rows: The row numbers of all of them, int64.
        seconds: Duration of the call.
        url: URL of the dataset that has the outputs.
        version: Its version; None while the outputs are staged. ``ds.map_report`` has the version
            after the commit, and is None after ``ds.discard()``.
    """

    rows: int
    rows_made: int
    already_there: int
    updated: int
    vanished: int
    deleted: int
    conflicts: tuple[SkippedItem, ...]
    tensors: tuple[str, ...]
    added: tuple[str, ...]
    skipped: tuple[SkippedItem, ...]
    skipped_rows: Int64Array
    seconds: float
    url: str
    version: str | None

    def __str__(self) -> str:
        text = f"mapped {plural(self.rows, 'row')} in {self.seconds:.1f} s → {self.url}"
        names = ", ".join(f"{one} (added)" if one in self.added else one for one in self.tensors)
        if self.version is None:
            text += f": staged {names}; publish with ds.commit(message)"
        else:
            text += f" {self.version}: committed {plural(self.rows_made, 'row')} of {names}"
        if self.updated:
            text += f"; {plural(self.updated, 'row')} had changed"
        if self.already_there:
            were = "was" if self.already_there == 1 else "were"
            text += f"; {plural(self.already_there, 'row')} {were} processed before"
        if self.vanished:
            what = "deleted" if self.deleted else "kept; to remove: delete=True"
            are = "is" if self.vanished == 1 else "are"
            text += f"; {plural(self.vanished, 'row')} {are} gone, their outputs {what}"
        if self.conflicts:
            text += f"; {plural(len(self.conflicts), 'conflict')}: ds.map_report.conflicts"
        if count := len(self.skipped_rows):
            text += f"; {plural(count, 'row')} skipped: ds.map_report.skipped"
        return text


class MapCount:
    """Counts the rows of one call of ``map``, and makes its report."""

    def __init__(self, tensors: Iterable[str], changes: IngestReport | None = None) -> None:
        self._tensors = tuple(tensors)
        self._changes = IngestReport() if changes is None else changes
        self._started = time.monotonic()
        self._rows = 0
        self._skipped: list[SkippedItem] = []
        self._numbers: list[Int64Array] = [np.zeros(0, np.int64)]
        self.already_there = self.updated = self.vanished = 0
        self.added: Sequence[str] = ()

    def noting(self, rows: RowSet, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Pass pieces on, and count their rows."""
        for piece in pieces:
            self._rows += len(piece.positions)
            for positions, error in piece.skipped:
                self._numbers.append(row_numbers(rows, positions))
                if len(self._skipped) < NAMED_ITEMS:
                    item = SkippedItem(rows_shown(rows, positions), _reason(error))
                    self._skipped.append(item)
            yield piece

    def report(self, session: Session, *, is_staged: bool) -> MapReport:
        """Return the report, and warn if any row was skipped."""
        skipped = np.concatenate(self._numbers)
        if len(skipped):
            first = self._skipped[0].reason
            message = f"map() skipped {plural(len(skipped), 'row')}; the first raised {first}"
            warnings.warn(message, SkippedRowsWarning, stacklevel=5)
        return MapReport(
            rows=self._rows,
            rows_made=self._rows if is_staged else self._changes.rows,
            already_there=self.already_there,
            updated=self.updated,
            vanished=self.vanished,
            deleted=self._changes.deleted,
            conflicts=tuple(self._changes.conflicts),
            tensors=self._tensors,
            added=tuple(self.added),
            skipped=tuple(self._skipped),
            skipped_rows=skipped,
            seconds=time.monotonic() - self._started,
            url=session.store.url,
            version=None if is_staged else session.committed.version,
        )


def _reason(error: Exception) -> str:
    """Return the name and the first line of what a user's function raised."""
    try:
        first = next(iter(str(error).splitlines()), "")
    except Exception:  # noqa: BLE001 - the user's own class: its name is known
        return shown(error)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
