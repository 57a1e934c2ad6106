"""YOLO folders: ``images/…`` beside ``labels/…``, one text file per image, one line per object.

    detect    class cx cy w h                           relative to the image's size, 0 … 1
    segment   class x y x y x y …
    obb       class x y x y x y x y                     the corners of a rotated box
    pose      class cx cy w h, then x y [visibility] for each point

(https://docs.ultralytics.com/datasets/). Stored values are in pixels; images without a label file
have no objects.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Literal, Unpack, cast

import numpy as np
from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import IMAGE_ENDINGS, Dataset, codec_of_files
from tensorlake.errors import InvalidInputError, missing_extra, shown
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source
from tensorlake.ingest.engine.source_files import SourceFiles, is_url
from tensorlake.ingest.vision.boxes import box_problem
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import BBox, ClassLabel, Image, Keypoints, Polygon, Text

__all__ = ["yolo"]

Task = Literal["detect", "segment", "obb", "pose"]
_OUTLINED = ("segment", "obb")
_BOX = 4
_CORNERS_VALUES = 8
_DETECT_VALUES = 5
_BEYOND_ANY_SHARE = 1.5
_SPLITS = ("train", "val", "test")
_ABOVE = "../"
_ANY_IMAGE = Image("any")


@dataclass(frozen=True, slots=True)
class _ImageFile:
    path: str
    nbytes: int
    labels: str
    split: str
    name: str  # below the split's folder
    stamp: object


@dataclass(frozen=True, slots=True)
class _Layout:
    """The contents of the dataset's YAML file."""

    root: str
    names: Mapping[int, str]  # by the number in its files; codes are in their order
    splits: Mapping[str, tuple[str, ...]]
    points: tuple[int, int] | None


