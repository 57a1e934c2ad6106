"""The staging of pieces: items known by position, with any number of rows each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from tensorlake.ingest.engine.source import Source
from tensorlake.types import Column

__all__ = ["Pieces"]

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
