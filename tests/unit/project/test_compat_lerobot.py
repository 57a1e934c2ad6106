"""LeRobot's arguments and items over a dataset. tests/extras/lerobot compares both libraries."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.compat.lerobot import (
    LeRobotDataset,
    LeRobotDatasetMetadata,
    StreamingLeRobotDataset,
    train,
)
from tensorlake.errors import InvalidInputError, MissingExtraError

torch = pytest.importorskip("torch")

LENGTHS = (5, 1, 7)
STEPS = sum(LENGTHS)
FRAMES = np.random.default_rng(0).integers(0, 256, (STEPS, 8, 12, 3), np.uint8)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tl.create(
        str(tmp_path_factory.mktemp("compat") / "steps.tl"),
        {
            "episode": "int64",
            "action": tl.Array("float64", (2,)),
            "reward": "float32",
            "task": tl.Text(),
            "frame": tl.Image("png"),
            "note": tl.Text(),
        },
    )
    made.extend(
        {
            "episode": np.repeat(np.arange(3), LENGTHS),
            "action": np.arange(2 * STEPS).reshape(-1, 2),
            "reward": np.arange(STEPS) / 4,
            "task": ["push"] * 6 + ["lift"] * 7,
            "frame": FRAMES,
            "note": [str(row) for row in range(STEPS)],
        }
    )
    made.commit("three episodes")
    return made


def test_an_item_has_the_values_of_its_row(ds: tl.Dataset) -> None:
    steps = LeRobotDataset(ds.url, fps=10)
    item = steps[7]

    assert len(steps) == steps.num_frames == STEPS
    assert item["action"].dtype == torch.float32
    assert item["action"].tolist() == [14, 15]
    assert (item["next.reward"].shape, item["next.reward"].item()) == ((), 7 / 4)
    assert item["observation.note"] == "7"
    assert item["task"] == "lift"
    assert (item["episode_index"], item["frame_index"], item["index"]) == (2, 1, 7)
    assert item["timestamp"].item() == pytest.approx(0.1)
    assert item["observation.image"].shape == (3, 8, 12)
    assert np.array_equal((item["observation.image"] * 255).round().permute(1, 2, 0), FRAMES[7])


def test_times_beyond_an_episode_repeat_its_ends(ds: tl.Dataset) -> None:
    deltas = {"action": [-0.1, 0, 0.2], "observation.image": [-0.2, 0.0], "frame_index": [0.1]}
    item = LeRobotDataset(ds.url, fps=10, delta_timestamps=deltas)[6]

    assert item["action"][:, 0].tolist() == [12, 12, 16]
    assert item["action_is_pad"].tolist() == [True, False, False]
    assert item["observation.image"].shape == (2, 3, 8, 12)
    assert item["observation.image_is_pad"].tolist() == [True, False]
    assert item["frame_index"].tolist() == [1]
    assert item["frame_index_is_pad"].tolist() == [False]


def test_a_batch_is_the_items_one_by_one(ds: tl.Dataset) -> None:
    steps = LeRobotDataset(ds.url, fps=10, delta_timestamps={"action": [0, 0.1]})
    numbers = [3, 12, 3, -1, 0]

    for item, number in zip(steps.__getitems__(numbers), numbers, strict=True):
        alone = steps[number]
        assert item.keys() == alone.keys()
        for name, value in item.items():
            assert (
                torch.equal(value, alone[name]) if name != "task" and "note" not in name else True
            )
    assert steps.__getitems__([]) == []
    assert len([*steps]) == STEPS


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_of_torch_reads_it(ds: tl.Dataset, workers: Any) -> None:
    steps = LeRobotDataset(ds.url, fps=10)
    context = multiprocessing.get_context("fork") if workers else None
    loader = torch.utils.data.DataLoader(
        steps, batch_size=4, num_workers=workers, multiprocessing_context=context
    )

    assert torch.cat([batch["index"] for batch in loader]).tolist() == [*range(STEPS)]


def test_some_episodes_keep_the_numbers_of_their_steps(ds: tl.Dataset) -> None:
    steps = LeRobotDataset(ds.url, fps=10, episodes=[2, 1])

    assert (len(steps), steps.num_episodes) == (8, 2)
    assert [item["index"].item() for item in steps] == [5, 6, 7, 8, 9, 10, 11, 12]


def test_frames_of_a_single_time_have_no_axis_of_times(ds: tl.Dataset) -> None:
    deltas = {"action": [0.1], "observation.image": [0.1]}
    item = LeRobotDataset(ds.url, fps=10, delta_timestamps=deltas)[6]

    assert item["action"].shape == (1, 2)
    assert item["observation.image"].shape == (3, 8, 12)
    assert item["observation.image_is_pad"].tolist() == [False]
    assert np.array_equal((item["observation.image"] * 255).round().permute(1, 2, 0), FRAMES[7])


def test_a_view_of_a_query_is_a_dataset_of_its_rows(ds: tl.Dataset) -> None:
    steps = LeRobotDataset(ds.where("reward >= 1.25"), fps=10)

    assert steps.meta.episodes["length"] == [1, 7]
    assert steps[0]["observation.note"] == "5"
    assert steps[0]["episode_index"] == 0


def test_transforms_get_frames(ds: tl.Dataset) -> None:
    steps = LeRobotDataset(ds.url, fps=10, image_transforms=lambda frames: frames.mean((-2, -1)))

    assert steps[0]["observation.image"].shape == (3,)


def test_the_metadata_are_those_of_the_library(ds: tl.Dataset) -> None:
    meta = LeRobotDatasetMetadata(ds.url, fps=10)

    assert (meta.total_episodes, meta.total_frames, meta.total_tasks) == (3, STEPS, 2)
    assert meta.camera_keys == ["observation.image"]
    assert meta.shapes["observation.image"] == (8, 12, 3)
    assert meta.episodes[2]["dataset_from_index"] == 6
    assert meta.episodes["dataset_to_index"] == [5, 6, 13]
    assert meta.tasks.index.tolist() == ["push", "lift"]
    assert (meta.get_task_index("lift"), meta.get_task_index("fly")) == (1, None)
    assert np.allclose(meta.stats["action"]["mean"], [12, 13])
    assert np.allclose(
        meta.stats["observation.image"]["mean"].ravel(), FRAMES.reshape(-1, 3).mean(0) / 255
    )
    assert meta.revision == "main@1"


def test_a_pass_of_a_stream_has_each_step_once_in_an_order_of_its_own(ds: tl.Dataset) -> None:
    given = {"fps": 10, "delta_timestamps": {"action": [-0.1, 0.2]}}
    stream, steps = StreamingLeRobotDataset(ds.url, **given), LeRobotDataset(ds.url, **given)
    passes = [{item["index"]: item for item in stream} for _ in range(2)]

    assert [sorted(one) for one in passes] == [[*range(STEPS)]] * 2
    assert len({tuple(one) for one in [*passes, dict.fromkeys(range(STEPS))]}) == 3
    for number, item in passes[0].items():
        assert item.keys() == steps[number].keys()
        for name, value in item.items():
            other = steps[number][name]
            assert torch.equal(value, other) if torch.is_tensor(value) else value == other


def test_passes_of_a_stream_without_shuffling_again_are_the_first_one(ds: tl.Dataset) -> None:
    first = [item["index"] for item in StreamingLeRobotDataset(ds.url, fps=10, seed=7)]
    stream = StreamingLeRobotDataset(ds.url, fps=10, seed=7, shuffle=False)

    for _ in range(2):
        assert [item["index"] for item in stream] == first
    other = StreamingLeRobotDataset(ds.url, fps=10, rng=np.random.default_rng(0))
    assert [item["index"] for item in other] != first


@pytest.mark.parametrize("is_persistent", [False, True])
def test_workers_of_a_dataloader_divide_each_pass_of_a_stream(
    tmp_path: Path, is_persistent: Any
) -> None:
    ds = tl.create(str(tmp_path / "x.tl"), {"episode": "int64", "action": "float32"})
    ds.extend({"episode": [0] * 200, "action": range(200)})
    ds.commit("an episode")
    stream = StreamingLeRobotDataset(ds.url, fps=10)
    loader = torch.utils.data.DataLoader(
        stream,
        batch_size=10,
        num_workers=2,
        multiprocessing_context=multiprocessing.get_context("fork"),
        persistent_workers=is_persistent,
    )
    passes = [torch.cat([batch["index"] for batch in loader]).tolist() for _ in range(2)]

    assert [sorted(one) for one in passes] == [[*range(200)]] * 2
    assert passes[0] != passes[1]


def test_a_stream_has_the_steps_of_some_episodes(ds: tl.Dataset) -> None:
    stream = StreamingLeRobotDataset(ds.url, fps=10, episodes=[1, 2], buffer_size=1)

    assert (stream.num_frames, stream.num_episodes, stream.meta.total_episodes) == (8, 2, 3)
    assert sorted(item["index"] for item in stream) == [5, 6, 7, 8, 9, 10, 11, 12]


def test_the_dataset_of_hugging_face_has_the_features_but_frames(ds: tl.Dataset) -> None:
    table = LeRobotDataset(ds.url, fps=10, episodes=[2]).hf_dataset

    assert {*table.column_names} == {*LeRobotDatasetMetadata(ds.url, fps=10).features} - {
        "observation.image"
    }
    assert len(table) == 7
    assert table[1]["action"].tolist() == [14, 15]
    assert table[0]["observation.note"] == "6"
    assert torch.stack(table.select_columns("action")[:2]["action"]).tolist() == [
        [12, 13],
        [14, 15],
    ]
    assert len(table.filter(lambda row: row["index"] > 10)) == 2
    assert table.with_format(None)["next.reward"][:2] == [1.5, 1.75]
    assert [*table.unique("episode_index")] == [2]


def test_a_version_is_a_revision(tmp_path: Path) -> None:
    ds = tl.create(str(tmp_path / "x.tl"), {"episode": "int64", "action": "float32"})
    ds.extend({"episode": [0], "action": [1]})
    ds.commit("one")
    ds.extend({"episode": [0], "action": [2]})
    ds.commit("two")

    assert len(LeRobotDataset(ds.url, fps=1, revision="main@1")) == 1
    assert len(LeRobotDataset("ignored", root=ds.url, fps=1)) == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "give it: fps=10"),
        ({"fps": 10, "episodes": [3]}, "there are 3"),
        ({"fps": 10, "episodes": [-1]}, "there are 3"),
        ({"fps": 10, "delta_timestamps": {"acton": [0]}}, "unknown feature 'acton'"),
        ({"fps": 10, "delta_timestamps": {"action": [0.05]}}, "multiples of 1/10"),
        ({"fps": 10, "delta_timestamps": {"action": []}}, "multiples of 1/10"),
        ({"fps": 10, "delta_timestamps": {"action": [float("nan")]}}, "multiples of 1/10"),
        ({"fps": 10, "episode": "nothing"}, "there is no tensor 'nothing'"),
    ],
)
def test_wrong_arguments_are_errors(ds: tl.Dataset, arguments: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        StreamingLeRobotDataset(ds.url, **arguments)
    with pytest.raises(InvalidInputError, match=why):
        LeRobotDataset(ds.url, **arguments)


def test_a_stream_without_a_buffer_is_refused(ds: tl.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="buffer_size"):
        StreamingLeRobotDataset(ds.url, fps=10, buffer_size=0)


def test_a_step_that_is_not_there_ends_an_iteration(ds: tl.Dataset) -> None:
    with pytest.raises(IndexError, match="there are 13 steps"):
        LeRobotDataset(ds.url, fps=10)[13]


def test_a_dataset_without_rows_has_no_items(tmp_path: Path) -> None:
    ds = tl.create(str(tmp_path / "x.tl"), {"episode": "int64", "action": "float32"})
    steps = LeRobotDataset(ds, fps=10)

    assert (len(steps), steps.meta.stats) == (0, {})


def test_the_script_without_the_library_is_an_error() -> None:
    with pytest.raises(MissingExtraError, match="pip install lerobot"):
        train()
