"""tl.trajectories.record with an environment of our own, which resets itself as EnvPool's do."""

from __future__ import annotations

from threading import Barrier, Thread
from types import SimpleNamespace

import numpy as np
import pytest

import tensorlake as tl

ENVS = 3


class Space(SimpleNamespace):
    def seed(self, seed):
        self.random = np.random.default_rng(seed)

    def sample(self):
        return self.random.integers(0, 4, (ENVS, *self.shape)).astype(self.dtype)


class Counting:
    """Environment i ends an episode after i + 2 steps, and resets at the step after the end.

    An observation is (steps since the reset, the last action).
    """

    num_envs = ENVS
    metadata = None
    spec = SimpleNamespace(id="Counting-v0")

    def __init__(self, action_dtype="int64"):
        self.single_observation_space = Space(shape=(2,), dtype="float32")
        self.single_action_space = Space(shape=(), dtype=action_dtype)
        self.action_space = Space(shape=(), dtype=action_dtype)
        self.observation_space = self.single_observation_space

    def reset(self):
        self.t = np.zeros(ENVS)
        self.is_over = np.zeros(ENVS, bool)
        return np.zeros((ENVS, 2), "float32"), {}

    def step(self, action):
        self.t = np.where(self.is_over, 0, self.t + 1)
        reward = np.where(self.is_over, 0, self.t)
        observed = np.stack([self.t, np.where(self.is_over, 0, action)], 1).astype("float32")
        self.is_over = ~self.is_over & (self.t == np.arange(ENVS) + 2)
        return observed, reward, self.is_over.copy(), np.zeros(ENVS, bool), {}


def test_rows_are_steps_without_those_that_only_reset(tmp_path):
    ds = tl.trajectories.record(Counting(), str(tmp_path / "c.tl"), steps=12, seed=4)

    # of each three (four, five) vector steps of an environment the last only resets
    assert len(ds) == 8 + 9 + 10
    for episode in np.unique(ds["episode"][:]):
        rows = ds.where("episode = $e", e=int(episode))
        count = len(rows)
        assert rows["t"][:].tolist() == list(range(count))
        assert rows["observation"][:][:, 0].tolist() == list(range(count))
        assert rows["observation"][:][1:, 1].tolist() == rows["action"][:][:-1].tolist()
        assert rows["reward"][:].tolist() == list(range(1, count + 1))
        ends = rows["terminated"][:].tolist()
        assert not any(ends[:-1])
        last = rows["last_observation"].to_list()
        assert all(one is None for one in last[:-1])
        assert last[-1] == ([count, rows["action"][-1]] if ends[-1] else None)
    assert ds["episode"].metadata == {"env": "Counting-v0"}
    assert ds.where("seed IS NULL").count() == len(ds)
    assert not ds.has_changes


def test_blocks_of_any_length_write_the_same_rows(tmp_path, monkeypatch):

    def rows(name):
        ds = tl.trajectories.record(Counting(), str(tmp_path / name), steps=40, seed=4)
        table = ds.to_pandas().sort_values(["episode", "t"], ignore_index=True)
        return table.drop(columns=["observation", "last_observation"])

    whole = rows("whole.tl")
    monkeypatch.setattr("tensorlake.workloads.trajectories.recorder.BLOCK_STEPS", 3)

    assert rows("small.tl").equals(whole)


def test_a_second_recording_is_appended_with_later_episodes(tmp_path):
    url = str(tmp_path / "c.tl")
    first = len(tl.trajectories.record(Counting(), url, steps=5))
    ds = tl.trajectories.record(Counting(), url, steps=5)

    episodes = ds["episode"][:]
    assert len(ds) == 2 * first
    assert episodes[first:].min() > episodes[:first].max()
    assert len(ds.log()) == 3
    assert (ds["action"][first:] != ds["action"][:first]).any(), "other episodes"


