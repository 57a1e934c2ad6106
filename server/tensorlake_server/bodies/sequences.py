"""Frames of sequences of images: the first stands for the whole in the image of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.types import EncodedColumn, Sequence, take
from tensorlake_server.bodies.columns import TypedColumn
from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["first_frame", "frame_of", "without_frames"]


def first_frame(read: TypedColumn, position: int) -> TypedColumn:
    """Stand for a sequence of images by its first.

    Raises:
        CorruptSampleError: It has none.
    """
    items = _items_of(read, position)
    if not len(items.column):
        raise CorruptSampleError("a sequence without frames has no image", actual=0)
    return items


def frame_of(read: TypedColumn, tensor: str, row: int, frame: int) -> TypedColumn:
    """Read one item of a sequence.

    Raises:
        InvalidInputError: The tensor is not a sequence.
        Problem: It has fewer items.
    """
    if not isinstance(read.type, Sequence):
        raise without_frames(tensor, frame, read.type)
    items = _items_of(read, 0)
    count = len(items.column)
    if frame >= count:
        detail = f"row {row} of {tensor!r} has {count:,} frames, no frame {frame:,}"
        raise Problem(404, "no-such-frame", detail)
    return TypedColumn(items.type, take(items.column, np.array([frame])))


def _items_of(read: TypedColumn, position: int) -> TypedColumn:
    assert isinstance(read.type, Sequence)
    assert isinstance(read.column, EncodedColumn)
    return TypedColumn(read.type.item, read.type.items_of(read.column.samples[position]))


def without_frames(tensor: str, frame: int, kind: SampleType) -> InvalidInputError:
    """Build the refusal of a frame of what has none."""
    return InvalidInputError(
        f"frame={frame} needs a Sequence, and {tensor!r} is {kind.describe()}\nleave out frame",
        tensor=tensor,
    )
