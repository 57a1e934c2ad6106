"""tl.ray: views as datasets of Ray Data, and back."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import tensorlake as tl

ray = pytest.importorskip("ray")
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

ROWS = 60


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    ray.data.DataContext.get_current().enable_progress_bars = False


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    random = np.random.default_rng(4)
    schema = {
        "x": tl.Array("float32", (4, 3)),
        "ragged": tl.Array("int16", (None, 2)),
        "text": tl.Text(nullable=True),
        "label": tl.ClassLabel(["cat", "dog"]),
        "age": tl.Scalar("int64", nullable=True),
        "image": tl.Image("png"),
    }
    place = str(tmp_path_factory.mktemp("ray") / "pets.tl")
    with tl.create(place, schema) as ds:
        ds.extend(
            {
                "x": random.random((ROWS, 4, 3), np.float32),
                "ragged": [np.full((n % 4, 2), n, np.int16) for n in range(ROWS)],
                "text": [None if n % 5 == 2 else f"pet {n}" for n in range(ROWS)],
                "age": [None if n % 3 else 2**60 + n for n in range(ROWS)],
                "label": [n % 2 for n in range(ROWS)],
                "image": [
                    random.integers(0, 255, (5 + n % 2, 4, 3), np.uint8) for n in range(ROWS)
                ],
            }
        )
        ds.commit("pets")
    return place


@pytest.fixture
def pets(url):
    with tl.open(url) as ds:
        yield ds


def test_rows_are_those_of_the_view_in_ranges_with_their_metadata(cluster, pets):
    found = tl.ray.dataset(pets, blocks=4)
    assert found.count() == ROWS  # of the metadata: nothing is read

    rows = {row["x"].tobytes(): row for row in found.take_all()}

    assert found.materialize().num_blocks() == 4
    assert len(rows) == ROWS
    for number in (0, 7, 59):
        row = rows[pets["x"][number].tobytes()]
        assert row["text"] == pets["text"].to_list()[number]
        assert row["label"] == number % 2
        assert np.array_equal(row["image"], pets["image"][number])
        assert np.array_equal(row["ragged"], pets["ragged"][number])


def test_torch_batches_of_a_view_are_tensors(cluster, pets):
    view = pets.query("WHERE label = 'dog'")

    batches = [*tl.ray.dataset(view, columns=["x", "label"]).iter_torch_batches(batch_size=8)]

    assert sum(len(batch["x"]) for batch in batches) == ROWS // 2
    assert batches[0]["x"].shape == (8, 4, 3)
    assert batches[0]["x"].dtype == torch.float32
    assert {int(one) for batch in batches for one in batch["label"]} == {1}


def test_what_a_query_computed_is_a_column(cluster, pets):
    grouped = pets.query("SELECT label, COUNT(*) AS n GROUP BY label")

    assert sorted(row["n"] for row in tl.ray.dataset(grouped).take_all()) == [30, 30]


def test_an_old_version_and_no_rows_are_read(cluster, pets, tmp_path):
    with tl.create(str(tmp_path / "grows.tl"), {"y": "int64"}) as ds:
        assert tl.ray.dataset(ds).take_all() == []
        ds.extend({"y": [1]})
        ds.commit("one")
        old = ds.at("main@1")
        ds.extend({"y": [2]})
        ds.commit("two")

        assert [row["y"] for row in tl.ray.dataset(old).take_all()] == [1]


def test_what_is_written_is_one_commit_of_all_rows(cluster, pets, tmp_path):
    given = tl.ray.dataset(pets, columns=["x", "ragged", "label", "age"], blocks=5)

    with tl.ray.write(given, str(tmp_path / "written.tl"), message="again") as made:
        assert made.branches == ["main"]
        assert len(made.log()) == 2  # its creation, and all rows
        assert made.schema["x"] == tl.Array("float32", (4, 3))
        order = np.argsort(made["x"][:][:, 0, 0])
        wanted = np.argsort(pets["x"][:][:, 0, 0])
        assert np.array_equal(made["x"][:][order], pets["x"][:][wanted])
        assert made["label"].to_numpy()[order].tolist() == pets["label"].to_numpy()[wanted].tolist()
        ages = [made["age"].to_list()[n] for n in order], [pets["age"].to_list()[n] for n in wanted]
        assert ages[0] == ages[1]  # NULL is no number, and integers are exact
        for mine, theirs in zip(order[:9], wanted[:9], strict=True):
            assert np.array_equal(made["ragged"][int(mine)], pets["ragged"][int(theirs)])


def test_rows_are_added_to_a_dataset_under_a_schema(cluster, tmp_path):
    url = str(tmp_path / "ids.tl")
    tl.ray.write(ray.data.range(5), url, schema={"id": "uint16"}).close()

    with tl.ray.write(ray.data.range(3), url, mode="append") as ds:
        assert ds.schema == {"id": tl.Scalar("uint16")}
        assert sorted(ds["id"][:].tolist()) == [0, 0, 1, 1, 2, 2, 3, 4]


def test_a_task_that_is_killed_and_run_again_adds_its_rows_once(cluster, tmp_path):
    mark = tmp_path / "killed"

    def once(batch):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    given = ray.data.range(200, override_num_blocks=8).map_batches(once)
    with tl.ray.write(given, str(tmp_path / "made.tl"), schema={"id": "int64"}) as made:
        assert mark.exists()
        assert sorted(made["id"][:].tolist()) == [*range(200)]


def test_a_write_that_fails_leaves_nothing(cluster, tmp_path):
    url, broken = str(tmp_path / "none.tl"), ray.data.range(50, override_num_blocks=5)

    with pytest.raises(tl.errors.InvalidInputError, match="expects a str"):
        tl.ray.write(broken, url, schema={"id": "str"})
    assert not tl.exists(url)

    tl.create(url, {"id": "str"}).close()
    with pytest.raises(tl.errors.InvalidInputError, match="expects a str"):
        tl.ray.write(broken, url, mode="append")
    with tl.open(url) as ds:
        assert (len(ds), ds.branches) == (0, ["main"])


def test_wrong_arguments_are_refused_before_anything_is_read(cluster, pets, tmp_path):
    memory = tl.create("memory://ray-data-here", {"x": "int64"})
    for call, words in [
        (lambda: tl.ray.dataset(memory), "in the memory of this process"),
        (lambda: tl.ray.dataset(pets, blocks=0), "must be an integer >= 1"),
        (lambda: tl.ray.write(ray.data.range(3), "memory://ray-data-there"), "in the memory of"),
        (lambda: tl.ray.write(ray.data.range(3), pets.url), "already"),
        (lambda: tl.ray.write([1, 2], str(tmp_path / "no")), "takes a ray.data.Dataset"),
        (lambda: tl.ray.write(ray.data.range(3), pets.url, mode="merge"), "'create' or 'append'"),
        (lambda: tl.ray.write(ray.data.from_items([]), str(tmp_path / "no")), "types of the"),
    ]:
        with pytest.raises(tl.errors.InvalidInputError, match=words):
            call()
    with pytest.raises(tl.errors.DatasetNotFoundError):
        tl.ray.write(ray.data.range(3), str(tmp_path / "no"), mode="append")
    assert not tl.exists(str(tmp_path / "no"))
