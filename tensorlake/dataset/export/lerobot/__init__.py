"""LeRobot: the folder of a dataset of episodes, and a view as its library has it."""

from tensorlake.dataset.export.lerobot.statistics import FeatureStatistics, pixel_sample
from tensorlake.dataset.export.lerobot.steps import (
    Episode,
    EpisodeSteps,
    FeatureColumn,
    episode_steps,
)
from tensorlake.dataset.export.lerobot.writing import to_lerobot

__all__ = [
    "Episode",
    "EpisodeSteps",
    "FeatureColumn",
    "FeatureStatistics",
    "episode_steps",
    "pixel_sample",
    "to_lerobot",
]
