"""COCO: a folder with ``annotations.json`` and the images in ``images/``.

https://cocodataset.org/#format-data. Types define the role of each tensor: the Image, the BBox,
the ClassLabel per box; with them InstanceMask or Polygon, Keypoints, and the tensors that
ingestion of COCO makes (``iscrowd area annotation_id image_id captions file_name coco``). Images
are written as stored, without re-encoding. With the tensor ``coco``, members of the source file
that agree with the tensors are exported verbatim (`records.py`); without it, categories
count from 1 and masks are RLE.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.coco.records import (
    Categories,
    ImageRecord,
    describe_object,
    join_headers,
)
from tensorlake.dataset.export.destinations import Form, new_folder
from tensorlake.dataset.export.files import (
    leads_outside,
    stored_rows,
    tensor_columns,
)
from tensorlake.dataset.export.headers import read_headers
from tensorlake.dataset.export.records.webdataset import image_ending
from tensorlake.dataset.sync.classes import class_codes
from tensorlake.dataset.sync.ledger import SOURCES, read_sources
from tensorlake.errors import InvalidInputError
from tensorlake.types import (
    BBox,
    ClassLabel,
    Image,
    InstanceMask,
    Json,
    Keypoints,
    Polygon,
    SampleType,
    Text,
    convert_boxes,
    untiled,
)

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
    outlines: str | None
    keypoints: str | None
    types: Mapping[str, SampleType]

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are there, and those that ingestion of COCO makes beside them."""
        own = (self.image, self.boxes, self.label, self.mask, self.outlines, self.keypoints)
        more = ("iscrowd", "area", "annotation_id", "image_id", "captions")
        texts = (name for name in (self.file_name, self.record) if name)
        return (*(one for one in own if one), *(one for one in more if one in self.types), *texts)

    @property
    def file_name(self) -> str | None:
        """The tensor of the images' names."""
        return "file_name" if isinstance(self.types.get("file_name"), Text) else None

    @property
    def record(self) -> str | None:
        """The tensor of the images' records."""
        return "coco" if isinstance(self.types.get("coco"), Json) else None


def to_coco(
    view: RowSet, dst: str | PathLike[str], *, columns: Sequence[str] | None, overwrite: bool
) -> None:
    """Write images and their annotations into a folder."""
    types = tensor_columns(view, columns, call="to_coco()")
    parts = _parts({name: untiled(one) for name, one in types.items()})
    image = parts.types[parts.image]
    assert isinstance(image, Image), "it was chosen for that"
    shapes = view.shapes(parts.image)
    header = join_headers(read_headers(view, "coco")) if parts.record else {}
    content: dict[str, Any] = {**header, "images": [], "annotations": []}
    categories = _categories(view, parts, header)
    if has_categories := bool(parts.boxes) or "captions" not in parts.types:
        content.setdefault("categories", [])  # in its place; COCO's own files of captions have none
    images = _Images(parts)
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        (folder / "images").mkdir()
        for at, values in enumerate(stored_rows(view, parts.names)):
            number, name = images.named(values, row=at)
            target = folder / "images" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(values[parts.image])
            record = ImageRecord.of(values.get(parts.record or ""))
            height, width = (int(length) for length in shapes[at][:2])
            listed = {"id": number, "file_name": name, "height": height, "width": width}
            content["images"].append(record.describe_image(listed))
            masks = record.masks((height, width)) if parts.mask else {}
            for made in _annotations(parts, categories, values, row=at):
                recorded = record.take(made)
                one = {**made, "image_id": number}
                if recorded is not None:
                    one = describe_object(recorded, one, masks.get(id(recorded)))
                if math.isnan(one.get("area") or 0.0):  # which JSON cannot hold
                    del one["area"]
                content["annotations"].append({"id": None, **one})
        _number(content["annotations"])
        if has_categories:
            content["categories"] = categories.used_by(content["annotations"])
        text = json.dumps(content, ensure_ascii=False)
        (folder / "annotations.json").write_text(text, encoding="utf-8")


