"""The decoded tier: images on disk after the deterministic steps that their decode begins with.

    Resize ─► CenterCrop ─► │ Flip ─► ColorJitter ─► Normalize
    kept on disk, raw       │ made again from there: random, or cheap

The pixels of a row are beside the disk tier's packs, after a digest of the
stored image: one that changes at its row, in another version or branch, is decoded again. Names of
files have the steps and the decoder's version. If the first step is random, whole images are
kept, which are a few times as large as their JPEG. Images are never decoded at a reduced scale that
a random step would allow, so that batches are equal whether the pixels come from disk or not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import numpy as np
from xxhash import xxh3_128_digest

if TYPE_CHECKING:
    from tensorlake.loader.caches.disk_cache import DiskCache
    from tensorlake.loader.decode import ImageDecoder, Placement, Sample
    from tensorlake.loader.decode.image import Pixels
    from tensorlake.loader.runtime.counters import Counters

__all__ = ["DecodedImages"]

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
class DecodedImages:
    """Decodes images, those on disk by their random and value steps alone. Thread-safe."""

    disk: DiskCache
    counters: Counters
    _halves: dict[str, Halves] = field(default_factory=dict[str, Halves])

    def decode(
        self,
        decoder: ImageDecoder,
        physical: int,
        sample: Sample,
        out: Pixels | None = None,
        *,
        epoch: int,
    ) -> Pixels:
        """Decode one sample into ``out``, or into a new array.

        Raises:
            CorruptSampleError: Its bytes are not a whole image.
        """
        halves = self._halves.get(decoder.tensor)
        if halves is None:
            halves = self._halves[decoder.tensor] = halves_of(decoder)
        pixels = self._pixels(halves, physical, sample, epoch)
        made = halves.rest.transform_one(pixels, place=sample.place, epoch=epoch)
        if out is None:
            return made
        if made.shape != out.shape:
            raise decoder.corrupt_shape(sample, made.shape, out.shape)
        out[...] = made
        return out

    def _pixels(self, halves: Halves, physical: int, sample: Sample, epoch: int) -> Pixels:
        decoder = halves.prefix
        placement: Placement = decoder.place(sample, epoch)
        shape, dtype = (*placement.output, *sample.shape[2:]), decoder.output_dtype
        nbytes = DIGEST_NBYTES + int(np.prod(shape)) * dtype.itemsize
        if nbytes > ROW_NBYTES:
            return decoder.decode(sample, placement, epoch=epoch)
        # Rows of one size are adjacent. Others are in files of rows up to a power of two: a file
        # for any size would be mostly a hole, which some systems limit, and copies may fill.
        room = nbytes if decoder.output_shape else 1 << (nbytes - 1).bit_length()
        rows = min(FILE_ROWS, max(1, FILE_NBYTES // room))
        name = f"decoded/{decoder.tensor}/{halves.steps}/{room}/{physical // rows}"
        start, digest = physical % rows * room, xxh3_128_digest(sample.data)
        kept = self.disk.value(name, start, nbytes)
        if kept is not None and kept[:DIGEST_NBYTES] == digest:
            self.counters.add(decoded_hits=1)
            return np.frombuffer(kept, dtype, offset=DIGEST_NBYTES).reshape(shape)
        pixels = decoder.decode(sample, placement, epoch=epoch)
        self.disk.keep_value(name, start, digest + pixels.tobytes())
        return pixels


def halves_of(decoder: ImageDecoder) -> Halves:
    """Divide a decoder behind the deterministic steps that it begins with."""
    first, rest = decoder.spec.split()
    by = "" if decoder.resampler is None else decoder.resampler.name
    steps = json.dumps([DECODER_VERSION, _libraries(), by, first.to_json()], sort_keys=True)
    return Halves(replace(decoder, spec=first), replace(decoder, spec=rest), steps)


@lru_cache(maxsize=1)
def _libraries() -> list[str]:
    return [f"{name} {version(name)}" for name in ("simplejpeg", "numpy")]
