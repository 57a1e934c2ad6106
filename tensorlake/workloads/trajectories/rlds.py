"""Episodes of RLDS datasets as rows of steps: ``tl.trajectories.from_rlds``.

    episode     one record; each feature has the values of all steps, one after another
    steps/      is_first, is_last, is_terminal, observation/…, action/…, reward, discount, …

Its last step has the observation after the episode, and no action. Source: Ramos et al.,
https://arxiv.org/abs/2111.02767.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset, View
from tensorlake.errors import InvalidInputError, MissingTensorError, UnsupportedFeatureError
from tensorlake.types import Array, Bool, Image, SampleType, Scalar, Sequence, as_type
from tensorlake.workloads.trajectories.tensors import LAST, OBSERVATION, dataset_for, new_episodes

__all__ = ["from_rlds"]

STEPS = "steps/"
FLAGS = ("is_first", "is_last", "is_terminal")


def from_rlds(
    episodes: Dataset | View,
    url: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Write the steps of RLDS episodes as rows; one commit.

    The records of TensorFlow Datasets have no shapes: values of a step are a number, or flat.

    Args:
        episodes: A row for each episode, as ``tl.ingest.tfrecord(files, …)`` makes it.
        url: The dataset, made where there is none; else episodes are appended.
        schema: Other types for some tensors. Images come as bytes, so that they stay as they are:
            of ``{"steps/observation/image": tl.Sequence(tl.Bytes())}`` there, and
            ``{"observation.image": tl.Image("jpeg")}`` here.
        storage_options: Credentials and endpoint of the dataset.

    Raises:
        UnsupportedFeatureError: Images do not come as bytes.
        MissingTensorError: There is no ``steps/is_last`` or no ``steps/is_terminal``.
        InvalidInputError: A feature does not have as many values for each step.
        SchemaError: The dataset that is there has other tensors.

    Example:
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> names = ("observation", "action", "reward", "is_last", "is_terminal")
        >>> kinds = {f"steps/{name}": tl.Array("float32", (None,)) for name in names}
        >>> rlds = tl.create("memory://doc-rlds", kinds)
        >>> values = [1, 2, 3, 4, 5, 6], [7, 8, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]
        >>> rlds.append(dict(zip(kinds, map(np.float32, values))))
        >>> ds = tl.trajectories.from_rlds(rlds, "memory://doc-rlds-steps")
        >>> ds["observation"][:].tolist(), ds["terminated"][:].tolist(), ds["last_observation"][1]
        ([[1.0, 2.0], [3.0, 4.0]], [False, True], array([5., 6.], dtype=float32))
        >>> rlds.discard()
    """
    if not isinstance(episodes, Dataset | View):
        raise InvalidInputError(
            f"from_rlds() takes a dataset of episodes, got {type(episodes).__name__}\nread the"
            " files first: tl.ingest.tfrecord(files, url)"
        )
    lacks = next((name for name in FLAGS[1:] if f"{STEPS}{name}" not in episodes.schema), None)
    if lacks is not None:
        raise MissingTensorError(
            f"{episodes.url!r} has no tensor {STEPS + lacks!r}, and steps of RLDS have\nread its"
            " files by tl.ingest.tfrecord(files, url)",
            tensor=STEPS + lacks,
        )
    columns = [name for name in episodes.schema if name.startswith(STEPS)]
    view = episodes[columns]
    given = {key: as_type(one) for key, one in (schema or {}).items()}
    types = _types(view, _steps(view, 0) if len(view) else {}, given)
    dataset = dataset_for(url, types, given, storage_options)
    with new_episodes(dataset, None, f"RLDS: {len(view):,} episodes") as first:
        for number in range(len(view)):
            dataset.extend(_rows(_steps(view, number), types, number, first + number))
    return dataset


def _steps(view: View, number: int) -> dict[str, Any]:
    """Return the values of an episode by step, (steps, …)."""
    row = view[number]
    count = np.size(row[f"{STEPS}is_last"])
    found: dict[str, Any] = {}
    for name in view.schema:
        values = row[name]
        if not isinstance(values, list):
            values = np.atleast_1d(values)
        if not count or len(values) % count:
            raise InvalidInputError(
                f"{name!r} of episode {number} has {len(values):,} values, and it has {count:,}"
                " steps",
                tensor=name,
                row=number,
            )
        if isinstance(values, np.ndarray) and len(values) > count:
            values = values.reshape(count, -1)
        key = name.removeprefix(STEPS).replace("/", ".")
        found[key] = values
    return found


def _types(
    view: View, steps: Mapping[str, Any], given: Mapping[str, SampleType]
) -> dict[str, SampleType]:
    types: dict[str, SampleType] = {"episode": Scalar("int64"), "t": Scalar("int64")}
    for name in view.schema:
        key, kind = name.removeprefix(STEPS).replace("/", "."), view.schema[name]
        if key in FLAGS or key == "reward":
            continue
        item = as_type(kind.of) if isinstance(kind, Sequence) else None
        if isinstance(item, Image):
            raise UnsupportedFeatureError(
                f"{name!r} has decoded images, which would be encoded again\nread the files with"
                f" schema={{{name!r}: tl.Sequence(tl.Bytes())}}, and give schema={{{key!r}:"
                f" tl.Image({item.codec!r})}}",
                tensor=name,
            )
        if key in given or item is not None:
            types[key] = given.get(key, item or kind)
        else:
            shape = np.shape(steps.get(key, np.zeros(0)))[1:]
            dtype = str(kind.dtype)
            types[key] = Array(dtype, shape) if shape else Scalar(dtype)
    types |= {"reward": Scalar("float64"), "terminated": Bool(), "truncated": Bool()}
    types["seed"] = Scalar("int64", nullable=True)
    observed = [name for name in types if name.split(".")[0] == OBSERVATION]
    return types | {f"last_{name}": replace(types[name], nullable=True) for name in observed}


def _rows(
    steps: Mapping[str, Any], types: Mapping[str, SampleType], row: int, episode: int
) -> dict[str, Any]:
    """Return the steps of an episode but the last, which has the observation after it."""
    count = len(steps["is_last"]) - 1
    if not steps["is_last"][-1] or np.any(steps["is_last"][:-1]):
        raise InvalidInputError(f"'steps/is_last' of episode {row} is not true of its last step")
    is_end = np.arange(count) == count - 1
    rows: dict[str, Any] = {
        "episode": np.full(count, episode),
        "t": np.arange(count),
        "reward": np.asarray(steps.get("reward", np.zeros(count + 1)), np.float64)[:count],
        "terminated": is_end & bool(steps["is_terminal"][-1]),
        "truncated": is_end & (not steps["is_terminal"][-1]),
        "seed": [None] * count,
    }
    for name in types:
        if name.startswith(LAST):
            last = steps[name.removeprefix("last_")][-1]
            rows[name] = [None] * (count - 1) + [last] if count else []
        elif name not in rows:
            rows[name] = steps[name][:count]
    return rows