@shows_options
def yolo(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    task: Task | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest a YOLO dataset: images with boxes, polygons or points.

    Makes ``image``, ``boxes`` (xyxy, in pixels), ``label`` (one class per box), ``split`` and
    ``file_name`` (the split, and the path in its folder); "segment" also ``outlines``, and so does
    "obb", as the four corners of rotated boxes; "pose" ``keypoints``.

    Args:
        src: The YAML file, or the folder that holds one, such as ``data.yaml``; or its URL in a
            store.
        dst: Path or URL of the dataset.
        task: Format of the lines; None: "pose" if the YAML file has ``kpt_shape``, otherwise by
            the first line, where "obb" and a "segment" of four points give the same result.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is missing, a line is not of the task, or a box has a negative
            width or height or is outside of its image.

    Example:
        >>> from pathlib import Path
        >>> import PIL.Image
        >>> import tensorlake as tl
        >>> for folder in ("images", "labels"):
        ...     Path(folder).mkdir()
        >>> PIL.Image.new("RGB", (8, 6)).save("images/a.jpg")
        >>> _ = Path("labels/a.txt").write_text("0 0.5 0.5 0.5 1")
        >>> _ = Path("data.yaml").write_text("names: [cat]\ntrain: images")
        >>> tl.ingest.yolo("data.yaml", "memory://doc-yolo")[0]["boxes"].tolist()
        [[2.0, 0.0, 6.0, 6.0]]
    """
    files = SourceFiles(options.get("storage_options"))
    layout = _read_layout(source_path(src), files)
    images = [
        image
        for split, folders in layout.splits.items()
        for folder in dict.fromkeys(folders)
        for image in _image_files(folder, split, files)
    ]
    if not images:
        described = public_url(str(src))
        raise InvalidInputError(f"no images in the folders of {described!r}", src=described)
    kind = task or _guess_task(layout, images, files)
    if kind == "pose" and layout.points is None:
        described = public_url(str(src))
        message = f"{described!r} names no kpt_shape, which task='pose' needs"
        raise InvalidInputError(message, src=described)
    schema: dict[str, Any] = {
        "image": Image(codec_of_files(image.path for image in images)),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(list(layout.names.values()), per="boxes"),
        "split": ClassLabel([*layout.splits]),
        "file_name": Text(),
    }
    if kind in _OUTLINED:
        schema["outlines"] = Polygon(of="image")
    if kind == "pose":
        schema["keypoints"] = Keypoints(of="image")
    read = files.reader(layout.root)
    classes = xxh3_64_hexdigest(
        repr(layout.names).encode()
    )  # a class may get another name or number

    def load(batch: Sequence[_ImageFile]) -> dict[str, Any]:
        contents = read([one.path for one in batch], [one.nbytes for one in batch])
        labels = files.contents([one.labels for one in batch])
        objects = [
            _read_objects(image, content, _lines(image.labels, text), kind, layout)
            for image, content, text in zip(batch, contents, labels, strict=True)
        ]
        columns: dict[str, Any] = {
            "image": contents,
            "boxes": [one.boxes for one in objects],
            "label": [one.names for one in objects],
            "split": [one.split for one in batch],
            "file_name": [_file_name(one) for one in batch],
        }
        if kind in _OUTLINED:
            columns["outlines"] = [one.outlines for one in objects]
        if kind == "pose":
            columns["keypoints"] = [one.points for one in objects]
        return columns

    source = Source(
        kind=f"yolo-{kind}",
        schema=schema,
        items=images,
        sizes=[image.nbytes for image in images],
        name=lambda image: f"{image.split}/{PurePath(image.path).name}",
        load=load,
        place=PurePath(public_url(str(src))).name,
        where=full_place(src),
        stamp=lambda image: (image.stamp, classes),
        file=_file_name,
        optional=("file_name",),
        unit="image",
        names_classes=True,
    )
    return run_ingest(source, dst, **options)


def _file_name(image: _ImageFile) -> str:
    return f"{image.split}/{image.name}"


@dataclass(frozen=True, slots=True)
class _Objects:
    names: list[str]
    boxes: np.ndarray
    outlines: list[np.ndarray]
    points: np.ndarray


def _read_objects(
    image: _ImageFile, content: Any, lines: list[tuple[int, str]], task: Task, layout: _Layout
) -> _Objects:
    try:
        height, width, _ = _ANY_IMAGE.parse_shape(content)
    except ValueError:
        height = width = 1  # the image itself is refused, with its reason, when it is staged
    scale = np.array([width, height], dtype=np.float64)
    count, values_each = layout.points or (0, 3)
    names: list[str] = []
    boxes = np.empty((len(lines), 4), dtype=np.float32)
    outlines: list[np.ndarray] = []
    points = np.zeros((len(lines), count, 3), dtype=np.float32)
    for at, (number, text) in enumerate(lines):
        values = _numbers(text, image.labels, number)
        names.append(_class_name(values[0], layout.names, image.labels, number))
        rest = values[1:]
        if task == "obb" and len(rest) != _CORNERS_VALUES:
            raise _bad_line(image.labels, number, "the corners of a box: class x y x y x y x y")
        if task in _OUTLINED:
            if len(rest) < 6 or len(rest) % 2:  # noqa: PLR2004 - three points
                raise _bad_line(image.labels, number, "an outline: class x y x y x y …")
            _check_shares(rest, image.labels, number)
            outline = rest.reshape(-1, 2) * scale
            outlines.append(outline)
            corners = [*outline.min(axis=0).tolist(), *outline.max(axis=0).tolist()]
            boxes[at] = _checked_box(corners, (width, height), image.labels, number)
            continue
        if len(rest) != _BOX + count * values_each * (task == "pose"):
            raise _bad_line(image.labels, number, f"of task {shown(task)}")
        _check_shares(rest[:_BOX], image.labels, number)
        centre, size = rest[:2] * scale, rest[2:4] * scale
        corners = [*(centre - size / 2).tolist(), *(centre + size / 2).tolist()]
        boxes[at] = _checked_box(corners, (width, height), image.labels, number)
        if task == "pose":
            given = rest[_BOX:].reshape(count, values_each)
            _check_shares(given[:, :2], image.labels, number)
            points[at, :, :2] = given[:, :2] * scale
            points[at, :, 2] = given[:, 2] if values_each > 2 else 2  # noqa: PLR2004 - all are seen
    return _Objects(names, boxes, outlines, points)


def _checked_box(
    corners: list[float], size: tuple[int, int], file: str, number: int
) -> list[float]:
    problem = box_problem(corners, size)
    if problem is not None:
        raise _bad_line(file, number, f"a box of its image: {corners} (xyxy, pixels), {problem}")
    return corners


def _class_name(value: float, names: Mapping[int, str], file: str, number: int) -> str:
    name = names.get(int(value)) if value.is_integer() else None
    if name is None:
        raise _bad_line(file, number, f"of a class {min(names)} … {max(names)} that has a name")
    return name


def _joined(folder: str, name: str) -> str:
    """A path that a file names, from the folder it lies in."""
    if not is_url(folder):
        return os.path.join(folder, name)  # noqa: PTH118 - paths are text here, as URLs are
    if is_url(name):
        return name
    scheme, _, path = folder.partition("://")
    return f"{scheme}://{posixpath.normpath(posixpath.join(path, name))}"


def _folders(root: str, given: Any, files: SourceFiles) -> tuple[str, ...]:
    """The folders of a split, which may be one or a list."""
    names = cast("list[Any]", given) if isinstance(given, list) else [given]
    return tuple(_folder(root, str(one), files) for one in names)


def _folder(root: str, name: str, files: SourceFiles) -> str:
    """Return a folder of images; Roboflow writes ``../train`` for a folder beside the file."""
    folder = _joined(root, name)
    if name.startswith(_ABOVE) and not files.below(folder):
        return _joined(root, name.removeprefix(_ABOVE))
    return folder


def _numbers(text: str, file: str, number: int) -> np.ndarray:
    try:
        numbers = np.array([float(word) for word in text.split()], dtype=np.float64)
    except ValueError as error:
        raise _bad_line(file, number, "of numbers") from error
    if not bool(np.isfinite(numbers).all()):
        raise _bad_line(file, number, "of numbers")
    return numbers


def _check_shares(shares: np.ndarray, file: str, number: int) -> None:
    """Refuse pixels, which would become boxes far outside; rounding may go a little beyond."""
    if bool((np.abs(shares) > _BEYOND_ANY_SHARE).any()):
        raise _bad_line(file, number, "relative to the image's size, 0 … 1")


def _bad_line(file: str, number: int, expected: str) -> InvalidInputError:
    message = f"line {number} of {public_url(file)!r} is not {expected}"
    return InvalidInputError(message, src=public_url(file), line=number)


def _lines(file: str, content: bytes | None) -> list[tuple[int, str]]:
    if content is None:
        return []
    try:
        text = bytes(content).decode()
    except UnicodeDecodeError as error:
        described = public_url(file)
        raise InvalidInputError(f"{described!r} is not text: {error}", src=described) from error
    return [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]


def _guess_task(layout: _Layout, images: Sequence[_ImageFile], files: SourceFiles) -> Task:
    if layout.points is not None:
        return "pose"
    first = next((line for one in images if (line := _first_line(one, files))), None)
    is_box = first is None or len(first.split()) == _DETECT_VALUES
    return "detect" if is_box else "segment"


def _first_line(image: _ImageFile, files: SourceFiles) -> str | None:
    """Return the first line of an image's labels; invalid files are reported later."""
    try:
        lines = _lines(image.labels, *files.contents([image.labels]))
    except InvalidInputError:
        return None
    return lines[0][1] if lines else None


def _image_files(folder: str, split: str, files: SourceFiles) -> list[_ImageFile]:
    """Return the images of a split, sorted by path; labels are found under ``labels``."""
    found = files.below(folder)
    if not found and (is_url(folder) or not Path(folder).is_dir()):
        described = public_url(folder)
        message = f"no folder {described!r}, which the YAML file names as {split!r}"
        raise InvalidInputError(message, src=described)
    if is_url(folder):
        files.list(_labels_of(f"{folder.rstrip('/')}/_.jpg").rpartition("/")[0])  # with their times
    return [
        _image(path, nbytes, folder, split, files)
        for path, nbytes in found.items()
        if PurePath(path).suffix.lower() in IMAGE_ENDINGS
    ]


def _image(path: str, nbytes: int, folder: str, split: str, files: SourceFiles) -> _ImageFile:
    labels = _labels_of(path)
    name = path[len(folder) :].lstrip("/")
    return _ImageFile(path, nbytes, labels, split, name, (files.stamp(path), files.stamp(labels)))


def _labels_of(image: str) -> str:
    separator = "/" if is_url(image) else os.sep
    parts = f"{image.rpartition('.')[0]}.txt".split(separator)
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] == "images":
            parts[at] = "labels"
            break
    return separator.join(parts)


