"""Stepping through recorded episodes again: ``tl.trajectories.replay``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensorlake.dataset import Dataset, View, everything, rowset_of
from tensorlake.errors import InvalidInputError, ReplayMismatchError, shown
from tensorlake.types import UniformColumn
from tensorlake.workloads.trajectories.tensors import (
    ACTION,
    OBSERVATION,
    Values,
    parts_of,
    whole_of,
)

__all__ = ["replay"]


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
        InvalidInputError: An episode has no seed, or not all of its rows are in the view; or the
            environment is a vector environment.
    """
    if not isinstance(view, Dataset | View):
        raise InvalidInputError(
            f"replay() takes a dataset or a view of steps, got {type(view).__name__}", actual=view
        )
    if getattr(env, "num_envs", None) is not None:
        raise InvalidInputError(
            f"replay() takes one environment, and {type(env).__name__} has {env.num_envs}\nmake one"
            " as each of them was: gymnasium.make('CartPole-v1')",
            actual=env,
        )
    lengths = _lengths(view)
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
        if len(rows) != lengths[number] or not np.array_equal(t[rows], np.arange(len(rows))):
            raise InvalidInputError(
                f"episode {number} is not whole: the view has {len(rows)} of its steps, of which"
                f" the first is {t[rows[0]]}, and the dataset {lengths[number]}\ngive all:"
                f" ds.where('episode = {number}')",
                episode=number,
            )
        columns = {name: view[name][rows.tolist()] for name in (*names, "reward")}
        ends = {name: view[name][rows.tolist()] for name in ("terminated", "truncated")}
        yield _stepped(env, number, int(seeds[rows[0]]), {**columns, **ends})


def _lengths(view: Dataset | View) -> Mapping[int, int]:
    """Return the number of steps of each episode in the version that rows are of."""
    column = everything(rowset_of(view).session).read("episode")
    assert isinstance(column, UniformColumn), "a scalar"
    numbers, counts = np.unique(column.values, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _stepped(env: Any, number: int, seed: int, recorded: Mapping[str, Any]) -> dict[str, Values]:
    """Step through an episode again, and compare it with what was recorded."""
    found = {name: np.empty_like(np.asarray(values)) for name, values in recorded.items()}
    actions = {name: found[name] for name in found if name.split(".")[0] == ACTION}
    for name in actions:
        found[name][...] = np.asarray(recorded[name])
    observed, _ = env.reset(seed=seed)
    for t in range(len(found["reward"])):
        for name, value in parts_of(OBSERVATION, observed).items():
            found[name][t] = value
        action = whole_of(ACTION, {name: values[t] for name, values in actions.items()})
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
