"""Read-ahead: a batch of a source is read in pieces, a few of them ahead of use.

If a piece cannot be loaded and invalid items are skipped, its items are loaded one by one: valid
items are ingested, and each invalid item is reported with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from tensorlake.errors import InvalidInputError, TensorlakeError
from tensorlake.ingest.engine.source import Item, LoadedRows, Refused, Source
from tensorlake.storage import parallel_map

__all__ = ["STAGED_NBYTES", "LoadedItems", "load_items", "read_ahead"]

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


def read_ahead(
    source: Source[Item],
    batch: Sequence[range],
    *,
    pool: ThreadPoolExecutor,
    ahead: int,
    is_strict: bool,
) -> Iterator[LoadedItems]:
    """Read a batch, given as runs of items; its first pieces are begun with the call.

    Args:
        source: The source.
        batch: Items to read.
        pool: Threads that load.
        ahead: Number of pieces to read ahead.
        is_strict: Whether an item that cannot be loaded is an error.

    Raises:
        InvalidInputError: An item cannot be loaded (its loading raised this, or a ValueError), and
            ``is_strict`` is set.
    """
    load = partial(load_items, source, is_strict=is_strict)
    pieces = (piece for run in batch for piece in source.cut(run, STAGED_NBYTES))
    return chain.from_iterable(parallel_map(load, pieces, pool=pool, ahead=ahead))


def load_items(source: Source[Item], piece: range, *, is_strict: bool) -> list[LoadedItems]:
    """Load some items together, or one by one where one of them is invalid.

    Raises:
        InvalidInputError: An item cannot be loaded, and ``is_strict`` is set.
    """
    try:
        return [LoadedItems.of(piece, source.load(source.items[piece.start : piece.stop]))]
    except InvalidInputError as error:
        if is_strict:
            raise
        if len(piece) == 1:
            return [LoadedItems(piece, {}, error)]
    except TensorlakeError:
        raise
    except ValueError as error:  # as a plug-in raises it for what it cannot parse
        if len(piece) == 1:
            name = source.name(source.items[piece.start])
            refused = InvalidInputError(f"{name}: {error}", item=name)
            if is_strict:
                raise refused from error
            return [LoadedItems(piece, {}, refused)]
    return [
        loaded
        for item in piece
        for loaded in load_items(source, range(item, item + 1), is_strict=is_strict)
    ]
