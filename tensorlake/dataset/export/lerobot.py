"""LeRobot datasets, version 3: a folder of the steps of episodes, and of their videos.

    meta/info.json, stats.json, tasks.parquet, episodes/chunk-000/file-000.parquet
    data/chunk-000/file-000.parquet                 a row group per episode
    videos/CAMERA/chunk-000/file-000.mp4            a file per episode and camera

The format: https://huggingface.co/docs/lerobot/lerobot-dataset-v3. Steps are numbered again: those
of an episode follow each other in the order of the rows, at equal distances in time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.files import new_folder, tensor_columns
from tensorlake.dataset.export.headers import read_headers
from tensorlake.dataset.export.statistics import Statistics, pixel_sample
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.types import (
    ClassLabel,
    Image,
    Json,
    SampleType,
    Text,
    Timestamp,
    VideoCodec,
    encode_frames,
    untiled,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_lerobot"]

Arrow = Any  # pyarrow ships no types

VERSION = "v3.0"
FILES_IN_CHUNK = 1000
DATA_FILE_NBYTES = 100_000_000
VIDEO_FILE_MEGABYTES = 200
"""The size up to which the library fills a file when it records."""

CODECS = ("h264", "av1")
"""Codecs in MP4."""

GROUP = 2
"""Frames from a key frame to the next, as the library encodes: a window starts anywhere."""

STEPS_AT_ONCE = 64
"""Frames in memory while a video is encoded."""

_NUMBERED = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
"""Features that every dataset has; made here."""

_TASK_INDEX = {
    "index_columns": ["task"],
    "column_indexes": [],
    "columns": [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": own, "metadata": None}
        for name, kind, own in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ],
    "pandas_version": "2.0.0",
}
"""By which pandas makes the texts of tasks the index, as the library expects."""

_STEP, _TIME, _TASK = "t", "timestamp", "task"
_NEXT = frozenset(("reward", "done", "success", "terminated", "truncated"))


@dataclass(frozen=True, slots=True)
class _Column:
    """A tensor, and the feature that it becomes."""

    tensor: str
    type: SampleType
    name: str
    dtype: str
    shape: tuple[int, ...]
    names: Any

    @property
    def is_camera(self) -> bool:
        return self.dtype == "video"

    def described(self) -> dict[str, Any]:
        names = ["height", "width", "channels"] if self.is_camera else self.names
        return {"dtype": self.dtype, "shape": [*self.shape], "names": names}


@dataclass(frozen=True, slots=True)
class _Episode:
    """The positions of an episode's steps in the view, and where they begin in the folder."""

    number: int
    positions: np.ndarray
    start: int


def to_lerobot(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    episode: str,
    fps: float | None,
    codec: VideoCodec,
    overwrite: bool,
) -> None:
    """Write rows into a LeRobot dataset."""
    types = tensor_columns(view, columns, call="to_lerobot()")
    headers = read_headers(view, "lerobot")
    header = headers[-1] if headers else {}
    rate = header.get("fps") if fps is None else fps
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        raise InvalidInputError(
            f"fps is the number of steps per second, got {shown(fps)}"
            "\ngive it: to_lerobot(path, fps=10)",
            argument="fps",
            actual=fps,
        )
    episodes = _episodes(view, episode)
    tasks = _tasks(view, types, episodes)
    used = {episode, _STEP, _TIME, _TASK}
    known = header.get("features", {})
    if codec not in CODECS:
        message = f"codec={shown(codec)}: give one of {', '.join(map(repr, CODECS))}"
        raise InvalidInputError(message, argument="codec", actual=codec)
    if not episodes:
        raise InvalidInputError("to_lerobot() has no rows to write, and LeRobot reads no empty set")
    written = [
        _column(view, name, untiled(one), known.get(name, {}), len([*_cameras(types)]))
        for name, one in types.items()
        if name not in used
    ]
    repeated = {one.name for one in written if [own.name for own in written].count(one.name) > 1}
    if repeated:
        raise InvalidInputError(
            f"two tensors would be the feature {min(repeated)!r}\nrename one, or leave it out:"
            " columns=[…]"
        )
    with new_folder(dst, overwrite=overwrite) as folder:
        rows = [*_write_videos(view, folder, written, episodes, float(rate), codec)]
        statistics = _write_steps(view, folder, written, episodes, float(rate), tasks, rows)
        _write_metadata(folder, written, episodes, float(rate), header, tasks, rows, statistics)


