"""``tl.trajectories``: steps of environments as rows, recorded, replayed and imported.

    episode, t                 its number, and the number of the step in it, int64
    observation, action        by the spaces of the environment; one tensor for each key of a Dict
    reward                     of the step, float64
    terminated, truncated      whether the episode ended with the step, bool
    seed                       of the reset that the episode began with; NULL where it is not known
    last_observation           the one after the last step of an episode; NULL at all others

A row has the observation before its action. Steps of an environment are next to each other, in
blocks, and windows by episode feed sequence models: ``ds.windows(by="episode", size=16)``.

The interface of environments is that of Gymnasium 1: Towers et al., https://arxiv.org/abs/2407.17032
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from os import PathLike
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, View, create, exists, open_dataset
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    MissingExtraError,
    ReplayMismatchError,
    SchemaError,
    ShapeMismatchError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.quantities import checked_integer
from tensorlake.types import Array, Bool, SampleType, Scalar, as_type

__all__ = ["from_minari", "record", "replay"]

Values = npt.NDArray[Any]
Policy = Callable[[Any], Any]

OBSERVATION, ACTION, LAST = "observation", "action", "last_observation"
BLOCK_NBYTES = 16 << 20
BLOCK_STEPS = 1024
"""Vector steps that are written together, at most."""
BLOCKS = 3
"""One that is filled, one that is written, one that waits."""
SEEDS = 1 << 31  # environments take seeds below it


def record(
    env: Any,
    url: str | PathLike[str],
    policy: Policy | None = None,
    *,
    steps: int,
    seed: int = 0,
    schema: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Step a vector environment, and write each step as a row; one commit at the end.

    A dataset that is there is appended to. Steps are copied into blocks, which another thread
    writes. When anything raises, rows of this call are discarded.

    Gymnasium's ``SyncVectorEnv`` and ``AsyncVectorEnv`` are reset by a seed for every episode, so
    that each can be replayed. Others reset themselves, at the step after the end of an
    episode as in EnvPool, or at the same step, and their episodes have no seed.

    Args:
        env: A ``gymnasium.vector.VectorEnv``, or what has its attributes and methods.
        url: The dataset, made where there is none.
        policy: Gets observations (envs, …), or a dict of them, and returns actions (envs, …). None
            draws actions at random.
        steps: Vector steps: each has a row for each environment.
        seed: The seeds of episodes, and of random actions, follow from it.
        schema: Other types for some tensors: ``{"observation": tl.Image("png")}``.
        storage_options: Credentials and endpoint of the dataset.

    Returns:
        The dataset, committed.

    Raises:
        UnsupportedFeatureError: A space has values that are not arrays of one shape, or the
            environment never resets by itself.
        SchemaError: The dataset that is there has other tensors.
        ShapeMismatchError: The policy returned actions of another shape.
        DTypeMismatchError: The policy returned actions of another kind.

    Example:
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> try:
        ...     import gymnasium
        ...     env = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
        ...     rows = len(tl.trajectories.record(env, "memory://doc-record", steps=10))
        ... except ImportError:
        ...     rows = 40
        >>> rows
        40
    """
    if not all(hasattr(env, name) for name in ("reset", "step", "action_space")):
        raise InvalidInputError(
            f"record() takes a vector environment of Gymnasium, got {type(env).__name__}"
            "\nmake one: gymnasium.make_vec('CartPole-v1', num_envs=8)",
            actual=env,
        )
    steps = checked_integer(steps, name="steps", least=1)
    seed = checked_integer(seed, name="seed", least=0)
    dataset = _dataset_for(url, _types_of_env(env), schema, _name_of(env), storage_options)
    try:
        _Recorder(env, dataset, policy, seed).run(steps)
    except BaseException:
        dataset.discard()
        raise
    dataset.commit(f"{steps:,} steps of {_name_of(env) or 'an environment'}")
    return dataset


