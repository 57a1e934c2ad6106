"""Records of a COCO file, exported verbatim wherever they agree with the tensors.

    member of the file          is exported verbatim if ingesting it would make the same values
    bbox area keypoints         the same float32 numbers
    segmentation                the same mask, pixel by pixel
    category_id id image_id     the same number
    iscrowd caption             the same
    all others                  always: no tensor holds them

A value that was changed since replaces that of the file. An object without a record, such as one
that was drawn by hand, has the values of the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from tensorlake.types import ClassLabel, segmentation_runs

__all__ = ["Categories", "ImageRecord", "describe_object", "join_headers"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """The part of a file about one image.

    Attributes:
        image: The image's own members.
        annotations: Its annotations, by id; those of one id in their order.
    """

    image: Mapping[str, Any] = field(default_factory=dict[str, Any])
    annotations: Mapping[int, list[Json]] = field(default_factory=dict[int, list[Json]])

    @classmethod
    def of(cls, value: Any) -> ImageRecord:
        """Read the value of a tensor ``coco``; of another one, nothing."""
        if not isinstance(value, Mapping):
            return cls()
        members = cast("Mapping[str, Any]", value)
        image, listed = members.get("image"), members.get("annotations")
        by_id: dict[int, list[Json]] = {}
        for one in cast("list[Any]", listed) if isinstance(listed, list) else []:
            if isinstance(one, dict):
                own = cast("Json", one)
                by_id.setdefault(_integer(own.get("id", 0)) or 0, []).append(own)
        return cls(cast("Json", image) if isinstance(image, dict) else {}, by_id)

    def describe_image(self, made: Json) -> Json:
        """Return the image's members, of which ``made`` holds those known from tensors."""
        return {
            **self.image,
            **{
                name: self.image[name] if _integer(self.image.get(name)) == value else value
                for name, value in made.items()
            },
        }

    def masks(self, size: tuple[int, int]) -> dict[int, Json]:
        """Fill the masks of all annotations together; their RLE by `id()` of the annotation."""
        listed = [one for records in self.annotations.values() for one in records]
        try:
            filled = _filled(listed, size)
        except (TypeError, ValueError):  # one was edited by hand
            filled = [mask for one in listed for mask in _filled_if_valid(one, size)]
        return {id(one): mask for one, mask in zip(listed, filled, strict=True)}

    def take(self, made: Json) -> Json | None:
        """Take the record of an object or a caption, once; None if the file has none."""
        if "caption" in made:
            for records in self.annotations.values():
                for at, one in enumerate(records):
                    if one.get("caption") == made["caption"]:
                        return records.pop(at)
            return None
        records = self.annotations.get(made.get("id", 0))
        return records.pop(0) if records else None


def describe_object(record: Json, made: Json, mask: Json | None) -> Json:
    """Return an annotation: its record's members, and those of ``made`` that differ.

    Args:
        record: The annotation in the file.
        made: The values of the tensors, as COCO's members; an unknown area is NaN.
        mask: The mask of the record, as RLE.
    """
    kept = dict(record)
    for name, value in made.items():
        if not _is_same(name, record, value, mask):
            kept[name] = value
            if name == "keypoints":
                kept["num_keypoints"] = made["num_keypoints"]
    return kept


def _filled(annotations: Sequence[Json], size: tuple[int, int]) -> list[Json]:
    table = segmentation_runs(
        [one.get("segmentation") for one in annotations], [size] * len(annotations)
    )
    shapes = table.sizes.tolist()
    parts = np.split(table.runs, np.cumsum(table.counts)[:-1]) if annotations else []
    pairs = zip(shapes, parts, strict=True)
    return [{"size": shape, "counts": part.tolist()} for shape, part in pairs]


def _filled_if_valid(annotation: Json, size: tuple[int, int]) -> list[Json]:
    try:
        return _filled([annotation], size)
    except (TypeError, ValueError):
        return [{}]


