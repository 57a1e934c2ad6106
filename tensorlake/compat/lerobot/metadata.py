"""Facts of a dataset of episodes, by LeRobot's names; statistics are counted when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from tensorlake.dataset import (
    Dataset,
    EpisodeSteps,
    FeatureStatistics,
    View,
    episode_steps,
    open_dataset,
    pixel_sample,
)

__all__ = ["LeRobotDatasetMetadata", "Place", "positions_of"]

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

        They are counted when they are first asked for. Quantiles are those of all steps; LeRobot
        averages estimates for each episode.
        """
        made: dict[str, FeatureStatistics] = {}
        positions = positions_of(self.steps)
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


class _Episodes(Sequence[dict[str, Any]]):
    """Rows of episodes: ``episodes[3]["length"]`` or ``episodes["length"]``."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        return [row[at] for row in self._rows] if isinstance(at, str) else self._rows[at]


def positions_of(steps: EpisodeSteps) -> np.ndarray:
    """Return the position of each step in the view, by its number."""
    return np.concatenate([np.zeros(0, np.int64), *(one.positions for one in steps.episodes)])