def replay(env: Any, view: Dataset | View) -> Iterator[dict[str, Values]]:
    """Step an environment as it was recorded, and check that every step gives the same again.

    Args:
        env: A ``gymnasium.Env``, as each of the vector environment was.
        view: Whole episodes, such as ``ds.where("episode = 7")``.

    Yields:
        An episode: its rows by tensor, as the environment gave them now, equal bit by bit to those
        recorded.

    Raises:
        ReplayMismatchError: A step gave other values.
        InvalidInputError: An episode has no seed, or not all of its rows are in the view.
    """
    episode, t = (np.asarray(view[name][:]) for name in ("episode", "t"))
    names = [name for name in view.schema if name.split(".")[0] in (OBSERVATION, ACTION)]
    seeds = view["seed"].read(null=-1)
    order = np.lexsort((t, episode))
    for rows in np.split(order, np.flatnonzero(np.diff(episode[order])) + 1):
        if not len(rows):
            return
        number = int(episode[rows[0]])
        if seeds[rows[0]] < 0:
            raise InvalidInputError(
                f"episode {number} has no seed: its environment reset itself\nrecord one of"
                " gymnasium.vector.SyncVectorEnv or AsyncVectorEnv to replay it",
                episode=number,
            )
        if not np.array_equal(t[rows], np.arange(len(rows))):
            raise InvalidInputError(
                f"episode {number} is not whole: the view has {len(rows)} of its steps, of which"
                f" the first is {t[rows[0]]}\ngive all: ds.where('episode = {number}')",
                episode=number,
            )
        columns = {name: view[name][rows.tolist()] for name in (*names, "reward")}
        ends = {name: view[name][rows.tolist()] for name in ("terminated", "truncated")}
        yield _stepped(env, number, int(seeds[rows[0]]), {**columns, **ends})


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
    types = _types_of(source.observation_space, source.action_space)
    name = getattr(getattr(source, "env_spec", None), "id", None)
    dataset = _dataset_for(url, types, schema, name, storage_options)
    try:
        first = _next_episode(dataset)
        for number, episode in enumerate(source.iterate_episodes(), start=first):
            dataset.extend(_rows_of_minari(source, episode, number))
    except BaseException:
        dataset.discard()
        raise
    dataset.commit(f"Minari: {getattr(source, 'id', 'a dataset')}")
    return dataset


class _Block:
    """Vector steps that are written together: arrays (steps, envs, …)."""

    def __init__(self, types: Mapping[str, SampleType], shape: tuple[int, int]) -> None:
        self.columns = {
            name: np.empty((*shape, *cast("tuple[int, ...]", kind.shape)), kind.dtype)
            for name, kind in types.items()
            if not name.startswith(LAST)
        }
        self.is_step = np.ones(shape, np.bool_)
        self.last: dict[tuple[int, int], dict[str, Values]] = {}  # by step and environment
        self.steps = 0


