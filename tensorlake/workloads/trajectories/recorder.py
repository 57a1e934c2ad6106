"""Recording the steps of vector environments: ``tl.trajectories.record``.

    step ──copied──► block (steps, envs, …) ──another thread──► rows, by environment and step

A block has the steps of milliseconds to seconds, 16 MiB at most. Three take turns, so that
the environment waits for the writer only where that is slower over all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from os import PathLike
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    ShapeMismatchError,
    UnsupportedFeatureError,
)
from tensorlake.quantities import checked_integer
from tensorlake.types import SampleType
from tensorlake.workloads.trajectories.tensors import (
    ACTION,
    LAST,
    OBSERVATION,
    Values,
    dataset_for,
    new_episodes,
    parts_of,
    types_of,
    whole_of,
)

__all__ = ["record"]

Policy = Callable[[Any], Any]

BLOCK_NBYTES = 16 << 20
BLOCK_STEPS = 4096
"""Vector steps that are written together, at most: two threads that take turns cost time each."""
BLOCKS = 3
"""One that is filled, one that is written, one that waits."""
SEEDS = 1 << 31  # environments take seeds below it
SEED_ROWS = 64
"""Seeds of each environment that are drawn together."""


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
        seed: The seeds of episodes, and of random actions, follow from it and from the number of
            the first episode. Give calls that run at once different ones.
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
    dataset = dataset_for(url, _types_of_env(env), schema, storage_options)
    message = f"{steps:,} steps of {_name_of(env) or 'an environment'}"
    with new_episodes(dataset, _name_of(env), message) as first:
        _Recorder(env, dataset, policy, seed, first).run(steps)
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
        self.last: list[tuple[int, Values, dict[str, Values]]] = []  # step, environments, values
        self.steps = 0


class _Recorder:
    """Steps an environment in the caller's thread, and writes full blocks in another."""

    def __init__(
        self, env: Any, dataset: Dataset, policy: Policy | None, seed: int, first: int
    ) -> None:
        self.env, self.dataset, self.policy, self.first = env, dataset, policy, first
        self.types = _types_of_env(env)
        self.count = _count_of(env)
        # of the first episode, too: a second call goes on with other episodes
        drawn = np.random.SeedSequence((seed, first)) if first else seed
        self.seeds = np.random.Generator(np.random.Philox(drawn))
        self.mode = str(getattr((env.metadata or {}).get("autoreset_mode"), "value", "NextStep"))
        self.is_seeded = _resets_by_mask(env)
        if self.mode == "Disabled" and not self.is_seeded:
            raise UnsupportedFeatureError(
                "the environment does not reset itself, and is not one of Gymnasium's own\nmake it"
                " with autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP"
            )
        if policy is None:
            env.action_space.seed(int(self.seeds.integers(SEEDS)) if first else seed)

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
        episode = np.arange(self.first, self.first + count)
        number = self.first + count
        t = np.zeros(count, np.int64)
        is_reset = np.zeros(count, np.bool_)  # where the next step only resets
        drawn = self._drawn_seeds()
        seed = next(drawn)
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
            columns, block.last = block.columns, []
            block.steps = min(length, steps - start)
            for at in range(block.steps):
                self._copy(columns, OBSERVATION, at, observed)
                given = env.action_space.sample() if self.policy is None else self.policy(observed)
                taken = self._copy(columns, ACTION, at, given)
                columns["episode"][at], columns["t"][at], columns["seed"][at] = episode, t, seed
                np.logical_not(is_reset, out=block.is_step[at])
                observed, reward, terminated, truncated, info = env.step(taken)
                columns["reward"][at] = reward
                columns["terminated"][at], columns["truncated"][at] = terminated, truncated
                t += 1
                is_new, is_reset = is_reset, np.logical_or(terminated, truncated)
                if np.count_nonzero(is_reset):  # a quarter of the time of any()
                    final = info.get("final_obs") if self.mode == "SameStep" else None
                    parts = parts_of(OBSERVATION, observed if final is None else final)
                    copies = {name: _chosen(values, is_reset) for name, values in parts.items()}
                    block.last.append((at, is_reset, copies))
                    if self.is_seeded:
                        seed[is_reset] = next(drawn)[is_reset]
                        mask = {"reset_mask": is_reset}
                        observed, _ = env.reset(seed=seed.tolist(), options=mask)
                    if self.is_seeded or self.mode == "SameStep":
                        is_new, is_reset = is_reset, np.zeros(count, np.bool_)
                new = np.count_nonzero(is_new)
                if new:
                    episode[is_new] = range(number, number + new)
                    number += new
                    t[is_new] = 0
            yield block

    def _drawn_seeds(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield a seed for each environment; drawn many at a time, which costs less."""
        while True:
            yield from self.seeds.integers(SEEDS, size=(SEED_ROWS, self.count))

    def _copy(self, columns: dict[str, Values], name: str, at: int, values: Any) -> Any:
        """Copy values of all environments into a block, and return them as they are there."""
        there = columns.get(name)
        if there is not None and isinstance(values, np.ndarray):
            there = there[at]
            if there.shape == values.shape and there.dtype == values.dtype:
                there[...] = values  # what nearly all are: the rest takes ten times as long
                return there
        copied = {}
        for part, array in parts_of(name, values).items():
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
        return whole_of(name, copied) if name == ACTION else None

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
        for at, is_over, parts in block.last:
            for name, values in parts.items():
                for row, value in zip(place[is_over, at].tolist(), values, strict=True):
                    rows[f"last_{name}"][row] = value
        self.dataset.extend(rows)


def _chosen(values: Any, is_chosen: Values) -> Values:
    """Return copies of some environments' values."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values[is_chosen]
    return np.array([values[one] for one in np.flatnonzero(is_chosen).tolist()])


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


def _types_of_env(env: Any) -> dict[str, SampleType]:
    observation = getattr(env, "single_observation_space", env.observation_space)
    return types_of(observation, getattr(env, "single_action_space", env.action_space))
