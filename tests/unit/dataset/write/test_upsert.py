"""Upserting: what is matched, what is refused, and that it is all or nothing."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.write.upsert import Upserted
from tensorlake.errors import InvalidInputError, MissingTensorError, UnknownClassError
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, reopened, rows_of


@pytest.fixture
def dataset() -> Dataset:
    dataset = create_on(
        MemoryStore(),
        {
            "id": tl.Scalar("int64", nullable=True),
            "site": "str",
            "score": tl.Scalar("float64", nullable=True),
            "label": tl.ClassLabel(["cat", "dog"]),
        },
    )
    dataset.extend(
        {
            "id": [3, 1, 2, None],
            "site": ["a", "a", "b", "b"],
            "score": [0.3, 0.1, 0.2, 0.0],
            "label": [0, 0, 0, 0],
        }
    )
    dataset.commit()
    return dataset


def test_known_keys_are_updated_where_they_are_and_new_ones_appended(dataset):
    found = dataset.upsert(
        [
            {"id": 9, "site": "c", "score": 0.9, "label": "dog"},
            {"id": 1, "site": "a", "score": 1.1, "label": "dog"},
        ],
        on="id",
    )

    assert (found.updated, found.appended) == (1, 1)
    assert rows_of(dataset, ["id", "score", "label"]) == [
        {"id": 3, "score": 0.3, "label": 0},
        {"id": 1, "score": 1.1, "label": 1},
        {"id": 2, "score": 0.2, "label": 0},
        {"id": None, "score": 0.0, "label": 0},
        {"id": 9, "score": 0.9, "label": 1},
    ]


def test_tensors_that_are_not_named_stay_as_they_are(dataset):
    dataset.upsert({"id": [3, 2], "label": ["dog", "dog"]}, on="id")

    assert dataset["score"][:].tolist() == [0.3, 0.1, 0.2, 0.0]
    assert dataset["label"][:].tolist() == [1, 0, 1, 0]


def test_a_key_of_several_tensors_matches_all_of_them(dataset):
    new = {"id": [1, 1], "site": ["a", "b"], "score": [5, 6], "label": [0, 0]}

    assert dataset.upsert(new, on=["site", "id"]) == Upserted(updated=1, appended=1)

    assert dataset["score"].read(null=-1).tolist() == [0.3, 5, 0.2, 0, 6]


def test_staged_rows_are_found_too(dataset):
    dataset.append({"id": 7, "site": "z", "score": 0, "label": 0})

    assert dataset.upsert({"id": [7], "score": [7.5]}, on="id").updated == 1
    dataset.commit()

    assert reopened(dataset)["score"][-1] == 7.5


def test_new_rows_need_every_tensor_without_a_default_and_get_the_others(dataset):
    with pytest.raises(MissingTensorError, match="lacks 'site'"):
        dataset.upsert({"id": [8], "label": [0]}, on="id")

    dataset.upsert({"id": [8], "site": ["n"], "label": [0]}, on="id")

    assert dataset[-1]["score"] is None


@pytest.mark.parametrize(
    ("rows", "on", "words"),
    [
        ({"id": [1, 5, 1]}, "id", r"rows 0 and 2 .*id = 1.*"),
        ({"id": [1, None]}, "id", "row 1 .*'id' NULL"),
        ({"score": [0.5, float("nan")]}, "score", "row 1 .*'score' NaN"),
        ({"site": ["b"]}, "site", r"site = 'b'.* rows 2, 3"),
        ({"score": [1.0]}, "id", "lacks the key 'id'"),
        ({"id": [1]}, [], "on="),
    ],
)
def test_keys_that_name_no_single_row_are_refused(dataset, rows, on, words):
    before = rows_of(dataset)

    with pytest.raises(InvalidInputError, match=words):
        dataset.upsert(rows, on=on)

    assert rows_of(dataset) == before
    assert not dataset.has_changes


def test_a_value_that_does_not_fit_stages_nothing(dataset):
    with pytest.raises(UnknownClassError):
        dataset.upsert({"id": [1, 50], "label": ["dog", "emu"]}, on="id")

    assert not dataset.has_changes


def test_arrays_and_json_are_no_keys():
    dataset = create_on(MemoryStore(), {"v": tl.Array("int8", (2,)), "j": tl.Json()})

    for name in ("v", "j"):
        with pytest.raises(InvalidInputError, match="cannot be a key"):
            dataset.upsert({"v": [[1, 2]], "j": [1]}, on=name)


def test_an_upsert_is_what_a_dictionary_does():
    """Many keys, most of them known, in batches, against plain Python."""
    rng = np.random.default_rng(5)
    dataset = create_on(MemoryStore(), {"key": "str", "n": "int64"})
    model: dict[str, int] = {}
    for _ in range(4):
        keys = [f"k{key}" for key in rng.permutation(3000)[:1000]]
        values = rng.integers(0, 1 << 40, len(keys))
        halves = [slice(0, 400), slice(400, None)]

        found = dataset.upsert(
            ({"key": keys[half], "n": values[half]} for half in halves), on="key"
        )

        assert found.updated == len(model.keys() & set(keys))
        model.update(zip(keys, values.tolist(), strict=True))
    assert dict(zip(dataset["key"][:], dataset["n"][:].tolist(), strict=True)) == model
    assert len(dataset) == len(model)
