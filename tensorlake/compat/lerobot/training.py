"""LeRobot's training script over datasets of ours: its own classes for any other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from tensorlake.compat.lerobot.dataset import LeRobotDataset
from tensorlake.compat.lerobot.metadata import LeRobotDatasetMetadata
from tensorlake.dataset import exists
from tensorlake.errors import MissingExtraError

__all__ = ["train"]


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
    from tensorlake.compat.lerobot.streaming import StreamingLeRobotDataset

    for ours in (LeRobotDataset, LeRobotDatasetMetadata, StreamingLeRobotDataset):
        theirs = getattr(factory, ours.__name__)
        setattr(factory, ours.__name__, partial(_opened, ours, theirs))
    script.main()


def _opened(
    ours: Callable[..., Any], theirs: Callable[..., Any], repo_id: str, *args: Any, **given: Any
) -> Any:
    return (ours if exists(repo_id) else theirs)(repo_id, *args, **given)
