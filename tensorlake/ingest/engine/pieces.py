"""The staging of pieces: items known by position, with any number of rows each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64

from tensorlake.dataset import (
    Dataset,
    Entries,
    IngestReport,
    converted_rows,
    extend_rows,
    next_row_ids,
    session_of,
    update_digest,
)
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.known import source_text
from tensorlake.ingest.engine.listing import file_stamps
from tensorlake.ingest.engine.readahead import LoadedItems
from tensorlake.ingest.engine.row_cuts import cut_at_row, first_nbytes, num_rows
from tensorlake.ingest.engine.source import Source
from tensorlake.types import Column
from tensorlake.versions import StoredRows

__all__ = ["Pieces", "PiecesPreview", "changed_piece"]

Int64Array = npt.NDArray[np.int64]
Columns = Mapping[str, Any]


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
        self._enter(items, rows, self.take_digest(), after=0)

    def adopt(self, parts: Sequence[tuple[range, int, int]], rows: StoredRows) -> None:
        """Stage pieces that another process has stored: items, number of rows, and digest."""
        session = session_of(self.dataset)
        with session.lock:
            session.staging().adopt(rows)
        self.report.rows += rows.num_rows
        self.report.added += rows.num_rows
        after = rows.num_rows
        for items, count, digest in parts:
            after -= count
            self._enter(items, count, digest, after=after)

    def _enter(self, items: range, rows: int, digest: int, *, after: int) -> None:
        """Note a piece behind whose rows ``after`` others are staged."""
        made = Entries.blank([self._name(items.start)])
        made.sizes[:], made.stamps[:] = (
            self.source.nbytes(items),
            self.source.stamp_of_pieces(items),
        )
        made.digests[:] = digest
        made.rows[:], made.spans[:] = max(1, rows), len(items)
        made.ids[:] = next_row_ids(session_of(self.dataset), 1)
        made.ids["offset"] -= np.uint64(rows + after)
        self.entries += [made, Entries.of_files(file_stamps(self.source, items))]

    def digest_of(self, parts: Iterable[Columns]) -> int:
        """Return the digest that a piece with these rows has in the ledger."""
        session = session_of(self.dataset)
        schema = session.snapshot().schema
        self._digests = {}
        for columns in parts:
            stored = converted_rows(session, columns)
            self._note({schema[name].id: column for name, column in stored.items()})
        return self.take_digest()

    def first_changed(
        self,
        known: Entries,
        reading: Callable[[list[range]], Iterator[LoadedItems]],
        *,
        is_known: bool,
    ) -> int | None:
        """Compare pieces by digest; return the first item of one that differs.

        The last one may have more rows at its end: its last item is then cut before them.

        Args:
            known: The pieces that were ingested.
            reading: Reads items.
            is_known: Whether stamps say that they are the same; then pieces with rows that were
                left out, which have no digest of all rows, count as such.
        """
        start, last = 0, len(known) - 1
        for at, (digest, span) in enumerate(
            zip(known.digests.tolist(), known.spans.tolist(), strict=True)
        ):
            stop = start + span
            if stop > len(self.source.items):
                return start
            try:
                parts = [*reading([range(start, stop)])]
                is_whole = not any(one.refused or one.error for one in parts)
                columns = [one.columns for one in parts]
                if is_whole and self.digest_of(columns) != digest:
                    rows = int(known.rows[at])
                    if at < last or self.digest_of(_first_rows(columns, rows)) != digest:
                        return start
                    self._cut_last(stop - 1, sum(map(num_rows, columns)) - rows, reading, known)
            except InvalidInputError:  # values of another type
                is_whole = False
            if not is_whole and not is_known:
                return start
            start = stop
        return None

    def begin_with(
        self, known: Entries, reading: Callable[[list[range]], Iterator[LoadedItems]]
    ) -> bool:
        """Whether the source begins with these pieces: their names, and then their rows."""
        start = 0
        for name, span in zip(known.items, known.spans.tolist(), strict=True):
            stop = start + span
            if stop > len(self.source.items) or name != self._name(start):
                return False
            start = stop
        return start > 0 and self.first_changed(known, reading, is_known=False) is None

    def _name(self, start: int) -> str:
        # Files in several folders may have one name: its position makes it the piece's own.
        return f"{self.source.name(self.source.items[start])} {start}"

    def _cut_last(
        self,
        at: int,
        added: int,
        reading: Callable[[list[range]], Iterator[LoadedItems]],
        known: Entries,
    ) -> None:
        """Cut an item before the rows that were added to it."""
        rows = sum(num_rows(one.columns) for one in reading([range(at, at + 1)]))
        items = range(at + 1 - int(known.spans[-1]), at + 1)
        nbytes = first_nbytes(self.source, items, int(known.sizes[-1]))
        self.source = cut_at_row(self.source, at, rows - added, nbytes)

    def renew(self, known: Entries) -> None:
        """Note all pieces again, with the stamps that they have now."""
        made = known.take(np.arange(len(known)))
        stops = np.cumsum(made.spans).tolist()
        runs = [range(start, stop) for start, stop in pairwise([0, *stops])]
        made.sizes[:] = [self.source.nbytes(items) for items in runs]
        made.stamps[:] = [self.source.stamp_of_pieces(items) for items in runs]
        files = file_stamps(self.source, range(stops[-1]))
        self.entries += [made, Entries.of_files(files)]

    def _note(self, stored: Mapping[str, Column]) -> None:
        for id_, column in stored.items():
            digests = self._digests.setdefault(id_, (xxh3_64(), xxh3_64()))
            update_digest(*digests, column)

    def take_digest(self) -> int:
        """Return the digest of the rows added since the last one was taken."""
        whole = xxh3_64()
        for id_, (content, shapes) in sorted(self._digests.items()):
            whole.update(id_.encode())
            whole.update(content.digest() + shapes.digest())
        self._digests = {}
        return whole.intdigest()


class PiecesPreview(Pieces):
    """`Pieces` whose rows are counted, and not staged."""

    def add(self, columns: Columns, _items: Int64Array) -> int:
        """Check and count rows of a piece."""
        converted_rows(session_of(self.dataset), columns)
        rows = num_rows(columns)
        self.report.added += rows
        return rows

    def close(self, items: range, rows: int) -> None:
        """Note nothing."""


def changed_piece(
    dataset: Dataset, source: Source[Any], known: Entries, at: int
) -> InvalidInputError:
    """Return the error for a source by position that changed elsewhere than at its end."""
    count = len(source.items)
    where = source.file_of(at) if at < count else "its end"
    is_shorter = int(known.spans.sum()) > count
    place = "" if where == source.place else f" in {where!r}"
    what = f"changed{place} before its end"
    if is_shorter:
        what = "ends earlier than before"
        what += ", or has other files or row groups" if source.unit == "file" else ""
    return InvalidInputError(
        f"{source_text(source)} {what}: rows without a key are known by position, so that rows can"
        " be added at its end and nothing else may change\nnothing was ingested; to ingest all of"
        f" it again: tl.delete({dataset.url!r}, confirm={dataset.url!r}), and the same"
        f" call{source.key_advice}",
        dataset=dataset.url,
        item=where,
        rows=int(known.rows.sum()),
    )


def _first_rows(parts: Sequence[Columns], rows: int) -> Iterator[Columns]:
    """Yield the first rows of columns in parts."""
    for columns in parts:
        yield {name: values[:rows] for name, values in columns.items()}
        rows -= min(rows, num_rows(columns))
