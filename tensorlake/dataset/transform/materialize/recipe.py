"""The recipe of a copy: how each column of a view is encoded in it.

    encode={"clip": tl.Video()}                               another type
    encode={"image": tl.Image("jpeg", max_side=512)}          another type that scales
    encode={"image": [Resize(256), CenterCrop(224)]}          decode steps: the arrays they make
    encode={"image": ([Resize(512)], tl.Image("jpeg"))}       the same, encoded by a type
    encode={"text": (tokenize, tl.Array("int32", (None,)))}   a function of a value

NULL stays NULL: where the column allows it, so does the type. Tensors ``of=`` an image that is
scaled or cut are moved with it, as a loader moves them.

The recipe is kept with the copy as JSON, so that ``refresh_copy`` can follow it. It has the names
and digests of functions, never the functions: data must not decide what code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.columns.functions import code_of, name_of
from tensorlake.dataset.core.indexing import unknown_column
from tensorlake.errors import InvalidInputError, InvalidStateError, UnsupportedFeatureError, shown
from tensorlake.loader import decode, step_from_json
from tensorlake.types import (
    Array,
    BBox3D,
    Image,
    SampleType,
    as_type,
    choose_resampler,
    from_json,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["Making", "annotations_of", "parse_encode"]

FORMS = (
    'give a type: tl.Image("jpeg", max_side=512), decode steps: [tl.decode.Resize(256)], or a pair'
    " of steps or a function, and the type of what they make: (function, type)"
)


@dataclass(frozen=True)
class Making:
    """How one column is made.

    Attributes:
        name: The column.
        source: Its type in the view.
        type: Its type in the copy.
        steps: Decode steps of its images; None: none are given.
        function: Makes a value of a value; None: none is given.
    """

    name: str
    source: SampleType
    type: SampleType
    steps: decode.DecodeSpec | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def moves(self) -> bool:
        """Whether pixels of an image come to other places."""
        if not isinstance(self.source, Image):
            return False
        return self.scales or (self.steps is not None and bool(self.steps.geometric))

    @property
    def scales(self) -> bool:
        """Whether its type scales images when they are stored."""
        return isinstance(self.type, Image) and self.type.max_side is not None

    @cached_property
    def decoder(self) -> decode.ImageDecoder:
        """The decoder of its images."""
        return _decoder(self.name, self.source, self.steps)

    @property
    def sample_nbytes(self) -> int:
        """Bytes of a sample of the copy in memory; 0 where they are not known."""
        dtype, shape = self.type.dtype, self.type.shape
        if dtype is None or self.type.is_media or None in shape:
            return 0
        return dtype.itemsize * int(np.prod([length or 0 for length in shape], dtype=np.int64))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, kept with a copy."""
        made: dict[str, Any] = {"type": self.type.to_json()}
        if self.steps is not None:
            made["steps"] = self.steps.to_json()
        if self.function is not None:
            made["function"] = name_of(self.function)
            made["code"] = code_of(self.function, "1", ())
        return made

    @classmethod
    def from_json(
        cls,
        value: Mapping[str, Any],
        name: str,
        source: SampleType,
        function: Callable[[Any], Any] | None,
    ) -> Making:
        """Read the JSON form.

        Args:
            value: The JSON.
            name: The column.
            source: Its type in the view.
            function: The function, as the user gave it again.

        Raises:
            InvalidStateError: It lacks its function, or another one is given.
        """
        steps = None
        if "steps" in value:
            steps = decode.parse_steps(name, [step_from_json(one) for one in value["steps"]])
        if (wanted := value.get("code")) is not None:
            give = f"\ngive it: refresh_copy(functions={{{name!r}: {value['function']}}})"
            if function is None:
                raise InvalidStateError(
                    f"column {name!r} of the copy was made by the function"
                    f" {value['function']!r}, and datasets store no code{give}",
                    tensor=name,
                )
            if code_of(function, "1", ()) != wanted:
                raise InvalidStateError(
                    f"{name_of(function)!r} is not the function that made column {name!r} of the"
                    " copy: its source or values differ, and rows would be of two kinds"
                    f"{give}, or make another copy",
                    tensor=name,
                )
        elif function is not None:
            raise InvalidInputError(
                f"functions= names {name!r}, which no function made\nleave it out",
                argument="functions",
            )
        return cls(name, source, from_json(value["type"]), steps, function)

    def allowing_null(self) -> Making:
        """Return it with a type that allows NULL."""
        return replace(self, type=replace(self.type, nullable=True))


