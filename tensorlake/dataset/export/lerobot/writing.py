"""LeRobot datasets, version 3: a folder of the steps of episodes, and of their videos.

    meta/info.json, stats.json, tasks.parquet, episodes/chunk-000/file-000.parquet
    data/chunk-000/file-000.parquet                 a row group per episode
    videos/CAMERA/chunk-000/file-000.mp4            a file per episode and camera

The format: https://huggingface.co/docs/lerobot/lerobot-dataset-v3. Steps are numbered again: those
of an episode follow each other in the order of the rows, at equal distances in time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.destinations import Form, new_folder
from tensorlake.dataset.export.lerobot.statistics import FeatureStatistics, pixel_sample
from tensorlake.dataset.export.lerobot.steps import EpisodeSteps, FeatureColumn, episode_steps
from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import (
    VideoCodec,
    encode_frames,
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

_NUMBER = r"chunk-\d{3,}/file-\d{3,}"
FORM = Form(
    "lerobot",
    re.compile(
        r"meta/(info\.json|stats\.json|tasks\.parquet)"
        rf"|(data|meta/episodes)/{_NUMBER}\.parquet|videos/[^/]+/{_NUMBER}\.mp4"
    ),
)

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
    if not isinstance(codec, str) or codec not in CODECS:  # pyright: ignore[reportUnnecessaryIsInstance] - users'
        message = f"codec={shown(codec)}: give one of {', '.join(map(repr, CODECS))}"
        raise InvalidInputError(message, argument="codec", actual=codec)
    steps = episode_steps(view, columns, episode=episode, fps=fps, call="to_lerobot()")
    if not steps.episodes:
        raise InvalidInputError("to_lerobot() has no rows to write, and LeRobot reads no empty set")
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        rows = [*_write_videos(steps, folder, codec)]
        statistics = _write_steps(steps, folder, rows)
        _write_metadata(steps, folder, rows, statistics)


def _write_videos(steps: EpisodeSteps, folder: Path, codec: VideoCodec) -> Iterator[dict[str, Any]]:
    """Write the videos of each episode; yield what its row of metadata has of them."""
    for episode in steps.episodes:
        chunk, file = divmod(episode.number, FILES_IN_CHUNK)
        row: dict[str, Any] = {}
        for column in steps.cameras:
            place = f"videos/{column.name}"
            path = folder / place / f"chunk-{chunk:03d}" / f"file-{file:03d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            sampled = FeatureStatistics.of_images()
            frames = _frames(steps, column, episode.positions, sampled)
            try:
                path.write_bytes(encode_frames(frames, steps.fps, codec, group=GROUP))
            except ValueError as error:
                if isinstance(error, InvalidInputError):
                    raise
                what = f"the frames {column.tensor!r} of episode {episode.number}"
                raise InvalidInputError(f"{what}: {error}", tensor=column.tensor) from error
            row |= {
                f"{place}/chunk_index": chunk,
                f"{place}/file_index": file,
                f"{place}/from_timestamp": 0.0,
                f"{place}/to_timestamp": len(episode.positions) / steps.fps,
            }
            row[f"stats/{column.name}"] = sampled
        yield row


def _frames(
    steps: EpisodeSteps, column: FeatureColumn, positions: np.ndarray, sampled: FeatureStatistics
) -> Iterator[np.ndarray]:
    """Read the frames of an episode, and count the pixels of some."""
    chosen = {*pixel_sample(len(positions))}
    for start in range(0, len(positions), STEPS_AT_ONCE):
        some = positions[start : start + STEPS_AT_ONCE]
        for at, pixels in enumerate(steps.frames(column, some), start=start):
            if at in chosen:
                sampled.add_image(pixels)
            yield pixels


def _write_steps(
    steps: EpisodeSteps, folder: Path, rows: Sequence[dict[str, Any]]
) -> dict[str, FeatureStatistics]:
    """Write the files of steps, and add to each episode's row what it has of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole: dict[str, FeatureStatistics] = {}
    writer, file, nbytes = None, -1, DATA_FILE_NBYTES
    try:
        for episode, row in zip(steps.episodes, rows, strict=True):
            values: dict[str, Any] = {
                one.name: steps.values(one, episode.positions)
                for one in steps.columns
                if not one.is_camera
            }
            values |= steps.numbers(episode)
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
            writer.write_table(table, row_group_size=len(episode.positions))
            nbytes += table.nbytes
            row["data/chunk_index"], row["data/file_index"] = divmod(file, FILES_IN_CHUNK)
            for name, one in values.items():
                if isinstance(one, np.ndarray):
                    row[f"stats/{name}"] = own = FeatureStatistics.of_values(one)
                    whole.setdefault(name, FeatureStatistics.like(own)).merge(own)
            for name, own in [*row.items()]:
                if isinstance(own, FeatureStatistics) and own.is_of_images:
                    whole.setdefault(
                        name.removeprefix("stats/"), FeatureStatistics.like(own)
                    ).merge(own)
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
    steps: EpisodeSteps,
    folder: Path,
    rows: Sequence[dict[str, Any]],
    statistics: Mapping[str, FeatureStatistics],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    meta = folder / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    made: list[dict[str, Any]] = []
    for episode, row in zip(steps.episodes, rows, strict=True):
        own: dict[str, Any] = {
            **steps.described(episode),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for name, value in row.items():
            if isinstance(value, FeatureStatistics):
                own |= {f"{name}/{what}": one for what, one in value.described().items()}
            else:
                own[name] = value
        made.append(own)
    pq.write_table(pa.Table.from_pylist(made), meta / "episodes" / "chunk-000" / "file-000.parquet")
    texts = pa.table({"task_index": range(len(steps.tasks)), "task": steps.tasks})
    texts = texts.replace_schema_metadata({"pandas": json.dumps(_TASK_INDEX)})
    pq.write_table(texts, meta / "tasks.parquet")
    info = {
        "codebase_version": VERSION,
        **steps.info(),
        "chunks_size": FILES_IN_CHUNK,
        "data_files_size_in_mb": DATA_FILE_NBYTES // 1_000_000,
        "video_files_size_in_mb": VIDEO_FILE_MEGABYTES,
        "splits": {"train": f"0:{len(steps.episodes)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if steps.cameras
        else None,
    }
    (meta / "info.json").write_text(json.dumps(info, indent=4, ensure_ascii=False))
    described = {name: one.described() for name, one in statistics.items()}
    (meta / "stats.json").write_text(json.dumps(described, indent=4))
