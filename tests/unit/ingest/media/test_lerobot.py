"""LeRobot datasets in and out. tests/extras/lerobot has the library itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError, SchemaError, UnsupportedFeatureError
from tensorlake.ingest.media.episodes import Feature
from tensorlake.ingest.media.lerobot import tensor_names

LENGTHS = (5, 1, 7)
STEPS = sum(LENGTHS)


def steps(lengths: Sequence[int], **more: Any) -> Any:
    count = sum(lengths)
    ramp = np.linspace(0, 200, 32, dtype=np.uint8)
    frames = np.broadcast_to(ramp[None, :, None, None], (count, 32, 48, 3)).copy()
    frames[:, :, :24] = (20 * np.arange(count) % 250)[:, None, None, None]
    return {
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "state": np.arange(2 * count, dtype=np.float32).reshape(-1, 2),
        "action": np.arange(count, dtype=np.float32),
        "done": np.arange(count) % 2 == 0,
        "grid": np.arange(6 * count, dtype=np.int16).reshape(-1, 2, 3),
        "task": [f"push {at % 2}" for at in range(count)],
        "frame": frames,
        **more,
    }


SCHEMA = {
    "episode": "int64",
    "state": tl.Array("float32", (2,)),
    "action": "float32",
    "done": "bool",
    "grid": tl.Array("int16", (2, 3)),
    "task": tl.Text(),
    "frame": tl.Image("png"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    ds = tl.create(str(tmp_path_factory.mktemp("made") / "made.tl"), SCHEMA)
    ds.extend(steps(LENGTHS))
    ds.commit("three episodes")
    return ds


@pytest.fixture(scope="module")
def written(made: tl.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("written") / "set"
    made.to_lerobot(folder, fps=10)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Any:
    return shutil.copytree(written, tmp_path / "set")


def report_of(ds: tl.Dataset) -> tl.ingest.IngestReport:
    report = ds.ingest_report
    assert report is not None
    return report


def changed_info(folder: Path, **members: Any) -> Any:
    path = folder / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def changed_episodes(folder: Path, change: Any) -> Any:
    path = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    pq.write_table(pa.Table.from_pylist(change(pq.read_table(path).to_pylist())), path)


def test_steps_come_back_as_they_were(made: tl.Dataset, folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))

    assert [*ds.schema][:3] == ["episode", "t", "timestamp"]
    for name in ("episode", "state", "action", "done", "grid", "task"):
        assert ds.schema[name] == made.schema[name], name
        assert np.array_equal(np.asarray(ds[name][:]), np.asarray(made[name][:])), name
    assert ds["t"][:].tolist() == [t for length in LENGTHS for t in range(length)]
    assert np.allclose(ds["timestamp"][:], ds["t"][:] / 10)
    off = [np.abs(ds[row]["frame"].astype(int) - made[row]["frame"]).mean() for row in range(STEPS)]
    assert max(off) < 4


def test_windows_of_episodes_have_frames(folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))
    windows = ds.windows(columns=["state", "frame", "episode"], by="episode", size=4, step=1)
    (batch,) = windows.loader(batch_size=64, decode={"frame": tl.decode.Resize(16, 16)})

    assert batch["frame"].shape == (2 + 4, 4, 16, 16, 3)
    assert (batch["episode"] == batch["episode"][:, :1]).all()


def test_the_features_have_their_names_again(folder: Path, tmp_path: Path) -> None:
    changed_info(folder, robot_type="arm")
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))
    ds.to_lerobot(tmp_path / "out")
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())

    assert info["features"]["observation.image"]["dtype"] == "video"
    assert {"observation.state", "action", "next.done", "observation.grid"} < info[
        "features"
    ].keys()
    assert (info["fps"], info["robot_type"], info["total_frames"]) == (10, "arm", STEPS)
    assert info["features"]["action"]["shape"] == [1]


def test_several_cameras_are_a_group(made: tl.Dataset, tmp_path: Path) -> None:
    ds = tl.create(
        str(tmp_path / "two.tl"),
        {"episode": "str", "frame/top": tl.Image("png"), "frame/wrist": tl.Image("jpeg")},
    )
    frames = steps((3, 2))["frame"]
    ds.extend({"episode": ["b", "b", "b", "a", "a"], "frame/top": frames, "frame/wrist": frames})
    ds.to_lerobot(tmp_path / "two", fps=29.97)
    back = tl.ingest.lerobot(tmp_path / "two", str(tmp_path / "back.tl"))

    assert {"frame/top", "frame/wrist"} < back.schema.keys()
    assert back["episode"][:].tolist() == [0, 0, 0, 1, 1]
    assert back["task"][:] == ["step"] * 5
    assert (tmp_path / "two/videos/observation.images.top/chunk-000/file-001.mp4").is_file()
    ds.discard()


def test_rows_of_an_episode_follow_each_other_in_the_folder(
    made: tl.Dataset, tmp_path: Path
) -> None:
    order = [7, 0, 12, 1, 5]
    made[order].to_lerobot(tmp_path / "some", fps=10, columns=["episode", "action"])
    back = tl.ingest.lerobot(tmp_path / "some", str(tmp_path / "some.tl"))

    assert back["episode"][:].tolist() == [0, 0, 1, 1, 2]
    assert back["action"][:].tolist() == [7, 12, 0, 1, 5]


def test_the_same_call_adds_what_was_recorded_since(
    made: tl.Dataset, folder: Path, tmp_path: Path
) -> None:
    url = str(tmp_path / "in.tl")
    tl.ingest.lerobot(folder, url)
    assert report_of(tl.ingest.lerobot(folder, url)).added == 0

    more = tl.create(str(tmp_path / "more.tl"), SCHEMA)
    more.extend(steps(LENGTHS))
    more.extend({**steps((4,)), "episode": [9] * 4, "task": ["lift"] * 4})
    more.to_lerobot(folder, fps=10, overwrite=True)
    ds = tl.ingest.lerobot(folder, url)

    assert (report_of(ds).added, report_of(ds).unchanged) == (4, STEPS)
    assert ds["task"][-1] == "lift"
    more.discard()


def test_a_step_that_changed_is_an_error(folder: Path, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    tl.ingest.lerobot(folder, url)
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("action")
    table = table.set_column(at, table.schema.field(at), pa.array([9.0] * STEPS, pa.float32()))
    pq.write_table(table, path, row_group_size=4)

    with pytest.raises(InvalidInputError, match="changed"):
        tl.ingest.lerobot(folder, url)


def test_row_groups_need_not_be_episodes(made: tl.Dataset, folder: Path, tmp_path: Path) -> None:
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=2)
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))

    assert np.array_equal(ds["state"][:], made["state"][:])


def test_frames_take_a_given_type(folder: Path, tmp_path: Path) -> None:
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"), schema={"frame": tl.Image("jpeg")})

    assert ds["frame"].bytes(0)[:2] == b"\xff\xd8"


def test_images_in_the_files_of_steps_stay_as_they_are(folder: Path, tmp_path: Path) -> None:
    content = tl.create("memory://lerobot-images", {"x": tl.Image("jpeg")})
    content.append({"x": np.zeros((8, 8, 3), np.uint8)})
    jpeg = content["x"].bytes(0)
    content.discard()
    info = json.loads((folder / "meta/info.json").read_text())
    changed_info(
        folder,
        features={
            **info["features"],
            "observation.image": {"dtype": "image", "shape": [8, 8, 3], "names": None},
        },
    )
    path = folder / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    images = pa.array([{"bytes": jpeg, "path": None}] * STEPS)
    pq.write_table(table.append_column("observation.image", images), path)
    ds = tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))

    assert ds.schema["frame"] == tl.Image("jpeg")
    assert ds["frame"].bytes(3) == jpeg


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"codebase_version": "v2.1"}, "convert_dataset_v21_to_v30"),
        ({"codebase_version": None}, "v3.0 is read"),
        ({"fps": 0}, "fps"),
        ({"fps": "fast"}, "not of a LeRobot dataset"),
        ({"features": {"x": {"dtype": "float32"}}}, "not of a LeRobot dataset"),
        ({"features": {"x": {"dtype": "float32", "shape": [-1]}}}, "without a shape"),
        ({"features": []}, "not of a LeRobot dataset"),
        ({"data_path": "../{chunk_index}.parquet"}, "outside of the folder"),
        ({"data_path": "/etc/passwd"}, "outside of the folder"),
        ({"data_path": "{robot}"}, "other columns"),
        ({"data_path": "{chunk_index.__class__}.parquet"}, "no file"),
        ({"data_path": None}, "no file"),
    ],
)
def test_a_wrong_description_is_an_error(
    folder: Path, tmp_path: Path, members: Any, why: str
) -> None:
    changed_info(folder, **members)

    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))
    assert not tl.exists(str(tmp_path / "in.tl"))


def test_a_folder_of_something_else_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="give the folder of a LeRobot dataset"):
        tl.ingest.lerobot(tmp_path, str(tmp_path / "in.tl"))
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "info.json").write_text("[" * 100_000)
    with pytest.raises(InvalidInputError, match="not JSON"):
        tl.ingest.lerobot(tmp_path, str(tmp_path / "in.tl"))


CONTRADICTIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda rows: rows[1:], "end at 0"),
    (lambda rows: [*rows[:1], *rows], "end at 5"),
    (lambda rows: [{**rows[0], "dataset_to_index": 500}], "fewer rows"),
    (lambda rows: [{**rows[0], "episode_index": 7}], "has episode 7"),
    (lambda rows: [{**rows[0], "data/chunk_index": 3}], "no file"),
    (lambda rows: [{"episode_index": 0}], "other columns"),
    (lambda rows: [{**rows[0], "videos/observation.image/from_timestamp": 9.0}], "no frame at"),
    (
        lambda rows: [{**rows[0], "videos/observation.image/from_timestamp": float("nan")}],
        "nan",
    ),
]


@pytest.mark.parametrize(("change", "why"), CONTRADICTIONS)
def test_episodes_that_contradict_the_files_are_an_error(
    folder: Path, tmp_path: Path, change: Any, why: str
) -> None:
    changed_episodes(folder, change)

    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))


def test_a_damaged_video_is_named(folder: Path, tmp_path: Path) -> None:
    path = folder / "videos/observation.image/chunk-000/file-001.mp4"
    path.write_bytes(path.read_bytes()[:700])

    with pytest.raises(InvalidInputError, match=r"file-001\.mp4"):
        tl.ingest.lerobot(folder, str(tmp_path / "in.tl"))
    ds = tl.ingest.lerobot(folder, str(tmp_path / "skipped.tl"), on_error="skip")
    assert ds["episode"][:].tolist() == [0] * 5 + [2] * 7


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({}, InvalidInputError, "fps"),
        ({"fps": -1}, InvalidInputError, "fps"),
        ({"fps": True}, InvalidInputError, "fps"),
        ({"fps": 10, "episode": "epsode"}, InvalidInputError, "tensors: episode"),
        ({"fps": 10, "episode": "state"}, InvalidInputError, "an episode is"),
        ({"fps": 10, "codec": "ffv1"}, InvalidInputError, "'h264'"),
    ],
)
def test_wrong_arguments_of_the_export_are_errors(
    made: tl.Dataset, tmp_path: Path, arguments: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        made.to_lerobot(tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_what_the_format_lacks_is_an_error(tmp_path: Path) -> None:
    ds = tl.create(
        "memory://lerobot-lacks",
        {
            "episode": "int64",
            "words": tl.Array("int64", (None,)),
            "frame": tl.Image("png", nullable=True),
        },
    )
    with pytest.raises(InvalidInputError, match="no rows"):
        ds.to_lerobot(tmp_path / "out", fps=10)
    pixels = np.zeros((32, 32, 3), np.uint8)
    ds.extend({"episode": [0, 0], "words": [[1], [2, 3]], "frame": [pixels, None]})
    with pytest.raises(UnsupportedFeatureError, match="words"):
        ds.to_lerobot(tmp_path / "out", fps=10)
    with pytest.raises(InvalidInputError, match="row 1 of 'frame' is NULL"):
        ds.to_lerobot(tmp_path / "out", fps=10, columns=["episode", "frame"])
    ds["frame"][1] = np.zeros((48, 32, 3), np.uint8)
    with pytest.raises(InvalidInputError, match="48 × 32, and the first 32 × 32"):
        ds.to_lerobot(tmp_path / "out", fps=10, columns=["episode", "frame"])
    ds.add_tensor("next.done", "bool", fill=False)
    ds.add_tensor("done", "bool", fill=False)
    with pytest.raises(InvalidInputError, match="two tensors"):
        ds.to_lerobot(tmp_path / "out", fps=10, columns=["episode", "done", "next.done"])
    assert not (tmp_path / "out").exists()
    ds.discard()


def test_classes_are_written_by_name(tmp_path: Path) -> None:
    kinds = {
        "episode": "int64",
        "task": tl.ClassLabel(["pick", "place"]),
        "grip": tl.ClassLabel(["open", "shut"]),
    }
    ds = tl.create("memory://lerobot-classes", kinds)
    ds.extend({"episode": [0, 0], "task": ["pick", "place"], "grip": ["open", "shut"]})

    ds.to_lerobot(tmp_path / "out", fps=5)
    back = tl.ingest.lerobot(tmp_path / "out", "memory://lerobot-classes-back")

    assert (back["task"][:], back["grip"][:]) == (["pick", "place"], ["open", "shut"])
    assert pq.read_table(tmp_path / "out/meta/tasks.parquet")["task"].to_pylist() == [
        "pick",
        "place",
    ]
    ds.discard()


@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        ("float64", [0.5, 9.5], "row 0 of 'timestamp' is not the step ÷ fps, 0"),
        (tl.Text(), ["a", "b"], "row 0 of 't' is not the number of the step"),
        ("int64", [0, 2], "row 1 of 't' is not the number of the step"),
        ("uint64", [2**63, 1], f"row 0 of 'u' has {2**63}"),
        (tl.Text(nullable=True), ["a", None], "row 1 of 'text' is NULL"),
        (tl.Text(nullable=True), ["a", None], "row 1 of 'task' is NULL"),
        (tl.Scalar("int64", nullable=True), [None, 1], "'n' is NULL"),
    ],
)
def test_what_the_format_would_change_is_an_error(
    kind: Any, values: list[Any], why: str, tmp_path: Path
) -> None:
    name = why.split("'")[1]
    ds = tl.create(f"memory://lerobot-change-{abs(hash(why))}", {"episode": "int64", name: kind})
    ds.extend({"episode": [0, 0], name: values})

    with pytest.raises(InvalidInputError, match=why):
        ds.to_lerobot(tmp_path / "out", fps=10)

    assert not (tmp_path / "out").exists()
    ds.discard()


def test_steps_and_times_that_are_the_format_s_are_written(tmp_path: Path) -> None:
    kinds = {"episode": "int64", "t": "int64", "timestamp": "float32", "x": "float32"}
    ds = tl.create("memory://lerobot-own-times", kinds)
    rows = {"episode": [7, 7, 3], "t": [0, 1, 0], "timestamp": [0, 0.1, 0], "x": [1, 2, 3]}
    ds.extend(rows)

    ds.to_lerobot(tmp_path / "out", fps=10)

    assert len(tl.ingest.lerobot(tmp_path / "out", "memory://lerobot-own-times-back")) == 3
    ds.discard()


def test_a_frame_loses_no_transparency(tmp_path: Path) -> None:
    ds = tl.create(
        "memory://lerobot-alpha", {"episode": "int64", "frame": tl.Image("png", mode="RGBA")}
    )
    opaque = np.full((16, 16, 4), 255, np.uint8)
    ds.extend({"episode": [0, 0], "frame": [opaque, opaque]})
    ds.to_lerobot(tmp_path / "opaque", fps=5)
    ds["frame"][1] = np.full((16, 16, 4), 200, np.uint8)

    with pytest.raises(InvalidInputError, match="row 1 of 'frame' has transparent pixels"):
        ds.to_lerobot(tmp_path / "out", fps=5)

    ds.discard()


def test_statistics_are_those_of_the_values(made: tl.Dataset, written: Path) -> None:
    stats = json.loads((written / "meta" / "stats.json").read_text())
    state = made["state"][:].astype(float)
    pixels = np.stack([made[row]["frame"] for row in range(STEPS)]).reshape(-1, 3) / 255

    assert np.allclose(stats["observation.state"]["mean"], state.mean(0))
    assert np.allclose(stats["observation.state"]["q90"], np.quantile(state, 0.9, axis=0))
    assert stats["observation.state"]["count"] == [STEPS]
    assert np.allclose(np.ravel(stats["observation.image"]["std"]), pixels.std(0))
    assert np.shape(stats["observation.image"]["max"]) == (3, 1, 1)


NAMES = st.sampled_from(["", "observation.", "observation.images.", "next."]).flatmap(
    lambda start: st.sampled_from(["t", "episode", "frame", "task", "x", "x_"]).map(start.__add__)
)


@given(
    st.lists(
        st.tuples(
            NAMES | st.sampled_from(["episode_index", "frame_index", "task_index"]), st.booleans()
        ),
        unique_by=lambda one: one[0],
    )
)
@settings(max_examples=60, deadline=None)
def test_tensors_of_any_features_have_names_of_their_own(given_names: Any) -> None:
    features = [
        Feature(name, "video" if is_camera else "float32", (3, 3, 3), None)
        for name, is_camera in given_names
    ]

    assert sorted(one.name for one in tensor_names(features).values()) == sorted(
        one.name for one in features
    )


def test_a_name_that_no_tensor_has_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'frame'"):
        tl.ingest.lerobot(folder, str(tmp_path / "in.tl"), schema={"frme": tl.Image("png")})
    not_a_schema: Any = []
    with pytest.raises(SchemaError):
        tl.ingest.lerobot(folder, str(tmp_path / "in.tl"), schema=not_a_schema)
