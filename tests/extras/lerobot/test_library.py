"""LeRobot reads what `to_lerobot` writes, and records what `tl.ingest.lerobot` reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl

library = pytest.importorskip("lerobot.datasets.lerobot_dataset")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

FPS = 10
LENGTHS = (12, 3, 9)
SIDES = (96, 128)


def frames(count: int) -> np.ndarray:
    ramp = np.linspace(0, 250, SIDES[1]).astype(np.uint8)
    made = np.broadcast_to(ramp[None, None, :, None], (count, *SIDES, 3)).copy()
    made[:, :48] = (17 * np.arange(count) % 250).astype(np.uint8)[:, None, None, None]
    return made


@pytest.fixture(params=["video", "image"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A dataset that the library recorded."""
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "observation.images.top": {
            "dtype": request.param,
            "shape": (*SIDES, 3),
            "names": ["height", "width", "channels"],
        },
    }
    root = tmp_path / "recorded"
    ds = library.LeRobotDataset.create(
        "own/set", FPS, features, root=root, use_videos=request.param == "video", vcodec="h264"
    )
    for number, length in enumerate(LENGTHS):
        for step, pixels in enumerate(frames(length)):
            ds.add_frame(
                {
                    "observation.state": np.array([number, step], np.float32),
                    "action": np.array([step, -step], np.float32),
                    "next.reward": np.array([step / 10], np.float32),
                    "observation.images.top": pixels,
                    "task": f"task {number % 2}",
                }
            )
        ds.save_episode()
    ds.finalize()
    return library.LeRobotDataset("own/set", root=root)


def test_what_the_library_recorded_is_read_as_it_reads_it(recorded: Any, tmp_path: Path) -> None:
    ds = tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl"))

    assert len(ds) == len(recorded) == sum(LENGTHS)
    for at in range(len(ds)):
        row, theirs = ds[at], recorded[at]
        assert np.array_equal(row["state"], theirs["observation.state"].numpy())
        assert np.array_equal(row["action"], theirs["action"].numpy())
        assert row["reward"] == theirs["next.reward"].numpy()
        assert (row["episode"], row["t"]) == (theirs["episode_index"], theirs["frame_index"])
        assert row["task"] == theirs["task"]
        pixels = theirs["observation.images.top"].permute(1, 2, 0).numpy() * 255
        assert np.abs(row["frame"] - pixels).mean() < 2


def test_what_is_written_is_read_by_the_library(recorded: Any, tmp_path: Path) -> None:
    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).to_lerobot(tmp_path / "out")
    deltas = {"action": [0.0, 1 / FPS], "observation.images.top": [-1 / FPS, 0.0]}
    back = library.LeRobotDataset("own/out", root=tmp_path / "out", delta_timestamps=deltas)

    assert back.meta.total_episodes == len(LENGTHS)
    assert back.meta.features["action"]["names"] == ["x", "y"]
    for at in range(len(back)):
        own, theirs = back[at], recorded[at]
        assert torch.equal(own["observation.state"], theirs["observation.state"])
        assert torch.equal(own["action"][0], theirs["action"])
        assert own["task"] == theirs["task"]
        off = own["observation.images.top"][1] - theirs["observation.images.top"]
        assert off.abs().mean() < 8 / 255
    for name in ("observation.state", "action", "next.reward"):
        for kind in ("min", "max", "mean", "std"):
            own, theirs = back.meta.stats[name][kind], recorded.meta.stats[name][kind]
            assert np.allclose(own, theirs, atol=1e-5), (name, kind)


def test_items_are_those_of_the_library(recorded: Any, tmp_path: Path) -> None:
    from tensorlake.compat.lerobot import LeRobotDataset

    deltas = {"action": [-1 / FPS, 0, 2 / FPS], "observation.images.top": [-1 / FPS, 0]}
    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).close()
    theirs = library.LeRobotDataset("own/set", root=recorded.root, delta_timestamps=deltas)
    ours = LeRobotDataset(str(tmp_path / "in.tl"), delta_timestamps=deltas)

    assert len(ours) == len(theirs)
    assert ours.meta.features == theirs.meta.features | {
        "observation.images.top": ours.meta.features["observation.images.top"]
    }
    for at in range(len(ours)):
        own, other = ours[at], theirs[at]
        assert own.keys() == other.keys()
        for name, value in other.items():
            if isinstance(value, str):
                assert own[name] == value
                continue
            assert (own[name].dtype, own[name].shape) == (value.dtype, value.shape)
            assert torch.allclose(own[name].float(), value.float(), atol=2 / 255), name