def _cameras(types: Mapping[str, SampleType]) -> Iterator[str]:
    return (name for name, one in types.items() if isinstance(untiled(one), Image))


def _episodes(view: RowSet, name: str) -> list[_Episode]:
    """Group the rows by episode, in the order of their first steps."""
    if name not in view.schema:
        known = ", ".join(view.schema)
        raise InvalidInputError(
            f"there is no tensor {name!r}, whose value is a step's episode"
            f"\nname it: to_lerobot(path, episode=…); tensors: {known}",
            argument="episode",
            actual=name,
        )
    kind = view.schema[name]
    if kind.shape or not (isinstance(kind, Text | ClassLabel) or _is_whole(kind)):
        message = f"{name!r} is {kind.describe()}; an episode is an integer, a class or a text"
        raise InvalidInputError(message, argument="episode", actual=name)
    if not len(view):
        return []
    column = view.read(name)
    values = np.asarray(kind.present(column, tensor=name))
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    order = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[order])) + 1
    parts = np.split(order, cuts)
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return [
        _Episode(number, part, int(start))
        for number, (part, start) in enumerate(zip(parts, starts, strict=True))
    ]


def _is_whole(kind: SampleType) -> bool:
    return kind.dtype is not None and kind.dtype.kind in "iu" and not kind.is_media


def _tasks(
    view: RowSet, types: Mapping[str, SampleType], episodes: Sequence[_Episode]
) -> tuple[list[str], np.ndarray]:
    """Return the texts of tasks in order of appearance, and the number of each row's."""
    kind = types.get(_TASK)
    count = sum(len(one.positions) for one in episodes)
    if kind is None:
        return ["step"], np.zeros(count, np.int64)
    column = view.read(_TASK)
    texts = [str(one) for one in kind.present(column, tensor=_TASK)]
    order = dict.fromkeys(texts[at] for one in episodes for at in one.positions.tolist())
    numbers = {text: number for number, text in enumerate(order)}
    return [*order], np.array([numbers[one] for one in texts], np.int64)


def _column(
    view: RowSet, tensor: str, kind: SampleType, known: Mapping[str, Any], cameras: int
) -> _Column:
    """Return the feature of a tensor: as it was ingested, or else named as the library names it."""
    name = str(known.get("name") or _feature_name(tensor, kind, cameras))
    if isinstance(kind, Image):
        first = np.asarray(_pixels(view, tensor, kind, np.array([0]))[0])
        height, width, channels = (*first.shape, 1)[:3]
        if channels not in {1, 3, 4} or first.dtype != np.uint8:
            raise _unsupported(tensor, kind)
        return _Column(tensor, kind, name, "video", (height, width, 3), None)
    names = known.get("names")
    if isinstance(kind, Text):
        return _Column(tensor, kind, name, "string", (1,), names)
    if isinstance(kind, ClassLabel) and not kind.is_many:
        return _Column(tensor, kind, name, "string", (1,), names)
    is_plain = kind.dtype is not None and kind.dtype.kind in "biuf" and not kind.is_media
    if (
        not is_plain
        or isinstance(kind, Json | Timestamp)
        or None in kind.shape
        or kind.dtype is None
    ):
        raise _unsupported(tensor, kind)
    shape = tuple(one or 0 for one in kind.shape) or (1,)
    return _Column(tensor, kind, name, kind.dtype.name, shape, names)


def _feature_name(tensor: str, kind: SampleType, cameras: int) -> str:
    """Return the library's name of a tensor; features have no "/"."""
    own = tensor.replace("/", ".")
    if isinstance(kind, Image):
        own = own.removeprefix("frame.")
        single = "observation.image" if cameras == 1 and own == "frame" else ""
        return single or f"observation.images.{own}"
    if own == "action" or own.startswith(("observation.", "action.", "next.")):
        return own
    return f"next.{own}" if own in _NEXT else f"observation.{own}"


def _unsupported(tensor: str, kind: SampleType) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"LeRobot does not support {tensor!r} ({kind.describe()}): a feature is a number, text, an"
        " array of one shape, or an image of 8 bits\nleave it out: columns=[…]",
        tensor=tensor,
    )