def _yaml_file(src: str, files: SourceFiles) -> str:
    """The file itself, or the only one in the folder."""
    if files.nbytes(src) is not None or not (is_url(src) or Path(src).is_dir()):
        return src
    folder = src.rstrip("/")
    inside = files.list(folder) if is_url(src) else map(str, Path(src).iterdir())
    endings = (".yaml", ".yml")
    at = len(folder) + 1
    found = [path for path in inside if path.endswith(endings) and "/" not in path[at:]]
    if len(found) != 1:
        described = public_url(src)
        many = plural(len(found), "YAML file")
        message = f"{described!r} holds {many}\nname the one to ingest, such as data.yaml"
        raise InvalidInputError(message, src=described)
    return found[0]


def _read_layout(src: str, files: SourceFiles) -> _Layout:
    path = _yaml_file(src, files)
    file = public_url(path)
    try:
        import yaml
    except ImportError as error:
        raise missing_extra("ingesting YOLO datasets", "media") from error
    try:
        (text,) = files.contents([path])
        if text is None:
            raise InvalidInputError(f"no file or folder {file!r} to ingest", src=file)
        content: Any = yaml.safe_load(bytes(text).decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file!r} cannot be read: {error}", src=file) from error
    names: Any = content.get("names") if isinstance(content, dict) else None
    named = _names_by_number(names)
    if not named:
        message = f"{file!r} names no classes\ngive names: [cat, dog], or {{0: cat, 7: dog}}"
        raise InvalidInputError(message, src=file)
    parent = path.rpartition("/")[0] if is_url(path) else os.path.dirname(path)  # noqa: PTH120 - paths are text here, as URLs are
    root = _joined(parent, str(content.get("path") or "."))
    splits = {name: _folders(root, content[name], files) for name in _SPLITS if content.get(name)}
    if not splits:
        message = f"{file!r} has no folder of images as train, val or test"
        raise InvalidInputError(message, src=file)
    shape: Any = content.get("kpt_shape")
    points = None if shape is None else (int(shape[0]), int(shape[1]))
    return _Layout(root, named, splits, points)


def _names_by_number(given: Any) -> dict[int, str]:
    """Class names by the numbers that lines have; none where it is neither list nor mapping."""
    if isinstance(given, list):
        given = dict(enumerate(cast("list[Any]", given)))
    if not isinstance(given, dict):
        return {}
    numbered = cast("dict[Any, Any]", given)
    if not all(isinstance(number, int) and number >= 0 for number in numbered):
        return {}
    return {number: str(name) for number, name in sorted(numbered.items())}
