"""LeRobot's dataset over a tensorlake dataset, and its training script on a tensorlake URL.

    from tensorlake.compat.lerobot import LeRobotDataset    # in place of lerobot.datasets…
    python -m tensorlake.compat.lerobot --dataset.repo_id=s3://bucket/pusht --policy.type=act …

Items, their names, dtypes and shapes are those of LeRobot 0.4. A row is a step of an episode, as
`tl.ingest.lerobot` makes it; frames come from images, so that an item reads its frames alone, and
a batch of a ``DataLoader`` is read together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset import (
    Dataset,
    EpisodeSteps,
    FeatureStatistics,
    View,
    episode_steps,
    exists,
    open_dataset,
    pixel_sample,
)
from tensorlake.errors import InvalidInputError, MissingExtraError, missing_extra, shown

if TYPE_CHECKING:
    from tensorlake.dataset import FeatureColumn

__all__ = ["LeRobotDataset", "LeRobotDatasetMetadata", "train"]

Torch = Any  # torch is optional
Place = str | PathLike[str] | Dataset | View

VERSION = "v3.0"
FRAMES_AT_ONCE = 64
"""Frames in memory while statistics are counted."""


class LeRobotDatasetMetadata:
    """Facts of a dataset of episodes, as LeRobot's class of this name has them.

    Args:
        repo_id: URL or path of a dataset, or an open dataset or view.
        root: Its path, in place of ``repo_id``.
        revision: A version; None: the newest.
        force_cache_sync: Without effect: a dataset is always read as it is.
        episode: The tensor whose value is a step's episode.
        fps: Steps per second; None: those of the LeRobot dataset that was ingested.

    Example:
        >>> import tensorlake as tl
        >>> from tensorlake.compat.lerobot import LeRobotDatasetMetadata
        >>> ds = tl.create("memory://doc-compat-meta", {"episode": "int64", "action": "float32"})
        >>> ds.extend({"episode": [0, 0, 1], "action": [0.5, 1, 0]})
        >>> meta = LeRobotDatasetMetadata(ds, fps=10)
        >>> meta.total_episodes, meta.features["action"]["dtype"], meta.stats["action"]["mean"]
        (2, 'float32', array([0.5]))
        >>> ds.discard()
    """

    def __init__(
        self,
        repo_id: Place,
        root: str | PathLike[str] | None = None,
        revision: str | None = None,
        force_cache_sync: bool = False,  # noqa: FBT001, FBT002 - the library's signature
        *,
        episode: str = "episode",
        fps: float | None = None,
    ) -> None:
        del force_cache_sync
        place = repo_id if root is None else root
        if isinstance(place, Dataset | View):
            self.rows: Dataset | View = place
        else:
            self.rows = open_dataset(place, version=revision, read_only=True)
        self.repo_id = str(self.rows.url)
        self.root = self.repo_id
        self.revision = self.rows.version
        self.steps: EpisodeSteps = episode_steps(
            self.rows.__rowset__, None, episode=episode, fps=fps, call="LeRobotDataset()"
        )
        self.info: dict[str, Any] = {"codebase_version": VERSION, **self.steps.info()}
        for feature in self.info["features"].values():
            feature["shape"] = tuple(feature["shape"])

    @property
    def fps(self) -> float:
        """Steps per second."""
        return self.info["fps"]

    @property
    def robot_type(self) -> str | None:
        """The kind of robot; None if it is unknown."""
        return self.steps.robot

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Dtype, shape and names of each feature."""
        return self.info["features"]

    @property
    def camera_keys(self) -> list[str]:
        """Features whose values are frames."""
        return [one.name for one in self.steps.cameras]

    @property
    def video_keys(self) -> list[str]:
        """The same as `camera_keys`."""
        return self.camera_keys

    @property
    def image_keys(self) -> list[str]:
        """None: frames are features of dtype "video", however they are stored."""
        return []

    @property
    def names(self) -> dict[str, Any]:
        """Names of the elements of each feature."""
        return {name: one["names"] for name, one in self.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each feature."""
        return {name: one["shape"] for name, one in self.features.items()}

    @property
    def total_episodes(self) -> int:
        """Number of episodes."""
        return len(self.steps.episodes)

    @property
    def total_frames(self) -> int:
        """Number of steps."""
        return self.steps.num_steps

    @property
    def total_tasks(self) -> int:
        """Number of tasks."""
        return len(self.steps.tasks)

    @cached_property
    def episodes(self) -> _Episodes:
        """A row for each episode."""
        return _Episodes([self.steps.described(one) for one in self.steps.episodes])

    @cached_property
    def tasks(self) -> Any:
        """A DataFrame: the number of each task, by its text."""
        import pandas as pd

        numbers = {"task_index": range(self.total_tasks)}
        return pd.DataFrame(numbers, index=pd.Index([*self.steps.tasks], name="task"))

    @property
    def subtasks(self) -> None:
        """None."""
        return

    def get_task_index(self, task: str) -> int | None:
        """Return the number of a task; None if there is none of this text."""
        tasks = self.steps.tasks
        return tasks.index(task) if task in tasks else None

    @cached_property
    def stats(self) -> dict[str, dict[str, np.ndarray]]:
        """Statistics by which policies normalise: of all numbers, and of the pixels of some frames.

        They are counted when they are first asked for.
        """
        made: dict[str, FeatureStatistics] = {}
        positions = _positions_of(self.steps)
        for column in self.steps.columns:
            if column.is_camera:
                made[column.name] = counted = FeatureStatistics.of_images()
                chosen = positions[pixel_sample(len(positions))]
                for start in range(0, len(chosen), FRAMES_AT_ONCE):
                    for pixels in self.steps.frames(column, chosen[start : start + FRAMES_AT_ONCE]):
                        counted.add_image(pixels)
            elif column.dtype != "string" and len(positions):
                made[column.name] = FeatureStatistics.of_values(
                    self.steps.values(column, positions)
                )
        parts = [self.steps.numbers(one) for one in self.steps.episodes]
        for name in parts[0] if parts else ():
            made[name] = FeatureStatistics.of_values(np.concatenate([one[name] for one in parts]))
        return {
            name: {kind: np.array(value) for kind, value in one.described().items()}
            for name, one in made.items()
        }


class LeRobotDataset:
    """A map-style dataset of steps, with LeRobot's arguments and items.

    Args:
        repo_id: URL or path of a dataset, or an open dataset or view.
        root: Its path, in place of ``repo_id``.
        episodes: Numbers of the episodes to have; None: all. Steps keep their order.
        image_transforms: Called with each frame, float32 (…, 3, height, width).
        delta_timestamps: By feature, the seconds from a step at which its values are wanted.
            Values beyond the episode repeat its first or last one, and ``NAME_is_pad`` is True.
            Frames of a single time have no axis of times, as the library's frames of videos.
        tolerance_s: Seconds by which such a time may be off a step.
        revision: A version; None: the newest.
        force_cache_sync: Without effect, as are ``download_videos`` and ``video_backend``.
        download_videos: Without effect: frames are in the dataset.
        video_backend: Without effect.
        episode: The tensor whose value is a step's episode.
        fps: Steps per second; None: those of the LeRobot dataset that was ingested.

    Raises:
        InvalidInputError: A feature or an episode does not exist, or a time is not at a step.

    Example:
        >>> import tensorlake as tl
        >>> from tensorlake.compat.lerobot import LeRobotDataset
        >>> ds = tl.create("memory://doc-compat-lerobot", {"episode": "int64", "action": "float32"})
        >>> ds.extend({"episode": [0, 0, 1], "action": [0.5, 1, 0]})
        >>> steps = LeRobotDataset(ds, fps=10, delta_timestamps={"action": [0, 0.1]})
        >>> steps[1]["action"].tolist(), steps[1]["action_is_pad"].tolist()
        ([1.0, 1.0], [False, True])
        >>> ds.discard()
    """

    def __init__(
        self,
        repo_id: Place,
        root: str | PathLike[str] | None = None,
        episodes: Sequence[int] | None = None,
        image_transforms: Callable[[Torch], Torch] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,  # noqa: FBT001, FBT002 - the library's signature
        download_videos: bool = True,  # noqa: FBT001, FBT002 - the library's signature
        video_backend: str | None = None,
        *,
        episode: str = "episode",
        fps: float | None = None,
    ) -> None:
        del force_cache_sync, download_videos, video_backend
        _torch()
        self.meta = LeRobotDatasetMetadata(repo_id, root, revision, episode=episode, fps=fps)
        self.repo_id, self.root, self.revision = (
            self.meta.repo_id,
            self.meta.root,
            self.meta.revision,
        )
        self.episodes = None if episodes is None else [*episodes]
        self.image_transforms = image_transforms
        self.delta_timestamps = delta_timestamps
        self.tolerance_s = tolerance_s
        self._steps = self.meta.steps
        count = self.meta.total_episodes
        chosen = range(count) if self.episodes is None else self.episodes
        wrong = [one for one in chosen if not 0 <= one < count]
        if wrong:
            message = f"episodes={shown(wrong)}: there are {count:,}, from 0 on"
            raise InvalidInputError(message, argument="episodes", actual=wrong)
        self.delta_indices = {
            name: self._offsets(name, seconds) for name, seconds in (delta_timestamps or {}).items()
        }
        self._positions = _positions_of(self._steps)
        spans = [(one.start, one.stop) for one in self._steps.episodes]
        self._spans = np.array(spans, np.int64).reshape(-1, 2)
        parts = [np.arange(*spans[one]) for one in sorted({*chosen})]
        self._chosen = np.concatenate([np.zeros(0, np.int64), *parts])

    @property
    def fps(self) -> float:
        """Steps per second."""
        return self.meta.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Dtype, shape and names of each feature."""
        return self.meta.features

    @property
    def num_frames(self) -> int:
        """Number of steps."""
        return len(self)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return self.meta.total_episodes if self.episodes is None else len(self.episodes)

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return several items, whose rows are read together: a DataLoader asks for a batch so."""
        torch = _torch()
        if not len(indices):
            return []
        count = len(self)
        at = np.array([int(one) for one in indices], np.int64)
        if not -count <= int(at.min()) <= int(at.max()) < count:
            raise IndexError(f"there are {count:,} steps, and step {shown([*indices])} is wanted")
        steps = self._chosen[at]
        number = np.searchsorted(self._spans[:, 1], steps, side="right")
        spans = self._spans[number]
        items: list[dict[str, Any]] = [{} for _ in range(len(at))]
        for name, read in self._readers().items():
            offsets = self.delta_indices.get(name, np.zeros(1, np.int64))
            wanted = steps[:, None] + offsets
            inside = np.clip(wanted, spans[:, :1], spans[:, 1:] - 1)
            rows, inverse = np.unique(inside, return_inverse=True)
            values, inverse = read(rows), inverse.reshape(inside.shape)
            for item, own in zip(items, inverse, strict=True):
                chosen = own if name in self.delta_indices else own[0]
                if isinstance(values, list):
                    is_one = np.ndim(chosen) == 0
                    item[name] = values[chosen] if is_one else [values[one] for one in chosen]
                else:
                    item[name] = values[
                        torch.from_numpy(chosen) if np.ndim(chosen) else int(chosen)
                    ]
            if name in self.delta_indices:
                is_pad = torch.from_numpy(wanted != inside)
                for item, own in zip(items, is_pad, strict=True):
                    item[f"{name}_is_pad"] = own
        for item in items:
            for name in self.meta.camera_keys:
                frames = item[name].to(torch.float32).div_(255)
                if name in self.delta_indices:
                    frames = frames.squeeze(0)
                item[name] = self.image_transforms(frames) if self.image_transforms else frames
            task = item["task_index"]
            item["task"] = self._steps.tasks[int(task.reshape(-1)[0])]
        return items

    def _readers(self) -> dict[str, Callable[[np.ndarray], Any]]:
        """Return how the values of each feature are read, given the numbers of steps."""
        readers = {one.name: partial(self._column, one) for one in self._steps.columns}
        names = [name for name in self.meta.features if name not in readers]
        return {**readers, **{name: partial(self._number, name) for name in names}}

    def _column(self, column: FeatureColumn, steps: np.ndarray) -> Any:
        torch, positions = _torch(), self._positions[steps]
        if column.is_camera:
            frames = torch.from_numpy(np.stack(self._steps.frames(column, positions)))
            # contiguous: each frame is picked for several items, and a strided pick takes longer
            return frames.permute(0, 3, 1, 2).contiguous()
        values = self._steps.values(column, positions)
        if isinstance(values, list):
            return values
        # torch.tensor() of Python's numbers, as the library makes tensors, has these dtypes
        wide = {"f": np.float32, "b": np.bool_}.get(values.dtype.kind, np.int64)
        return torch.from_numpy(np.array(values, wide))

    def _number(self, name: str, steps: np.ndarray) -> Torch:
        torch = _torch()
        number = np.searchsorted(self._spans[:, 1], steps, side="right")
        frame = steps - self._spans[number, 0]
        if name == "timestamp":
            return torch.from_numpy((frame / self._steps.fps).astype(np.float32))
        own = {"frame_index": frame, "episode_index": number, "index": steps}.get(name)
        own = self._steps.task_numbers[self._positions[steps]] if own is None else own
        return torch.from_numpy(np.array(own, np.int64))

    def _offsets(self, name: str, seconds: Sequence[float]) -> np.ndarray:
        if name not in self.meta.features:
            known = ", ".join(self.meta.features)
            message = f"delta_timestamps names the unknown feature {name!r}\nfeatures: {known}"
            raise InvalidInputError(message, argument="delta_timestamps", actual=name)
        wanted = np.asarray(seconds, np.float64) * self._steps.fps
        nearest = np.round(wanted)
        off = np.abs(wanted - nearest) / self._steps.fps
        if wanted.ndim != 1 or not len(wanted) or not bool((off <= self.tolerance_s).all()):
            raise InvalidInputError(
                f"delta_timestamps[{name!r}] is {shown([*seconds])}: give seconds from a step to"
                f" another, multiples of 1/{self._steps.fps:g}",
                argument="delta_timestamps",
                actual=seconds,
            )
        return nearest.astype(np.int64)


class _Episodes(Sequence[dict[str, Any]]):
    """Rows of episodes: ``episodes[3]["length"]`` or ``episodes["length"]``."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return [row[at] for row in self._rows] if isinstance(at, str) else self._rows[at]


def train() -> None:
    """Run LeRobot's training script with the arguments of the command line.

    ``--dataset.repo_id`` may be the URL or the path of a tensorlake dataset; any other is read by
    LeRobot itself.

    Raises:
        MissingExtraError: LeRobot is not installed.
    """
    try:
        factory: Any = import_module("lerobot.datasets.factory")
        script: Any = import_module("lerobot.scripts.lerobot_train")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"python -m tensorlake.compat.lerobot needs LeRobot, and there is no {error.name!r}:"
            " pip install lerobot",
            extra="lerobot",
        ) from error
    for ours in (LeRobotDataset, LeRobotDatasetMetadata):
        theirs = getattr(factory, ours.__name__)
        setattr(factory, ours.__name__, partial(_opened, ours, theirs))
    script.main()


def _opened(
    ours: Callable[..., Any], theirs: Callable[..., Any], repo_id: str, *args: Any, **given: Any
) -> Any:
    return (ours if exists(repo_id) else theirs)(repo_id, *args, **given)


def _positions_of(steps: EpisodeSteps) -> np.ndarray:
    """Return the position of each step in the view, by its number."""
    return np.concatenate([np.zeros(0, np.int64), *(one.positions for one in steps.episodes)])


def _torch() -> Torch:
    try:
        import torch
    except ImportError as error:
        raise missing_extra("tensorlake.compat.lerobot", "torch") from error
    return torch


if __name__ == "__main__":
    train()
