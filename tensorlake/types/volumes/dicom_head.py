"""The part of DICOM's attributes that is stored: geometry, scaling, and those that were named.

spacing       [z, y, x] millimetres, NaN where no attribute tells
orientation   directions of a row and of a column in the patient (LPS), 6 numbers
position      of the first voxel in the patient, millimetres
rescale       slope and intercept, one of each for all slices, or one a slice
header        attributes of the series that the type names
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

__all__ = ["DicomHead"]

_ORIENTATION, _POSITION = 6, 3


@dataclass(frozen=True, slots=True, eq=False)
class DicomHead:
    """The attributes of a series that are stored beside its voxels.

    Attributes:
        spacing: Lengths of a voxel along z, y and x, in millimetres; NaN where unknown.
        orientation: Directions of rows and columns in the patient; None where unknown.
        position: Place of the first voxel in the patient; None where unknown.
        slopes: Factors of stored voxels: one, or one a slice.
        intercepts: Summands, as many.
        header: Values of named attributes.
    """

    spacing: tuple[float, float, float]
    orientation: tuple[float, ...] | None
    position: tuple[float, ...] | None
    slopes: np.ndarray
    intercepts: np.ndarray
    header: dict[str, Any]

    @property
    def is_scaled(self) -> bool:
        """Whether rescaled values are other than the stored voxels."""
        return bool((self.slopes != 1).any() or (self.intercepts != 0).any())

    @property
    def affine(self) -> np.ndarray:
        """The matrix from voxels (x, y, z, 1) to the patient (LPS): float64 (4, 4)."""
        matrix = np.full((4, 4), np.nan)
        matrix[3] = (0, 0, 0, 1)
        if self.orientation is not None and self.position is not None:
            along_row, along_column = np.reshape(self.orientation, (2, 3))
            matrix[:3, 0] = along_row * self.spacing[2]
            matrix[:3, 1] = along_column * self.spacing[1]
            matrix[:3, 2] = np.cross(along_row, along_column) * self.spacing[0]
            matrix[:3, 3] = self.position
        return matrix

    def rescaled(
        self, part: np.ndarray, shape: tuple[int, ...], region: tuple[Any, ...]
    ) -> np.ndarray:
        """Return the values of the stored voxels of a region, in double precision."""
        sides = (-1, *[1] * (len(shape) - 1))
        scales = (self.slopes, self.intercepts)
        planes = (np.broadcast_to(one.reshape(sides), shape) for one in scales)
        slopes, intercepts = (one[region] for one in planes)  # views until here
        return part * slopes + intercepts

    def to_bytes(self) -> bytes:
        """Write it, for the head of a tiled sample."""
        made = {
            "spacing": [None if np.isnan(one) else one for one in self.spacing],
            "orientation": self.orientation,
            "position": self.position,
            "rescale": [self.slopes.tolist(), self.intercepts.tolist()],
            "header": self.header,
        }
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: It is not such a head.
        """
        try:
            read = json.loads(data)
            z, y, x = (np.nan if one is None else float(one) for one in read["spacing"])
            orientation = _numbers(read["orientation"], _ORIENTATION)
            position = _numbers(read["position"], _POSITION)
            slopes, intercepts = (np.array(one, np.float64) for one in read["rescale"])
            header = cast("dict[str, Any]", dict(read["header"]))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"its head is not one of DICOM ({error})") from error
        if slopes.ndim != 1 or slopes.shape != intercepts.shape or not len(slopes):
            raise ValueError("its head has a damaged scaling")
        return cls((z, y, x), orientation, position, slopes, intercepts, header)


def _numbers(given: Any, count: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    numbers = tuple(map(float, given))
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} numbers, where {count} should be")
    return numbers
