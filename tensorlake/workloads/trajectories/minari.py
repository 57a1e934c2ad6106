"""Episodes of Minari datasets as rows: ``tl.trajectories.from_minari``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, MissingExtraError
from tensorlake.workloads.trajectories.tensors import (
    ACTION,
    OBSERVATION,
    dataset_for,
    new_episodes,
    parts_of,
    types_of,
)

__all__ = ["from_minari"]


def from_minari(
    source: Any,
    url: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write the episodes of a Minari dataset as rows; one commit.

    Args:
        source: A ``minari.MinariDataset``, or the name of one, which Minari loads.
        url: The dataset, made where there is none; else episodes are appended.
        schema: Other types for some tensors.
        storage_options: Credentials and endpoint of the dataset.

    Raises:
        MissingExtraError: A name was given, and Minari is not installed.
        UnsupportedFeatureError: A space has values that are not arrays of one shape.
        SchemaError: The dataset that is there has other tensors.

    Source: https://minari.farama.org/content/dataset_standards/
    """
    if isinstance(source, str):
        try:
            minari = import_module("minari")
        except ImportError as error:
            raise MissingExtraError(
                f"loading {source!r} by its name needs Minari: pip install minari", extra="minari"
            ) from error
        source = minari.load_dataset(source)
    if not hasattr(source, "iterate_episodes"):
        raise InvalidInputError(
            f"from_minari() takes a Minari dataset or its name, got {type(source).__name__}",
            actual=source,
        )
    types = types_of(source.observation_space, source.action_space)
    name = getattr(getattr(source, "env_spec", None), "id", None)
    dataset = dataset_for(url, types, schema, storage_options)
    with new_episodes(dataset, name, f"Minari: {getattr(source, 'id', 'a dataset')}") as first:
        for number, episode in enumerate(source.iterate_episodes(), start=first):
            dataset.extend(_rows_of_minari(source, episode, number))
    return dataset


def _rows_of_minari(source: Any, episode: Any, number: int) -> dict[str, Any]:
    """Return an episode as columns; its observations are one more than its steps."""
    count = len(episode.rewards)
    (metadata,) = source.storage.get_episode_metadata([episode.id])
    seed = str(metadata.get("seed", None))
    rows: dict[str, Any] = {
        "episode": np.full(count, number),
        "t": np.arange(count),
        "reward": np.asarray(episode.rewards, np.float64),
        "terminated": np.asarray(episode.terminations, np.bool_),
        "truncated": np.asarray(episode.truncations, np.bool_),
        "seed": [int(seed) if seed.isdigit() else None] * count,
    }
    for name, values in parts_of(OBSERVATION, episode.observations).items():
        rows[name] = values[:count]
        rows[f"last_{name}"] = [None] * (count - 1) + [values[count]] if count else []
    return rows | parts_of(ACTION, episode.actions)
