"""Albumentations: a row as the targets of a ``Compose``, and back.

A pipeline has generators of its own, which are set before each row, so each thread has a copy.
Boxes and points carry their number in a further column, which Albumentations passes on: so values
``per=`` boxes are dropped with them, whatever ``label_fields`` names.
"""

from __future__ import annotations

import copy
import random
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.loader.decode.annotations import keep_items
from tensorlake.loader.decode.libraries.annotated import Annotated, array_of

if TYPE_CHECKING:
    from tensorlake.types import SampleType

__all__ = ["AlbumentationsTransform"]

FORMATS = {"xyxy": "pascal_voc", "xywh": "coco"}
PLANE, BOX_WIDTH, POINT_WIDTH = 2, 5, 3
SEED_STOP = 1 << 32


@dataclass(frozen=True, slots=True)
class AlbumentationsTransform:
    """A pipeline as a function of a row and its random numbers."""

    pipeline: Any
    columns: Annotated
    copies: threading.local = field(default_factory=threading.local)

    @classmethod
    def of(cls, transform: Any, types: Mapping[str, SampleType]) -> AlbumentationsTransform:
        """Prepare for rows of these types.

        Raises:
            UnsupportedFeatureError: Albumentations has no target for a tensor, or more than one
                tensor for a target.
        """
        albumentations: Any = sys.modules["albumentations"]  # it is untyped
        columns = Annotated.of(types, library="Albumentations")
        is_whole = isinstance(transform, albumentations.BaseCompose)
        pipeline = transform if is_whole else albumentations.Compose([transform])
        processors = getattr(pipeline, "processors", {})
        roles = (
            ("image", columns.images, None),
            ("bboxes", tuple(columns.boxes), "bbox_params=A.BboxParams('pascal_voc')"),
            (
                "keypoints",
                tuple(columns.points),
                "keypoint_params=A.KeypointParams('xy', remove_invisible=False)",
            ),
        )
        for role, names, params in roles:
            if len(names) > 1:
                listed = ", ".join(map(repr, names))
                raise UnsupportedFeatureError(
                    f"transform=: Albumentations takes one tensor as {role}, and the columns have"
                    f" {listed}\nleave others out of columns=",
                    tensor=names[1],
                )
            if names and params is not None and role not in processors:
                raise UnsupportedFeatureError(
                    f"transform=: this Compose moves no {role}, and {names[0]!r} belongs to"
                    f" {columns.images[0]!r}\nwrite A.Compose([…], {params}), or leave {names[0]!r}"
                    " out of columns=",
                    tensor=names[0],
                )
        for name, form in columns.formats.items():
            expected = FORMATS.get(form)
            actual = processors["bboxes"].params.format
            if expected != actual:
                raise UnsupportedFeatureError(
                    f"transform=: {name!r} has boxes of the format {form!r}, and BboxParams has"
                    f" {actual!r}\n"
                    + (f"write A.BboxParams({expected!r})" if expected else "store them as xyxy"),
                    tensor=name,
                    expected=expected,
                    actual=actual,
                )
        return cls(pipeline, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send it to a process without the copies of threads."""
        return AlbumentationsTransform, (self.pipeline, self.columns)

    def __call__(self, row: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Transform one row with its random numbers."""
        columns, made = self.columns, dict(row)
        if not columns.images or row[columns.images[0]] is None:
            return made
        pipeline = self._own()
        pipeline.set_random_state(rng, random.Random(int(rng.integers(SEED_STOP))))  # noqa: S311 - no secret
        found = pipeline(**self._targets(row))
        made[columns.images[0]] = array_of(found["image"], is_image=True)
        masks = list(map(array_of, found.get("masks", ())))
        for name in columns.masks:
            if row[name] is not None:
                own = row[name]
                count = 1 if own.ndim == PLANE else len(own)
                taken, masks = masks[:count], masks[count:]
                size = made[columns.images[0]].shape[:2]
                stack = np.array(taken, own.dtype).reshape(count, *size)
                made[name] = stack[0] if own.ndim == PLANE else stack
        for name in columns.points:
            if row[name] is not None:
                points = np.asarray(found["keypoints"], np.float64).reshape(-1, POINT_WIDTH)
                self._place(made, name, points, row[name])
        for name in columns.boxes:
            if row[name] is not None:
                boxes = np.asarray(found["bboxes"], np.float64).reshape(-1, BOX_WIDTH)
                made[name] = boxes[:, :-1].astype(row[name].dtype)
                self._drop(made, name, boxes[:, -1].astype(np.intp), len(row[name]))
        return made

    def _own(self) -> Any:
        own = getattr(self.copies, "pipeline", None)
        if own is None:
            own = self.copies.pipeline = copy.deepcopy(self.pipeline)
        return own

    def _targets(self, row: Mapping[str, Any]) -> dict[str, Any]:
        columns = self.columns
        targets: dict[str, Any] = {"image": row[columns.images[0]]}
        masks: list[NDArray[Any]] = []
        for name in columns.masks:
            value = row[name]
            if value is not None:
                each = [value] if value.ndim == PLANE else list(value)
                masks += [one.astype(np.uint8) if one.dtype == np.bool_ else one for one in each]
        if masks:
            targets["masks"] = masks
        for role, of in (("bboxes", columns.boxes), ("keypoints", columns.points)):
            for name in of:
                value = row[name]
                if value is not None:
                    flat = value if role == "bboxes" else value[..., :2].reshape(-1, 2)
                    number = np.arange(len(flat), dtype=np.float32)[:, None]
                    targets[role] = np.concatenate([flat, number], axis=1)
        for processor in getattr(self.pipeline, "processors", {}).values():
            for name in processor.params.label_fields or ():
                if name in row:
                    targets[name] = row[name]
        return targets

    def _drop(self, made: dict[str, Any], items: str, left: NDArray[np.intp], count: int) -> None:
        """Keep the values of the items that are left, in the order of the boxes."""
        kept = np.zeros(count, np.bool_)
        kept[left] = True
        for name, per in self.columns.items.items():
            if per == items and made[name] is not None:
                made[name] = keep_items(made[name], kept)

    def _place(
        self, made: dict[str, Any], name: str, points: NDArray[np.float64], own: NDArray[Any]
    ) -> None:
        """Put points where they are now; those outside the image become 0, 0, 0."""
        height, width = made[self.columns.images[0]].shape[:2]
        x, y = points[:, 0], points[:, 1]
        at = points[:, 2].astype(np.intp)
        placed = np.zeros((own.shape[0] * own.shape[1], 3), own.dtype)
        visible = own.reshape(-1, 3)[at, 2]
        inside = (x >= 0) & (x <= width) & (y >= 0) & (y <= height) & (visible != 0)
        placed[at[inside]] = np.column_stack([x, y, visible])[inside]
        made[name] = placed.reshape(own.shape)
