"""The decoder of a tensor with parts: which parts of a sample to fetch, and what they give.

    plan      seed, epoch, place ─► the sample's own random numbers
    header    map, shape         ─► the step's request ─► wanted parts ─► fetched alone
    worker                          the same request   ─► decoded from these parts

A request is made again when the parts have arrived: the same numbers give the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.loader.decode.step import Several
from tensorlake.loader.runtime.rng import sample_generator, step_stream
from tensorlake.types import MemorySample, SampleParts

if TYPE_CHECKING:
    from tensorlake.loader.decode.step import LinearMap, PartStep
    from tensorlake.types import Buffer, SampleMap, SampleType

__all__ = ["PartDecoder", "PickedParts"]

IMAGE_NDIM = 3
GUESSED_NBYTES = 1 << 20
"""Bytes of a part whose decoded shape is not known before it is read."""


@dataclass(frozen=True, slots=True, eq=False)
class PickedParts:
    """The parts of a sample that were fetched, one after another; or the whole sample."""

    data: Buffer
    map: SampleMap | None
    shape: tuple[int, ...] | None


class ImageMover(Protocol):
    """Moves and maps the pixels of decoded images: an `ImageDecoder`."""

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Shape of every image; None where they differ."""
        ...

    def transform(self, images: np.ndarray, *, place: int, epoch: int) -> np.ndarray:
        """Transform images (…, height, width, channels), all alike."""
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
    """

    tensor: str
    type: SampleType
    step: PartStep | None
    linear: LinearMap | None
    seed: int
    images: ImageMover | None = None

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

    def read_nbytes(self, row_nbytes: int) -> int:
        """Estimate the bytes that are read of a sample, of which all have ``row_nbytes``."""
        if self.step is None:
            return row_nbytes
        shape = self.output_shape
        known = [length for length in shape if length is not None]
        nbytes = math.prod(known) * self._part_dtype.itemsize
        return min(row_nbytes, nbytes if len(known) == len(shape) else GUESSED_NBYTES)

    def request(
        self,
        sample_map: SampleMap,
        shape: tuple[int, ...] | None,
        *,
        row: int,
        place: int,
        epoch: int,
    ) -> Any:
        """Return the request for a sample at its place in an epoch; () is the whole.

        Raises:
            InvalidInputError: The step does not fit the sample.
        """
        if self.step is None:
            return ()
        stream = step_stream(self.tensor, 0)
        rng = sample_generator(seed=self.seed, epoch=epoch, place=place, stream=stream)
        try:
            return self.step.request(self.type, sample_map, shape, rng)
        except InvalidInputError as error:
            message = f"row {row} of {self.tensor!r}: {error}{self._without_short(error)}"
            raise InvalidInputError(message, tensor=self.tensor, row=row) from error

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
    ) -> np.ndarray:
        """Return the parts to fetch of a sample at its place in an epoch, ascending."""
        request = self.request(sample_map, shape, row=row, place=place, epoch=epoch)
        return self._wanted(sample_map, request, row)

    def _wanted(self, sample_map: SampleMap, request: Any, row: int) -> np.ndarray:
        requests = request if isinstance(request, Several) else (request,)
        each = [
            self.type.wanted_parts(sample_map, one, tensor=self.tensor, row=row) for one in requests
        ]
        return each[0] if len(each) == 1 else np.unique(np.concatenate(each))

    def decode(self, picked: PickedParts, *, row: int, place: int, epoch: int) -> np.ndarray:
        """Decode the part of a sample at its place in an epoch.

        Raises:
            CorruptSampleError: Its parts cannot be decoded.
        """
        own, data = picked.map, memoryview(picked.data)
        if own is None:
            own = self.type.map_of(picked.data, tensor=self.tensor, row=row)
        request = self.request(own, picked.shape, row=row, place=place, epoch=epoch)
        wanted = self._wanted(own, request, row)
        if len(data) == own.nbytes:  # the whole sample is here, as of a damaged chunk's neighbours
            parts = MemorySample(data, own).fetch(wanted)
        else:
            spans = [own.span(number) for number in wanted.tolist()]
            stops = np.cumsum([stop - start for start, stop in spans]).tolist()
            starts = [0, *stops[:-1]]
            cut = zip(wanted.tolist(), starts, stops, strict=True)
            parts = {number: data[start:stop] for number, start, stop in cut}
        sample = SampleParts(own, parts)
        requests = request if isinstance(request, Several) else (request,)
        made = [np.asarray(self._made(sample, one, row)) for one in requests]
        result = np.stack(made) if isinstance(request, Several) else made[0]
        self._check(result, row)
        if self.images is not None:
            return self.images.transform(result, place=place, epoch=epoch)
        return result if self.linear is None else np.asarray(self.linear.apply(result))

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
