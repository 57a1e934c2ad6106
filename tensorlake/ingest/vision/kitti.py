"""KITTI's objects: ``image_2``, ``label_2``, ``calib`` and ``velodyne``, a file of each per frame.

A line of a label is an object (https://www.cvlibs.net/datasets/kitti, "object development kit"):

    type truncated occluded alpha · left top right bottom · height width length · x y z · rotation_y

with a score as the last field in results. Boxes are in pixels; places are in metres, of the middle
of the bottom of an object, in the coordinates of the rectified camera.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Unpack

import msgspec
import numpy as np
from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import IMAGE_ENDINGS, Dataset, SkippedItem, codec_of_files
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.vision.boxes import box_problem
from tensorlake.storage import public_url
from tensorlake.types import Array, BBox, ClassLabel, Image, Json, PointCloud, StoredJson, Text

__all__ = ["kitti"]

_IMAGES, _LABELS, _CALIB, _POINTS = "image_2", "label_2", "calib", "velodyne"
_FIELDS = 15  # a 16th is the score
_TEXT_NBYTES_MAX = 1 << 20
"""Size of a label or calibration file."""

_NUMBERS = {
    "truncated": slice(0, 1),
    "occluded": slice(1, 2),
    "alpha": slice(2, 3),
    "boxes": slice(3, 7),
    "dimensions": slice(7, 10),
    "location": slice(10, 13),
    "rotation_y": slice(13, 14),
    "score": slice(14, 15),
}
"""Where each tensor is among the numbers of an object."""


@dataclass(frozen=True, slots=True)
class _Objects:
    """The objects of a frame: their types, and float64 (objects, 15); NaN for no score."""

    types: tuple[str, ...]
    numbers: np.ndarray


@dataclass(frozen=True, slots=True)
class _Frame:
    name: str
    path: str
    nbytes: int
    split: str
    objects: _Objects
    calibration: bytes | None
    points: str | None
    stamp: object


@shows_options
def kitti(
    src: str | PathLike[str], dst: str | PathLike[str], **options: Unpack[IngestOptions]
) -> Dataset:
    """Ingest KITTI's object detection folders: images with boxes, and points if there are any.

    Makes ``image``, ``boxes`` (xyxy), ``label`` (one class per box, ``DontCare`` among them),
    ``truncated``, ``occluded``, ``alpha``, ``dimensions`` (height, width, length in metres),
    ``location`` (x, y, z in the camera's coordinates) and ``rotation_y`` (radians) per box;
    ``score`` where labels have one, ``calib`` (matrices by name, as JSON) and ``points`` (x, y, z,
    intensity) where their folders are, ``split`` where there are several folders, and
    ``file_name``. Rows are sorted by name.

    Args:
        src: The folder of ``image_2`` and ``label_2``, or of ``training`` and ``testing``, which
            have these folders; or its URL in a store.
        dst: Path or URL of the dataset.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no images, or a line of a label or calibration is not KITTI's;
            the message names the file and the line.

    Example:
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> for folder in ("image_2", "label_2"):
        ...     Path("kitti/training", folder).mkdir(parents=True)
        >>> PIL.Image.new("RGB", (8, 6)).save("kitti/training/image_2/000000.png")
        >>> _ = Path("kitti/training/label_2/000000.txt").write_text(
        ...     "Car 0.00 0 1.5 1.0 2.0 5.0 5.0 1.6 1.7 4.0 1.0 1.5 20.0 1.6")
        >>> ds = tl.ingest.kitti("kitti", "memory://doc-kitti")
        >>> ds[0]["label"].as_names(), ds[0]["boxes"].tolist()
        (['Car'], [[1.0, 2.0, 5.0, 5.0]])
    """
    root = source_path(src)
    files = SourceFiles(options.get("storage_options"))
    is_strict = options.get("on_error", "raise") == "raise"
    left_out: list[SkippedItem] = []
    frames = _frames(root, files, None if is_strict else left_out)
    splits = sorted({frame.split for frame in frames})
    absent = [
        name
        for name, is_there in {
            "split": splits != [""],
            "calib": any(frame.calibration for frame in frames),
            "points": any(frame.points for frame in frames),
            "score": any(not np.isnan(frame.objects.numbers[:, 14]).all() for frame in frames),
        }.items()
        if not is_there
    ]
    schema: dict[str, Any] = {
        "image": Image(codec_of_files(frame.path for frame in frames)),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(
            sorted({one for frame in frames for one in frame.objects.types}), per="boxes"
        ),
        "truncated": Array("float32", (None,)),
        "occluded": Array("int8", (None,)),
        "alpha": Array("float32", (None,)),
        "dimensions": Array("float32", (None, 3)),
        "location": Array("float32", (None, 3)),
        "rotation_y": Array("float32", (None,)),
        "score": Array("float32", (None,)),
        "calib": Json(nullable=True),
        "points": PointCloud(("x", "y", "z", "intensity"), raw="float32", nullable=True),
        "split": ClassLabel([one or "." for one in splits]),
        "file_name": Text(),
    }
    read = files.reader(root)

    def load(batch: Sequence[_Frame]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "image": read([one.path for one in batch], [one.nbytes for one in batch]),
            "label": [[*one.objects.types] for one in batch],
            "calib": [one.calibration and StoredJson(one.calibration) for one in batch],
            "points": _points(files, batch),
            "split": [one.split or "." for one in batch],
            "file_name": [one.name for one in batch],
        }
        for name, where in _NUMBERS.items():
            parts = [one.objects.numbers[:, where] for one in batch]
            is_single = where.stop - where.start == 1
            dtype = np.int8 if name == "occluded" else np.float32
            columns[name] = [(one[:, 0] if is_single else one).astype(dtype) for one in parts]
        return columns

    source = Source(
        kind="kitti",
        schema=schema,
        items=frames,
        sizes=[frame.nbytes for frame in frames],
        name=lambda frame: frame.name,
        load=load,
        place=Path(public_url(root)).name,
        where=full_place(root),
        names_classes=True,
        left_out=left_out,
        stamp=lambda frame: frame.stamp,
        file=lambda frame: frame.name,
        optional=absent,
        absent=absent,
        unit="image",
    )
    return run_ingest(source, dst, **options)


def _points(files: SourceFiles, batch: Sequence[_Frame]) -> list[bytes | None]:
    read = iter(files.contents([one.points for one in batch if one.points]))
    return [next(read) if one.points else None for one in batch]


def _frames(root: str, files: SourceFiles, left_out: list[SkippedItem] | None) -> list[_Frame]:
    """Return the frames; those with invalid labels are errors, or ``left_out``."""
    shown = public_url(root)
    sizes = {
        PurePath(path[len(root) :].lstrip("/\\")).as_posix(): (path, nbytes)
        for path, nbytes in files.below(root).items()
    }
    names = sorted(
        name
        for name in sizes
        if PurePath(name).parent.name == _IMAGES and PurePath(name).suffix.lower() in IMAGE_ENDINGS
    )
    if not names:
        message = f"no images in a folder {_IMAGES!r} of {shown!r}\ngive the folder that has it"
        raise InvalidInputError(message, src=shown)
    labels = _contents(names, _LABELS, sizes, files)
    calibrations = _contents(names, _CALIB, sizes, files)
    frames: list[_Frame] = []
    for name in names:
        path, nbytes = sizes[name]
        points, _ = sizes.get(_beside(name, _POINTS, ".bin"), (None, 0))
        try:
            objects = _objects(labels.get(name), _beside(name, _LABELS, ".txt"))
            matrices = _matrices(calibrations.get(name), _beside(name, _CALIB, ".txt"))
        except InvalidInputError as error:
            if left_out is None:
                raise
            left_out.append(SkippedItem(name, error.message.splitlines()[0]))
            continue
        own = [one and xxh3_64_hexdigest(one) for one in (labels.get(name), matrices)]
        stamp = (files.stamp(path), points and files.stamp(points), own)
        split = PurePath(name).parent.parent.as_posix().removeprefix(".")
        frames.append(_Frame(name, path, nbytes, split, objects, matrices, points, stamp))
    if not frames:
        raise no_rows("kitti", left_out or ())
    return frames


def _beside(name: str, folder: str, ending: str) -> str:
    """Return the file of a frame in another folder."""
    image = PurePath(name)
    return (image.parent.parent / folder / f"{image.stem}{ending}").as_posix()


def _contents(
    names: Sequence[str], folder: str, sizes: Mapping[str, tuple[str, int]], files: SourceFiles
) -> dict[str, bytes]:
    """Read the small files of a folder, by the names of their images."""
    places = {name: sizes.get(_beside(name, folder, ".txt")) for name in names}
    there = {name: one for name, one in places.items() if one is not None}
    for name, (path, nbytes) in there.items():
        if nbytes > _TEXT_NBYTES_MAX:
            message = f"{public_url(path)!r} has {nbytes:,} bytes: it is not KITTI's"
            raise InvalidInputError(message, item=name)
    read = files.contents([path for path, _ in there.values()])
    return {name: bytes(one or b"") for name, one in zip(there, read, strict=True)}


def _lines(content: bytes | None, name: str) -> list[tuple[int, str]]:
    try:
        lines = (content or b"").decode().splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{name!r} is not text: {error}", item=name) from error
    return [(number, one) for number, one in enumerate(lines, start=1) if one.strip()]


def _objects(content: bytes | None, name: str) -> _Objects:
    types: list[str] = []
    rows: list[list[float]] = []
    for number, line in _lines(content, name):
        kind, *fields = line.split()
        try:
            numbers = [float(one) for one in fields]
            _check(numbers)
        except ValueError as error:
            message = f"line {number} of {name!r} is not an object of KITTI: {error}"
            raise InvalidInputError(message, item=name) from error
        types.append(kind)
        rows.append([*numbers, np.nan][:_FIELDS])
    return _Objects(tuple(types), np.array(rows, np.float64).reshape(-1, _FIELDS))


def _check(numbers: Sequence[float]) -> None:
    """Refuse numbers that are not those of an object; ValueError with the reason."""
    if len(numbers) not in {_FIELDS - 1, _FIELDS}:
        raise ValueError(f"it has {len(numbers) + 1} fields, not {_FIELDS} or {_FIELDS + 1}")
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(np.array(numbers, np.float32)).all()
    if not is_finite:
        raise ValueError("it has a number that float32 cannot hold")
    if numbers[1] not in {-1, 0, 1, 2, 3}:
        raise ValueError(f"occluded is {numbers[1]:g}, not -1, 0, 1, 2 or 3")
    problem = box_problem(numbers[3:7], (0, 0))
    if problem is not None:
        raise ValueError(f"its box is {[*numbers[3:7]]}, {problem}")


def _matrices(content: bytes | None, name: str) -> bytes | None:
    """Return a calibration as JSON: numbers by the name of the matrix."""
    if content is None:
        return None
    made: dict[str, list[float]] = {}
    for number, line in _lines(content, name):
        key, colon, rest = line.partition(":")
        try:
            values = [float(one) for one in rest.split()]
        except ValueError as error:
            message = f"line {number} of {name!r} has what is not a number: {error}"
            raise InvalidInputError(message, item=name) from error
        if not colon or not np.isfinite(values).all():
            message = f"line {number} of {name!r} is not 'NAME: numbers'"
            raise InvalidInputError(message, item=name)
        made[key.strip()] = values
    return msgspec.json.encode(made, order="sorted")
