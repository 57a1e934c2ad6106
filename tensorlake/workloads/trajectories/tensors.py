"""The tensors of steps: types for the spaces of an environment, and values taken apart by them.

A ``Dict`` space is a tensor for each of its keys, ``observation.image``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, create, exists, open_dataset
from tensorlake.errors import ConflictError, SchemaError, UnsupportedFeatureError, shown
from tensorlake.types import Array, Bool, SampleType, Scalar, as_type

__all__ = [
    "ACTION",
    "LAST",
    "OBSERVATION",
    "Values",
    "dataset_for",
    "new_episodes",
    "parts_of",
    "types_of",
    "whole_of",
]

Values = npt.NDArray[Any]

OBSERVATION: Final = "observation"
ACTION: Final = "action"
LAST: Final = "last_observation"


def types_of(observation: Any, action: Any) -> dict[str, SampleType]:
    """Return the tensors of steps, for the spaces of observations and actions."""
    return {
        "episode": Scalar("int64"),
        "t": Scalar("int64"),
        **_fields(OBSERVATION, observation),
        **_fields(ACTION, action),
        "reward": Scalar("float64"),
        "terminated": Bool(),
        "truncated": Bool(),
        "seed": Scalar("int64", nullable=True),
        **_fields(LAST, observation, nullable=True),
    }


def dataset_for(
    url: str | PathLike[str],
    types: Mapping[str, SampleType],
    schema: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
) -> Dataset:
    """Make a dataset of these tensors, or open the one that is there.

    Raises:
        SchemaError: The one that is there has other tensors.
    """
    given = {key: as_type(one) for key, one in (schema or {}).items()}
    unknown = next((key for key in given if key not in types), None)
    if unknown is not None:
        raise SchemaError(
            f"schema= names {unknown!r}; tensors of trajectories are {', '.join(types)}",
            tensor=unknown,
        )
    wanted = {**types, **given}
    if exists(url, storage_options=storage_options):
        dataset = open_dataset(url, storage_options=storage_options)
        lacks = [key for key, kind in wanted.items() if dataset.schema.get(key) != kind]
        if lacks or len(dataset.schema) > len(wanted):
            key = (lacks or [one for one in dataset.schema if one not in wanted])[0]
            there = dataset.schema.get(key)
            raise SchemaError(
                f"{dataset.url!r} has {key!r} as {there.describe() if there else 'no tensor'}, and"
                f" steps are {wanted[key].describe() if key in wanted else 'without it'}\ngive"
                " another URL",
                tensor=key,
            )
        return dataset
    return create(url, wanted, storage_options=storage_options)


@contextmanager
def new_episodes(dataset: Dataset, env: str | None, message: str) -> Generator[int]:
    """Commit the rows that a block appends: whole episodes, numbered from the yielded number.

    The metadata of ``episode`` name the environment of the first ones.

    Another writer may have appended episodes of the same numbers meanwhile: then those of the block
    get the numbers after them. When the block raises, its rows are discarded.
    """
    count = len(dataset)
    first = _next_number(dataset["episode"][:])
    try:
        with dataset.transaction(message, reads=["episode"]):
            if env is not None and not count:
                dataset.alter_tensor("episode", metadata={"env": env})
            yield first
    except ConflictError:
        if not dataset.has_changes:
            raise  # of the block
        appended = len(dataset) - count
        while dataset.has_changes:
            dataset.refresh(keep_staged=True, on_conflict="ours")
            numbers = dataset["episode"][:]
            others, own = numbers[:-appended], numbers[-appended:]
            if own.min() != _next_number(others):
                dataset["episode"][-appended:] = own - own.min() + _next_number(others)
            try:
                dataset.commit(message)
            except ConflictError:
                continue  # yet another writer


def _next_number(episodes: npt.NDArray[Any]) -> int:
    return int(episodes.max()) + 1 if len(episodes) else 0


def parts_of(name: str, values: Any) -> dict[str, Any]:
    """Return values by tensor: those of a Dict space by key."""
    if not isinstance(values, Mapping):
        return {name: values}
    given = cast("Mapping[str, Any]", values)
    return {
        part: inner
        for key, value in given.items()
        for part, inner in parts_of(f"{name}.{key}", value).items()
    }


def whole_of(name: str, parts: Mapping[str, Any]) -> Any:
    """Return what `_parts` took apart."""
    if name in parts:
        return parts[name]
    keys = dict.fromkeys(part[len(name) + 1 :].split(".")[0] for part in parts)
    return {
        key: whole_of(
            f"{name}.{key}",
            {
                part: value
                for part, value in parts.items()
                if f"{part}.".startswith(f"{name}.{key}.")
            },
        )
        for key in keys
    }


def _fields(name: str, space: Any, *, nullable: bool = False) -> dict[str, SampleType]:
    """Return the tensors of a space: Box, Discrete, MultiDiscrete, MultiBinary, Dict of these."""
    if hasattr(space, "spaces") and isinstance(space.spaces, Mapping):
        dotted = [key for key in cast("Mapping[str, Any]", space.spaces) if "." in str(key)]
        if dotted:
            raise UnsupportedFeatureError(
                f"{name!r} has the key {dotted[0]!r}, and dots part the names of tensors\nrename"
                " it in a wrapper of the environment",
                tensor=name,
            )
        return {
            part: kind
            for key, inner in cast("Mapping[str, Any]", space.spaces).items()
            for part, kind in _fields(f"{name}.{key}", inner, nullable=nullable).items()
        }
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "biuf":
        raise UnsupportedFeatureError(
            f"{name!r} is in {shown(space)}, whose values are not arrays of one shape\nflatten it:"
            " gymnasium.wrappers.vector.FlattenObservation",
            tensor=name,
        )
    kind = str(np.dtype(dtype))
    if shape == ():
        return {
            name: Bool(nullable=nullable) if kind == "bool" else Scalar(kind, nullable=nullable)
        }
    return {name: Array(kind, tuple(shape), nullable=nullable)}
