"""YOLO folders: ``images/…`` beside ``labels/…``, a text file a picture, a line an object.

    detect    class cx cy w h                           of the picture's size, 0 … 1
    segment   class x y x y x y …
    pose      class cx cy w h, then x y [visibility] for each point

(https://docs.ultralytics.com/datasets/). What is stored is in pixels; pictures without a file of
labels have no object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, cast

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import FileReader, unreadable_file
from tensorlake.dataset.ingest.found_files import local_path
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.run import run_ingest
from tensorlake.dataset.ingest.source import Source
from tensorlake.dataset.schema_inference import PICTURE_ENDINGS
from tensorlake.errors import InvalidInputError, missing_extra
from tensorlake.quantities import plural
from tensorlake.types import BBox, ClassLabel, Image, Keypoints, Polygon

__all__ = ["yolo"]

Task = Literal["detect", "segment", "pose"]
_BOX = 4
_DETECT_VALUES = 5
_BEYOND_ANY_SHARE = 1.5
_SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class _Picture:
    path: Path
    nbytes: int
    labels: Path
    split: str


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the dataset's YAML file says."""

    root: Path
    names: tuple[str, ...]
    splits: Mapping[str, tuple[Path, ...]]
    points: tuple[int, int] | None


def yolo(
    src: str | Path,
    dst: str | Path,
    *,
    task: Task | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a YOLO dataset: pictures with boxes, outlines or points.

    Makes ``image``, ``boxes`` (xyxy, in pixels), ``label`` (one class a box) and ``split``; of
    "segment" also ``outlines``, of "pose" ``keypoints``.

    Args:
        src: The YAML file, or the folder that holds one, such as ``data.yaml``.
        dst: Path or URL of the dataset.
        task: What the lines are; None: "pose" where the YAML file has ``kpt_shape``, else by the
            first line.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: A file is missing, or a line is not of the task.
    """
    layout = _read_layout(local_path(src))
    pictures = [
        picture
        for split, folders in layout.splits.items()
        for folder in dict.fromkeys(folders)
        for picture in _pictures(folder, split)
    ]
    if not pictures:
        raise InvalidInputError(f"no picture in the folders of {str(src)!r}", src=str(src))
    kind = task or _guess_task(layout, pictures)
    if kind == "pose" and layout.points is None:
        message = f"{str(src)!r} names no kpt_shape, which task='pose' needs"
        raise InvalidInputError(message, src=str(src))
    schema: dict[str, Any] = {
        "image": Image(PICTURE_ENDINGS[pictures[0].path.suffix.lower()]),
        "boxes": BBox(format="xyxy", of="image"),
        "label": ClassLabel(layout.names, per="boxes"),
        "split": ClassLabel([*layout.splits]),
    }
    if kind == "segment":
        schema["outlines"] = Polygon(of="image")
    if kind == "pose":
        schema["keypoints"] = Keypoints(of="image")
    files = FileReader()

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        contents = files.read([str(one.path) for one in batch], [one.nbytes for one in batch])
        objects = [
            _read_objects(picture, content, kind, layout)
            for picture, content in zip(batch, contents, strict=True)
        ]
        columns: dict[str, Any] = {
            "image": contents,
            "boxes": [one.boxes for one in objects],
            "label": [one.codes for one in objects],
            "split": [one.split for one in batch],
        }
        if kind == "segment":
            columns["outlines"] = [one.outlines for one in objects]
        if kind == "pose":
            columns["keypoints"] = [one.points for one in objects]
        return columns

    source = Source(
        kind=f"yolo-{kind}",
        schema=schema,
        items=pictures,
        sizes=[picture.nbytes for picture in pictures],
        name=lambda picture: f"{picture.split}/{picture.path.name}",
        load=load,
        place=Path(src).name,
    )
    return run_ingest(source, dst, **options)


@dataclass(frozen=True, slots=True)
class _Objects:
    codes: list[int]
    boxes: np.ndarray
    outlines: list[np.ndarray]
    points: np.ndarray


def _read_objects(picture: _Picture, content: Any, task: Task, layout: _Layout) -> _Objects:
    codec = PICTURE_ENDINGS[picture.path.suffix.lower()]
    try:
        height, width, _ = Image(codec).parse_shape(content)
    except ValueError:
        height = width = 1  # the picture itself is refused, with its reason, when it is staged
    lines = _lines(picture.labels)
    scale = np.array([width, height], dtype=np.float64)
    count, values_each = layout.points or (0, 3)
    codes: list[int] = []
    boxes = np.empty((len(lines), 4), dtype=np.float32)
    outlines: list[np.ndarray] = []
    points = np.zeros((len(lines), count, 3), dtype=np.float32)
    for at, (number, text) in enumerate(lines):
        values = _numbers(text, picture.labels, number)
        codes.append(_code(values[0], layout, picture.labels, number))
        rest = values[1:]
        if task == "segment":
            if len(rest) < 6 or len(rest) % 2:  # noqa: PLR2004 - three points
                raise _bad_line(picture.labels, number, "an outline: class x y x y x y …")
            _check_shares(rest, picture.labels, number)
            outline = rest.reshape(-1, 2) * scale
            outlines.append(outline)
            boxes[at] = [*outline.min(axis=0), *outline.max(axis=0)]
            continue
        if len(rest) != _BOX + count * values_each * (task == "pose"):
            raise _bad_line(picture.labels, number, f"of task {task!r}")
        _check_shares(rest[:_BOX], picture.labels, number)
        centre, size = rest[:2] * scale, rest[2:4] * scale
        boxes[at] = [*(centre - size / 2), *(centre + size / 2)]
        if task == "pose":
            given = rest[_BOX:].reshape(count, values_each)
            points[at, :, :2] = given[:, :2] * scale
            points[at, :, 2] = given[:, 2] if values_each > 2 else 2  # noqa: PLR2004 - all are seen
    return _Objects(codes, boxes, outlines, points)


def _code(value: float, layout: _Layout, file: Path, number: int) -> int:
    if not value.is_integer() or not 0 <= value < len(layout.names):
        raise _bad_line(file, number, f"of a class 0 … {len(layout.names) - 1}")
    return int(value)


def _folders(root: Path, given: Any) -> tuple[Path, ...]:
    """The folders of a split, which may be one or a list."""
    return tuple(root / str(one) for one in (given if isinstance(given, list) else [given]))


def _numbers(text: str, file: Path, number: int) -> np.ndarray:
    try:
        numbers = np.array([float(word) for word in text.split()], dtype=np.float64)
    except ValueError as error:
        raise _bad_line(file, number, "of numbers") from error
    if not bool(np.isfinite(numbers).all()):
        raise _bad_line(file, number, "of numbers")
    return numbers


def _check_shares(shares: np.ndarray, file: Path, number: int) -> None:
    """Refuse pixels, which would become boxes far outside; rounding may go a little beyond."""
    if bool((np.abs(shares) > _BEYOND_ANY_SHARE).any()):
        raise _bad_line(file, number, "in shares of the picture's size, 0 … 1")


def _bad_line(file: Path, number: int, expected: str) -> InvalidInputError:
    message = f"line {number} of {str(file)!r} is not {expected}"
    return InvalidInputError(message, src=str(file), line=number)


def _lines(file: Path) -> list[tuple[int, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable_file(str(file), error) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{str(file)!r} is not text: {error}", src=str(file)) from error
    return [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]


def _guess_task(layout: _Layout, pictures: Sequence[_Picture]) -> Task:
    if layout.points is not None:
        return "pose"
    first = next((lines for picture in pictures if (lines := _lines(picture.labels))), None)
    is_box = first is None or len(first[0][1].split()) == _DETECT_VALUES
    return "detect" if is_box else "segment"


def _pictures(folder: Path, split: str) -> list[_Picture]:
    """Pictures of a split, in the order of their paths; ``images`` becomes ``labels`` in theirs."""
    if not folder.is_dir():
        message = f"no folder {str(folder)!r}, which the YAML file names as {split!r}"
        raise InvalidInputError(message, src=str(folder))
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURE_ENDINGS)
    return [_Picture(path, path.stat().st_size, _labels_of(path), split) for path in found]


def _labels_of(picture: Path) -> Path:
    parts = [*picture.with_suffix(".txt").parts]
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] == "images":
            parts[at] = "labels"
            break
    return Path(*parts)


def _read_layout(src: Path) -> _Layout:
    file = src
    if src.is_dir():
        found = sorted([*src.glob("*.yaml"), *src.glob("*.yml")])
        if len(found) != 1:
            many = plural(len(found), "YAML file")
            message = f"{str(src)!r} holds {many}\nname the one to ingest, such as data.yaml"
            raise InvalidInputError(message, src=str(src))
        file = found[0]
    try:
        import yaml
    except ImportError as error:
        raise missing_extra("ingesting YOLO datasets", "media") from error
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        message = f"no file or folder {str(file)!r} to ingest"
        raise InvalidInputError(message, src=str(file)) from error
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{str(file)!r} cannot be read: {error}", src=str(file)) from error
    names: Any = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict):
        ordered = sorted(cast("dict[int, Any]", names).items())
        if [number for number, _ in ordered] != list(range(len(ordered))):
            message = f"{str(file)!r} does not number its classes from 0"
            raise InvalidInputError(message, src=str(file))
        names = [name for _, name in ordered]
    if not isinstance(names, list) or not names:
        message = f"{str(file)!r} names no classes\ngive names: [cat, dog]"
        raise InvalidInputError(message, src=str(file))
    root = file.parent / str(content.get("path") or ".")
    splits = {name: _folders(root, content[name]) for name in _SPLITS if content.get(name)}
    if not splits:
        message = f"{str(file)!r} names no folder of pictures as train, val or test"
        raise InvalidInputError(message, src=str(file))
    shape: Any = content.get("kpt_shape")
    points = None if shape is None else (int(shape[0]), int(shape[1]))
    return _Layout(root, tuple(map(str, cast("list[Any]", names))), splits, points)