class _Recorder:
    """Steps an environment in the caller's thread, and writes full blocks in another."""

    def __init__(self, env: Any, dataset: Dataset, policy: Policy | None, seed: int) -> None:
        self.env, self.dataset, self.policy = env, dataset, policy
        self.types = _types_of_env(env)
        self.count = _count_of(env)
        self.seeds = np.random.Generator(np.random.Philox(seed))
        self.mode = str(getattr((env.metadata or {}).get("autoreset_mode"), "value", "NextStep"))
        self.is_seeded = _resets_by_mask(env)
        if self.mode == "Disabled" and not self.is_seeded:
            raise UnsupportedFeatureError(
                "the environment does not reset itself, and is not one of Gymnasium's own\nmake it"
                " with autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP"
            )
        if policy is None:
            env.action_space.seed(seed)

    def run(self, steps: int) -> None:
        nbytes = sum(
            int(np.prod(cast("tuple[int, ...]", kind.shape)) * kind.dtype.itemsize)
            for kind in self.types.values()
            if kind.dtype is not None
        )
        length = min(steps, BLOCK_STEPS, max(1, BLOCK_NBYTES // (nbytes * self.count)))
        free = [_Block(self.types, (length, self.count)) for _ in range(BLOCKS)]
        written: deque[tuple[Future[None], _Block]] = deque()
        with ThreadPoolExecutor(1, "tensorlake-record") as writer:
            for block in self._blocks(steps, length, free, written):
                written.append((writer.submit(self._write, block), block))
            for future, _ in written:
                future.result()

    def _blocks(
        self,
        steps: int,
        length: int,
        free: list[_Block],
        written: deque[tuple[Future[None], _Block]],
    ) -> Iterator[_Block]:
        """Step the environment, and yield full blocks."""
        env, count = self.env, self.count
        number = _next_episode(self.dataset)
        episode = np.arange(number, number + count)
        number += count
        t = np.zeros(count, np.int64)
        is_reset = np.zeros(count, np.bool_)  # where the next step only resets
        seed = self.seeds.integers(SEEDS, size=count)
        # EnvPool has its seed since it was made
        observed, _ = env.reset(seed=seed.tolist()) if self.is_seeded else env.reset()
        if not self.is_seeded:
            seed[:] = -1
        for start in range(0, steps, length):
            if not free:
                future, block = written.popleft()
                future.result()
                free.append(block)
            block = free.pop()
            columns, block.last = block.columns, {}
            block.steps = min(length, steps - start)
            for at in range(block.steps):
                self._copy(columns, OBSERVATION, at, observed)
                given = env.action_space.sample() if self.policy is None else self.policy(observed)
                taken = self._copy(columns, ACTION, at, given)
                columns["episode"][at], columns["t"][at], columns["seed"][at] = episode, t, seed
                block.is_step[at] = ~is_reset
                observed, reward, terminated, truncated, info = env.step(taken)
                columns["reward"][at] = reward
                columns["terminated"][at], columns["truncated"][at] = terminated, truncated
                t += 1
                is_new = is_reset
                is_reset = np.logical_or(terminated, truncated)
                if is_reset.any():
                    final = info.get("final_obs") if self.mode == "SameStep" else None
                    for one in np.flatnonzero(is_reset).tolist():
                        last = observed if final is None else final
                        block.last[at, one] = _copied(_parts(OBSERVATION, last), one)
                    if self.is_seeded:
                        drawn = self.seeds.integers(SEEDS, size=count)
                        seed = np.where(is_reset, drawn, seed)
                        mask = {"reset_mask": is_reset.copy()}
                        observed, _ = env.reset(seed=seed.tolist(), options=mask)
                    if self.is_seeded or self.mode == "SameStep":
                        is_new, is_reset = is_reset, np.zeros(count, np.bool_)
                if is_new.any():
                    episode[is_new] = number + np.arange(np.count_nonzero(is_new))
                    number += int(np.count_nonzero(is_new))
                    t[is_new] = 0
            yield block

    def _copy(self, columns: dict[str, Values], name: str, at: int, values: Any) -> Any:
        """Copy values of all environments into a block, and return them as they are there."""
        copied = {}
        for part, array in _parts(name, values).items():
            if part not in columns:
                raise InvalidInputError(f"{part!r} is not in the space of the environment")
            there = columns[part][at]
            if np.shape(array) != there.shape:
                raise ShapeMismatchError(
                    f"{part!r} has shape {np.shape(array)}, and {self.count} environments take"
                    f" {there.shape}\nreturn one action for each environment",
                    tensor=part,
                    expected=there.shape,
                    actual=np.shape(array),
                )
            try:
                np.copyto(there, array, casting="same_kind")
            except TypeError as error:
                raise DTypeMismatchError(
                    f"{part!r} is {there.dtype}, got {np.asarray(array).dtype}\nreturn actions of"
                    " the dtype of env.single_action_space",
                    tensor=part,
                ) from error
            # as stored, so that a replay gives the same; of the dtype given, which EnvPool checks
            copied[part] = there.astype(np.asarray(array).dtype, copy=False)
        return _whole(name, copied) if name == ACTION else None

    def _write(self, block: _Block) -> None:
        """Stage a block: the steps of each environment one after another."""
        is_step = block.is_step[: block.steps].T
        rows: dict[str, Any] = {
            name: np.swapaxes(array[: block.steps], 0, 1)[is_step]
            for name, array in block.columns.items()
        }
        seeds = rows["seed"]
        if len(seeds) and seeds.min() < 0:
            rows["seed"] = [None if one < 0 else one for one in seeds.tolist()]
        place = np.cumsum(is_step).reshape(is_step.shape) - 1
        for name in self.types:
            if name.startswith(LAST):
                rows[name] = [None] * len(seeds)
        for (at, one), parts in block.last.items():
            for name, value in parts.items():
                rows[f"last_{name}"][place[one, at]] = value
        self.dataset.extend(rows)


def _stepped(env: Any, number: int, seed: int, recorded: Mapping[str, Any]) -> dict[str, Values]:
    """Step through an episode again, and compare it with what was recorded."""
    found = {name: np.empty_like(np.asarray(values)) for name, values in recorded.items()}
    actions = {name: found[name] for name in found if name.split(".")[0] == ACTION}
    for name in actions:
        found[name][...] = np.asarray(recorded[name])
    observed, _ = env.reset(seed=seed)
    for t in range(len(found["reward"])):
        for name, value in _parts(OBSERVATION, observed).items():
            found[name][t] = value
        action = _whole(ACTION, {name: values[t] for name, values in actions.items()})
        observed, reward, terminated, truncated, _ = env.step(action)
        found["reward"][t] = reward
        found["terminated"][t], found["truncated"][t] = terminated, truncated
        for name, values in found.items():
            if values[t].tobytes() != np.asarray(recorded[name])[t].tobytes():
                raise ReplayMismatchError(
                    f"step {t} of episode {number} gave {name!r} {shown(values[t])}, and"
                    f" {shown(np.asarray(recorded[name])[t])} was recorded\nreplay it with the"
                    " environment, of the version and with the options, that it was recorded of",
                    episode=number,
                    step=t,
                    tensor=name,
                )
    return found


def _dataset_for(
    url: str | PathLike[str],
    types: Mapping[str, SampleType],
    schema: Mapping[str, Any] | None,
    name: str | None,
    storage_options: Mapping[str, Any] | None,
) -> Dataset:
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
    dataset = create(url, wanted, storage_options=storage_options)
    if name is not None:
        dataset.alter_tensor("episode", metadata={"env": name})
    return dataset


def _types_of_env(env: Any) -> dict[str, SampleType]:
    observation = getattr(env, "single_observation_space", env.observation_space)
    return _types_of(observation, getattr(env, "single_action_space", env.action_space))


def _types_of(observation: Any, action: Any) -> dict[str, SampleType]:
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


def _fields(name: str, space: Any, *, nullable: bool = False) -> dict[str, SampleType]:
    """Return the tensors of a space: Box, Discrete, MultiDiscrete, MultiBinary, Dict of these."""
    if hasattr(space, "spaces") and isinstance(space.spaces, Mapping):
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


def _parts(name: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {name: values}
    given = cast("Mapping[str, Any]", values)
    return {
        part: inner
        for key, value in given.items()
        for part, inner in _parts(f"{name}.{key}", value).items()
    }


def _whole(name: str, parts: Mapping[str, Any]) -> Any:
    """Return what `_parts` took apart."""
    if name in parts:
        return parts[name]
    keys = dict.fromkeys(part[len(name) + 1 :].split(".")[0] for part in parts)
    return {
        key: _whole(
            f"{name}.{key}",
            {
                part: value
                for part, value in parts.items()
                if f"{part}.".startswith(f"{name}.{key}.")
            },
        )
        for key in keys
    }


def _copied(parts: Mapping[str, Any], one: int) -> dict[str, Values]:
    """Return copies of one environment's values."""
    return {name: np.array(values[one]) for name, values in parts.items()}


def _count_of(env: Any) -> int:
    count = getattr(env, "num_envs", None)
    if not isinstance(count, int):
        count = getattr(env, "config", {}).get("num_envs")  # of EnvPool
    if not isinstance(count, int):
        raise InvalidInputError(
            f"record() takes a vector environment, and {type(env).__name__} has one environment"
            "\nmake one: gymnasium.vector.SyncVectorEnv([make])",
            actual=env,
        )
    return count


def _resets_by_mask(env: Any) -> bool:
    inner = getattr(env, "unwrapped", env)
    names = {kind.__name__ for kind in type(inner).__mro__}
    return bool(names & {"SyncVectorEnv", "AsyncVectorEnv"})


def _name_of(env: Any) -> str | None:
    return getattr(getattr(env, "spec", None), "id", None)


def _next_episode(dataset: Dataset) -> int:
    return int(np.max(dataset["episode"][:])) + 1 if len(dataset) else 0


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
    for name, values in _parts(OBSERVATION, episode.observations).items():
        rows[name] = values[:count]
        rows[f"last_{name}"] = [None] * (count - 1) + [values[count]] if count else []
    return rows | _parts(ACTION, episode.actions)
