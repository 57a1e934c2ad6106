"""A decode spec: the checked list of steps of one tensor, and its JSON.

    decode={"image": [RandomResizedCrop(224, 224), Flip(), ToFloat()]}

Geometric steps come first, at most one of them resizes; then steps that change colours; value steps
fold into one linear map; steps that mix rows of a batch come last. The resulting shape and dtype
are known from the schema alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.loader.decode.colour import ColorJitter
from tensorlake.loader.decode.geometry import (
    CenterCrop,
    Flip,
    Letterbox,
    Placement,
    RandomResizedCrop,
    Resize,
    Rotate90,
)
from tensorlake.loader.decode.mixing import CutMix, MixUp, Mosaic
from tensorlake.loader.decode.parts import Clip, PointSample, RandomPatch, Slice
from tensorlake.loader.decode.sound.steps import AudioChunk, Mel, Resample, with_sound
from tensorlake.loader.decode.step import (
    BatchStep,
    GeometricStep,
    LinearMap,
    PartStep,
    PixelStep,
    Step,
    ValueStep,
)
from tensorlake.loader.decode.values import Cast, Normalize, ToFloat
from tensorlake.loader.runtime.rng import sample_generator, step_stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.decode.step import Draws
    from tensorlake.types import SampleType

Turn: TypeAlias = Flip | Rotate90
"""A step that mirrors and turns parts of arrays."""

__all__ = ["DecodeSpec", "Turn", "parse_steps", "step_from_json", "step_to_json"]

STEPS: dict[str, type[Any]] = {
    step.__name__: step
    for step in (
        *(CenterCrop, Cast, Flip, Letterbox, Normalize, RandomPatch, RandomResizedCrop, Resize),
        *(Slice, ToFloat, Clip, AudioChunk, Mel, PointSample, Resample, ColorJitter),
        *(MixUp, CutMix, Mosaic, Rotate90),
    )
}


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """The steps of one tensor."""

    tensor: str
    geometric: tuple[GeometricStep, ...]
    values: tuple[ValueStep, ...]
    part: PartStep | None = None
    pixels: tuple[PixelStep, ...] = ()
    batch: tuple[BatchStep, ...] = ()
    skipped: int = 0  # geometric steps before these, which another spec has

    def split(self) -> tuple[DecodeSpec, DecodeSpec]:
        """Divide the steps behind the deterministic geometric ones that they begin with."""
        flags = [step.is_random for step in self.geometric]
        count = flags.index(True) if True in flags else len(flags)
        first = DecodeSpec(self.tensor, self.geometric[:count], ())
        return first, replace(self, geometric=self.geometric[count:], skipped=count)

    @property
    def is_random(self) -> bool:
        """Whether any step draws random numbers."""
        chooses = self.part is not None and self.part.is_random
        return chooses or any(
            step.is_random for step in (*self.geometric, *self.pixels, *self.batch)
        )

    @property
    def joins(self) -> bool:
        """Whether images of a batch are joined with their annotations."""
        return any(isinstance(step, Mosaic) for step in self.batch)

    def place(self, height: int, width: int, *, seed: int, epoch: int, place: int) -> Placement:
        """Return the placement of one image; ``place`` is its place in the epoch."""
        placement = Placement.whole(height, width)
        for number, step in enumerate(self.geometric, self._first):
            placement = step.place(placement, self._draws(number, seed, epoch, place))
        return placement

    def recolour(
        self, images: NDArray[np.generic], *, seed: int, epoch: int, place: int
    ) -> NDArray[np.generic]:
        """Apply the pixel steps to images (…, height, width, channels), all alike."""
        for number, step in enumerate(self.pixels, self._first + len(self.geometric)):
            images = step.apply(images, self._draws(number, seed, epoch, place)())
        return images

    @property
    def _first(self) -> int:
        """The number of the first geometric step; the random numbers of a part are its own."""
        return self.skipped + (0 if self.part is None else 1)

    @property
    def first_batch_step(self) -> int:
        """The number of the first batch step, for its random numbers."""
        return self._first + len(self.geometric) + len(self.pixels)

    def output_size(self, size: tuple[int, int] | None) -> tuple[int, int] | None:
        """Return the height and width of every image, or None where they differ."""
        for step in self.geometric:
            size = step.output_size(size)
        return size

    def linear_map(self, dtype: np.dtype) -> LinearMap | None:
        """Fold the value steps into one linear map for ``dtype``; None if there are none."""
        if not self.values:
            return None
        one = np.ones(1, dtype=np.float32)
        folded = LinearMap(one, one - one, dtype)
        for step in self.values:
            folded = step.then(folded)
        return folded

    def check(self, shape: tuple[int | None, ...], dtype: np.dtype) -> None:
        """Refuse parameters that do not fit samples of this shape (channels last) and dtype.

        Raises:
            InvalidInputError: A step's numbers per channel do not match the channels, or its fill
                value exceeds the dtype.
        """
        channels = shape[-1] if shape else 1
        for step in self.pixels:
            step.check(shape, dtype, self.tensor)
        for step in self.values:
            if isinstance(step, Normalize) and len(step.mean) not in (1, channels):
                raise InvalidInputError(
                    f"decode of {self.tensor!r}: Normalize has {len(step.mean)} numbers, one per"
                    f" channel, and {self.tensor!r} has {channels}"
                    f"\ngive mean and std of one number, or of {channels}",
                    tensor=self.tensor,
                    expected=channels,
                    actual=len(step.mean),
                )
        for step in self.geometric:
            self._check_plane(step)
            if isinstance(step, Letterbox) and step.fill > np.iinfo(dtype).max:
                raise InvalidInputError(
                    f"decode of {self.tensor!r}: Letterbox fills with {step.fill}, and {dtype.name}"
                    f" holds at most {np.iinfo(dtype).max}\ngive fill= within it",
                    tensor=self.tensor,
                    expected=int(np.iinfo(dtype).max),
                    actual=step.fill,
                )

    def _check_plane(self, step: GeometricStep) -> None:
        """Refuse steps that mirror or turn images along an axis of arrays."""
        reason = ""
        if isinstance(step, Rotate90) and max(step.axes) > 1:
            reason = "has an axis that images do not have\ngive axes=(0, 1): height and width"
        elif isinstance(step, Flip) and step.number > 1:
            reason = "has an axis that images do not have\ngive 'horizontal' or 'vertical'"
        if reason:
            raise InvalidInputError(
                f"decode of {self.tensor!r}: {step!r} {reason}", tensor=self.tensor, actual=step
            )

    def turns(self, shape: tuple[int | None, ...], *, is_image: bool) -> tuple[Turn, ...]:
        """Return the steps that mirror and turn parts of this shape.

        Raises:
            InvalidInputError: Another geometric step follows, or a part has no such axes.
        """
        made: list[Turn] = []
        for step in self.geometric:
            reason = ""
            if isinstance(step, Flip):
                axes = (step.number,)
                if isinstance(step.axis, str) and not is_image:
                    reason = "names an axis of images\ngive the number of an axis, such as axis=2"
                made.append(step)
            elif isinstance(step, Rotate90):
                axes = step.axes
                sides = {shape[axis] for axis in axes if axis < len(shape)}
                if len(sides) > 1:
                    reason = f"turns parts of shape {shape}, whose sides differ\ngive equal sides"
                made.append(step)
            else:
                axes, reason = (), "resamples pixels, and parts are only mirrored and turned"
                reason += "\nleave it out, or do it in transform="
            if max(axes, default=0) >= len(shape):
                reason = f"has an axis that parts of shape {shape} do not have\ngive a lower one"
            if reason:
                raise InvalidInputError(
                    f"decode of {self.tensor!r}: {step!r} {reason}", tensor=self.tensor, actual=step
                )
        return tuple(made)

    def check_part(self, sample_type: SampleType) -> None:
        """Refuse a step that chooses a part of samples which are read whole, or do not fit it.

        Raises:
            InvalidInputError: With the reason.
        """
        if self.part is None:
            return
        if not sample_type.has_parts:
            is_image = sample_type.kind == "image"
            tiled = "tl.Image('png', tiles=(512, 512))" if is_image else "tl.Array(…, tiles=…)"
            raise InvalidInputError(
                f"decode of {self.tensor!r}: {shown(self.part)} chooses a part of each sample, and"
                f" samples of {sample_type.describe()} are read whole\nleave it out, or store"
                f" them in parts: {tiled}",
                tensor=self.tensor,
                actual=self.part,
            )
        self.part.check(sample_type, self.tensor)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the steps as JSON, in order."""
        first = () if self.part is None else self.part.members
        return [
            step_to_json(step)
            for step in (*first, *self.geometric, *self.pixels, *self.values, *self.batch)
        ]

    def _draws(self, number: int, seed: int, epoch: int, place: int) -> Draws:
        stream = step_stream(self.tensor, number)
        return lambda: sample_generator(seed=seed, epoch=epoch, place=place, stream=stream)


