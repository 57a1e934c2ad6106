"""The batches of a loader by number, for tools that build a new ``DataLoader`` from it.

``accelerate.skip_first_batches``, with which trainers resume in the middle of an epoch, takes the
``dataset``, ``batch_sampler`` and ``collate_fn`` of its argument, and makes a ``DataLoader`` of
them that requests the batches after the skipped ones. The loader skips to the first requested batch
and reads nothing before it. Trainers set the epoch on the sampler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from torch.utils.data import BatchSampler, Dataset

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorlake.loader.engine.iterator import BatchIterator
    from tensorlake.loader.engine.loader import Loader

__all__ = ["BatchNumbers", "NumberedBatches", "only_batch"]


class NumberedBatches(Dataset[Any]):
    """Whole batches of successive epochs, by number, in order."""

    def __init__(self, loader: Loader, num_rows: int) -> None:
        self.loader = loader
        self._num_rows = num_rows
        self._iterator: BatchIterator | None = None
        self._next = 0

    def __len__(self) -> int:
        """Return the number of rows, as trainers expect from a dataset."""
        return self._num_rows

    def __getitem__(self, number: int) -> Any:
        """Return a batch.

        Raises:
            InvalidInputError: It does not follow the previous batch.
        """
        if self._iterator is None or number < self._next:
            self._iterator, self._next = self._begin(number), number
        if number != self._next:
            raise InvalidInputError(
                f"batch {number} of a loader is requested, but the next one is {self._next}"
                "\nread batches in their order; the loader shuffles rows: shuffle=True",
                expected=self._next,
                actual=number,
            )
        self._next += 1
        return next(self._iterator)

    def _begin(self, number: int) -> BatchIterator:
        """Begin a pass at a batch of the epoch that was set, else of the next epoch."""
        before = self._iterator
        if before is not None and before.is_live and not before.is_idle:
            before.close()
            self.loader.set_epoch(self.loader.epoch + 1)
        self.loader.skip(number)
        return cast("BatchIterator", iter(self.loader))


class BatchNumbers(BatchSampler):
    """The numbers of an epoch's batches, each a list of one."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[list[int]]:
        return ([number] for number in range(len(self)))

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass."""
        self.loader.set_epoch(epoch)


def only_batch(batches: list[Any]) -> Any:
    """Return the only batch of a list, which is collated already."""
    (batch,) = batches
    return batch
