"""ImageDecoder: one stored image into its place in the batch, in a thread, without the GIL.

    JPEG bytes ─► thread's scratch (or the batch itself) ─► crop, resize ─► window, mirror ─► batch
                                                                             ▲ numbers mapped here

JPEG is decoded here by simplejpeg into preallocated memory, at reduced scale where the placement
allows; other codecs through the tensor's type. A decoder is a value shared by all threads; its only
mutable state is one scratch buffer per thread.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from tensorlake.errors import CorruptSampleError
from tensorlake.loader.decode.geometry.placement import Area, Placement
from tensorlake.loader.decode.step import cast_exactly
from tensorlake.types import EncodedColumn, Image, RaggedColumn, UniformColumn, too_many_pixels

if TYPE_CHECKING:
    from tensorlake.loader.decode.spec import DecodeSpec
    from tensorlake.loader.decode.step import LinearMap
    from tensorlake.types import Resampler, SampleType

__all__ = ["ImageDecoder", "Pixels", "Sample"]

Pixels: TypeAlias = NDArray[np.generic]
Buffer: TypeAlias = bytes | bytearray | memoryview

JPEG_MAGIC = b"\xff\xd8\xff"
MAX_JPEG_REDUCTION = 8  # libjpeg scales by eighths; 1/2, 1/4 and 1/8 keep pixels aligned
KEPT_SCRATCH_NBYTES = 64 << 20  # a larger buffer is freed after use


@dataclass(frozen=True, slots=True)
class Sample:
    """One stored image and where it comes from."""

    data: Buffer
    shape: tuple[int, ...]  # as decoded
    row: int  # of the version, for errors
    place: int  # in the epoch, for random numbers


@dataclass(frozen=True, slots=True)
class ImageDecoder:
    """Decoder for the images of one tensor; safe to use from many threads.

    ``stored`` is the shape that all of them have, if the type leaves it open.
    """

    tensor: str
    type: SampleType
    spec: DecodeSpec
    resampler: Resampler | None  # None: no step resizes
    seed: int
    stored: tuple[int, ...] | None = None
    scratch: threading.local = field(default_factory=threading.local)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Shape of every decoded sample; None where samples differ."""
        shape = self.stored or self.type.shape
        height, width = shape[0], shape[1]
        size = None if height is None or width is None else (height, width)
        size = self.spec.output_size(size)
        channels = tuple(length for length in shape[2:] if length is not None)
        if size is None or len(channels) != len(shape) - 2:
            return None
        return (*size, *channels)

    @property
    def output_dtype(self) -> np.dtype:
        """Dtype of every decoded sample."""
        stored = self.type.dtype or np.dtype("uint8")
        linear = self.spec.linear_map(stored)
        return stored if linear is None else linear.dtype

    def place(self, sample: Sample, epoch: int) -> Placement:
        """Return the placement of one sample; reads no pixel."""
        return self.placement(sample.shape, place=sample.place, epoch=epoch)

    def decode(
        self, sample: Sample, placement: Placement, out: Pixels | None = None, *, epoch: int
    ) -> Pixels:
        """Decode one sample into ``out``, or into a new array.

        Raises:
            CorruptSampleError: Its bytes are not a whole image.
        """
        shape = (*placement.output, *sample.shape[2:])
        if out is None:
            out = np.empty(shape, dtype=self.output_dtype)
        elif out.shape != shape:
            raise self.corrupt_shape(sample, shape, out.shape)
        linear = self.spec.linear_map(self.type.dtype or np.dtype("uint8"))
        is_direct = linear is None and not self.spec.pixels
        is_direct = is_direct and placement == Placement.whole(*sample.shape[:2])
        pixels = self._pixels(sample, placement, out if is_direct else None)
        if is_direct and np.may_share_memory(pixels, out):
            return out
        part = self._resampled(pixels, placement)
        if not self.spec.pixels:
            _finish(part, placement, linear, out)
            return out
        moved = np.empty(shape, part.dtype)
        _finish(part, placement, None, moved)
        _write(self._recoloured(moved, sample.place, epoch), linear, out)
        return out

    def placement(self, shape: tuple[int, ...], *, place: int, epoch: int) -> Placement:
        """Return the placement of an image of a shape (height, width, …)."""
        return self.spec.place(shape[0], shape[1], seed=self.seed, epoch=epoch, place=place)

    def transform(
        self, images: Pixels, *, place: int, epoch: int, placed: Placement | None = None
    ) -> Pixels:
        """Crop, resize, mirror and map decoded images (…, height, width, channels), all alike.

        Args:
            images: The images.
            place: Their place in the epoch.
            epoch: The epoch.
            placed: A placement of which the images are the crop already; None: they are whole.
        """
        linear = self.spec.linear_map(self.type.dtype or np.dtype("uint8"))
        if self.spec.geometric:
            *leading, height, width, channels = images.shape
            placed = placed or self.placement((height, width), place=place, epoch=epoch)
            is_last = not self.spec.pixels
            dtype = self.output_dtype if is_last else images.dtype
            moved = np.empty((*leading, *placed.output, channels), dtype)
            for at in np.ndindex(*leading):
                part = self._resampled(images[at], placed)
                _finish(part, placed, linear if is_last else None, moved[at])
            if is_last:
                return moved
            images = moved
        images = self._recoloured(images, place, epoch)
        return images if linear is None else linear.apply(images)

    def transform_one(self, pixels: Pixels, *, place: int, epoch: int) -> Pixels:
        """Do the same for one decoded image, which may be of height and width alone."""
        is_flat = pixels.ndim == 2  # noqa: PLR2004 - gray
        images = pixels[:, :, None] if is_flat else pixels
        made = self.transform(images, place=place, epoch=epoch)
        return made[:, :, 0] if is_flat else made

    def corrupt_shape(
        self, sample: Sample, shape: tuple[int, ...], others: tuple[int, ...]
    ) -> CorruptSampleError:
        """Return the error for an image whose shape is not that of all others."""
        return self._corrupt(sample, f"its shape becomes {shape}, where others have {others}")

    def _recoloured(self, images: Pixels, place: int, epoch: int) -> Pixels:
        return self.spec.recolour(images, seed=self.seed, epoch=epoch, place=place)

    def _resampled(self, pixels: Pixels, placement: Placement) -> Pixels:
        """Crop and resize; pixels may come at a reduced scale."""
        is_reduced = pixels.shape[:2] != placement.source
        crop = _scaled(placement.crop, _reduction(placement)) if is_reduced else placement.crop
        part = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
        if part.shape[:2] == placement.size:
            return part
        assert self.resampler is not None
        resample = self.resampler.antialiased if placement.antialias else self.resampler.plain
        return resample(part, placement.size)

    def _pixels(self, sample: Sample, placement: Placement, out: Pixels | None) -> Pixels:
        is_turned = isinstance(self.type, Image) and self.type.upright
        if bytes(sample.data[:3]) != JPEG_MAGIC or self.type.dtype != np.uint8 or is_turned:
            return self._pixels_by_type(sample)
        height, width, channels = (*sample.shape, 1)[:3]
        if channels not in {1, 3}:
            return self._pixels_by_type(sample)
        excess = too_many_pixels("jpeg", len(sample.data), height, width)
        if excess is not None:
            raise self._corrupt(sample, excess)
        reduction = _reduction(placement)
        try:
            if isinstance(self.type, Image) and self.type.is_of_inks(sample.data):
                return self._pixels_by_type(sample)
            pixels = simplejpeg.decode_jpeg(
                sample.data,
                colorspace="RGB" if channels == 3 else "GRAY",  # noqa: PLR2004 - RGB
                min_height=-(-height // reduction) if reduction > 1 else 0,
                min_width=-(-width // reduction) if reduction > 1 else 0,
                buffer=self._buffer(height * width * channels) if out is None else out,
            )
        except ValueError as error:
            raise self._corrupt(sample, str(error)) from error
        if pixels.shape[:2] != (-(-height // reduction), -(-width // reduction)):
            scale = f" at 1/{reduction} of its size" if reduction > 1 else ""
            found = f"it is {pixels.shape[0]} x {pixels.shape[1]}{scale}, recorded as"
            found += f" {height} x {width}"
            raise self._corrupt(sample, found)
        return pixels if len(sample.shape) > 2 else pixels[:, :, 0]  # noqa: PLR2004 - as above

    def _pixels_by_type(self, sample: Sample) -> Pixels:
        shapes = np.asarray([sample.shape], dtype=np.int64)
        column = EncodedColumn([sample.data], shapes)
        sample_type = self.type
        if isinstance(sample_type, Image):
            try:
                sample_type = sample_type.reading(sample.data)
            except ValueError as error:
                raise self._corrupt(sample, str(error)) from error
        decoded = sample_type.decode(column, tensor=self.tensor, rows=[sample.row])
        match decoded:
            case UniformColumn():
                return decoded.values[0]
            case RaggedColumn():
                return decoded.sample(0)
            case EncodedColumn():
                raise self._corrupt(sample, "its type does not decode it")

    def _buffer(self, nbytes: int) -> Pixels:
        if nbytes > KEPT_SCRATCH_NBYTES:
            return np.empty(nbytes, dtype=np.uint8)
        held: Pixels | None = getattr(self.scratch, "pixels", None)
        if held is None or held.nbytes < nbytes:
            held = self.scratch.pixels = np.empty(nbytes, dtype=np.uint8)
        return held

    def _corrupt(self, sample: Sample, reason: str) -> CorruptSampleError:
        return CorruptSampleError(
            f"row {sample.row} of {self.tensor!r} ({len(sample.data):,} bytes) is not a whole JPEG:"
            f" {reason}\n(its stored checksum is correct: it was damaged before ingestion)."
            " To train without it: on_error='skip'; to find all: ds.check(full=False, decode=True)",
            tensor=self.tensor,
            row=sample.row,
        )


def _finish(pixels: Pixels, placement: Placement, linear: LinearMap | None, out: Pixels) -> None:
    """Window, turn, mirror and map the numbers, writing each pixel of ``out`` once."""
    target = out[:: -1 if placement.mirror_y else 1, :: -1 if placement.mirror_x else 1]
    if placement.transposed:
        target = target.swapaxes(0, 1)
    window, (height, width) = placement.window, placement.size
    top, left = max(window.top, 0), max(window.left, 0)
    bottom = min(window.top + window.height, height)
    right = min(window.left + window.width, width)
    visible = pixels[top:bottom, left:right]
    if visible.shape[:2] != (window.height, window.width):
        border = np.full((1, 1, *out.shape[2:]), placement.fill, dtype=pixels.dtype)
        _write(np.broadcast_to(border, target.shape), linear, target)
        top, left = top - window.top, left - window.left
        target = target[top : top + visible.shape[0], left : left + visible.shape[1]]
    _write(visible, linear, target)


def _write(pixels: Pixels, linear: LinearMap | None, target: Pixels) -> None:
    if linear is None or linear.is_identity:
        target[...] = cast_exactly(pixels, target.dtype)
    elif target.dtype == np.float32:
        np.multiply(pixels, linear.scale, out=target, casting="unsafe")
        np.add(target, linear.shift, out=target)
    else:
        target[...] = pixels.astype(np.float32) * linear.scale + linear.shift


def _reduction(placement: Placement) -> int:
    """Return the largest of 1, 2, 4, 8 that leaves the crop at least as large as its target."""
    if placement.exact or not placement.resizes:
        return 1
    reduction = 1
    while (
        reduction < MAX_JPEG_REDUCTION
        and placement.crop.height >= 2 * reduction * placement.size[0]
        and placement.crop.width >= 2 * reduction * placement.size[1]
    ):
        reduction *= 2
    return reduction


def _scaled(area: Area, reduction: int) -> Area:
    """Return the whole pixels of a reduced image that are nearest to an area of the stored one.

    No edge is more than half a pixel away. The last row of a reduced image may represent fewer
    than ``reduction`` stored ones, so sizes alone do not determine the alignment.
    """
    ends = (area.top, area.left, area.top + area.height, area.left + area.width)
    top, left, bottom, right = ((end + reduction // 2) // reduction for end in ends)
    return Area(top, left, bottom - top, right - left)