def parse_steps(tensor: str, given: Step | Sequence[Step]) -> DecodeSpec:
    """Check what a user gave as the decode steps of a tensor.

    Raises:
        InvalidInputError: A value is not a step, is out of order, or resizes a second time.
    """
    steps = with_sound(tensor, list(given) if isinstance(given, Sequence) else [given])
    geometric: list[GeometricStep] = []
    values: list[ValueStep] = []
    pixels: list[PixelStep] = []
    batch: list[BatchStep] = []
    part: PartStep | None = None
    for number, step in enumerate(steps):
        if isinstance(step, PartStep):
            if number:
                raise InvalidInputError(
                    f"decode of {tensor!r}: {shown(step)} comes after {shown(steps[0])}"
                    "\nput the one step that chooses a part of samples first",
                    tensor=tensor,
                    actual=step,
                )
            part = step
            continue
        if isinstance(step, BatchStep):
            batch.append(step)
            continue
        if batch:
            raise _misplaced(tensor, step, batch[-1], "put steps that mix rows of a batch last")
        if isinstance(step, ValueStep) and not isinstance(step, type):
            values.append(step)
            continue
        if isinstance(step, type) or not isinstance(step, GeometricStep | PixelStep):
            raise InvalidInputError(
                f"decode of {tensor!r}: {shown(step)} is not a decode step"
                f"\ngive one of tl.decode: {', '.join(sorted(STEPS))}, or a list of them",
                tensor=tensor,
                actual=step,
            )
        if values:
            advice = "put steps that move pixels or colours before those that change numbers"
            raise _misplaced(tensor, step, values[-1], advice)
        if isinstance(step, PixelStep):
            pixels.append(step)
            continue
        if pixels:
            advice = "put steps that move pixels before those that change colours"
            raise _misplaced(tensor, step, pixels[-1], advice)
        if step.resizes and any(before.resizes for before in geometric):
            raise InvalidInputError(
                f"decode of {tensor!r}: {shown(step)} is the second step that resizes"
                "\nkeep one: resampling twice costs twice and blurs",
                tensor=tensor,
                actual=step,
            )
        if step.resizes and any(isinstance(before, CenterCrop) for before in geometric):
            raise InvalidInputError(
                f"decode of {tensor!r}: {shown(step)} comes after a"
                " CenterCrop, which may have padded"
                "\nresize first, then crop",
                tensor=tensor,
                actual=step,
            )
        geometric.append(step)
    if sum(step.probability for step in batch) > 1:
        raise InvalidInputError(
            f"decode of {tensor!r}: at most one of {shown(batch)} changes a row, and their"
            " probabilities are more than 1 together\ngive probability= to each",
            tensor=tensor,
            actual=batch,
        )
    return DecodeSpec(tensor, tuple(geometric), tuple(values), part, tuple(pixels), tuple(batch))


