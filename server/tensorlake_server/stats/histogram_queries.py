"""The measures of a tensor: TQL expressions whose values histograms show.

    a number, a time       score                         itself, one a row
    an array               LENGTH(x), SHAPE(x)[1]        each axis that differs by row
                           x                             its elements, many a row
    an image, a mask       SHAPE(image)[0], [1]          height and width, from headers alone
    an embedding           L2_NORM(vector)               whether it is normalised
    boxes                  LENGTH(boxes), AREA(boxes)    how many, and how large each
    text, JSON, items      LENGTH(caption)               characters, members, items

That a measure is TQL makes a bar a filter that finds exactly what the bar counts: both are the same
expression, evaluated by the same engine, compared in the same dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import tensorlake_query as tql
from tensorlake.types import Uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorlake.types import SampleType

__all__ = ["Measure", "list_measures"]

ITEMS = frozenset({"bbox", "bbox_3d", "keypoints", "class_label"})  # axis 0 is things in a row
IMAGE_AXES = ("height", "width", "channels")
MEDIA_AXES = {
    "audio": ("samples", "channels"),
    "video": ("frames", "height", "width"),
    "mesh": ("vertices",),
}
AREA_KINDS = frozenset({"bbox", "binary_mask", "instance_mask"})
UNITS = {
    "text": "characters",
    "json": "members",
    "bytes": "bytes",
    "tags": "words",
    "polygon": "outlines",
    "sequence": "items",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One expression over a tensor.

    Attributes:
        title: A description for people.
        expression: The TQL.
        per: Whether a row has one value, or many.
        reads: Whether headers of chunks are enough, or samples are read.
        is_size: Whether 0 means that the sample is empty.
    """

    title: str
    expression: str
    per: Literal["row", "element"] = "row"
    reads: Literal["shapes", "samples"] = "samples"
    is_size: bool = False


def list_measures(name: str, sample_type: SampleType) -> list[Measure]:
    """List what is worth a histogram, the most telling first."""
    column = tql.print_name(name)
    if sample_type.dtype is None:
        return _sizes_of_encoded(name, column, sample_type)
    if not sample_type.shape:
        is_number = sample_type.query_kind == "number" and sample_type.dtype.kind != "c"
        return [Measure(name, column)] if is_number else []
    return [*_axes(name, column, sample_type), *_contents(name, column, sample_type)]


def _sizes_of_encoded(name: str, column: str, sample_type: SampleType) -> list[Measure]:
    if isinstance(sample_type, Uuid) or sample_type.is_media:
        return []  # all are as long; of media without a shape nothing is known
    unit = UNITS.get(sample_type.kind) or UNITS[sample_type.query_kind]
    return [Measure(f"{unit} of {name}", f"LENGTH({column})", is_size=True)]


def _axes(name: str, column: str, sample_type: SampleType) -> Iterator[Measure]:
    kind, shape = sample_type.drawn_as, sample_type.shape
    media = MEDIA_AXES.get(sample_type.kind, ())
    leading = len(shape) - len(_image_axes(kind))
    for axis, length in enumerate(shape):
        if length is not None:
            continue
        expression = f"SHAPE({column})[{axis}]"
        if axis >= leading:
            title = f"{_image_axes(kind)[axis - leading]} of {name}"
        elif axis == 0:
            expression = f"LENGTH({column})"
            is_list = kind in ITEMS or kind == "instance_mask"
            title = f"{name} in a row" if is_list else f"{(*media, 'length')[0]} of {name}"
        else:
            title = f"{media[axis] if axis < len(media) else f'axis {axis}'} of {name}"
        yield Measure(title, expression, reads="shapes", is_size=True)


def _image_axes(kind: str) -> tuple[str, ...]:
    if kind == "image":
        return IMAGE_AXES
    return IMAGE_AXES[:2] if kind.endswith("_mask") else ()


def _contents(name: str, column: str, sample_type: SampleType) -> Iterator[Measure]:
    kind, dtype = sample_type.drawn_as, sample_type.dtype
    assert dtype is not None, "what has a shape has a dtype"
    if kind == "embedding":
        yield Measure(f"norm of {name}", f"L2_NORM({column})")
    if kind == "bbox":
        yield Measure(f"area of {name}", f"AREA({column})", "element")
    elif kind == "binary_mask":
        yield Measure(f"area of {name}", f"MASK_AREA({column})")
    elif kind == "instance_mask":
        yield Measure(f"area of {name}", f"MASK_AREA({column})", "element")
    is_number = sample_type.query_kind == "number" and dtype.kind != "c"
    if is_number and (kind in {"array", "embedding"}):
        yield Measure(f"elements of {name}", column, "element")
