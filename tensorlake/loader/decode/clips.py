"""ClipDecoder: the pictures of a row, such as the frames of a clip, decoded into one array.

    Sequence(Image) sample ─► items, as stored ─► PictureDecoder, each ─► (items, height, width, …)

All pictures of a row draw the same random numbers: those of one size are cropped and mirrored
alike, and what moves through a clip moves through the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.loader.decode.image import PictureDecoder, Pixels, Sample
from tensorlake.types import EncodedColumn, Sequence

if TYPE_CHECKING:
    from tensorlake.types import Buffer

__all__ = ["ClipDecoder"]


@dataclass(frozen=True, slots=True)
class ClipDecoder:
    """How the rows of one tensor of pictures are decoded; safe to use from many threads.

    Attributes:
        type: The tensor's.
        pictures: Decodes each; its steps make all of one size.
        shape: Of a decoded picture.
    """

    type: Sequence
    pictures: PictureDecoder
    shape: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of a decoded row: any number of pictures."""
        return (None, *self.shape)

    def decode(self, data: Buffer, *, row: int, place: int, epoch: int) -> Pixels:
        """Decode a row at its place in an epoch.

        Raises:
            CorruptSampleError: One of its pictures is no whole picture, or the row no joined ones.
        """
        try:
            items = self.type.items_of(data)
        except CorruptSampleError as error:
            tensor = self.pictures.tensor
            message = f"row {row} of {tensor!r}: {error}"
            raise CorruptSampleError(message, tensor=tensor, row=row) from error
        assert isinstance(items, EncodedColumn)
        assert items.shapes is not None
        made = np.empty((len(items), *self.shape), self.pictures.output_dtype)
        shapes = map(tuple[int, ...], items.shapes.tolist())
        for picture, shape, out in zip(items.samples, shapes, made, strict=True):
            sample = Sample(picture, shape, row, place)
            self.pictures.decode(sample, self.pictures.place(sample, epoch), out)
        return made

    def empty(self) -> Pixels:
        """Return what stands for a row that was lost: no pictures."""
        return np.empty((0, *self.shape), self.pictures.output_dtype)
