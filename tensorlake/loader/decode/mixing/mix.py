"""BatchMix: the batch steps of one column, applied to the rows of a batch.

    rows ─► groups by place ─► each row draws one step, or none ─► images, labels, boxes …

The partners of a row are its neighbours in the order of the epoch: in groups of two, places 0 and
1, 2 and 3, …. A mixed row therefore follows from its place, the seed and the epoch alone: ranks,
workers, the size of a batch and a resume change nothing, as long as groups are not divided
between batches. In a shuffled order, neighbours are random rows.

A row whose partners are not in the batch stays as it is: at the end of an epoch, where a row was
skipped, or where groups are divided between batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode.annotations import Mover, keep_items
from tensorlake.loader.decode.mixing.blend import Blend
from tensorlake.loader.decode.mixing.mosaic import Mosaic, Tile
from tensorlake.loader.runtime.rng import sample_generator, step_stream

if TYPE_CHECKING:
    from tensorlake.loader.decode.step import BatchStep

__all__ = ["BatchMix", "MixedRows"]

Rows = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MixedRows:
    """The rows of a batch that may be mixed.

    Attributes:
        values: Arrays and lists by column, of all rows of the batch; mixed in place.
        places: The place of each row in the epoch.
        usable: Which rows were read, and are not repeated.
    """

    values: Rows
    places: NDArray[np.int64]
    usable: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class BatchMix:
    """The batch steps of a column of images, or of other arrays of one shape.

    Attributes:
        tensor: The column.
        steps: At most one of them changes a row.
        seed: The loader's seed.
        number: Position of the first step among the steps of the column, for its random numbers.
        classes: Number of classes of each column of labels; 0: its labels are vectors.
        movers: Movers of the annotations of the images, by column.
        items: By column with a value per item, the column of the items.
    """

    tensor: str
    steps: tuple[BatchStep, ...]
    seed: int
    number: int
    classes: Mapping[str, int]
    movers: Mapping[str, Mover]
    items: Mapping[str, str]

    def apply(self, rows: MixedRows, epoch: int) -> None:
        """Mix the rows of a batch.

        Raises:
            InvalidInputError: An integer is not the number of a class.
        """
        values = rows.values
        for name in (self.tensor, *self._annotations()):
            if isinstance(values[name], np.ndarray) and not values[name].flags.writeable:
                values[name] = values[name].copy()  # mapped, or of a cache
        for name, classes in self.classes.items():
            values[name] = _vectors(name, values[name], classes, rows.usable)
        group = max(step.group for step in self.steps)
        found: dict[int, dict[int, int]] = {}
        for row in np.flatnonzero(rows.usable).tolist():
            place = int(rows.places[row])
            found.setdefault(place // group, {})[place] = row
        for members in found.values():
            self._mix_group(values, members, epoch)

    def _mix_group(self, values: Rows, members: Mapping[int, int], epoch: int) -> None:
        """Mix rows that are neighbours; ``members`` has the row of each place."""
        if len(members) == 1:
            return
        names = (self.tensor, *self.classes, *self._annotations())
        before = {
            name: {place: _kept(values[name][row]) for place, row in members.items()}
            for name in names
        }
        for place, row in members.items():
            random = sample_generator(
                seed=self.seed,
                epoch=epoch,
                place=place,
                stream=step_stream(self.tensor, self.number),
            )
            step = self._drawn(random.random())
            if step is None:
                continue
            first = place - place % step.group
            partners = [first + (place - first + more) % step.group for more in range(step.group)]
            if not all(one in members for one in partners):
                continue
            images = [before[self.tensor][one] for one in partners]
            if isinstance(step, Blend):
                share = step.blend(images, values[self.tensor][row], random)
                self._blend_labels(values, before, row, partners, share)
            elif isinstance(step, Mosaic):
                height, width = images[0].shape[:2]
                tiles = step.tiles((height, width), random)
                self._join(values, before, row, partners, tiles)

    def _drawn(self, share: float) -> BatchStep | None:
        for step in self.steps:
            if share < step.probability:
                return step
            share -= step.probability
        return None

    def _annotations(self) -> tuple[str, ...]:
        return (*self.movers, *(name for name in self.items if name not in self.movers))

    def _blend_labels(
        self, values: Rows, before: Rows, row: int, partners: Sequence[int], share: float
    ) -> None:
        own, other = partners
        for name in self.classes:
            labels = before[name][own] * np.float32(share)
            values[name][row] = labels + before[name][other] * np.float32(1 - share)

    def _join(
        self, values: Rows, before: Rows, row: int, partners: Sequence[int], tiles: Sequence[Tile]
    ) -> None:
        """Join images and annotations of a group, in the order of the mosaic's corners."""
        given = {
            name: [own[partners[tile.image]] for tile in tiles] for name, own in before.items()
        }
        if any(one is None for name in self._annotations() for one in given[name]):
            return  # NULL has no items to join
        kept: dict[str, list[NDArray[np.bool_]]] = {}
        dense = [name for name, mover in self.movers.items() if mover.is_dense]
        for name in (self.tensor, *dense):
            for tile, image in zip(tiles, given[name], strict=True):
                tile.paste(image, values[name][row])
        for name, mover in self.movers.items():
            if name not in dense:
                pairs = zip(tiles, given[name], strict=True)
                moved = [mover.move(one, tile.placement, row=row) for tile, one in pairs]
                given[name] = [one for one, _ in moved]
                kept[name] = [own for _, own in moved if own is not None]
        for name in self._annotations():
            if name in dense:
                continue
            left = kept[self.items.get(name, name)]
            parts = [keep_items(one, own) for one, own in zip(given[name], left, strict=True)]
            is_list = isinstance(parts[0], list)
            values[name][row] = list(chain(*parts)) if is_list else np.concatenate(parts)


def _kept(value: Any) -> Any:
    """Return a row's value as it is before it is mixed; only arrays are changed in place."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _vectors(
    name: str, labels: NDArray[Any], classes: int, usable: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return labels as vectors of one number per class; rows that are not usable are zeros."""
    if not classes:
        return labels.astype(np.float32)
    outside = usable & ((labels < 0) | (labels >= classes))
    if outside.any():
        value = int(labels[np.flatnonzero(outside)[0]])
        raise InvalidInputError(
            f"{name!r} has the label {value}, and classes={classes}\ngive the number of classes",
            tensor=name,
            expected=classes,
            actual=value,
        )
    made = np.zeros((len(labels), classes), np.float32)
    at = np.flatnonzero(usable)
    made[at, labels[at]] = 1
    return made