def _is_same(name: str, record: Json, value: Any, mask: Json | None) -> bool:
    """Whether ingesting a member, or its absence, would make the value."""
    recorded = record.get(name)
    try:
        match name:
            case "num_keypoints":  # goes with the points
                return True
            case "segmentation":
                return value == mask
            case "bbox":
                return recorded is not None and np.array_equal(_corners(recorded), _corners(value))
            case "area":
                own = math.nan if recorded is None else recorded
                return np.array_equal(np.float32(own), np.float32(value), equal_nan=True)
            case "keypoints":
                points = recorded or np.zeros(len(value))
                return np.array_equal(np.asarray(points, np.float32), np.float32(value))
            case "caption":
                return recorded == value
            case "id":  # an annotation without one gets a number when all are known
                return recorded is None or _integer(recorded) == value
            case "iscrowd":
                return _integer(recorded or 0) == value
            case _:
                return _integer(recorded) == value
    except (TypeError, ValueError, OverflowError):  # the record was edited by hand
        return False


def _corners(box: Any) -> np.ndarray:
    """Return a box as ingestion stores it."""
    xywh = np.array(box, np.float32)
    return np.concatenate((xywh[:2], xywh[:2] + xywh[2:]))


def _integer(value: Any) -> int | None:
    """Read an integer as ingestion does, from a string too."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def join_headers(headers: Sequence[Mapping[str, Any]]) -> Json:
    """Join the headers of several files: lists are united, of all else the first holds."""
    joined: Json = {}
    for header in headers:
        for name, value in header.items():
            own = joined.get(name)
            if isinstance(own, list) and isinstance(value, list):
                known = cast("list[Any]", own)
                joined[name] = [*known, *(one for one in value if one not in known)]
            else:
                joined.setdefault(name, value)
    return joined


@dataclass(frozen=True, slots=True)
class Categories:
    """The categories of an export, and the number that each class has in it.

    Attributes:
        listed: The categories.
        numbers: The number of each class, by code.
        gone: Numbers of the classes that the file listed once, and lists no more.
    """

    listed: Sequence[Json]
    numbers: Mapping[int, int]
    gone: frozenset[int]

    @classmethod
    def of(
        cls, label: ClassLabel, listed: Any, posed: Json, names: Mapping[int, str]
    ) -> Categories:
        """Give each class the category that the file had of it, or the next number.

        Args:
            label: The classes.
            listed: The file's list of categories, if it is one.
            posed: Members of a category that the file does not have.
            names: The name in the file, by code, of each class that came from it.
        """
        known: dict[int, Json] = {}
        for one in cast("list[Any]", listed) if isinstance(listed, list) else []:
            if isinstance(one, dict):
                own = cast("Json", one)
                number = _integer(own.get("id"))
                if number is not None:
                    known.setdefault(number, own)
        by_name = {str(one.get("name")): number for number, one in reversed(known.items())}
        in_order = sorted(known)
        numbers: dict[int, int] = {}
        made: dict[int, Json] = {}
        gone: set[int] = set()
        following = max(known, default=0) + 1
        for code, name in enumerate(label.names):
            if not name:
                continue
            number = by_name.get(names.get(code, name))
            if number is None and code not in names and code < len(in_order):
                # Of a dataset that does not know its file, the class was renamed
                number = in_order[code]
                if str(known[number].get("name")) in label.names:
                    number = None
            if number is None:
                number, following = following, following + 1
                made[number] = {"id": number, "name": name, **posed}
                gone |= {number} if code in names else set()
            elif str(known[number].get("name")) == name:
                made[number] = known[number]
            else:
                made[number] = {**known[number], "name": name}
            numbers[code] = number
        order = [*known, *(number for number in made if number not in known)]
        return cls([made[one] for one in order if one in made], numbers, frozenset(gone))

    def used_by(self, annotations: Sequence[Json]) -> list[Json]:
        """Return the categories, without those that are gone and that no annotation has."""
        unused = self.gone - {one.get("category_id") for one in annotations}
        return [one for one in self.listed if one["id"] not in unused]
