"""Keypoints move with their image; those outside become "not labelled", as in COCO.

An image mirrored once shows a left eye where a right one would be, so points whose names differ
only by "left" and "right" change places with each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorlake.loader.decode.geometry import Placement

__all__ = ["move_keypoints", "sides_swapped"]

_SIDES = {"left": "right", "right": "left", "l": "r", "r": "l"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def move_keypoints(
    objects: NDArray[np.floating], placement: Placement, *, order: NDArray[np.intp] | None = None
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Move objects (n, points, 3) of x, y and visibility as ``placement`` moves the image.

    Args:
        objects: A visibility of 0 marks points that are not labelled.
        placement: The image's.
        order: The order of the points where the image is mirrored once.

    Returns:
        All objects, points outside the image as zeros; and which objects have a labelled point
        inside, or had none before.
    """
    moved = objects.astype(np.float64)
    placement.move_points(moved[..., :2])
    left, top, right, bottom = placement.visible
    x, y = moved[..., 0], moved[..., 1]
    labelled = objects[..., 2] != 0
    inside = labelled & (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    moved[~inside] = 0
    kept = inside.any(axis=1) | ~labelled.any(axis=1)
    if order is not None and placement.is_mirrored:
        moved = moved[:, order]
    return moved.astype(objects.dtype), kept


def sides_swapped(names: Sequence[str]) -> NDArray[np.intp] | None:
    """Return the order of points with left and right exchanged; None where names have no sides.

    >>> sides_swapped(["nose", "left_eye", "right_eye"])
    array([0, 2, 1])
    """
    numbers = {name: number for number, name in enumerate(names)}
    order = np.array([numbers.get(_other_side(name), number) for name, number in numbers.items()])
    return order if len(order) and (order != np.arange(len(order))).any() else None


def _other_side(name: str) -> str:
    return _WORD.sub(lambda word: _other_word(word[0]), name)


def _other_word(word: str) -> str:
    other = _SIDES.get(word.lower(), word)
    if word.isupper():
        return other.upper()
    return other.capitalize() if word.istitle() else other