def _values(view: RowSet, column: _Column, positions: np.ndarray) -> Any:
    """Read values of steps: an array, or a list of texts."""
    read = view.read(column.tensor, positions)
    if column.dtype == "string":
        return [str(one) for one in column.type.present(read, tensor=column.tensor)]
    return np.asarray(column.type.present(read, tensor=column.tensor))


def _pixels(view: RowSet, tensor: str, kind: SampleType, positions: np.ndarray) -> list[np.ndarray]:
    """Read frames, uint8 (height, width, 3)."""
    read = view.read(tensor, positions)
    frames: list[np.ndarray] = []
    for at, row in enumerate(positions.tolist()):
        pixels = kind.present_one(read, at)
        if pixels is None:
            raise InvalidInputError(
                f"row {row} of {tensor!r} is NULL, and a video has a frame for each step"
                f'\nwrite rows that have it: ds.where("{tensor} IS NOT NULL")',
                tensor=tensor,
                row=row,
            )
        frames.append(pixels)
    return frames


def _rgb(pixels: np.ndarray) -> np.ndarray:
    """Return an image with three channels: grey in each, or without its transparency."""
    if pixels.ndim == 2 or pixels.shape[2] == 1:  # noqa: PLR2004 - an axis of channels or none
        return np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)
    return pixels[:, :, :3]


def _write_videos(
    view: RowSet,
    folder: Path,
    columns: Sequence[_Column],
    episodes: Sequence[_Episode],
    fps: float,
    codec: VideoCodec,
) -> Iterator[dict[str, Any]]:
    """Write the videos of each episode; yield what its row of metadata has of them."""
    for episode in episodes:
        chunk, file = divmod(episode.number, FILES_IN_CHUNK)
        row: dict[str, Any] = {}
        for column in (one for one in columns if one.is_camera):
            place = f"videos/{column.name}"
            path = folder / place / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            sampled = Statistics.of_images()
            frames = _frames(view, column, episode.positions, sampled)
            try:
                path.write_bytes(encode_frames(frames, fps, codec, group=GROUP))
            except ValueError as error:
                if isinstance(error, InvalidInputError):
                    raise
                what = f"the frames {column.tensor!r} of episode {episode.number}"
                raise InvalidInputError(f"{what}: {error}", tensor=column.tensor) from error
            row |= {
                f"{place}/chunk_index": chunk,
                f"{place}/file_index": file,
                f"{place}/from_timestamp": 0.0,
                f"{place}/to_timestamp": len(episode.positions) / fps,
            }
            row[f"stats/{column.name}"] = sampled
        yield row


def _frames(
    view: RowSet, column: _Column, positions: np.ndarray, sampled: Statistics
) -> Iterator[np.ndarray]:
    """Read the frames of an episode, and count the pixels of some."""
    chosen = {*pixel_sample(len(positions))}
    for start in range(0, len(positions), STEPS_AT_ONCE):
        some = positions[start : start + STEPS_AT_ONCE]
        for at, pixels in enumerate(_pixels(view, column.tensor, column.type, some), start=start):
            rgb = _rgb(pixels)
            if at in chosen:
                sampled.add_image(rgb)
            yield rgb


