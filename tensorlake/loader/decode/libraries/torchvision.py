"""torchvision's transforms v2: a row as its ``tv_tensors``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.loader.decode.libraries.annotated import Annotated, array_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.types import SampleType

__all__ = ["TorchvisionTransform"]


@dataclass(frozen=True, slots=True)
class TorchvisionTransform:
    """A transform v2 as a function of a row; it has no state, and is called from many threads."""

    transform: Callable[[dict[str, Any]], dict[str, Any]]
    columns: Annotated

    @classmethod
    def of(cls, transform: Any, types: Mapping[str, SampleType]) -> TorchvisionTransform:
        """Prepare for rows of these types.

        Raises:
            UnsupportedFeatureError: torchvision has no kind of data for a tensor.
        """
        columns = Annotated.of(types, library="torchvision")
        for names in ([*columns.boxes], [*columns.points]):
            if len(names) > 1:
                raise UnsupportedFeatureError(
                    "transform=: torchvision takes one tensor of boxes and one of points, and the"
                    f" columns have {', '.join(map(repr, names))}\nleave others out of columns=",
                    tensor=names[1],
                )
        if columns.points and not hasattr(_kinds(), "KeyPoints"):
            name = next(iter(columns.points))
            raise UnsupportedFeatureError(
                f"transform=: this torchvision has no keypoints, which {name!r} is\nupdate"
                f" torchvision to 0.23 or later, or leave {name!r} out of columns=",
                tensor=name,
            )
        return cls(transform, columns)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Transform one row."""
        given = {name: self._given(name, value, row) for name, value in row.items()}
        found = self.transform(given)
        made = {name: self._taken(name, value, row) for name, value in found.items()}
        for name, image in self.columns.points.items():
            if made.get(name) is not None and made.get(image) is not None:
                made[name] = self._points(name, made[name], row[name], made[image].shape[:2])
        self._check_counts(made)
        return made

    def _given(self, name: str, value: Any, row: Mapping[str, Any]) -> Any:
        kinds, columns = _kinds(), self.columns
        if value is None:
            return None
        if name in columns.images:
            return kinds.Image(torch.from_numpy(np.ascontiguousarray(np.moveaxis(value, -1, 0))))
        if name in columns.masks:
            mask = value.astype(np.uint8) if value.dtype == np.bool_ else value
            return kinds.Mask(torch.from_numpy(np.ascontiguousarray(mask)))
        if name in columns.boxes:
            size = row[columns.boxes[name]].shape[:2]
            form = kinds.BoundingBoxFormat[columns.formats[name].upper()]
            return kinds.BoundingBoxes(torch.from_numpy(value), format=form, canvas_size=size)
        if name in columns.points:
            size = row[columns.points[name]].shape[:2]
            at = np.ascontiguousarray(value[..., :2])
            return kinds.KeyPoints(torch.from_numpy(at), canvas_size=size)
        if name in columns.items and isinstance(value, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(value))  # SanitizeBoundingBoxes drops some
        return value

    def _taken(self, name: str, value: Any, row: Mapping[str, Any]) -> Any:
        columns = self.columns
        if not isinstance(value, torch.Tensor) or name not in row:
            return value
        array = array_of(value, is_image=name in columns.images)
        if name in columns.masks and row[name].dtype == np.bool_:
            return array.astype(np.bool_)
        return array

    def _points(self, name: str, moved: Any, own: Any, size: tuple[int, int]) -> Any:
        """Return points with their visibility; those outside the image become 0, 0, 0."""
        if len(moved) != len(own):
            raise InvalidInputError(
                f"transform=: {len(own) - len(moved)} of {len(own)} objects of {name!r} were"
                f" dropped, and torchvision does not return which\nleave {name!r} out of columns=,"
                " or use steps of tl.decode, which drop objects with their boxes",
                tensor=name,
            )
        height, width = size
        x, y = moved[..., 0], moved[..., 1]
        inside = (own[..., 2] != 0) & (x >= 0) & (x <= width) & (y >= 0) & (y <= height)
        points = np.concatenate([moved, own[..., 2:]], axis=-1).astype(own.dtype)
        points[~inside] = 0
        return points

    def _check_counts(self, made: Mapping[str, Any]) -> None:
        """Refuse rows in which only some columns lost the values of dropped boxes."""
        for name, items in self.columns.items.items():
            value, others = made.get(name), made.get(items)
            if value is not None and others is not None and len(value) != len(others):
                raise InvalidInputError(
                    f"transform=: {len(others)} items of {items!r} are left, and {name!r} has"
                    f" {len(value)}\ndrop them together: v2.SanitizeBoundingBoxes(labels_getter="
                    f"lambda row: row[{name!r}])",
                    tensor=name,
                    expected=len(others),
                    actual=len(value),
                )


def _kinds() -> Any:
    return import_module("torchvision.tv_tensors")  # untyped, and not where torch is alone
