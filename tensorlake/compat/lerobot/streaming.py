"""An iterable dataset of steps in a shuffled order, which workers of a ``DataLoader`` divide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from tensorlake.compat.lerobot.dataset import LeRobotDataset
from tensorlake.compat.lerobot.metadata import LeRobotDatasetMetadata, Place
from tensorlake.errors import InvalidInputError
from tensorlake.loader import Order, PlanKey, build_access_plan
from tensorlake.quantities import checked_integer

__all__ = ["StreamingLeRobotDataset"]

READ_TOGETHER = 16
"""Steps of a block, which follow each other in the dataset; as many are read by one call."""

WORKERS_MAX = 1024
"""Workers whose passes are counted."""


class StreamingLeRobotDataset(IterableDataset[dict[str, Any]]):
    """An iterable dataset of steps, with LeRobot's arguments and items.

    Each pass has every step once. The order is a plan of the loader: blocks of 16 steps in any
    order over the whole dataset, whose steps are shuffled within windows. It depends on the seed
    and the number of the pass alone, so that every rank has the same one. Workers of a
    ``DataLoader`` divide the steps. Items are those of the library's stream of videos: single
    numbers are Python's, which `LeRobotDataset` has as tensors. Where that stream repeats the last
    value that it could read, or leaves images undecoded, items are as `LeRobotDataset` has them:
    a time beyond an episode has the episode's first or last value, and frames are tensors.

    Args:
        repo_id: URL or path of a dataset, or an open dataset or view.
        root: Its path, in place of ``repo_id``.
        episodes: Numbers of the episodes to have; None: all.
        image_transforms: As in `LeRobotDataset`, as are ``delta_timestamps`` and ``tolerance_s``.
        delta_timestamps: By feature, the seconds from a step at which its values are wanted.
        tolerance_s: Seconds by which such a time may be off a step.
        revision: A version; None: the newest.
        force_cache_sync: Without effect, as are ``streaming`` and ``max_num_shards``: rows are read
            from where they are, in the plan's order.
        streaming: Without effect.
        buffer_size: Steps within which the steps of blocks are shuffled: at least 16.
        max_num_shards: Without effect.
        seed: Determines the order.
        rng: Gives the seed, in place of ``seed``.
        shuffle: Whether each pass has another order; otherwise all have that of the first.
        episode: The tensor whose value is a step's episode.
        fps: Steps per second; None: those of the LeRobot dataset that was ingested.

    Raises:
        InvalidInputError: As `LeRobotDataset`, or ``buffer_size`` is not a positive integer.

    Example:
        >>> import tensorlake as tl
        >>> from tensorlake.compat.lerobot import StreamingLeRobotDataset
        >>> ds = tl.create("memory://doc-compat-stream", {"episode": "int64", "action": "float32"})
        >>> ds.extend({"episode": [0, 0, 1], "action": [0.5, 1, 0]})
        >>> steps = StreamingLeRobotDataset(ds, fps=10, delta_timestamps={"action": [0, 0.1]})
        >>> sorted((item["index"], item["action"].tolist()) for item in steps)
        [(0, [0.5, 1.0]), (1, [1.0, 1.0]), (2, [0.0, 0.0])]
        >>> ds.discard()
    """

    def __init__(
        self,
        repo_id: Place,
        root: str | PathLike[str] | None = None,
        episodes: Sequence[int] | None = None,
        image_transforms: Callable[[Any], Any] | None = None,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
        revision: str | None = None,
        force_cache_sync: bool = False,  # noqa: FBT001, FBT002 - the library's signature
        streaming: bool = True,  # noqa: FBT001, FBT002 - the library's signature
        buffer_size: int = 1000,
        max_num_shards: int = 16,
        seed: int = 42,
        rng: np.random.Generator | None = None,
        shuffle: bool = True,  # noqa: FBT001, FBT002 - the library's signature
        *,
        episode: str = "episode",
        fps: float | None = None,
    ) -> None:
        super().__init__()
        del force_cache_sync, streaming, max_num_shards
        self.buffer_size = checked_integer(buffer_size, name="buffer_size", least=1)
        self.seed, self.shuffle = seed, shuffle
        if rng is not None:
            self.seed = int(rng.integers(1 << 31))
        self.steps = LeRobotDataset(
            repo_id,
            root,
            episodes,
            image_transforms,
            delta_timestamps,
            tolerance_s,
            revision,
            episode=episode,
            fps=fps,
        )
        """The same steps, map-style."""
        # Passes begun by each worker, and at the end by this process. A DataLoader makes new
        # workers for each pass, from this object as it is here: only shared memory outlives them.
        self._passes = torch.zeros(WORKERS_MAX + 1, dtype=torch.int64).share_memory_()

    @property
    def meta(self) -> LeRobotDatasetMetadata:
        """Facts of the dataset."""
        return self.steps.meta

    @property
    def repo_id(self) -> str:
        """URL of the dataset."""
        return self.steps.repo_id

    @property
    def fps(self) -> float:
        """Steps per second."""
        return self.steps.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Dtype, shape and names of each feature."""
        return self.steps.features

    @property
    def num_frames(self) -> int:
        """Number of steps of a pass."""
        return self.steps.num_frames

    @property
    def num_episodes(self) -> int:
        """Number of episodes of a pass."""
        return self.steps.num_episodes

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if number >= WORKERS_MAX:
            raise InvalidInputError(f"a DataLoader has {WORKERS_MAX:,} workers here at most")
        of = WORKERS_MAX if worker is None else number
        epoch = int(self._passes[of]) if self.shuffle else 0
        self._passes[of] += 1
        order = Order("window", READ_TOGETHER, max(1, self.buffer_size // READ_TOGETHER))
        plan = build_access_plan(PlanKey("", order, self.seed, epoch), self.num_frames)
        for start in range(number * READ_TOGETHER, self.num_frames, count * READ_TOGETHER):
            stop = min(start + READ_TOGETHER, self.num_frames)
            for item in self.steps.__getitems__(plan.positions(start, stop).tolist()):
                yield {name: _plain(value) for name, value in item.items()}


def _plain(value: Any) -> Any:
    """Return a single number as Python's."""
    return value.item() if isinstance(value, torch.Tensor) and not value.ndim else value
