"""The decoder of a tensor with parts: which parts of a sample to fetch, and what they give.

    plan      seed, epoch, place ─► the sample's own random numbers
    header    map, shape         ─► the step's request ─► wanted parts ─► fetched alone
    worker                          the same request   ─► decoded from these parts

A request is made again when the parts have arrived: the same numbers give the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from xxhash import xxh3_128

from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.loader.decode.step import Known, Several
from tensorlake.loader.runtime.rng import sample_generator, step_stream
from tensorlake.types import MemorySample, SampleParts, TiledSamples
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorlake.loader.decode.geometry.placement import Placement
    from tensorlake.loader.decode.step import LinearMap, PartStep
    from tensorlake.types import Buffer, SampleMap, SampleType

__all__ = ["PartDecoder", "PickedParts", "known_sample"]

IMAGE_NDIM = 3
NO_OTHERS: Final[Mapping[str, Any]] = MappingProxyType({})
USUAL_SIDE, DRAWN = 4096, 16
"""Side of the images, and number of crops, by which the share of crops is estimated."""
LARGE_SHARE = 0.75
"""Share of a sample from which on it is read whole, with its neighbours in the chunk."""
GUESSED_NBYTES = 1 << 20
"""Bytes of a part whose decoded shape is not known before it is read."""


@dataclass(frozen=True, slots=True, eq=False)
class PickedParts:
    """The parts of a sample that were fetched, one after another; or the whole sample."""

    data: Buffer
    map: SampleMap | None
    shape: tuple[int, ...] | None


def known_sample(picked: PickedParts, sample_type: SampleType, tensor: str, row: int) -> Known:
    """Describe a sample that was fetched, by its map, which is made again where it has none."""
    own = picked.map
    if own is None:
        own = sample_type.map_of(picked.data, tensor=tensor, row=row)
    return Known(sample_type, own, picked.shape)


class ImageMover(Protocol):
    """Moves and maps the pixels of decoded images: an `ImageDecoder`."""

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Shape of every image; None where they differ."""
        ...

    def placement(self, shape: tuple[int, ...], *, place: int, epoch: int) -> Placement:
        """Return the placement of an image of a shape (height, width, …)."""
        ...

    def transform(
        self, images: np.ndarray, *, place: int, epoch: int, placed: Placement | None = None
    ) -> np.ndarray:
        """Transform images (…, height, width, channels), all alike; with ``placed`` crops."""
        ...


