"""The decoded tier: images on disk after the deterministic steps that their decode begins with.

    Resize ─► CenterCrop ─► │ Flip ─► ColorJitter ─► Normalize
    kept on disk, raw       │ made again from there: random, or cheap

The pixels of a row are beside the disk tier's packs, after a digest of the
stored image: one that changes at its row, in another version or branch, is decoded again. Names of
files have the steps and the decoder's version. If the first step is random, whole images are
kept, which are a few times as large as their JPEG. Images are never decoded at a reduced scale that
a random step would allow, so that batches are equal whether the pixels come from disk or not.

Clips and windows of videos, files of links and sequences of images are kept alike, one array for
each part or image, if neither its place in the sample is random nor its shape open.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from xxhash import xxh3_128_digest

from tensorlake.errors import InvalidInputError
from tensorlake.loader.decode import (
    WINDOW_BITS,
    Clip,
    ClipDecoder,
    ImageDecoder,
    PartDecoder,
    WindowPart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensorlake.loader.caches.disk_cache import DiskCache
    from tensorlake.loader.config.column_plan import ColumnPlan
    from tensorlake.loader.decode import PickedParts, Placement, Sample
    from tensorlake.loader.decode.image import Pixels
    from tensorlake.loader.runtime.counters import Counters

__all__ = ["DecodedImages", "check_kept", "is_kept"]

DECODER_VERSION: Final = 1  # counted up when pixels of the same steps change
FILE_NBYTES: Final = 16 << 20  # of adjacent rows; room is made by whole files
FILE_ROWS: Final = 4096  # at most
ROW_NBYTES: Final = 64 << 20  # larger images are not kept
DIGEST_NBYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Halves:
    """A decoder in two: the part whose result is kept, and the rest."""

    prefix: ImageDecoder
    rest: ImageDecoder
    steps: str  # of the prefix, for names


@dataclass(frozen=True, slots=True)
class PartHalves:
    """A decoder of parts in two, as `Halves`."""

    prefix: PartDecoder
    rest: ImageDecoder
    steps: str
    shape: tuple[int, ...]  # of what the prefix gives


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an array is kept: the bytes of a file from ``start``, its digest first.

    Rows of one size are adjacent. Others are in files of rows up to a power of two: a file for any
    size would be mostly a hole, which some systems limit, and copies may fill.
    """

    name: str
    start: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(
        cls, folder: str, at: int, shape: tuple[int, ...], dtype: np.dtype, *, is_uniform: bool
    ) -> Self:
        """Return the slot of an array; ``is_uniform``: all of its folder have the shape."""
        nbytes = DIGEST_NBYTES + math.prod(shape) * dtype.itemsize
        room = nbytes if is_uniform else 1 << (nbytes - 1).bit_length()
        rows = min(FILE_ROWS, max(1, FILE_NBYTES // room))
        return cls(f"decoded/{folder}{room}/{at // rows}", at % rows * room, nbytes, shape, dtype)


@dataclass(frozen=True, slots=True)
class DecodedImages:
    """Decodes images, those on disk by their random and value steps alone. Thread-safe."""

    disk: DiskCache
    counters: Counters
    _halves: dict[str, Halves] = field(default_factory=dict[str, Halves])
    _parts: dict[str, PartHalves] = field(default_factory=dict[str, PartHalves])

    def of_row(
        self, decoder: ClipDecoder | PartDecoder, physical: int
    ) -> Callable[..., np.ndarray]:
        """Return a function in place of a decoder's ``decode``, for a physical row."""
        if isinstance(decoder, ClipDecoder):
            return partial(decoder.decode, by=partial(self._decode_item, decoder.images, physical))
        if not keeps_parts(decoder):
            return decoder.decode
        return partial(self._decode_part, decoder, physical)

    def _decode_item(
        self, decoder: ImageDecoder, physical: int, item: int, sample: Sample, **how: Any
    ) -> None:
        self.decode(decoder, item, sample, folder=f"{physical}/", **how)

    def _decode_part(
        self, decoder: PartDecoder, physical: int, picked: PickedParts, **where: Any
    ) -> np.ndarray:
        halves = self._parts.get(decoder.tensor)
        if halves is None:
            halves = self._parts[decoder.tensor] = part_halves_of(decoder)
        prefix, place, folder, at = halves.prefix, int(where["place"]), "", physical
        if isinstance(decoder.step, WindowPart):
            folder, at = f"{physical}/", place & ((1 << WINDOW_BITS) - 1)
        shape, dtype = halves.shape, prefix.output_dtype
        slot = Slot.of(
            f"{decoder.tensor}/{halves.steps}/{folder}", at, shape, dtype, is_uniform=True
        )
        pixels = self._kept(
            slot,
            prefix.digest(picked, row=int(where["row"]), place=place, epoch=int(where["epoch"])),
            partial(prefix.decode, picked, **where),
        )
        made = halves.rest.transform(pixels, place=place, epoch=int(where["epoch"]))
        return np.require(made, requirements="W")

    def decode(
        self,
        decoder: ImageDecoder,
        physical: int,
        sample: Sample,
        out: Pixels | None = None,
        *,
        epoch: int,
        folder: str = "",
    ) -> Pixels:
        """Decode one sample into ``out``, or into a new array.

        Raises:
            CorruptSampleError: Its bytes are not a whole image.
        """
        halves = self._halves.get(decoder.tensor)
        if halves is None:
            halves = self._halves[decoder.tensor] = halves_of(decoder)
        pixels = self._pixels(halves, physical, sample, epoch, folder)
        made = halves.rest.transform_one(pixels, place=sample.place, epoch=epoch)
        if out is None:
            return np.require(made, requirements="W")  # on disk: others read these bytes
        if made.shape != out.shape:
            raise decoder.corrupt_shape(sample, made.shape, out.shape)
        out[...] = made
        return out

    def _pixels(self, halves: Halves, at: int, sample: Sample, epoch: int, folder: str) -> Pixels:
        decoder = halves.prefix
        placement: Placement = decoder.place(sample, epoch)
        shape, is_uniform = (*placement.output, *sample.shape[2:]), bool(decoder.output_shape)
        name = f"{decoder.tensor}/{halves.steps}/{folder}"
        slot = Slot.of(name, at, shape, decoder.output_dtype, is_uniform=is_uniform)
        decode = partial(decoder.decode, sample, placement, epoch=epoch)
        return self._kept(slot, xxh3_128_digest(sample.data), decode)

    def _kept(self, slot: Slot, digest: bytes, decode: Callable[[], Pixels]) -> Pixels:
        """Return the pixels of a slot that were made of the same bytes; else make and keep them."""
        if slot.nbytes > ROW_NBYTES:
            return decode()
        kept = self.disk.value(slot.name, slot.start, slot.nbytes)
        if kept is not None and kept[:DIGEST_NBYTES] == digest:
            self.counters.add(decoded_hits=1)
            return np.frombuffer(kept, slot.dtype, offset=DIGEST_NBYTES).reshape(slot.shape)
        pixels = decode()
        self.disk.keep_value(slot.name, slot.start, digest + pixels.tobytes())
        return pixels


def is_kept(column: ColumnPlan) -> bool:
    """Return whether the pixels of a column can be kept."""
    if column.parts is not None:
        return keeps_parts(column.parts)
    return column.kind == "image" or isinstance(column.row_decoder, ClipDecoder)


def check_kept(columns: Sequence[ColumnPlan]) -> None:
    """Refuse a decoded tier that would keep nothing.

    Raises:
        InvalidInputError: There is no column whose pixels can be kept.
    """
    if any(map(is_kept, columns)):
        return
    names = ", ".join(repr(one.name) for one in columns)
    raise InvalidInputError(
        "cache_decoded=True keeps images, and clips and windows of videos, whose place in the video"
        f" is not random and whose shape is fixed; none of the columns is one: {names}"
        "\nleave cache_decoded out; or begin decode with steps that give the same pixels in every"
        " epoch: [tl.decode.Clip(16, start='center'), tl.decode.Resize(112, 112)]",
        argument="cache_decoded",
        actual=True,
    )


def keeps_parts(decoder: PartDecoder) -> bool:
    """Return whether the same part of a sample is decoded in every epoch, to pixels of one shape.

    Large images in tiles are read as far as a crop needs, which may be less than the steps before
    it give.
    """
    step = decoder.step
    is_fixed = step is None or (isinstance(step, Clip | WindowPart) and not step.draws_place)
    is_image = isinstance(decoder.images, ImageDecoder) and not decoder.is_placed
    if not is_fixed or not is_image or decoder.turns or decoder.others:
        return False
    return None not in part_halves_of(decoder).prefix.output_shape


def halves_of(decoder: ImageDecoder) -> Halves:
    """Divide a decoder behind the deterministic steps that it begins with."""
    first, rest = decoder.spec.split()
    by = "" if decoder.resampler is None else decoder.resampler.name
    steps = json.dumps([DECODER_VERSION, _libraries(), by, first.to_json()], sort_keys=True)
    return Halves(replace(decoder, spec=first), replace(decoder, spec=rest), steps)


def part_halves_of(decoder: PartDecoder) -> PartHalves:
    """Divide a decoder of parts likewise; the step that chooses them is the first."""
    images = decoder.images
    assert isinstance(images, ImageDecoder), "asked before"
    halves = halves_of(images)
    prefix = replace(decoder, images=halves.prefix, linear=None)
    own = (repr(decoder.type), repr(decoder.step), *_libraries("av", "pillow"))
    shape = tuple(length or 0 for length in prefix.output_shape)
    return PartHalves(prefix, halves.rest, json.dumps([halves.steps, *own]), shape)


@lru_cache
def _libraries(*names: str) -> list[str]:
    return [f"{name} {_version(name)}" for name in names or ("simplejpeg", "numpy")]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