def _write_steps(
    view: RowSet,
    folder: Path,
    columns: Sequence[_Column],
    episodes: Sequence[_Episode],
    fps: float,
    tasks: tuple[list[str], np.ndarray],
    rows: Sequence[dict[str, Any]],
) -> dict[str, Statistics]:
    """Write the files of steps, and add to each episode's row what it has of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole: dict[str, Statistics] = {}
    writer, file, nbytes = None, -1, DATA_FILE_NBYTES
    try:
        for episode, row in zip(episodes, rows, strict=True):
            count = len(episode.positions)
            steps = np.arange(count)
            numbers = {
                "timestamp": (steps / fps).astype(np.float32),
                "frame_index": steps,
                "episode_index": np.full(count, episode.number),
                "index": episode.start + steps,
                "task_index": tasks[1][episode.positions],
            }
            values = {
                one.name: _values(view, one, episode.positions)
                for one in columns
                if not one.is_camera
            } | numbers
            schema = pa.schema([_field(name, one) for name, one in values.items()])
            arrays = [
                _arrow(one, field.type) for one, field in zip(values.values(), schema, strict=True)
            ]
            table = pa.table(arrays, schema=schema)
            if nbytes >= DATA_FILE_NBYTES:
                if writer is not None:
                    writer.close()
                file, nbytes = file + 1, 0
                path = (
                    folder
                    / "data"
                    / "chunk-{:03d}/file-{:03d}.parquet".format(*divmod(file, FILES_IN_CHUNK))
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(path, schema)
            assert writer is not None
            writer.write_table(table, row_group_size=max(1, count))
            nbytes += table.nbytes
            row["data/chunk_index"], row["data/file_index"] = divmod(file, FILES_IN_CHUNK)
            for name, one in values.items():
                if isinstance(one, np.ndarray):
                    row[f"stats/{name}"] = own = Statistics.of_values(one)
                    whole.setdefault(name, Statistics.like(own)).merge(own)
            for name, own in [*row.items()]:
                if isinstance(own, Statistics) and own.is_of_images:
                    whole.setdefault(name.removeprefix("stats/"), Statistics.like(own)).merge(own)
    finally:
        if writer is not None:
            writer.close()
    return whole


def _field(name: str, values: Any) -> Arrow:
    import pyarrow as pa

    if not isinstance(values, np.ndarray):
        return pa.field(name, pa.string())
    kind = pa.from_numpy_dtype(values.dtype)
    for length in reversed(values.shape[1:]):
        kind = pa.list_(kind, length) if values.ndim == 2 else pa.list_(kind)  # noqa: PLR2004 - of one axis
    return pa.field(name, kind)


def _arrow(values: Any, kind: Arrow) -> Arrow:
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.ndim > 1:
        return pa.array(values.tolist(), kind)
    return pa.array(values, kind)


def _write_metadata(
    folder: Path,
    columns: Sequence[_Column],
    episodes: Sequence[_Episode],
    fps: float,
    header: Mapping[str, Any],
    tasks: tuple[list[str], np.ndarray],
    rows: Sequence[dict[str, Any]],
    statistics: Mapping[str, Statistics],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    meta = folder / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    made: list[dict[str, Any]] = []
    for episode, row in zip(episodes, rows, strict=True):
        numbers = dict.fromkeys(tasks[1][episode.positions].tolist())
        own: dict[str, Any] = {
            "episode_index": episode.number,
            "tasks": [tasks[0][one] for one in numbers],
            "length": len(episode.positions),
            "dataset_from_index": episode.start,
            "dataset_to_index": episode.start + len(episode.positions),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name, value in row.items():
            if isinstance(value, Statistics):
                own |= {f"{name}/{what}": one for what, one in value.described().items()}
            else:
                own[name] = value
        made.append(own)
    pq.write_table(pa.Table.from_pylist(made), meta / "episodes" / "chunk-000" / "file-000.parquet")
    texts = pa.table({"task_index": range(len(tasks[0])), "task": tasks[0]})
    texts = texts.replace_schema_metadata({"pandas": json.dumps(_TASK_INDEX)})
    pq.write_table(texts, meta / "tasks.parquet")
    count = episodes[-1].start + len(episodes[-1].positions)
    has_videos = any(one.is_camera for one in columns)
    features = {one.name: one.described() for one in columns}
    for name, dtype in _NUMBERED.items():
        features[name] = {"dtype": dtype, "shape": [1], "names": None}
    info = {
        "codebase_version": VERSION,
        "robot_type": header.get("robot_type"),
        "total_episodes": len(episodes),
        "total_frames": count,
        "total_tasks": len(tasks[0]),
        "chunks_size": FILES_IN_CHUNK,
        "data_files_size_in_mb": DATA_FILE_NBYTES // 1_000_000,
        "video_files_size_in_mb": VIDEO_FILE_MEGABYTES,
        "fps": int(fps) if fps == int(fps) else fps,
        "splits": {"train": f"0:{len(episodes)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if has_videos
        else None,
        "features": features,
    }
    (meta / "info.json").write_text(json.dumps(info, indent=4, ensure_ascii=False))
    described = {name: one.described() for name, one in statistics.items()}
    (meta / "stats.json").write_text(json.dumps(described, indent=4))
