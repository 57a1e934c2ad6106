"""ClipDecoder: the images of a row, such as the frames of a clip, decoded into one array.

    Sequence(Image) sample ─► items, as stored ─► ImageDecoder, each ─► (items, height, width, …)

All images of a row use the same random numbers: images of one size are cropped and mirrored alike,
so motion in a clip is preserved in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.loader.decode.image import ImageDecoder, Pixels, Sample
from tensorlake.types import EncodedColumn, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.types import Buffer

__all__ = ["ClipDecoder"]


@dataclass(frozen=True, slots=True)
class ClipDecoder:
    """How the rows of one tensor of images are decoded; safe to use from many threads.

    Attributes:
        type: Type of the tensor.
        images: Decodes each image; its steps give all one size.
        shape: Shape of a decoded image.
    """

    type: Sequence
    images: ImageDecoder
    shape: tuple[int, ...]

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of a decoded row: any number of images."""
        return (None, *self.shape)

    def decode(
        self,
        data: Buffer,
        *,
        row: int,
        place: int,
        epoch: int,
        by: Callable[..., object] | None = None,
    ) -> Pixels:
        """Decode a row at its place in an epoch.

        Args:
            data: The row as stored.
            row: Its number, for errors.
            place: Its place in the epoch.
            epoch: The epoch.
            by: Decodes an image in place of the decoder: takes its number in the row, the
                `Sample`, ``out=`` and ``epoch=``.

        Raises:
            CorruptSampleError: One of its images is incomplete, or the row is not a valid sequence.
        """
        try:
            items = self.type.items_of(data)
        except CorruptSampleError as error:
            tensor = self.images.tensor
            message = f"row {row} of {tensor!r}: {error}"
            raise CorruptSampleError(message, tensor=tensor, row=row) from error
        assert isinstance(items, EncodedColumn)
        assert items.shapes is not None
        made = np.empty((len(items), *self.shape), self.images.output_dtype)
        shapes = map(tuple[int, ...], items.shapes.tolist())
        for at, (image, shape, out) in enumerate(zip(items.samples, shapes, made, strict=True)):
            sample = Sample(image, shape, row, place)
            if by is not None:
                by(at, sample, out=out, epoch=epoch)
            else:
                self.images.decode(sample, self.images.place(sample, epoch), out, epoch=epoch)
        return made

    @property
    def output_dtype(self) -> np.dtype:
        """Dtype of decoded rows."""
        return self.images.output_dtype

    def empty(self) -> Pixels:
        """Return the replacement for a lost row: no images."""
        return np.empty((0, *self.shape), self.images.output_dtype)
