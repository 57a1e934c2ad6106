"""Records of a COCO file: typed, and as the text that is kept beside the tensors made of it.

    records   {"annotations": […], "image": {…}}     of each image, as canonical JSON
    header    {"categories": […], "info": {…}, …}    every member but images and annotations

A record has all members, those unknown here too, so that an export restores the file. Members with
a number that JSON cannot represent (Python writes NaN) are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import msgspec
from xxhash import xxh3_64_hexdigest

__all__ = [
    "Annotation",
    "Category",
    "CocoImage",
    "Records",
    "canonical_record",
    "digest_record",
    "read_records",
]

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
UInt8 = Annotated[int, msgspec.Meta(ge=0, le=255)]
Side = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Box = tuple[float, float, float, float]
NOTHING = msgspec.Raw(b"null")
_LISTS = ("images", "annotations")
_NOTHING = object()


class CocoImage(msgspec.Struct, frozen=True, gc=False):
    """An image that the file lists; gc=False: JSON has no cycles."""

    id: Int64
    file_name: str
    height: Side = 0
    width: Side = 0


class Annotation(msgspec.Struct, frozen=True, gc=False):
    """An object of an image, or a caption; missing members are UNSET, None or 0."""

    image_id: Int64
    id: Int64 = 0
    category_id: Int64 | None = None
    bbox: Box | msgspec.UnsetType = msgspec.UNSET
    area: float | None = None  # unknown; never guessed from the box
    iscrowd: UInt8 | bool = 0
    segmentation: msgspec.Raw = NOTHING  # JSON that is parsed where masks are filled
    keypoints: list[float] | None = None
    caption: str | None = None
    segments_info: Any = None


class Category(msgspec.Struct, frozen=True, gc=False):
    """A class, with the names of its points."""

    id: Int64
    name: Any
    keypoints: list[str] | None = None
    skeleton: list[tuple[int, int]] | None = None


class _Members(msgspec.Struct, frozen=True):
    """A record whose members are text."""

    annotations: list[dict[str, msgspec.Raw]]
    image: dict[str, msgspec.Raw]


_OF_MEMBERS = msgspec.json.Decoder(_Members)


@dataclass(frozen=True, slots=True)
class Records:
    """The text of a file's images and annotations, in its order, and its other members."""

    header: Mapping[str, Any]
    images: Sequence[msgspec.Raw]
    annotations: Sequence[msgspec.Raw]


def read_records(content: bytes) -> Records:
    """Split a file that is known to be JSON with lists of images and annotations.

    Raises:
        ValueError: It has text that is not Unicode.
    """
    try:
        members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        content.decode()  # members that are not parsed may be anything
    except msgspec.DecodeError:  # Python's NaN, or UTF-16
        finite = msgspec.json.encode(_finite(json.loads(content)))
        members = msgspec.json.decode(finite, type=dict[str, msgspec.Raw])
    images, annotations = (
        msgspec.json.decode(members[name], type=list[msgspec.Raw]) for name in _LISTS
    )
    header = {name: _decoded(raw) for name, raw in members.items() if name not in _LISTS}
    return Records(header, images, annotations)


def canonical_record(image: msgspec.Raw, annotations: Sequence[msgspec.Raw]) -> bytes:
    """Return an image's record, in which spaces and the order of members make no difference.

    >>> canonical_record(msgspec.Raw(b'{"id": 1, "a": 2.50}'), [])
    b'{"annotations":[],"image":{"a":2.50,"id":1}}'

    Raises:
        ValueError: It has text that is not Unicode.
    """
    content = _joined(image, annotations)
    if b"\\" not in content and content.count(b"{") == len(annotations) + 2:
        # Objects of numbers, lists and plain strings: they need not become values, which takes
        # three times as long.
        members = _OF_MEMBERS.decode(content)
        return msgspec.json.format(msgspec.json.encode(members, order="sorted"), indent=-1)
    try:
        return msgspec.json.encode(msgspec.json.decode(content), order="sorted")
    except (msgspec.DecodeError, OverflowError):  # a number that 64 bits cannot hold
        value = _finite(json.loads(content))
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return text.encode()


def digest_record(image: msgspec.Raw, annotations: Sequence[msgspec.Raw], names: str) -> str:
    """Return a digest of an image's record as it is written, spaces included.

    A tenth of the time of a record, and all that a re-run of an unchanged file needs. A file that
    was only formatted anew looks changed, and its rows are compared by value.

    Args:
        image: The image.
        annotations: Its annotations.
        names: The names of their categories, which belong to no record.
    """
    content = _joined(image, annotations)
    return xxh3_64_hexdigest(content + names.encode(errors="surrogatepass"))


def _joined(image: msgspec.Raw, annotations: Sequence[msgspec.Raw]) -> bytes:
    return b'{"annotations":[%b],"image":%b}' % (b",".join(annotations), image)


def _decoded(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return _finite(json.loads(bytes(raw)))


def _finite(value: Any) -> Any:
    """Leave out the members of objects that are, or list, a number that JSON cannot have."""
    if isinstance(value, dict):
        members = {name: _finite(one) for name, one in cast("dict[str, Any]", value).items()}
        return {name: one for name, one in members.items() if one is not _NOTHING}
    if isinstance(value, list):
        items = [_finite(one) for one in cast("list[Any]", value)]
        return _NOTHING if any(one is _NOTHING for one in items) else items
    return _NOTHING if isinstance(value, float) and not math.isfinite(value) else value
