"""Read-ahead: a batch of a source is read in pieces, a few of them ahead of use.

If a piece cannot be loaded and invalid items are skipped, its items are loaded one by one: valid
items are ingested, and each invalid item is reported with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source import Item, LoadedRows, Refused, Source

__all__ = ["LoadedItems", "Reading"]

STAGED_NBYTES = 8 << 20
"""Source bytes read, checked and staged together: whole-column conversion, bounded memory."""


@dataclass(frozen=True, slots=True)
class LoadedItems:
    """Items of a source with their columns, or with the error of a single invalid item."""

    items: range
    columns: Mapping[str, Any]
    error: InvalidInputError | None = None
    refused: Sequence[Refused] = ()  # rows of the items that are not in the columns
    row_name: Callable[[int], str] | None = None

    @classmethod
    def of(cls, items: range, loaded: Mapping[str, Any] | LoadedRows) -> LoadedItems:
        """Combine items with the result of loading them."""
        if isinstance(loaded, LoadedRows):
            return cls(items, loaded.columns, None, loaded.refused, loaded.row_name)
        return cls(items, loaded)


class Reading(Generic[Item]):
    """Read a batch; iterate once.

    Args:
        source: The source.
        batch: Items to read.
        pool: Threads that load.
        ahead: Number of pieces to read ahead.
        is_strict: Whether an item that cannot be loaded is an error.
    """

    def __init__(
        self,
        source: Source[Item],
        batch: range,
        *,
        pool: ThreadPoolExecutor,
        ahead: int,
        is_strict: bool,
    ) -> None:
        self._source = source
        self._pool = pool
        self._pieces = list(source.cut(batch, STAGED_NBYTES))
        self._ahead = ahead
        self._is_strict = is_strict
        self._begun = [self._begin(piece) for piece in self._pieces[:ahead]]

    def __iter__(self) -> Iterator[LoadedItems]:
        """Yield the pieces in order.

        Raises:
            InvalidInputError: An item cannot be loaded, and ``is_strict`` is set.
        """
        for at, piece in enumerate(self._pieces):
            begun = self._begun.pop(0)
            error = begun.exception()
            if at + self._ahead < len(self._pieces):
                self._begun.append(self._begin(self._pieces[at + self._ahead]))
            if isinstance(error, InvalidInputError) and not self._is_strict:
                yield from map(self._loaded_alone, piece)
            else:
                yield LoadedItems.of(piece, begun.result())

    def _begin(self, piece: range) -> Future[Mapping[str, Any] | LoadedRows]:
        return self._pool.submit(self._load, piece)

    def _load(self, piece: range) -> Mapping[str, Any] | LoadedRows:
        return self._source.load(self._source.items[piece.start : piece.stop])

    def _loaded_alone(self, item: int) -> LoadedItems:
        alone = range(item, item + 1)
        try:
            return LoadedItems.of(alone, self._load(alone))
        except InvalidInputError as error:
            return LoadedItems(alone, {}, error)
