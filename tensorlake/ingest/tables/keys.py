"""Rows of tables known by a key: the column that names an item.

    csv, jsonl, parquet     a pass over the keys, then over the records of files whose size or time
                            differs
    arrow, huggingface      the key of each row; if the table has changed, all rows are compared

A row is called ``id=7`` in the ledger, in reports and in errors. A key is present and unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tensorlake.dataset import SkippedItem
from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.source import LoadedRows

__all__ = ["KEY_ADVICE", "Record", "Records", "check_key", "row_names"]

KEY_ADVICE = " with key='id', if a column identifies the rows: then any of them may change"
"""How to repeat the call for a source without a key, known by position."""

PIECES_KEPT = 4
"""Pieces in memory: one is read by the records before and after a cut, in several threads."""


class Record(NamedTuple):
    """A row of a piece, and its name."""

    piece: int
    row: int
    name: str


def check_key(key: str, columns: Iterable[str]) -> None:
    """Refuse a key that is not a column.

    Raises:
        InvalidInputError: There is no such column.
    """
    columns = [*columns]
    if key not in columns:
        raise InvalidInputError(
            f"key={key!r} is not a column{did_you_mean(key, columns)}"
            f"\ncolumns: {', '.join(columns)}",
            key=key,
            columns=columns,
        )


def row_names(key: str, values: Sequence[Any], place: Callable[[int], str]) -> list[str]:
    """Return the names of rows by their keys, such as ``id=7``.

    Args:
        key: The column.
        values: Its values.
        place: Returns where a row is, for errors.

    Raises:
        InvalidInputError: A row has no key, or that of a row before it.
    """
    plain = values.tolist() if isinstance(values, np.ndarray) else [*values]
    first: dict[str, int] = {}
    for row, value in enumerate(plain):
        name = f"{key}={value}"
        if value is None or first.setdefault(name, row) != row:
            why = f"has no {key!r}" if value is None else f"has the {key!r} of {place(first[name])}"
            raise InvalidInputError(
                f"{place(row)} {why}, {value!r}: a key is present and unique"
                "\nname another column: key=…, or none: rows are then known by position",
                key=key,
                row=row,
            )
    return [*first]


class Records:
    """The records of pieces, read one piece at a time.

    Args:
        pieces: The pieces.
        key: The column that names a record.
        load: Reads pieces.
        keys: Reads the keys of a piece alone, where that is cheaper.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        key: str,
        load: Callable[[Sequence[Piece]], LoadedRows],
        keys: Callable[[Piece], Sequence[Any]] | None,
    ) -> None:
        self._pieces, self._key, self._load = pieces, key, load
        self._read = lru_cache(maxsize=PIECES_KEPT)(self._load_piece)
        values: list[Any] = []
        counts: list[int] = []
        refused: list[SkippedItem] = []
        for at, piece in enumerate(pieces):
            if keys is None:
                loaded = self._read(at)
                own = loaded.columns[key]
                refused += [item for item, _ in loaded.refused]
            else:
                own = keys(piece)
            values += own.tolist() if isinstance(own, np.ndarray) else [*own]
            counts.append(len(own))
        self.refused = refused
        owners = np.repeat(np.arange(len(counts)), counts).tolist()
        rows = [row for count in counts for row in range(count)]

        def place(at: int) -> str:
            loaded = self._read(owners[at])
            return loaded.row_name(rows[at])

        names = row_names(key, values, place)
        self.items = [*map(Record, owners, rows, names)]
        self.sizes = [max(1, pieces[at].nbytes // max(1, counts[at])) for at in owners]

    def _load_piece(self, at: int) -> LoadedRows:
        return self._load([self._pieces[at]])

    def load(self, records: Sequence[Record]) -> LoadedRows:
        """Read consecutive records.

        Raises:
            InvalidInputError: Their piece has other records than before.
        """
        parts: list[Mapping[str, Any]] = []
        start = 0
        while start < len(records):
            at = records[start].piece
            stop = start
            while stop < len(records) and records[stop].piece == at:
                stop += 1
            loaded = self._read(at)
            low, high = records[start].row, records[stop - 1].row + 1
            part = {name: values[low:high] for name, values in loaded.columns.items()}
            keys = [f"{self._key}={one}" for one in _plain(part[self._key])]
            if keys != [one.name for one in records[start:stop]]:
                message = f"{self._pieces[at].path!r} changed while it was read\ningest it again"
                raise InvalidInputError(message, src=self._pieces[at].path)
            parts.append(part)
            start = stop
        columns = parts[0] if len(parts) == 1 else _joined(parts)
        return LoadedRows(columns, (), lambda row: records[row].name)


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else [*values]


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: [one for part in parts for one in part[name]] for name in parts[0]}