def _misplaced(tensor: str, step: Any, before: Any, advice: str) -> InvalidInputError:
    return InvalidInputError(
        f"decode of {tensor!r}: {shown(step)} comes after {before!r}\n{advice}",
        tensor=tensor,
        actual=step,
    )


def step_to_json(step: Step) -> dict[str, Any]:
    """Return a step as JSON: its name and its arguments.

    >>> step_to_json(Cast("float16"))
    {'step': 'Cast', 'dtype': 'float16'}
    """
    name = type(step).__name__
    if name not in STEPS:
        raise UnsupportedFeatureError(f"the step {shown(step)} has no JSON form", actual=name)
    arguments = {one.name: getattr(step, one.name) for one in fields(STEPS[name])}
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in arguments.items()}
    return {"step": name, **listed}


def step_from_json(value: Mapping[str, Any]) -> Step:
    """Parse the result of ``step_to_json``."""
    arguments = {
        name: tuple(member) if isinstance(member, list) else member
        for name, member in value.items()
        if name != "step"
    }
    kind = STEPS.get(str(value.get("step")))
    if kind is None:
        raise UnsupportedFeatureError(
            f"no decode step is called {shown(value.get('step'))}; known:"
            f" {', '.join(sorted(STEPS))}",
            actual=value.get("step"),
        )
    return kind(**arguments)