def parse_encode(view: RowSet, encode: Mapping[str, Any]) -> dict[str, Making]:
    """Check what a user gave as ``encode=``, before anything is written.

    Raises:
        InvalidInputError: It is none of the forms, or does not fit the column.
        UnsupportedFeatureError: Annotations could not be moved with their image.
        TensorNotFoundError: A name is not of a stored column.
    """
    if not isinstance(encode, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users'
        raise InvalidInputError(
            f"encode={shown(encode)}: give the types by the names of tensors:"
            ' encode={"clip": tl.Video()}'
        )
    schema = view.schema
    for name in encode:
        if name not in view.selection.columns:
            raise unknown_column(name, view.selection.columns)
    makings = {name: _making(name, schema[name], one) for name, one in encode.items()}
    for name, making in makings.items():
        if making.source.nullable:  # NULL stays NULL, by whatever rows are made
            makings[name] = making.allowing_null()
    for name, making in makings.items():
        if making.moves or making.scales or making.function is not None:
            _check_annotations(schema, making, annotations_of(schema, name))
    return makings


def annotations_of(schema: Mapping[str, SampleType], image: str) -> list[str]:
    """Return the columns whose samples are pixels of an image."""
    return [
        name
        for name, kind in schema.items()
        if getattr(kind, "of", None) == image and not isinstance(kind, BBox3D)
    ]


def _making(name: str, source: SampleType, given: Any) -> Making:
    if isinstance(given, tuple) and len(given) == 2 and not _is_step(given[1]):  # noqa: PLR2004 - a pair
        make, kind = given
        declared = as_type(kind)
        if callable(make) and not isinstance(make, type) and not _is_step(make):
            return Making(name, source, declared, function=make)
        return _with_steps(name, source, make, declared)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return _with_steps(name, source, given, None)
    if _is_step(given):
        return _with_steps(name, source, [given], None)
    if callable(given) and not isinstance(given, type | SampleType):
        raise InvalidInputError(
            f"encode={{{name!r}: {shown(given)}}} is a function without the type of what it"
            f" returns\n{FORMS}",
            tensor=name,
        )
    return Making(name, source, as_type(given))


def _is_step(value: object) -> bool:
    kinds = (
        *(decode.GeometricStep, decode.ValueStep, decode.PartStep),
        *(decode.PixelStep, decode.BatchStep),
    )
    return isinstance(value, kinds) and not isinstance(value, type)


def _with_steps(name: str, source: SampleType, given: Any, declared: SampleType | None) -> Making:
    if not isinstance(source, Image):
        raise InvalidInputError(
            f"encode of {name!r} has decode steps, which are for images, and it is"
            f" {source.describe()}\ngive a function: (function, type)",
            tensor=name,
        )
    steps = decode.parse_steps(name, given)
    if steps.part is not None or steps.batch:
        wrong = steps.part or steps.batch[0]
        raise UnsupportedFeatureError(
            f"encode of {name!r}: {shown(wrong)} does not make an image of each image\nleave it to"
            " the loader of the copy: decode=",
            tensor=name,
        )
    if steps.is_random:
        random = next(one for one in (*steps.geometric, *steps.pixels) if one.is_random)
        raise InvalidInputError(
            f"encode of {name!r}: {shown(random)} is random, and a copy would keep one outcome of"
            " it\nleave it to the loader of the copy: decode=",
            tensor=name,
        )
    steps.check(source.shape, source.dtype)
    if declared is None:
        decoder = _decoder(name, source, steps)
        shape = decoder.output_shape or (None, None, source.shape[-1])
        declared = Array(decoder.output_dtype, shape)
    elif isinstance(declared, Image) and declared.max_side is not None:
        raise InvalidInputError(
            f"encode of {name!r} has decode steps, which decide the size, and max_side="
            f"\nleave one of the two out",
            tensor=name,
        )
    return Making(name, source, declared, steps)


def _decoder(name: str, source: SampleType, steps: decode.DecodeSpec | None) -> decode.ImageDecoder:
    steps = steps or decode.DecodeSpec(name, (), ())
    resampler = choose_resampler() if any(one.resizes for one in steps.geometric) else None
    whole = replace(source, tiles=None) if isinstance(source, Image) else source
    return decode.ImageDecoder(name, whole, steps, resampler, seed=0)


def _check_annotations(
    schema: Mapping[str, SampleType], making: Making, annotations: Sequence[str]
) -> None:
    """Refuse annotations that cannot be moved with their image."""
    for name in annotations:
        kind = schema[name]
        if making.function is not None:
            reason = f"a function makes {making.name!r}, which may move its pixels"
        elif not making.moves:
            reason = f"max_side scales {making.name!r}, which is {making.source.describe()}"
        elif decode.mover_of(name, kind) is None or kind.has_parts:
            reason = f"encode moves the pixels of {making.name!r}"
        else:
            continue
        raise UnsupportedFeatureError(
            f"{reason}, and {name!r} ({kind.describe()}), which belongs to it, cannot be moved with"
            f" it\nleave {name!r} out of the view: view.select(…).materialize(…)",
            tensor=name,
        )
