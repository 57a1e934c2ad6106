"""The folder of a LeRobot dataset, version 3: which steps an episode has, and where its frames are.

    meta/info.json                  rate, features (dtype, shape), patterns of the files' names
    meta/tasks.parquet              a text per task, and its number
    meta/episodes/*/*.parquet       a row per episode: its steps, its files, its place in each video
    data/*/*.parquet                a row per step, of one or more episodes
    videos/CAMERA/*/*.mp4           frames of one or more episodes, one after another

The format: https://huggingface.co/docs/lerobot/lerobot-dataset-v3. A file that a folder
names is read only if it is below the folder.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from threading import Lock
from typing import Any, cast

import numpy as np

from tensorlake.dataset import leads_outside
from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.engine.found_files import source_path
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url
from tensorlake.types import Video, VideoHandle

__all__ = ["Episode", "EpisodeFolder", "Feature"]

Arrow = Any  # pyarrow ships no types

VERSION = "v3."
INFO = "meta/info.json"
TASKS = "task"
SUBTASKS = "subtask"

FILES_OPEN = 4
"""Videos and row groups in memory: neighbouring pieces of two cameras are read side by side."""

OFF_MAX = 0.5
"""Most of a frame's time by which a frame may be off its step: then it is another step's."""

_FIELD = re.compile(r"\{(\w+)(?::0?(\d)d)?\}")


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the format.

    Attributes:
        name: Its name there.
        dtype: "video", "image", "string", or a dtype of NumPy.
        shape: Shape of a value; (1,) is a number.
        names: Names of the elements, as the folder has them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: Any

    @property
    def is_camera(self) -> bool:
        """Whether its values are frames."""
        return self.dtype in {"image", "video"}


@dataclass(frozen=True, slots=True)
class Episode:
    """Steps that follow each other.

    Attributes:
        number: The episode's.
        start: Its first step, counted over the dataset.
        stop: The step after its last.
        data: Path of the file of its steps.
        videos: Path of each camera's file, and the seconds at which the episode begins in it.
    """

    number: int
    start: int
    stop: int
    data: str
    videos: Mapping[str, tuple[str, float]]


class EpisodeFolder:
    """A folder of episodes.

    Args:
        src: The folder, by path or URL.
        files: Opens files.

    Attributes:
        folder: Its path.
        fps: Steps per second.
        robot: The kind of robot; None if it is not given.
        features: The columns of the steps, videos among them.
        episodes: In the order of their steps.
        texts: The text of each number of a task, and of a subtask where there are any.

    Raises:
        InvalidInputError: It is not a LeRobot dataset of version 3, or damaged.
    """

    def __init__(self, src: str | PathLike[str], files: SourceFiles) -> None:
        self.folder = source_path(src).rstrip("/")
        self._files = files
        self._place = public_url(self.folder)
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._video = lru_cache(FILES_OPEN)(self._read_video)
        self._group = lru_cache(FILES_OPEN)(self._read_group)
        self._layout = lru_cache(maxsize=None)(self._read_layout)
        info = self._read_info()
        try:
            self.fps = float(info["fps"])
            self.robot = info.get("robot_type")
            self.features = [
                Feature(name, str(one["dtype"]), tuple(map(int, one["shape"])), one.get("names"))
                for name, one in cast("dict[str, Any]", info["features"]).items()
            ]
            self._patterns = str(info["data_path"]), str(info.get("video_path") or "")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(f"{INFO} is not of a LeRobot dataset: {error!r}") from error
        if not (0 < self.fps < math.inf) or any(
            min(one.shape, default=0) < 1 for one in self.features
        ):
            raise self._damaged(f"{INFO} has fps {shown(self.fps)}, or a feature without a shape")
        self.videos = [one.name for one in self.features if one.dtype == "video"]
        self.texts = {name: self._read_texts(name) for name in (TASKS, SUBTASKS)}
        self.episodes = self._read_episodes()

    @property
    def columns(self) -> list[Feature]:
        """The columns in the files of steps."""
        return [one for one in self.features if one.dtype != "video"]

    def stamp(self, data: str) -> str:
        """Return a string that changes with a file of steps, and the videos of its episodes."""
        paths = {data}
        for one in self.episodes:
            if one.data == data:
                paths |= {path for path, _ in one.videos.values()}
        return " ".join(self._files.stamp(path) for path in sorted(paths))

    # ---- reading

    def steps(self, episode: Episode, start: int, stop: int) -> Arrow:
        """Read steps [start, stop) of an episode, counted over the dataset, as a table.

        Raises:
            InvalidInputError: The file is damaged, or has other steps.
        """
        import pyarrow as pa

        first = min(one.start for one in self.episodes if one.data == episode.data)
        low, high = start - first, stop - first
        try:
            ends = self._layout(episode.data)
            groups = range(
                int(np.searchsorted(ends, low, side="right")),
                int(np.searchsorted(ends, high - 1, side="right")) + 1,
            )
            if not len(ends) or high > ends[-1]:
                raise ValueError("it has fewer rows than the episodes name")  # noqa: TRY301 - shown below
            with self._locks[episode.data]:
                tables = [self._group(episode.data, number) for number in groups]
        except (pa.ArrowException, OSError, ValueError) as error:
            where = public_url(episode.data)
            message = f"episode {episode.number} of {where!r} cannot be read: {error}"
            raise InvalidInputError(message, src=where) from error
        begin = int(ends[groups.start - 1]) if groups.start else 0
        table = pa.concat_tables(tables).slice(low - begin, high - low)
        own = table["episode_index"].to_pylist() if "episode_index" in table.column_names else []
        if set(own) != {episode.number}:
            raise self._damaged(
                f"{public_url(episode.data)!r} has steps of the episodes {sorted(set(own))[:5]}"
                f" where meta/episodes has episode {episode.number}"
            )
        return table

    def frames(self, camera: str, episode: Episode, seconds: np.ndarray) -> np.ndarray:
        """Decode frames of an episode: uint8 (frames, height, width, 3).

        Args:
            camera: A feature that is a video.
            episode: The episode.
            seconds: Times from the beginning of the episode.

        Raises:
            InvalidInputError: The video is damaged, or has no frame at one of the times.
        """
        path, begin = episode.videos[camera]
        with self._locks[path]:
            video = self._video(path)
        times = video.times
        wanted = begin + seconds
        after = np.clip(np.searchsorted(times, wanted), 1, max(1, len(times) - 1))
        before = after - 1
        after = np.minimum(after, len(times) - 1)
        nearest = np.where(wanted - times[before] <= times[after] - wanted, before, after)
        off = np.abs(times[nearest] - wanted)
        if off.size and off.max() > OFF_MAX / self.fps:
            at = int(off.argmax())
            raise self._damaged(
                f"{public_url(path)!r} has no frame at {wanted[at]:.4g} s, where step"
                f" {round(float(seconds[at]) * self.fps)} of episode {episode.number} is"
            )
        return video[nearest]

    def _read_video(self, path: str) -> VideoHandle:
        kind, place = Video(), public_url(path)
        try:
            column = kind.convert([self._files.content(path)], tensor="video")
        except InvalidInputError as error:
            raise InvalidInputError(f"{place!r} cannot be read: {error}", src=place) from error
        return cast("VideoHandle", kind.present_one(column, 0))

    def _read_layout(self, path: str) -> np.ndarray:
        """Return where the row groups of a file of steps end."""
        import pyarrow.parquet as pq

        with self._files.open(path) as file:
            metadata = pq.ParquetFile(file).metadata
        counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        return np.cumsum(np.array(counts, np.int64))

    def _read_group(self, path: str, number: int) -> Arrow:
        import pyarrow.parquet as pq

        with self._files.open(path) as file:
            opened = pq.ParquetFile(file)
            known = {*opened.schema_arrow.names}
            missing = [one.name for one in self.columns if one.name not in known]
            if missing:
                raise ValueError(f"it has no column {missing[0]!r}, which {INFO} has")
            return opened.read_row_group(number, columns=[one.name for one in self.columns])

    # ---- metadata

    def _read_info(self) -> dict[str, Any]:
        path = f"{self.folder}/{INFO}"
        (content,) = self._files.contents([path])
        if content is None:
            raise InvalidInputError(
                f"no file {public_url(path)!r} to ingest\ngive the folder of a LeRobot dataset: the"
                " one that has meta/, data/ and videos/",
                src=self._place,
            )
        try:
            info = json.loads(content)
            version = str(info["codebase_version"])
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise self._damaged(f"{INFO} is not JSON of a LeRobot dataset: {error!r}") from error
        if not version.startswith(VERSION):
            raise InvalidInputError(
                f"{self._place!r} is a LeRobot dataset of version {version!r}, and v3.0 is read"
                "\nconvert it: python -m lerobot.datasets.v30.convert_dataset_v21_to_v30"
                " --repo-id=…",
                src=self._place,
                actual=version,
            )
        return info

    def _read_texts(self, kind: str) -> dict[int, str]:
        """Return the text of each number; its column is an index of pandas, of any name."""
        path = f"{self.folder}/meta/{kind}s.parquet"
        if self._files.nbytes(path) is None:
            return {}
        table = self._table(path)
        number = f"{kind}_index"
        names = [name for name in table.column_names if name != number]
        if number not in table.column_names or not names:
            raise self._damaged(f"meta/{kind}s.parquet has the columns {table.column_names}")
        return dict(zip(table[number].to_pylist(), table[names[0]].to_pylist(), strict=True))

    def _read_episodes(self) -> list[Episode]:
        found = self._files.below(f"{self.folder}/meta/episodes")
        paths = sorted(path for path in found if path.endswith(".parquet"))
        if not paths:
            raise self._damaged("meta/episodes has no Parquet file")
        made: list[Episode] = []
        for path in paths:
            table = self._table(path)
            try:
                rows = table.select(
                    [name for name in table.column_names if not name.startswith("stats/")]
                ).to_pylist()
                made += map(self._episode, rows)
            except (KeyError, TypeError, ValueError) as error:
                raise self._damaged(f"{public_url(path)!r} has other columns: {error!r}") from error
        made.sort(key=lambda one: one.number)
        stop = 0
        for one in made:
            if one.start != stop or one.stop < one.start:
                raise self._damaged(
                    f"episode {one.number} has the steps {one.start:,} to {one.stop:,}, and the"
                    f" episodes before it end at {stop:,}"
                )
            stop = one.stop
        return made

    def _episode(self, row: Mapping[str, Any]) -> Episode:
        def path(pattern: str, start: str, **more: str) -> str:
            known = {
                **more,
                "chunk_index": int(row[f"{start}/chunk_index"]),
                "file_index": int(row[f"{start}/file_index"]),
            }
            name = _filled(pattern, known)
            if leads_outside(name):
                raise ValueError(f"a file {name!r} outside of the folder")
            return f"{self.folder}/{name}"

        data, video = self._patterns
        begins = [float(row[f"videos/{name}/from_timestamp"]) for name in self.videos]
        if not all(map(math.isfinite, begins)):
            raise ValueError(f"an episode at {begins} s")
        return Episode(
            number=int(row["episode_index"]),
            start=int(row["dataset_from_index"]),
            stop=int(row["dataset_to_index"]),
            data=path(data, "data"),
            videos={
                name: (path(video, f"videos/{name}", video_key=name), begin)
                for name, begin in zip(self.videos, begins, strict=True)
            },
        )

    def _table(self, path: str) -> Arrow:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self._files.open(path) as file:
                return pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(f"{public_url(path)!r} is not Parquet: {error}") from error

    def _damaged(self, reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"the LeRobot dataset {self._place!r} is damaged: {reason}", src=self._place
        )


def _filled(pattern: str, values: Mapping[str, object]) -> str:
    """Fill in a file's name; only numbers and names are, so that a pattern can do nothing else.

    >>> _filled("{video_key}/file-{file_index:03d}.mp4", {"video_key": "top", "file_index": 7})
    'top/file-007.mp4'
    """

    def value(found: re.Match[str]) -> str:
        return str(values[found[1]]).zfill(int(found[2] or 0))

    return _FIELD.sub(value, pattern)
