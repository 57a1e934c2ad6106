"""LeRobot's datasets over a tensorlake dataset, and its training script on a tensorlake URL.

    from tensorlake.compat.lerobot import LeRobotDataset    # in place of lerobot.datasets…
    python -m tensorlake.compat.lerobot --dataset.repo_id=s3://bucket/pusht --policy.type=act …

Items, their names, dtypes and shapes are those of LeRobot 0.4. A row is a step of an episode, as
`tl.ingest.lerobot` makes it; frames come from images, so that an item reads its frames alone.
"""

from typing import TYPE_CHECKING, Any

from tensorlake.compat.lerobot.dataset import LeRobotDataset
from tensorlake.compat.lerobot.metadata import LeRobotDatasetMetadata
from tensorlake.compat.lerobot.training import train

if TYPE_CHECKING:
    from tensorlake.compat.lerobot.streaming import StreamingLeRobotDataset

__all__ = ["LeRobotDataset", "LeRobotDatasetMetadata", "StreamingLeRobotDataset", "train"]


def __getattr__(name: str) -> Any:
    """Import the class that derives from one of torch when it is first used."""
    if name != "StreamingLeRobotDataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tensorlake.compat.lerobot.dataset import torch_here

    torch_here()
    from tensorlake.compat.lerobot.streaming import StreamingLeRobotDataset

    globals()[name] = StreamingLeRobotDataset
    return StreamingLeRobotDataset
