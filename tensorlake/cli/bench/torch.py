"""The opponent ``torch``: the same rows through torch's own Dataset and DataLoader.

Written as a user would write it: ``__getitem__`` reads one row, worker processes decode, and a
collate function stacks. To compare only the way of reading, images are decoded by the same
functions as in our loader, at reduced scale where it does so, and batches are byte-identical.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from tensorlake.cli.bench.run import Measured, digest_of
from tensorlake.dataset import rowset_of
from tensorlake.loader import LoaderStats, decode, measure_epochs
from tensorlake.storage import usable_cores
from tensorlake.types import Column, EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    import tensorlake as tl
    from tensorlake.cli.bench.run import BenchRun
    from tensorlake.loader import ColumnPlan

__all__ = ["Batches", "Rows", "Stack", "decoded", "measure_torch"]


@dataclass(frozen=True)
class Rows(Dataset[dict[str, Any]]):
    """Read each row on its own, when it is requested."""

    rows: tl.Dataset | tl.View
    columns: tuple[ColumnPlan, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return decoded(self.columns, self.cells(position))

    def cells(self, position: int) -> dict[str, Any]:
        """Return the values of a row as they are stored: media encoded, NULL as None."""
        return {
            column.name: (self._value if column.decoder is None else self._image)(position, column)
            for column in self.columns
        }

    def _stored(self, position: int, column: ColumnPlan, *, decode: bool) -> Column:
        physical = rowset_of(self.rows).selection.physical(np.array([position], dtype=np.int64))
        return rowset_of(self.rows).reader().read(column.name, physical, decode=decode)

    def _image(self, position: int, column: ColumnPlan) -> decode.Sample | None:
        stored = self._stored(position, column, decode=False)
        assert isinstance(stored, EncodedColumn), "images are stored encoded"
        if stored.shapes is None or (stored.valid is not None and not stored.valid[0]):
            return None
        shape = tuple(int(length) for length in stored.shapes[0])
        return decode.Sample(stored.samples[0], shape, position, position)

    def _value(self, position: int, column: ColumnPlan) -> Any:
        if column.type is None:  # a query computed it
            return self.rows[position][column.name]
        stored = self._stored(position, column, decode=True)
        if stored.valid is not None and not stored.valid[0]:
            return None
        match stored:
            case UniformColumn():
                return stored.values[0]
            case RaggedColumn():
                return stored.sample(0)
            case EncodedColumn():
                return column.type.present_one(stored, 0)


def decoded(columns: tuple[ColumnPlan, ...], cells: dict[str, Any]) -> dict[str, Any]:
    """Decode the media of a row, and move annotations with them."""
    row, placements = dict(cells), dict[str, decode.Placement]()
    for column in columns:
        image = cells[column.name]
        if column.decoder is not None and image is not None:
            placements[column.name] = placement = column.decoder.place(image, 0)
            row[column.name] = column.decoder.decode(image, placement, epoch=0)
    _move(columns, row, placements)
    return row


def _move(
    columns: tuple[ColumnPlan, ...], row: dict[str, Any], placements: dict[str, decode.Placement]
) -> None:
    """Move annotations with their image, and drop the values of items that leave it."""
    left: dict[str, decode.Kept] = {}
    for column in columns:
        placement = placements.get(column.moves_with or "")
        value = row[column.name]
        if column.mover is not None and placement is not None and value is not None:
            moved, kept = column.mover.move(value, placement, row=0)
            row[column.name], left[column.name] = moved, kept
    for column in columns:
        kept = left.get(column.drops_with or column.name)
        if kept is not None and row[column.name] is not None:
            row[column.name] = decode.keep_items(row[column.name], kept)


class Stack:
    """Stack columns of one shape; other columns stay lists."""

    def __init__(self, columns: tuple[ColumnPlan, ...]) -> None:
        self.stacked = {one.name for one in columns if one.is_stacked and one.collate is None}

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        return {name: self._stacked(name, [row[name] for row in rows]) for name in rows[0]}

    def _stacked(self, name: str, values: list[Any]) -> Any:
        if name in self.stacked:
            return torch.from_numpy(np.stack(values))
        return [
            torch.from_numpy(one.copy()) if isinstance(one, np.ndarray) else one for one in values
        ]


class Batches:
    """The batches of a loader, counted as ``measure_epochs`` expects."""

    def __init__(self, batches: Iterable[dict[str, Any]]) -> None:
        self.batches = batches
        self.epoch = -1
        self.began = perf_counter()
        self.count = self.rows = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.epoch += 1
        for batch in self.batches:
            self.count, self.rows = self.count + 1, self.rows + len(next(iter(batch.values())))
            yield batch

    def stats(self) -> LoaderStats:
        """Return what was counted so far."""
        return LoaderStats(wall_s=perf_counter() - self.began, batches=self.count, rows=self.rows)


def measure_torch(run: BenchRun) -> Measured:
    """Stream with a DataLoader with worker processes."""
    with run.open() as (rows, arguments):
        with rows.loader(**arguments) as loader:
            columns = loader.columns  # the loader's plan of each column, for the same decoding
        dataset, stack = Rows(rows, columns), Stack(columns)
        workers = run.workers or usable_cores()
        batches = DataLoader(
            dataset,
            batch_size=run.batch_size,
            shuffle=run.shuffle and len(dataset) > 0,
            num_workers=workers,
            collate_fn=stack,
            persistent_workers=True,
        )
        epochs = measure_epochs(Batches(batches), run.epochs, max_batches=run.batches)
        count = min(run.batch_size, len(dataset))
        first = stack([dataset[position] for position in range(count)]) if count else {}
    facts = f"worker processes {workers}, torch {torch.__version__}"
    return Measured("", epochs, digest_of(first), facts)
