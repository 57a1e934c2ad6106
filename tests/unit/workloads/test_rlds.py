"""tl.trajectories.from_rlds: episodes as TensorFlow Datasets writes them become rows of steps."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

LENGTHS = (4, 1, 3)  # steps, the last of which has no action


def episode(number, count):
    random = np.random.default_rng(number)
    return {
        "steps/is_first": [1] + [0] * (count - 1),
        "steps/is_last": [0] * (count - 1) + [1],
        "steps/is_terminal": [0] * (count - 1) + [1 - number % 2],
        "steps/observation/state": random.random(3 * count, np.float32),
        "steps/observation/image": [b"%d %d" % (number, t) for t in range(count)],
        "steps/action": random.random(2 * count, np.float32),
        "steps/reward": np.arange(count, dtype="float32"),
        "steps/mode": [*range(count)],
        "episode_metadata/file": f"{number}.npz",
    }


@pytest.fixture
def rlds(tmp_path):
    """Episodes as they are read from TFRecord."""
    numbers, floats = tl.Array("int64", (None,)), tl.Array("float32", (None,))
    kinds = dict.fromkeys(episode(0, 1), numbers) | {
        "steps/observation/state": floats,
        "steps/action": floats,
        "steps/reward": floats,
        "steps/observation/image": tl.Sequence(tl.Bytes()),
        "episode_metadata/file": tl.Text(),
    }
    with tl.create(tmp_path / "episodes", kinds) as ds:
        for number, count in enumerate(LENGTHS):
            ds.append(episode(number, count))
        ds.commit("episodes")
        yield ds
        ds.discard()


def test_steps_are_rows_and_the_last_observation_is_that_after_them(tmp_path, rlds):
    ds = tl.trajectories.from_rlds(rlds, tmp_path / "steps")

    assert list(ds.schema)[:2] == ["episode", "t"]
    assert "is_last" not in ds.schema
    assert ds.schema["action"] == tl.Array("float32", (2,))
    assert ds.schema["mode"] == tl.Scalar("int64")
    assert ds["episode"][:].tolist() == [0, 0, 0, 2, 2]
    assert ds["t"][:].tolist() == [0, 1, 2, 0, 1]
    assert ds["terminated"][:].tolist() == [False, False, True, False, True]
    assert ds["reward"][:].tolist() == [0, 1, 2, 0, 1]
    for number, row in ((0, 2), (2, 4)):
        given = episode(number, LENGTHS[number])
        state = given["steps/observation/state"].reshape(-1, 3)
        rows = ds.where("episode = $e", e=number)
        assert np.array_equal(rows["observation.state"][:], state[:-1])
        assert np.array_equal(rows["action"][:], given["steps/action"].reshape(-1, 2)[:-1])
        assert np.array_equal(ds["last_observation.state"][row], state[-1])
        assert ds["last_observation.image"][row] == given["steps/observation/image"][-1]
    assert [one is None for one in ds["last_observation.state"].to_list()] == [1, 1, 0, 1, 0]


def test_further_episodes_are_appended_and_their_images_stay_as_they_are(tmp_path):
    with tl.create("memory://png", {"x": tl.Image("png")}) as pictures:
        pictures.extend({"x": [np.full((2, 3, 3), n, np.uint8) for n in range(3)]})
        images = [pictures["x"].bytes(row) for row in range(3)]
        pictures.discard()
    names = ("is_last", "is_terminal")
    kinds = {f"steps/{name}": tl.Array("int64", (None,)) for name in names}
    with tl.create(
        "memory://frames", {**kinds, "steps/observation": tl.Sequence(tl.Bytes())}
    ) as ds:
        ds.append(
            dict(zip([*kinds, "steps/observation"], [[0, 0, 1], [0, 0, 0], images], strict=True))
        )
        schema = {"observation": tl.Image("png")}

        tl.trajectories.from_rlds(ds, tmp_path / "steps", schema=schema)
        steps = tl.trajectories.from_rlds(ds, tmp_path / "steps", schema=schema)
        ds.discard()

    assert steps["episode"][:].tolist() == [0, 0, 1, 1]
    assert [steps["observation"].bytes(row) for row in (0, 1)] == images[:2]
    assert steps["last_observation"].bytes(3) == images[2]
    assert steps["truncated"][:].tolist() == [False, True] * 2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"steps/action": [1.0] * 7}, tl.InvalidInputError, "7 values, and it has 4 steps"),
        ({"steps/is_last": [1, 0, 0, 0]}, tl.InvalidInputError, "not true of its last step"),
    ],
)
def test_other_episodes_are_refused_and_nothing_is_committed(tmp_path, rlds, change, error, words):
    rlds.append({**episode(3, 4), **change})
    with pytest.raises(error, match=words):
        tl.trajectories.from_rlds(rlds, tmp_path / "steps")
    assert len(tl.open(tmp_path / "steps")) == 0


def test_datasets_without_steps_are_refused():
    with pytest.raises(tl.InvalidInputError, match="ingest"):
        tl.trajectories.from_rlds("files", "memory://none")
    with tl.create("memory://other", {"x": "int64"}) as ds:
        with pytest.raises(tl.MissingTensorError, match="steps/is_last"):
            tl.trajectories.from_rlds(ds, "memory://none")
        ds.discard()
    kinds = dict.fromkeys(("steps/is_last", "steps/is_terminal"), tl.Array("int64", (None,)))
    kinds |= {"steps/observation": tl.Sequence(tl.Image("jpeg"))}
    with tl.create("memory://decoded", kinds) as ds:
        with pytest.raises(tl.UnsupportedFeatureError, match=r"tl.Image\('jpeg'\)"):
            tl.trajectories.from_rlds(ds, "memory://none")
        ds.discard()