def test_some_episodes_and_single_times_are_those_of_the_library(
    recorded: Any, tmp_path: Path
) -> None:
    from tensorlake.compat.lerobot import LeRobotDataset

    deltas = {"action": [1 / FPS], "observation.images.top": [0]}
    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).close()
    given = {"delta_timestamps": deltas, "episodes": [2, 0]}
    theirs = library.LeRobotDataset("own/set", root=recorded.root, **given)
    ours = LeRobotDataset(str(tmp_path / "in.tl"), **given)

    assert (len(ours), ours.num_episodes) == (len(theirs), theirs.num_episodes)
    for at in range(len(ours)):
        own, other = ours[at], theirs[at]
        assert own["index"] == other["index"]
        assert own["action"].shape == other["action"].shape
        frames = other["observation.images.top"]
        # a camera whose frames the library keeps as images, not as a video, has an axis of one time
        assert own["observation.images.top"].shape == frames.shape[-3:]
        assert torch.allclose(own["observation.images.top"], frames, atol=2 / 255)


def test_items_of_a_stream_are_those_of_the_library(recorded: Any, tmp_path: Path) -> None:
    from lerobot.datasets.streaming_dataset import StreamingLeRobotDataset as Theirs

    from tensorlake.compat.lerobot import StreamingLeRobotDataset

    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).close()
    camera, is_video = "observation.images.top", bool(recorded.meta.video_keys)
    deltas = {"action": [-1 / FPS, 0, 1 / FPS, 2 / FPS]}
    if is_video:  # of images, its stream stacks files that are not decoded
        deltas[camera] = [-1 / FPS, 0]
    theirs = {
        item["index"]: item
        for item in Theirs("own/set", root=recorded.root, delta_timestamps=deltas)
    }
    ours = StreamingLeRobotDataset(str(tmp_path / "in.tl"), delta_timestamps=deltas)
    numbers: list[int] = []

    for item in ours:
        other = theirs[item["index"]]
        numbers.append(item["index"])
        assert item.keys() == other.keys()
        for name in item if is_video else item.keys() - {camera}:
            value = other[name]
            assert type(item[name]) is type(value), name
            if not torch.is_tensor(value):
                assert item[name] == value, name
                continue
            assert (item[name].dtype, item[name].shape) == (value.dtype, value.shape)
            assert torch.allclose(item[name].float(), value.float(), atol=2 / 255), name
    assert sorted(numbers) == sorted(theirs)


def test_the_table_of_steps_is_that_of_the_library(recorded: Any, tmp_path: Path) -> None:
    from tensorlake.compat.lerobot import LeRobotDataset

    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).close()
    theirs = library.LeRobotDataset("own/set", root=recorded.root, episodes=[2]).hf_dataset
    ours = LeRobotDataset(str(tmp_path / "in.tl"), episodes=[2]).hf_dataset
    names = {*theirs.column_names} - {"observation.images.top"}

    assert {*ours.column_names} == names
    for name in names:  # as the scripts that replay, edit and tokenize use it
        assert ours.features[name] == theirs.features[name]
        own, other = (
            one.filter(lambda row: row["episode_index"] == 2).select_columns(name)
            for one in (ours, theirs)
        )
        assert len(own) == len(other) == LENGTHS[2]
        for at in range(len(own)):
            assert torch.equal(own[at][name], other[at][name])
            assert own[at][name].dtype == other[at][name].dtype
        own, other = (one.with_format(None)[name] for one in (ours, theirs))
        assert [*own] == [*other]
    assert ours.unique("episode_index") == theirs.unique("episode_index") == [2]


@pytest.mark.parametrize("recorded", ["video"], indirect=True)
@pytest.mark.parametrize("streaming", ["false", "true"])
def test_the_training_script_of_the_library_runs(
    recorded: Any, streaming: str, tmp_path: Path
) -> None:
    tl.ingest.lerobot(recorded.root, str(tmp_path / "in.tl")).close()
    arguments = {
        "dataset.repo_id": tmp_path / "in.tl",
        "dataset.streaming": streaming,
        "output_dir": tmp_path / "run",
        "batch_size": 2,
        "steps": 2,
        "log_freq": 1,
        "num_workers": 1,
        "save_checkpoint": "false",
        "wandb.enable": "false",
        "policy.type": "act",
        "policy.device": "cpu",
        "policy.push_to_hub": "false",
        "policy.pretrained_backbone_weights": "null",
        "policy.dim_model": 32,
        "policy.dim_feedforward": 32,
        "policy.n_heads": 2,
        "policy.n_encoder_layers": 1,
        "policy.chunk_size": 4,
        "policy.n_action_steps": 4,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tensorlake.compat.lerobot"]
        + [f"--{name}={value}" for name, value in arguments.items()],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert "End of training" in done.stderr + done.stdout
