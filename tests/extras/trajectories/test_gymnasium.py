"""Gymnasium, EnvPool and Minari: what is recorded is what they gave, and is given again."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tensorlake as tl

gym = pytest.importorskip("gymnasium")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def cart_poles(mode="NEXT_STEP", kind="sync", count=3):
    options = {"autoreset_mode": gym.vector.AutoresetMode[mode]}
    return gym.make_vec(
        "CartPole-v1", num_envs=count, vectorization_mode=kind, vector_kwargs=options
    )


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_every_episode_is_replayed_bit_by_bit(tmp_path, mode, kind):
    env = cart_poles(mode, kind)
    ds = tl.trajectories.record(env, str(tmp_path / "c.tl"), steps=120, seed=3)
    env.close()

    episodes = list(tl.trajectories.replay(gym.make("CartPole-v1"), ds))

    assert sum(len(one["reward"]) for one in episodes) == len(ds) == 360
    ends = ds.where("terminated OR truncated")
    assert len(ends) == ds.where("last_observation IS NOT NULL").count() > 5
    # a pole that fell is out of bounds in the last observation, and never in one that is acted on
    last = ends["last_observation"].read(null=0)
    assert (np.abs(last[:, 2]) > 0.2094).all()
    assert (np.abs(ds["observation"][:][:, 2]) <= 0.2094).all()


def test_one_episode_is_replayed_alone_and_another_environment_is_found_out(tmp_path):
    ds = tl.trajectories.record(cart_poles(), str(tmp_path / "c.tl"), steps=60, seed=3)
    one = ds.where("episode = 4")

    (found,) = tl.trajectories.replay(gym.make("CartPole-v1"), one)
    assert (found["observation"] == one["observation"][:]).all()
    heavier = gym.make("CartPole-v1")
    heavier.unwrapped.gravity = 9.9
    with pytest.raises(tl.ReplayMismatchError, match="episode 4 gave 'observation'"):
        list(tl.trajectories.replay(heavier, one))


def test_equal_seeds_record_equal_rows_and_others_do_not(tmp_path):
    def rows(name, seed):
        ds = tl.trajectories.record(cart_poles(), str(tmp_path / name), steps=50, seed=seed)
        return ds["observation"][:]

    assert (rows("a.tl", 1) == rows("b.tl", 1)).all()
    assert (rows("c.tl", 2) != rows("d.tl", 1)).any()


class Maze(gym.Env):
    """Observations and actions are dicts of dicts."""

    observation_space = gym.spaces.Dict(
        {
            "at": gym.spaces.MultiDiscrete([9, 9]),
            "eyes": gym.spaces.Dict({"image": gym.spaces.Box(0, 255, (4, 5, 3), "uint8")}),
            "seen": gym.spaces.MultiBinary(3),
        }
    )
    action_space = gym.spaces.Dict(
        {"go": gym.spaces.Discrete(4), "how": gym.spaces.Box(-1, 1, (2,), "float32")}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen({"go": 0, "how": np.zeros(2)}), {}

    def step(self, action):
        self.t += 1
        return self._seen(action), float(action["how"][0]), False, self.t == 7, {}

    def _seen(self, action):
        image = self.np_random.integers(0, 255, (4, 5, 3)).astype("uint8")
        at = np.array([self.t % 9, int(action["go"])])
        return {"at": at, "eyes": {"image": image}, "seen": np.array([1, 0, 1], "int8")}


def test_dicts_become_groups_and_images_are_compressed(tmp_path):
    env = gym.vector.SyncVectorEnv([Maze, Maze])
    image = {
        "observation.eyes.image": tl.Image("png"),
        "last_observation.eyes.image": tl.Image("png", nullable=True),
    }
    ds = tl.trajectories.record(env, str(tmp_path / "maze.tl"), steps=20, schema=image)

    assert {"action.go", "action.how", "observation.at", "observation.seen"} <= set(ds.schema)
    assert len(list(tl.trajectories.replay(Maze(), ds))) == 6
    windows = ds.windows(["observation.eyes.image", "action.how"], by="episode", size=4, step=1)
    batch = next(iter(windows.loader(batch_size=5)))
    assert batch["observation.eyes.image"].shape == (5, 4, 4, 5, 3)


def test_an_environment_without_resets_is_refused(tmp_path):
    env = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    env.metadata["autoreset_mode"] = gym.vector.AutoresetMode.DISABLED
    with pytest.raises(tl.UnsupportedFeatureError, match="NEXT_STEP"):
        tl.trajectories.record(env, str(tmp_path / "c.tl"), steps=2)


def test_spaces_without_one_shape_are_refused(tmp_path):
    class Words(Maze):
        observation_space = gym.spaces.Text(5)

    with pytest.raises(tl.UnsupportedFeatureError, match="'observation'"):
        tl.trajectories.record(gym.vector.SyncVectorEnv([Words]), str(tmp_path / "w.tl"), steps=1)
    with pytest.raises(tl.InvalidInputError, match="SyncVectorEnv"):
        tl.trajectories.record(Maze(), str(tmp_path / "m.tl"), steps=1)


def test_envpool_is_recorded_without_the_steps_that_reset(tmp_path):
    envpool = pytest.importorskip("envpool")

    def made():
        return envpool.make_gymnasium("CartPole-v1", num_envs=4, seed=7)

    def policy(observed):
        return (observed[:, 2] > 0).astype("int32")

    ds = tl.trajectories.record(made(), str(tmp_path / "p.tl"), policy, steps=300)

    env, observed, rewards = made(), None, 0.0
    observed, _ = env.reset()
    for _ in range(300):
        observed, reward, *_ = env.step(policy(observed))
        rewards += reward.sum()
    assert ds["reward"][:].sum() == rewards
    assert (ds["action"][:] == (ds["observation"][:][:, 2] > 0)).all()
    assert ds.where("seed IS NULL").count() == len(ds)


def test_minari_episodes_come_in_whole_and_are_replayed(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = minari.DataCollector(gym.make("CartPole-v1"))
    for seed in range(3):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            is_over = terminated or truncated
    source = env.create_dataset("cartpole/test-v0", eval_env="CartPole-v1")

    ds = tl.trajectories.from_minari(source, str(tmp_path / "m.tl"))
    again = tl.trajectories.from_minari("cartpole/test-v0", str(tmp_path / "m.tl"))

    assert len(ds) == source.total_steps
    assert len(again) == 2 * source.total_steps
    assert sorted(set(again["episode"][:].tolist())) == list(range(6))
    for episode in source.iterate_episodes():
        rows = ds.where("episode = $e", e=int(episode.id))
        assert (rows["observation"][:] == episode.observations[:-1]).all()
        assert (rows["last_observation"][-1] == episode.observations[-1]).all()
        assert (rows["action"][:] == episode.actions).all()
    if ds.where("seed IS NULL").count() == 0:
        assert len(list(tl.trajectories.replay(gym.make("CartPole-v1"), ds))) == 3
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(tl.MissingExtraError, match="pip install minari"):
        tl.trajectories.from_minari("cartpole/test-v0", str(tmp_path / "x.tl"))
