"""NULL is told when a loader is made, or given a value by ``null=`` (C3)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import DTypeMismatchError, InvalidInputError, RaggedBatchError
from tensorlake.loader import NullColumnWarning

ROWS = 10
NAMES = itertools.count()
HOLES = {3, 7}


def pixels(row):
    return np.full((6, 8, 3), row, np.uint8)


def fill(url):
    holey = {
        "score": tl.Scalar("float32", nullable=True),
        "label": tl.ClassLabel(["cat", "dog"], nullable=True),
        "vector": tl.Embedding(3, nullable=True),
        "flag": tl.Bool(nullable=True),
        "at": tl.Timestamp(nullable=True),
        "tokens": tl.Array("int32", (None,), nullable=True),
        "note": tl.Text(nullable=True),
        "image": tl.Image("png", nullable=True),
    }
    values = {
        "score": lambda row: row / 2,
        "label": lambda row: row % 2,
        "vector": lambda row: [row] * 3,
        "flag": lambda row: row % 2 == 0,
        "at": lambda row: np.datetime64(row, "s"),
        "tokens": lambda row: [row] * (row % 3),
        "note": lambda row: f"note {row}",
        "image": pixels,
    }
    dataset = tl.create(url, {"n": "int64", **holey})
    for rows in (range(5), range(5, ROWS)):
        dataset.extend(
            {"n": rows}
            | {
                name: [None if row in HOLES else value(row) for row in rows]
                for name, value in values.items()
            }
        )
        dataset.commit()
    return dataset


@pytest.fixture(scope="module", params=["memory", "folder"])
def dataset(request, tmp_path_factory):
    in_memory = f"memory://loader-nulls-{next(NAMES)}"
    url = in_memory if request.param == "memory" else str(tmp_path_factory.mktemp("nulls") / "ds")
    with fill(url) as dataset:
        yield dataset


def column_of(loader, name):
    return [one for batch in loader for one in batch[name]]


@pytest.mark.parametrize("name", ["score", "label", "vector", "flag", "at", "image"])
def test_null_is_told_when_the_loader_is_made(dataset, name):
    with pytest.raises(InvalidInputError, match=f"'{name}' is NULL in row 3 of the view") as told:
        dataset.loader(batch_size=4, columns=["n", name])

    advice = str(told.value).partition("\n")[2]
    text = advice.partition("ds.query('")[2].partition("')")[0]
    value = eval(advice.partition("null=")[2].partition(", or")[0])
    columns = ["n", name]
    for mended in (
        dataset.loader(batch_size=4, columns=columns, null=value),
        dataset.loader(batch_size=4, columns=columns, collate={name: "list"}),
    ):
        assert sum(len(batch["n"]) for batch in mended) == ROWS
    (batch,) = dataset.query(text).loader(batch_size=ROWS, columns=columns)
    assert set(batch["n"].tolist()) == set(range(ROWS)) - HOLES


def test_ragged_columns_that_become_arrays_are_told_too(dataset):
    with pytest.raises(InvalidInputError, match="'tokens' is NULL in row 3"):
        dataset.loader(batch_size=4, columns=["tokens"], collate={"tokens": "pad"})


def test_null_gives_every_kind_of_column_a_value(dataset):
    loader = dataset.loader(
        batch_size=4,
        columns=["score", "label", "vector", "flag", "at", "tokens", "note", "image"],
        null={
            "score": -1,
            "label": "dog",
            "vector": 0,
            "flag": True,
            "at": "1970-01-02",
            "tokens": [9, 9],
            "note": "",
            "image": np.full((6, 8, 3), 200, np.uint8),
        },
    )

    at = {name: column_of(loader, name) for name in ("score", "label", "vector", "flag", "note")}
    tokens, images = column_of(loader, "tokens"), column_of(loader, "image")
    times = column_of(loader, "at")

    for row in range(ROWS):
        is_hole = row in HOLES
        assert at["score"][row] == (-1 if is_hole else row / 2)
        assert at["label"][row] == (1 if is_hole else row % 2)
        assert at["vector"][row].tolist() == [0 if is_hole else row] * 3
        assert bool(at["flag"][row]) is (is_hole or row % 2 == 0)
        assert at["note"][row] == ("" if is_hole else f"note {row}")
        assert tokens[row].tolist() == ([9, 9] if is_hole else [row] * (row % 3))
        assert images[row][0, 0, 0] == (200 if is_hole else row)
        assert times[row] == 1_000_000 * (86_400 if is_hole else row)


def test_a_number_is_all_pixels_and_passes_the_steps_as_others_do(dataset):
    loader = dataset.loader(
        batch_size=ROWS,
        columns=["image", "score"],
        decode={
            "image": [tl.decode.Resize(4, 4), tl.decode.ToFloat()],
            "score": tl.decode.Normalize((1.0,), (2.0,)),
        },
        null={"image": 255, "score": 1.0},
    )

    (batch,) = loader

    assert batch["image"][3].min() == batch["image"][7].max() == 1.0
    assert batch["score"][[3, 7]].tolist() == [0, 0]
    assert batch["score"][4] == pytest.approx((2 - 1) / 2)


@pytest.mark.parametrize("shuffle", [False, "full"])
def test_null_holds_in_every_epoch_and_padded(dataset, shuffle):
    loader = dataset.loader(
        batch_size=3,
        shuffle=shuffle,
        columns=["tokens", "score", "n"],
        collate={"tokens": "pad"},
        null={"tokens": 0, "score": 5.5},
    )

    for _ in range(2):
        batches = list(loader)
        rows = np.concatenate([batch["n"] for batch in batches])
        scores = np.concatenate([batch["score"] for batch in batches])
        assert sorted(rows.tolist()) == list(range(ROWS))
        assert set(rows[scores == 5.5].tolist()) == HOLES


def test_null_reaches_a_transform_as_its_value(dataset):
    loader = dataset.loader(
        batch_size=ROWS, columns=["score", "n"], null={"score": -2}, transform=lambda row: row
    )

    assert next(iter(loader))["score"].tolist()[3] == -2


def test_computed_columns_take_a_value_too(dataset):
    view = dataset.select("n", twice="score * 2", text="note")

    (batch,) = view.loader(batch_size=ROWS, null={"twice": -4, "text": "-"})

    assert batch["twice"].tolist()[2:4] == [2.0, -4.0]
    assert batch["text"][3] == "-"


@pytest.mark.parametrize(
    ("null", "words"),
    [
        ({"score": None}, "None is NULL itself"),
        ({"scores": 0}, "did you mean 'score'"),
        ({"score": "x"}, "null="),
        ({"label": "cow"}, "cow"),
        ({"image": 256}, "give one of its numbers"),
        ({"image": np.zeros((6, 9, 3), np.uint8)}, "others of 'image' are"),
        ([("score", 0)], "null"),
        ({"_row": 0}, "not among the columns"),
    ],
)
def test_values_that_cannot_stand_for_null_are_refused(dataset, null, words):
    with pytest.raises((InvalidInputError, DTypeMismatchError), match=words):
        dataset.loader(batch_size=4, columns=["score", "label", "image", "_row"], null=null)


def test_a_colleagues_new_nullable_column_stops_nobody():
    dataset = tl.create(f"memory://loader-nulls-{next(NAMES)}", {"x": "int64", "name": "str"})
    dataset.extend({"x": range(6), "name": list("abcdef")})
    dataset.commit()
    dataset.add_tensor("quality", tl.Scalar("float32", nullable=True))
    dataset.add_tensor("comment", tl.Text(nullable=True))
    dataset["quality"][2] = 0.5
    dataset.commit()

    named = dataset.loader(batch_size=6, columns=["x"])
    with pytest.warns(NullColumnWarning, match="'quality'") as warned:
        default = dataset.loader(batch_size=6)

    assert len(warned) == 1
    assert next(iter(named))["x"].tolist() == [*range(6)]
    (batch,) = default
    assert list(batch) == ["x", "name", "comment"]
    assert batch["comment"] == [None] * 6  # a list has a place for it
    (filled,) = dataset.loader(batch_size=6, null={"quality": 0})
    assert filled["quality"].tolist() == [0, 0, 0.5, 0, 0, 0]


def test_a_nullable_column_without_nulls_is_a_column_like_others(recwarn):
    dataset = tl.create(
        f"memory://loader-nulls-{next(NAMES)}", {"x": tl.Scalar("int64", nullable=True)}
    )
    dataset.extend({"x": [1, None, 3]})
    dataset.commit()
    dataset.delete([1])
    dataset.commit()

    (batch,) = dataset.loader(batch_size=3)

    assert batch["x"].tolist() == [1, 3]
    assert [str(one.message) for one in recwarn if one.category is NullColumnWarning] == []


def test_a_mix_tells_of_nulls_of_any_source():
    one, other = (
        fill(f"memory://loader-nulls-{next(NAMES)}"),
        fill(f"memory://loader-nulls-{next(NAMES)}"),
    )
    mix = tl.mix({"a": (one[:3], 0.5), "b": (other, 0.5)})

    with pytest.raises(InvalidInputError, match="'score' is NULL in row 6"):
        mix.loader(batch_size=4, columns=["score"])

    batches = list(mix.loader(batch_size=4, columns=["score"], null={"score": 9}))
    assert len(batches) > 0


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_get_the_value(dataset, framework):
    pytest.importorskip(framework)
    make = getattr(dataset, framework)

    batch = next(
        iter(
            make(
                batch_size=5,
                columns=["score", "note"] if framework == "torch" else ["score"],
                null={"score": -1} | ({"note": ""} if framework == "torch" else {}),
            )
        )
    )

    assert float(batch["score"][3]) == -1


@pytest.mark.parametrize("null", [{}, {"null": {"image": 0}}])
def test_an_image_column_of_nulls_alone_has_no_size(null):
    with tl.create(
        f"memory://nulls{next(NAMES)}", {"image": tl.Image("png", nullable=True), "n": "int64"}
    ) as ds:
        ds.extend({"image": [None] * 3, "n": [1, 2, 3]})
        ds.commit("no image")
        given = {"batch_size": 2, "columns": ["image"], **null}

        with pytest.raises(RaggedBatchError, match="only NULLs, so its size is unknown") as caught:
            ds.loader(**given)
        resized = ds.loader(
            **given | {"null": {"image": 0}}, decode={"image": tl.decode.Resize(224, 224)}
        )
        listed = ds.loader(**given | {"null": {}}, collate={"image": "list"})

        assert "decode={'image': tl.decode.Resize(224, 224)}" in str(caught.value)
        assert [batch["image"].shape[0] for batch in resized] == [2, 1]
        assert [batch["image"] for batch in listed] == [[None] * 2, [None]]
