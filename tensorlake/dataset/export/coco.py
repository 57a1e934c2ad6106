"""COCO: a folder with ``annotations.json`` and the images in ``images/``.

https://cocodataset.org/#format-data. Types define the role of each tensor: the Image, the BBox,
the ClassLabel per box; with them InstanceMask, Keypoints, and the tensors that ingestion of COCO
makes (``iscrowd area annotation_id image_id captions``). Categories count from 1. Images are
written as stored, without re-encoding; masks are RLE.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow_stream import check_columns
from tensorlake.dataset.export.files import new_folder, plain_columns, stored_rows
from tensorlake.dataset.export.webdataset import image_ending
from tensorlake.errors import InvalidInputError
from tensorlake.types import BBox, ClassLabel, Image, InstanceMask, Keypoints, SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_coco"]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The tensors that COCO has a word for, by name; None where there is none."""

    image: str
    boxes: str | None
    label: str | None
    mask: str | None
    keypoints: str | None
    types: Mapping[str, SampleType]

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are there, and those that ingestion of COCO makes beside them."""
        own = (self.image, self.boxes, self.label, self.mask, self.keypoints)
        more = ("iscrowd", "area", "annotation_id", "image_id", "captions")
        return (*(one for one in own if one), *(one for one in more if one in self.types))


def to_coco(
    view: RowSet, dst: str | PathLike[str], *, columns: Sequence[str] | None, overwrite: bool
) -> None:
    """Write images and their annotations into a folder."""
    names = check_columns(view, columns)
    plain_columns(view, names, call="to_coco()")
    parts = _parts({name: view.schema[name] for name in names})
    image = parts.types[parts.image]
    assert isinstance(image, Image), "it was chosen for that"
    shapes = view.shapes(parts.image)
    content: dict[str, Any] = {"images": [], "annotations": []}
    if parts.boxes or "captions" not in parts.types:  # COCO's own files of captions have none
        content["categories"] = _categories(parts)
    seen: set[int] = set()
    with new_folder(dst, overwrite=overwrite) as folder:
        (folder / "images").mkdir()
        for at, values in enumerate(stored_rows(view, parts.names)):
            number = int(values.get("image_id", at))
            if values[parts.image] is None or number in seen:
                raise InvalidInputError(
                    f"row {at} has no image, or the image_id {number} of another row"
                    "\nomit image_id to number the images: columns=[…]",
                    row=at,
                    actual=number,
                )
            seen.add(number)
            name = f"{number:012d}.{image_ending(image, values[parts.image])}"
            (folder / "images" / name).write_bytes(values[parts.image])
            height, width = (int(length) for length in shapes[at][:2])
            content["images"].append(
                {"id": number, "file_name": name, "height": height, "width": width}
            )
            for one in _annotations(parts, values, row=at):
                own = one.pop("id", None)
                identity = len(content["annotations"]) + 1 if own is None else own
                content["annotations"].append({"id": identity, "image_id": number, **one})
        text = json.dumps(content, ensure_ascii=False)
        (folder / "annotations.json").write_text(text, encoding="utf-8")


def _parts(types: Mapping[str, SampleType]) -> _Parts:
    images = [name for name, one in types.items() if isinstance(one, Image)]
    if len(images) != 1:
        raise InvalidInputError(
            f"COCO has one image per row, and there are {len(images)} tensors of images"
            f" {images}\nname the columns: columns=['image', 'boxes', 'label']",
            actual=images,
        )
    boxes = _one(types, BBox, "boxes")
    labels = {n: t for n, t in types.items() if isinstance(t, ClassLabel) and t.per == boxes}
    return _Parts(
        image=images[0],
        boxes=boxes,
        label=_one(labels, ClassLabel, "class labels per box") if boxes else None,
        mask=_one(types, InstanceMask, "masks of instances"),
        keypoints=_one(types, Keypoints, "keypoints"),
        types=types,
    )


def _one(types: Mapping[str, SampleType], kind: type[SampleType], what: str) -> str | None:
    found = [name for name, one in types.items() if isinstance(one, kind)]
    if len(found) > 1:
        raise InvalidInputError(
            f"COCO has one set of {what} per image, and there are {found}"
            "\nname the columns: columns=[…]",
            actual=found,
        )
    return found[0] if found else None


def _categories(parts: _Parts) -> list[dict[str, Any]]:
    label = parts.types.get(parts.label or "")
    names = label.names if isinstance(label, ClassLabel) else ("object",)
    posed: dict[str, Any] = {}
    points = parts.types.get(parts.keypoints or "")
    if isinstance(points, Keypoints):
        skeleton = [[int(a) + 1, int(b) + 1] for a, b in points.skeleton]  # COCO counts from 1
        posed = {"keypoints": [*points.names], "skeleton": skeleton}
    return [{"id": code + 1, "name": name, **posed} for code, name in enumerate(names) if name]


def _annotations(parts: _Parts, values: Mapping[str, Any], *, row: int) -> Iterator[dict[str, Any]]:
    if parts.boxes is None:
        yield from ({"caption": str(text)} for text in values.get("captions") or ())
        return
    boxes = _xywh(values[parts.boxes], parts.types[parts.boxes])
    columns = {
        name: values[name]
        for name in (parts.label, parts.mask, parts.keypoints, "iscrowd", "area", "annotation_id")
        if name and name in values and values[name] is not None
    }
    for name, column in columns.items():
        if len(column) != len(boxes):
            raise InvalidInputError(
                f"row {row} has {len(boxes)} boxes and {len(column)} of {name!r}"
                f"\nCOCO has one for each box; leave {name!r} out: columns=[…]",
                row=row,
                tensor=name,
            )
    for at, box in enumerate(boxes):
        own = {name: column[at] for name, column in columns.items()}
        one: dict[str, Any] = {
            "category_id": int(own.get(parts.label or "", 0)) + 1,
            "bbox": box.tolist(),
            "area": float(own.get("area", box[2] * box[3])),
            "iscrowd": int(own.get("iscrowd", 0)),
        }
        if math.isnan(one["area"]):  # which JSON cannot hold
            del one["area"]
        if "annotation_id" in own:
            one["id"] = int(own["annotation_id"])
        if parts.mask in own:
            one["segmentation"] = own[parts.mask]
        if parts.keypoints in own:
            points = np.asarray(own[parts.keypoints])
            one["keypoints"] = points.reshape(-1).tolist()
            one["num_keypoints"] = int(np.count_nonzero(points[:, 2]))
        yield one


def _xywh(boxes: Any, sample_type: SampleType) -> np.ndarray:
    assert isinstance(sample_type, BBox), "it was chosen for that"
    given = np.zeros((0, 4)) if boxes is None else np.asarray(boxes, dtype=np.float64)
    first, second = given[:, :2], given[:, 2:]
    match sample_type.format:
        case "xyxy":
            return np.concatenate((first, second - first), axis=1)
        case "cxcywh":
            return np.concatenate((first - second / 2, second), axis=1)
        case _:
            return given