class Turning(Protocol):
    """Mirrors and turns parts of arrays."""

    def turn(self, part: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Turn a part; as many random numbers are taken for each."""
        ...


@dataclass(frozen=True, slots=True)
class PartDecoder:
    """How a tensor with parts is read; safe to use from many threads.

    Attributes:
        tensor: Its name.
        type: Its type.
        step: Chooses the part; None: samples are decoded whole.
        linear: The value steps.
        seed: The loader's seed.
        images: Moves and maps the pixels of results that are images, all of a sample alike.
        is_linked: Whether samples are in files elsewhere, of which only parts are read.
        turns: Steps that mirror and turn parts, those of a lead and of what is cut with it alike.
        lead: The tensor that it is declared ``of=``, whose part is read of both; None: its own.
        others: Types of the tensors of the row that a request depends on.
    """

    tensor: str
    type: SampleType
    step: PartStep | None
    linear: LinearMap | None
    seed: int
    images: ImageMover | None = None
    turns: tuple[Turning, ...] = ()
    is_linked: bool = False
    lead: str | None = None
    others: Mapping[str, SampleType] = field(default_factory=dict[str, "SampleType"])

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of a result; None where lengths differ."""
        shape = self._part_shape
        if self.images is None:
            return shape
        return (*shape[:-IMAGE_NDIM], *(self.images.output_shape or (None, None, shape[-1])))

    @property
    def _part_shape(self) -> tuple[int | None, ...]:
        return self.type.shape if self.step is None else self.step.output_shape(self.type)

    @property
    def output_dtype(self) -> np.dtype:
        """Dtype of results."""
        return self._part_dtype if self.linear is None else self.linear.dtype

    @property
    def _part_dtype(self) -> np.dtype:
        dtype = self.type.dtype if self.step is None else self.step.output_dtype(self.type)
        assert dtype is not None, "types without one were refused"
        return dtype

    @property
    def is_placed(self) -> bool:
        """Whether each sample is one image, of which only the crop is read."""
        return self.images is not None and self.step is None and not self.is_linked

    def placement(
        self, sample_map: SampleMap, *, row: int, place: int, epoch: int
    ) -> Placement | None:
        """Return where the pixels of an image go; None where samples are not images."""
        if self.images is None or not self.is_placed or not isinstance(self.type, TiledSamples):
            return None
        shape = self.type.head_of(sample_map, tensor=self.tensor, row=row).shape
        return self.images.placement(shape, place=place, epoch=epoch)

    def placed(self, picked: PickedParts, *, row: int, place: int, epoch: int) -> Placement | None:
        """Return where the pixels of an image that was fetched go, as `placement` does."""
        own = known_sample(picked, self.type, self.tensor, row).map
        return self.placement(own, row=row, place=place, epoch=epoch)

    def read_nbytes(self, row_nbytes: int) -> int:
        """Estimate the bytes that are read of a sample, of which all have ``row_nbytes``."""
        if self.is_linked:
            row_nbytes = max(row_nbytes, GUESSED_NBYTES)
        if self.step is None:
            return int(row_nbytes * self._share)
        shape = self.output_shape
        known = [length for length in shape if length is not None]
        nbytes = math.prod(known) * self._part_dtype.itemsize
        return min(row_nbytes, nbytes if len(known) == len(shape) else GUESSED_NBYTES)

    @property
    def reads_parts(self) -> bool:
        """Whether much less than the whole of a sample is read."""
        return self.step is not None or self.is_linked or self._share < LARGE_SHARE

    @property
    def _share(self) -> float:
        """Estimate the share of an image that its crop has."""
        if self.images is None or not self.is_placed:
            return 1.0
        size = (USUAL_SIDE, USUAL_SIDE)
        crops = [self.images.placement(size, place=at, epoch=0).crop for at in range(DRAWN)]
        return sum(one.height * one.width for one in crops) / (DRAWN * USUAL_SIDE**2)

    def request(
        self,
        sample_map: SampleMap,
        shape: tuple[int, ...] | None,
        *,
        row: int,
        place: int,
        epoch: int,
        others: Mapping[str, Known | None] = NO_OTHERS,
    ) -> Any:
        """Return the request for a sample at its place in an epoch; () is the whole.

        Args:
            sample_map: The sample's map.
            shape: Its shape, where recorded.
            row: Its row, for errors.
            place: Its place in the epoch.
            epoch: The epoch.
            others: The row's samples of `others`; None for NULL.

        Raises:
            InvalidInputError: The step does not fit the sample.
            CorruptSampleError: The sample has not the shape of the one that it is ``of=``.
        """
        if self.step is None:
            placed = self.placement(sample_map, row=row, place=place, epoch=epoch)
            return () if placed is None else placed.crop.region
        own = Known(self.type, sample_map, shape)
        known = {**others, self.tensor: own}
        lead = known[self.lead or self.tensor]
        if lead is None:
            raise self._without_lead(row)
        if lead is not own:
            self._check_alike(lead.shape, shape, row)
        stream = step_stream(self.lead or self.tensor, 0)
        rng = sample_generator(seed=self.seed, epoch=epoch, place=place, stream=stream)
        try:
            return self.step.request_at(place, lead, rng, known)
        except InvalidInputError as error:
            message = f"row {row} of {self.tensor!r}: {error}{self._without_short(error)}"
            raise InvalidInputError(message, tensor=self.tensor, row=row) from error

    def _check_alike(
        self, lead: tuple[int, ...] | None, own: tuple[int, ...] | None, row: int
    ) -> None:
        assert self.step is not None
        if lead is None or own is None:
            return
        shared = min(len(lead), len(own))
        shared = shared if self.step.shared_axes is None else min(shared, self.step.shared_axes)
        if lead[:shared] != own[:shared]:
            raise CorruptSampleError(
                f"row {row}: {self.tensor!r} has the shape {own}, and {self.lead!r}, which it is"
                f" declared of=, {lead}: the same part cannot be read of both\nstore samples of one"
                f" shape; to train without the row: on_error='skip'; to read {self.tensor!r} by"
                " itself, leave of= out of its type",
                tensor=self.tensor,
                row=row,
            )

    def _without_lead(self, row: int) -> InvalidInputError:
        return InvalidInputError(
            f"row {row} of {self.tensor!r} is read at the place of {self.lead!r}, which is NULL"
            " there\nleave such rows out by a query, or replace NULL in both: null={…}",
            tensor=self.tensor,
            row=row,
        )

    def _without_short(self, error: InvalidInputError) -> str:
        """Return how to leave out samples shorter than a step needs, its fact ``least``."""
        if "least" not in error.facts:
            return ""
        own = '"' + self.tensor.replace('"', '""') + '"'
        query = f"ds.query('WHERE SHAPE({own})[0] >= {error.least}')"
        other = f", or use {error.otherwise}" if error.otherwise else ""
        return f"\nleave short samples out by a query: {query}{other}"

    def wanted(
        self,
        sample_map: SampleMap,
        shape: tuple[int, ...] | None,
        *,
        row: int,
        place: int,
        epoch: int,
        others: Mapping[str, Known | None] = NO_OTHERS,
    ) -> np.ndarray:
        """Return the parts to fetch of a sample at its place in an epoch, ascending."""
        if any(one is None for one in others.values()):  # NULL may be replaced before it is decoded
            return np.arange(sample_map.num_parts)
        request = self.request(sample_map, shape, row=row, place=place, epoch=epoch, others=others)
        return self._wanted(sample_map, request, row)

    def _wanted(self, sample_map: SampleMap, request: Any, row: int) -> np.ndarray:
        requests = request if isinstance(request, Several) else (request,)
        each = [
            self.type.wanted_parts(sample_map, one, tensor=self.tensor, row=row) for one in requests
        ]
        return each[0] if len(each) == 1 else distinct(np.concatenate(each))

    def digest(self, picked: PickedParts, *, row: int, place: int, epoch: int) -> bytes:
        """Return 16 bytes that differ where stored bytes differ, or the parts that they are."""
        own = known_sample(picked, self.type, self.tensor, row).map
        wanted = self.wanted(own, picked.shape, row=row, place=place, epoch=epoch)
        hashed = xxh3_128(picked.data)
        hashed.update(f"{picked.shape} {wanted.tolist()}".encode())
        return hashed.digest()

    def decode(
        self,
        picked: PickedParts,
        *,
        row: int,
        place: int,
        epoch: int,
        others: Mapping[str, PickedParts | None] = NO_OTHERS,
    ) -> np.ndarray:
        """Decode the part of a sample at its place in an epoch.

        Raises:
            CorruptSampleError: Its parts cannot be decoded.
        """
        data, own = memoryview(picked.data), known_sample(picked, self.type, self.tensor, row).map
        known = {
            name: None if one is None else known_sample(one, self.others[name], name, row)
            for name, one in others.items()
        }
        where = {"row": row, "place": place, "epoch": epoch}
        request = self.request(own, picked.shape, **where, others=known)
        wanted = self._wanted(own, request, row)
        if len(data) == own.nbytes:  # the whole sample is here, as of a damaged chunk's neighbours
            parts = MemorySample(data, own).fetch(wanted)
        else:
            spans = [own.span(number) for number in wanted.tolist()]
            stops = np.cumsum([stop - start for start, stop in spans]).tolist()
            starts = [0, *stops][: len(stops)]
            cut = zip(wanted.tolist(), starts, stops, strict=True)
            parts = {number: data[start:stop] for number, start, stop in cut}
        stored = SampleParts(own, parts)
        requests = request if isinstance(request, Several) else (request,)
        made = [np.asarray(self._made(stored, one, row)) for one in requests]
        made = self._turned(made, place=place, epoch=epoch)
        result = np.stack(made) if isinstance(request, Several) else made[0]
        self._check(result, row)
        if self.images is not None:
            placed = self.placement(own, row=row, place=place, epoch=epoch)
            crop = placed and placed.of_crop
            return self.images.transform(result, place=place, epoch=epoch, placed=crop)
        return result if self.linear is None else np.asarray(self.linear.apply(result))

    def _turned(self, parts: list[np.ndarray], *, place: int, epoch: int) -> list[np.ndarray]:
        """Mirror and turn the parts of a sample, each by numbers of its own."""
        for number, step in enumerate(self.turns, 1):  # the part itself has the stream 0
            stream = step_stream(self.lead or self.tensor, number)
            rng = sample_generator(seed=self.seed, epoch=epoch, place=place, stream=stream)
            parts = [step.turn(one, rng) for one in parts]
        return [np.ascontiguousarray(one) for one in parts] if self.turns else parts

    def _made(self, sample: SampleParts, request: Any, row: int) -> Any:
        made = self.type.decode_parts(sample, request, tensor=self.tensor, row=row)
        return made if self.step is None else self.step.finish(made, request, sample.map)

    def _check(self, result: np.ndarray, row: int) -> None:
        expected = self._part_shape
        pairs = zip(result.shape, expected, strict=False)
        if result.ndim != len(expected) or any(n is not None and a != n for a, n in pairs):
            raise CorruptSampleError(
                f"row {row} of {self.tensor!r} gives the shape {result.shape}, where {expected}"
                " should be\nits map does not fit the sample: update the row",
                tensor=self.tensor,
                row=row,
            )

    def empty(self) -> np.ndarray:
        """Return the replacement for a lost row, of a column whose results differ in shape."""
        return np.empty(tuple(length or 0 for length in self.output_shape), self.output_dtype)