def _listed(folder: Path) -> set[str]:
    """Return the names of the images that the annotations of a folder list."""
    try:
        content = json.loads((folder / "annotations.json").read_bytes())
        return {f"images/{one['file_name']}" for one in content["images"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()  # so that its images are nobody's, and kept


FORM = Form("coco", re.compile(r"annotations\.json"), listed=_listed)


class _Images:
    """Gives each image its number and name, and refuses those of two."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._numbers: set[int] = set()
        self._names: set[str] = set()

    def named(self, values: Mapping[str, Any], *, row: int) -> tuple[int, str]:
        parts, image = self._parts, self._parts.types[self._parts.image]
        assert isinstance(image, Image), "it was chosen for that"
        number = int(values.get("image_id", row))
        if values[parts.image] is None or number in self._numbers:
            raise InvalidInputError(
                f"row {row} has no image, or the image_id {number} of another row"
                "\nomit image_id to number the images: columns=[…]",
                row=row,
                actual=number,
            )
        name = values.get(parts.file_name or "")
        if name is None:
            name = f"{number:012d}.{image_ending(image, values[parts.image])}"
        if leads_outside(name) or name in self._names:
            raise InvalidInputError(
                f"row {row} has the file_name {name!r}, which leads out of the folder of images,"
                " or is that of another row\nomit file_name to name the images by number:"
                " columns=[…]",
                row=row,
                actual=name,
            )
        self._numbers.add(number)
        self._names.add(name)
        return number, name


def _number(annotations: Sequence[dict[str, Any]]) -> None:
    """Number the annotations that have no number, beyond the others."""
    following = max((int(one["id"] or 0) for one in annotations), default=0) + 1
    for one in annotations:
        if one["id"] is None:
            one["id"], following = following, following + 1


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
    mask = _one(types, InstanceMask, "masks of instances")
    return _Parts(
        image=images[0],
        boxes=boxes,
        label=_one(labels, ClassLabel, "class labels per box") if boxes else None,
        mask=mask,
        outlines=_one(types, Polygon, "polygons") if boxes and not mask else None,
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


def _categories(view: RowSet, parts: _Parts, header: Mapping[str, Any]) -> Categories:
    label = parts.types.get(parts.label or "")
    posed: dict[str, Any] = {}
    points = parts.types.get(parts.keypoints or "")
    if isinstance(points, Keypoints):
        skeleton = [[int(a) + 1, int(b) + 1] for a, b in points.skeleton]  # COCO counts from 1
        posed = {"keypoints": [*points.names], "skeleton": skeleton}
    classes = label if isinstance(label, ClassLabel) else ClassLabel(["object"])
    names = _names_in_file(view, parts.label) if header and parts.label else {}
    return Categories.of(classes, header.get("categories"), posed, names)


def _names_in_file(view: RowSet, label: str) -> dict[int, str]:
    """Return the names of classes in the file, by code: a hand may have renamed them since."""
    snapshot = view.selection.snapshot
    group = snapshot.group(SOURCES)
    sources = [] if group is None else read_sources(view.session.reader(group))
    spec = snapshot.schema[label]
    named = [class_codes(spec, one.classes.get(spec.id, {})) for one in sources]
    return {code: name for one in named for name, code in one.items()}


def _annotations(
    parts: _Parts, categories: Categories, values: Mapping[str, Any], *, row: int
) -> Iterator[dict[str, Any]]:
    if parts.boxes is None:
        yield from ({"caption": str(text)} for text in values.get("captions") or ())
        return
    boxes = _xywh(values[parts.boxes], parts.types[parts.boxes])
    columns = {
        name: values[name]
        for name in (
            *(parts.label, parts.mask, parts.outlines, parts.keypoints),
            *("iscrowd", "area", "annotation_id"),
        )
        if name and name in values and values[name] is not None
    }
    if isinstance(columns.get(parts.mask or ""), dict):
        columns[parts.mask or ""] = []  # no masks, with the size of the image
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
            "category_id": categories.numbers[int(own.get(parts.label or "", 0))],
            "bbox": [_short(edge) for edge in box],
            "area": _short(own.get("area", box[2] * box[3])),
            "iscrowd": int(own.get("iscrowd", 0)),
        }
        if "annotation_id" in own:
            one["id"] = int(own["annotation_id"])
        if parts.mask in own:
            one["segmentation"] = own[parts.mask]
        if parts.outlines in own:
            points = np.asarray(own[parts.outlines]).reshape(-1)
            one["segmentation"] = [[_short(number) for number in points]]
        if parts.keypoints in own:
            points = np.asarray(own[parts.keypoints])
            one["keypoints"] = points.reshape(-1).tolist()
            one["num_keypoints"] = int(np.count_nonzero(points[:, 2]))
        yield one


def _short(number: Any) -> float:
    """Return a float32 with the fewest digits that it is known by: 0.1, not 0.10000000149."""
    return float(str(np.float32(number)))


def _xywh(boxes: Any, sample_type: SampleType) -> np.ndarray:
    assert isinstance(sample_type, BBox), "it was chosen for that"
    return convert_boxes([] if boxes is None else boxes, sample_type.format, "xywh")