def test_recorders_at_once_number_their_episodes_one_after_another(tmp_path):
    url = str(tmp_path / "c.tl")
    tl.trajectories.record(Counting(), url, steps=2)
    ready = Barrier(3, timeout=60)

    def run(seed):
        met = []

        def policy(_):
            if not met:  # all have read which episodes are there
                met.append(ready.wait())
            return np.full(ENVS, seed)

        tl.trajectories.record(Counting(), url, policy, steps=7, seed=seed)

    threads = [Thread(target=run, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ds = tl.open(url)
    for episode in np.unique(ds["episode"][:])[ENVS:]:
        rows = ds.where("episode = $e", e=int(episode))
        assert rows["t"][:].tolist() == list(range(len(rows)))
        assert len(np.unique(rows["action"][:])) == 1
    assert np.unique(ds["episode"][:]).tolist() == list(range(int(ds["episode"][:].max()) + 1))


def test_a_key_with_a_dot_is_refused(tmp_path):
    env = Counting()
    env.single_action_space = SimpleNamespace(spaces={"a.b": env.single_action_space})

    with pytest.raises(tl.UnsupportedFeatureError, match=r"'action' has the key 'a\.b'"):
        tl.trajectories.record(env, str(tmp_path / "c.tl"), steps=2)


@pytest.mark.parametrize(
    ("policy", "error", "words"),
    [
        (lambda _: np.zeros(ENVS + 1, int), tl.ShapeMismatchError, "one action for each"),
        (lambda _: 1, tl.ShapeMismatchError, "one action for each"),
        (lambda _: np.zeros(ENVS), tl.DTypeMismatchError, "float64"),
        (lambda _: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_a_policy_that_fails_leaves_the_dataset_as_it_was(tmp_path, policy, error, words):
    url = str(tmp_path / "c.tl")
    before = tl.trajectories.record(Counting(), url, steps=3).version

    with pytest.raises(error, match=words):
        tl.trajectories.record(Counting(), url, policy, steps=2000)

    assert tl.open(url).version == before


def test_actions_reach_the_environment_as_they_are_stored(tmp_path):
    seen = []

    class Doubles(Counting):
        def step(self, action):
            seen.append(action)
            return super().step(action)

    third = np.full(ENVS, 1 / 3)
    ds = tl.trajectories.record(
        Doubles("float32"), str(tmp_path / "c.tl"), lambda _: third, steps=2
    )

    assert seen[0].dtype == np.float64
    assert (seen[0] == np.float32(1 / 3)).all()
    assert (ds["action"][:] == np.float32(1 / 3)).all()


def test_episodes_without_a_seed_and_parts_of_episodes_are_not_replayed(tmp_path):
    ds = tl.trajectories.record(Counting(), str(tmp_path / "c.tl"), steps=3)

    with pytest.raises(tl.InvalidInputError, match="got str"):
        list(tl.trajectories.replay(None, ds.url))  # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(tl.InvalidInputError, match="has no seed"):
        list(tl.trajectories.replay(None, ds))
    ds["seed"][:] = 1
    with pytest.raises(tl.InvalidInputError, match="not whole"):
        list(tl.trajectories.replay(None, ds.where("t = 1")))
    with pytest.raises(tl.InvalidInputError, match="and the dataset 2"):
        list(tl.trajectories.replay(None, ds.where("t = 0")))
    with pytest.raises(tl.InvalidInputError, match="takes one environment"):
        list(tl.trajectories.replay(Counting(), ds))
    assert list(tl.trajectories.replay(None, ds.where("t > 99"))) == []
    ds.discard()


def test_wrong_arguments_are_refused_before_anything_is_made(tmp_path):
    url = str(tmp_path / "c.tl")
    strange = Counting()
    strange.single_observation_space = Space(shape=None, dtype=None)
    for call, error, words in [
        (lambda: tl.trajectories.record(object(), url, steps=1), tl.InvalidInputError, "make_vec"),
        (lambda: tl.trajectories.record(Counting(), url, steps=0), tl.InvalidInputError, "steps"),
        (
            lambda: tl.trajectories.record(Counting(), url, steps=1, schema={"obs": "int8"}),
            tl.SchemaError,
            "obs",
        ),
        (
            lambda: tl.trajectories.record(strange, url, steps=1),
            tl.UnsupportedFeatureError,
            "flatten",
        ),
        (lambda: tl.trajectories.from_minari(3, url), tl.InvalidInputError, "got int"),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert not tl.exists(url)


def test_a_dataset_of_other_tensors_is_refused(tmp_path):
    url = str(tmp_path / "c.tl")
    tl.create(url, {"x": "int64"}).close()

    with pytest.raises(tl.SchemaError, match="another URL"):
        tl.trajectories.record(Counting(), url, steps=1)
