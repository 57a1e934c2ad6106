"""A map-style dataset of steps: a batch of a ``DataLoader`` is read together, each row once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.compat.lerobot.metadata import LeRobotDatasetMetadata, Place, positions_of
from tensorlake.errors import InvalidInputError, missing_extra, shown

if TYPE_CHECKING:
    from tensorlake.dataset import FeatureColumn

__all__ = ["LeRobotDataset", "torch_here"]

Torch = Any  # torch is optional


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
        torch_here()
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
        self._positions = positions_of(self._steps)
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

    @cached_property
    def hf_dataset(self) -> Any:
        """The features but for frames, as a ``datasets.Dataset`` whose values are tensors of torch.

        It is in memory, with a row for each step of this dataset. The library has the same one of a
        dataset whose frames are videos; `meta.stats`, items and windows do without it.

        Raises:
            MissingExtraError: ``datasets`` is not installed.
        """
        try:
            library: Any = import_module("datasets")
        except ImportError as error:
            raise missing_extra("LeRobotDataset.hf_dataset", "hf") from error
        values: dict[str, Any] = {
            one.name: self._steps.values(one, self._positions[self._chosen])
            for one in self._steps.columns
            if not one.is_camera
        }
        for name in self.features.keys() - values.keys() - {*self.meta.camera_keys}:
            values[name] = self._number(name, self._chosen).numpy()
        kinds = {name: self.features[name] for name in self.features if name in values}
        made = library.Dataset.from_dict(
            {name: _elements(values[name], one["shape"]) for name, one in kinds.items()},
            features=library.Features(
                {name: _feature(library, one["shape"], one["dtype"]) for name, one in kinds.items()}
            ),
            split="train",
        )
        made.set_transform(_as_tensors)
        return made

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
        torch = torch_here()
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
        torch, positions = torch_here(), self._positions[steps]
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
        torch = torch_here()
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


def _elements(values: Any, shape: tuple[int, ...]) -> Any:
    """Return values as a column: those of shape (1,) without an axis."""
    return values.reshape(-1) if shape == (1,) and isinstance(values, np.ndarray) else values


def _feature(library: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return the feature of a ``datasets.Dataset`` for one of LeRobot."""
    if len(shape) > 1:
        return getattr(library, f"Array{len(shape)}D")(shape=shape, dtype=dtype)
    item = library.Value(dtype)
    return item if shape == (1,) else library.Sequence(item, length=math.prod(shape))


def _as_tensors(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    torch = torch_here()
    return {
        name: [one if isinstance(one, str) else torch.tensor(one) for one in values]
        for name, values in columns.items()
    }


def torch_here() -> Torch:
    """Return torch.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise missing_extra("tensorlake.compat.lerobot", "torch") from error
    return torch
