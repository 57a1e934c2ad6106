"""Pascal VOC folders: ``JPEGImages``, ``Annotations`` and ``ImageSets``.

An XML file a picture (http://host.robots.ox.ac.uk/pascal/VOC/voc2012/), with a box an object;
boxes count pixels from 1 and hold their last pixel, so 1 is taken from their first corner.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import FileReader
from tensorlake.dataset.ingest.found_files import local_path
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.run import run_ingest
from tensorlake.dataset.ingest.source import Source
from tensorlake.dataset.schema_inference import PICTURE_ENDINGS
from tensorlake.errors import InvalidInputError
from tensorlake.types import Array, BBox, ClassLabel, Image, SegmentMask

__all__ = ["voc"]

_BORDER = 255  # of segmentations: no class
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    nbytes: int
    objects: tuple[_Object, ...]
    mask: Path | None
    sets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Object:
    name: str
    box: tuple[float, float, float, float]
    flags: tuple[int, int]  # difficult, truncated


def voc(src: str | Path, dst: str | Path, **options: Unpack[IngestOptions]) -> Dataset:
    """Ingest a Pascal VOC folder: pictures with labelled boxes, and segmentations where all have.

    Makes ``image``, ``boxes`` (xyxy), ``label`` (one class a box), ``difficult`` and ``truncated``
    (one a box), ``sets`` (the files of ``ImageSets/Main`` that name the picture), and ``mask``
    where ``SegmentationClass`` has one for every picture. Rows are in the order of the names.

    Args:
        src: The folder that holds ``JPEGImages`` and ``Annotations``.
        dst: Path or URL of the dataset.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: A folder is missing, or an annotation is not VOC's.
    """
    root = local_path(src)
    pictures = _pictures(root)
    names = sorted({one.name for picture in pictures for one in picture.objects})
    has_masks = all(picture.mask is not None for picture in pictures)
    sets = sorted({name for picture in pictures for name in picture.sets})
    schema: dict[str, Any] = {
        "image": Image(PICTURE_ENDINGS[pictures[0].path.suffix.lower()]),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(names, per="boxes"),
        "difficult": Array("uint8", (None,)),
        "truncated": Array("uint8", (None,)),
        "sets": ClassLabel(sets, multi=True),
    }
    if has_masks:
        schema["mask"] = SegmentMask(of="image", ignore=_BORDER)
    files = FileReader()

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        flags = [
            np.array([one.flags for one in picture.objects], np.uint8).reshape(-1, 2)
            for picture in batch
        ]
        columns: dict[str, Any] = {
            "image": files.read([str(one.path) for one in batch], [one.nbytes for one in batch]),
            "boxes": [
                np.array([one.box for one in picture.objects], np.float32).reshape(-1, 4)
                for picture in batch
            ],
            "label": [[one.name for one in picture.objects] for picture in batch],
            "difficult": [each[:, 0] for each in flags],
            "truncated": [each[:, 1] for each in flags],
            "sets": [list(picture.sets) for picture in batch],
        }
        if has_masks:
            columns["mask"] = [picture.mask for picture in batch]
        return columns

    source = Source(
        kind="voc",
        schema=schema,
        items=pictures,
        sizes=[picture.nbytes for picture in pictures],
        name=lambda picture: picture.path.name,
        load=load,
        place=root.name,
    )
    return run_ingest(source, dst, **options)


def _pictures(root: Path) -> list[_Picture]:
    folder = root / "JPEGImages"
    if not folder.is_dir():
        message = f"no folder {str(folder)!r}\ngive the folder that holds JPEGImages"
        raise InvalidInputError(message, src=str(root))
    sets = _read_sets(root / "ImageSets" / "Main")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURE_ENDINGS)
    if not found:
        raise InvalidInputError(f"no picture in {str(folder)!r}", src=str(folder))
    pictures: list[_Picture] = []
    for path in found:
        annotation = root / "Annotations" / f"{path.stem}.xml"
        mask = root / "SegmentationClass" / f"{path.stem}.png"
        pictures.append(
            _Picture(
                path,
                path.stat().st_size,
                _read_objects(annotation) if annotation.exists() else (),
                mask if mask.exists() else None,
                tuple(sorted(name for name, stems in sets.items() if path.stem in stems)),
            )
        )
    return pictures


def _read_sets(folder: Path) -> dict[str, set[str]]:
    """Sets of pictures; the file of a class (``cat_train.txt``) marks with 1 and -1: none."""
    sets: dict[str, set[str]] = {}
    for file in sorted(folder.glob("*.txt")) if folder.is_dir() else []:
        lines = [line.split() for line in file.read_text().splitlines() if line.strip()]
        if all(len(line) == 1 for line in lines):
            sets[file.stem] = {line[0] for line in lines}
    return sets


def _read_objects(file: Path) -> tuple[_Object, ...]:
    content = file.read_bytes()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:  # an entity can stand for gigabytes
        raise InvalidInputError(
            f"{str(file)!r} declares entities, as no VOC file does", src=str(file)
        )
    try:
        root = ET.fromstring(content)  # noqa: S314 - without entities, see above
        return tuple(_read_object(one) for one in root.iter("object"))
    except (ET.ParseError, ValueError) as error:
        raise InvalidInputError(
            f"{str(file)!r} is no VOC annotation: {error}", src=str(file)
        ) from error


def _read_object(element: ET.Element) -> _Object:
    name, box = element.findtext("name"), element.find("bndbox")
    if not name or box is None:
        raise ValueError("an object lacks its name or bndbox")
    corners = [float(box.findtext(corner) or "nan") for corner in _CORNERS]
    if not np.isfinite(corners).all():
        raise ValueError(f"the bndbox of {name!r} lacks a corner")
    left, top, right, bottom = corners
    flags = [int(element.findtext(flag) or 0) for flag in ("difficult", "truncated")]
    return _Object(name, (left - 1, top - 1, right, bottom), (flags[0], flags[1]))
