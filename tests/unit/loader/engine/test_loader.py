"""The loader on a small dataset: what comes in its batches, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    InvalidInputError,
    RaggedBatchError,
    ShortBatchWarning,
    TensorNotFoundError,
)
from tests.unit.loader.conftest import (
    PLAIN,
    RESIZE,
    ROWS,
    boxes,
    fill_pets,
    threads_left,
)

# ---- what comes


def test_every_column_arrives_as_the_schema_says(pets):
    loader = pets.loader(batch_size=16, decode=RESIZE, columns=["image", "label", "boxes", "name"])

    batch = next(iter(loader))

    assert batch["image"].shape == (16, 16, 16, 3)
    assert batch["image"].dtype == np.uint8
    assert batch["label"].tolist() == [row % 2 for row in range(16)]
    assert batch["label"].dtype == np.int64
    assert batch["boxes"][2].shape == (2, 4)
    assert batch["name"][:2] == ["pet 0", "pet 1"]


@pytest.mark.parametrize("shuffle", [False, True, "full", "window"])
@pytest.mark.parametrize("batch_size", [1, 7, 60, 100])
def test_each_row_comes_once_with_its_own_values(pets, shuffle, batch_size):
    loader = pets.loader(batch_size=batch_size, shuffle=shuffle, seed=5, columns=PLAIN)

    batches = list(loader)
    rows = np.concatenate([batch["_row"] for batch in batches])

    assert sorted(rows.tolist()) == list(range(ROWS))
    assert (rows.tolist() == list(range(ROWS))) == (shuffle is False)
    assert np.concatenate([batch["label"] for batch in batches]).tolist() == (rows % 2).tolist()
    tokens = np.concatenate([batch["tokens"] for batch in batches])
    assert (tokens == rows[:, None]).all()
    assert len(loader) == len(batches)


@pytest.fixture(scope="module")
def numbers():
    """5000 rows of two columns: many batches a group, and several groups."""
    dataset = tl.create("memory://loader-numbers", {"n": "int64", "row": tl.Array("uint8", (200,))})
    rows = np.arange(5000)
    dataset.extend({"n": rows, "row": np.repeat((rows % 251).astype(np.uint8)[:, None], 200, 1)})
    dataset.commit("5000 rows")
    return dataset


@pytest.mark.parametrize("batch_size", [3, 300, 1500, 6000])
def test_small_batches_hold_their_own_rows_however_many_are_gathered_at_once(numbers, batch_size):
    loader = numbers.loader(batch_size=batch_size, shuffle=True, seed=batch_size)

    batches = list(loader)
    rows = np.concatenate([batch["n"] for batch in batches])

    assert np.array_equal(np.sort(rows), np.arange(5000))
    assert all((batch["row"] == (batch["n"] % 251)[:, None]).all() for batch in batches)
    assert all(len(batch["n"]) == batch_size for batch in batches[:-1])


def test_changing_a_batch_changes_no_other(numbers):
    loader = numbers.loader(batch_size=50, columns=["n"])

    sums = []
    for batch in loader:
        sums.append(int(batch["n"].sum()))
        batch["n"][:] = -1

    assert sum(sums) == sum(range(5000))


def test_values_of_uniform_columns_are_mapped_in_the_batch(numbers):
    decode = {"row": [tl.decode.ToFloat(), tl.decode.Cast("float16")]}

    batch = next(iter(numbers.loader(batch_size=64, decode=decode, columns=["row"])))

    assert batch["row"].dtype == np.float16
    assert np.allclose(batch["row"][:, 0], np.arange(64) / 255, atol=1e-3)


@pytest.mark.parametrize("collate", ["list", "pad", "concat"])
def test_values_of_ragged_columns_are_mapped_before_they_are_collated(pets, collate):
    make = {"batch_size": 6, "columns": ["boxes"], "collate": {"boxes": collate}}
    decode = {"boxes": [tl.decode.Normalize([1.0, 2, 3, 4], [2.0] * 4), tl.decode.Cast("float64")]}

    stored = next(iter(pets.loader(**make)))["boxes"]
    batch = next(iter(pets.loader(**make, decode=decode)))

    for made, own in zip(batch["boxes"], stored, strict=True):
        is_row = (own != 0).any(-1) if collate == "pad" else slice(None)
        assert made.dtype == np.float64
        assert np.allclose(made[is_row], ((own - [1, 2, 3, 4]) / 2)[is_row])
    if collate == "pad":  # padding is 0 as it is given, not mapped
        assert (batch["boxes"][~batch["boxes_mask"]] == 0).all()


def test_padding_may_be_a_number_of_the_dtype_to_which_a_ragged_column_is_cast():
    with tl.create(
        "memory://loader-cast-null", {"x": tl.Array("uint8", (None,), nullable=True)}
    ) as ds:
        ds.extend({"x": [np.array([1, 2], np.uint8), None, np.array([], np.uint8)]})
        ds.commit("three")
        pad = {"x": tl.collate.Pad(-1)}
        (batch,) = ds.loader(
            batch_size=3, decode={"x": tl.decode.Cast("int32")}, collate=pad, null={"x": [9]}
        )
        listed = next(iter(ds.loader(batch_size=3, decode={"x": tl.decode.Cast("int32")})))
        assert batch["x"].tolist() == [[1, 2], [9, -1], [-1, -1]]
        assert [None if one is None else one.dtype.name for one in listed["x"]] == [
            "int32",
            None,
            "int32",
        ]
        narrow = ds.loader(batch_size=3, decode={"x": tl.decode.Cast("int8")}, null={"x": [200]})
        with pytest.raises(InvalidInputError, match="the batch has 200, and int8 holds"):
            next(iter(narrow))
        ds.discard()


def test_a_view_is_streamed_in_its_own_order_and_repeats(pets):
    view = pets[[41, 7, 7, 3]]

    (batch,) = view.loader(batch_size=4, columns=PLAIN)

    assert batch["_row"].tolist() == [41, 7, 7, 3]
    assert batch["tokens"][:, 0].tolist() == [41, 7, 7, 3]


def test_an_epoch_whose_only_batch_is_dropped_warns(pets):
    loader = pets[:10].loader(batch_size=16, columns=["label"], drop_last=True)

    with pytest.warns(ShortBatchWarning, match="10 rows of an epoch are fewer than a global batch"):
        assert list(loader) == []


def test_an_empty_view_has_no_batches(pets):
    view = pets[[]]

    assert len(view.loader(batch_size=4, columns=PLAIN)) == 0
    assert list(view.loader(batch_size=4, shuffle=True, columns=PLAIN)) == []


def test_a_filled_tensor_is_streamed_without_being_stored():
    dataset = fill_pets("memory://loader-filled", rows=30)
    dataset.add_tensor("weight", tl.Scalar("float32"), fill=0.5)
    dataset.add_tensor("note", "str", fill="new")
    dataset.commit("fill")

    batches = list(dataset.loader(batch_size=8, shuffle=True, columns=["weight", "note", "_row"]))

    assert all((batch["weight"] == 0.5).all() for batch in batches)
    assert {note for batch in batches for note in batch["note"]} == {"new"}
    assert sorted(np.concatenate([batch["_row"] for batch in batches])) == list(range(30))


def test_images_are_decoded_the_same_whatever_the_batch_and_threads(pets):
    decode = {"image": [tl.decode.RandomResizedCrop(12, 12), tl.decode.Flip(), tl.decode.ToFloat()]}

    def epoch(**arguments):
        loader = pets.loader(shuffle=True, seed=3, decode=decode, columns=["image"], **arguments)
        return np.concatenate([batch["image"] for batch in loader])

    expected = epoch(batch_size=60, workers=1)

    assert expected.dtype == np.float32
    assert np.array_equal(epoch(batch_size=7, workers=3), expected)


def test_random_steps_draw_anew_each_epoch(pets):
    decode = {"image": tl.decode.RandomResizedCrop(12, 12)}
    loader = pets.loader(batch_size=60, decode=decode, columns=["image"])

    (first,), (second,) = list(loader), list(loader)

    assert not np.array_equal(first["image"], second["image"])


def test_boxes_move_with_their_image(pets):
    decode = {"image": [tl.decode.Resize(48, 64), tl.decode.Flip(1.0)]}
    loader = pets.loader(batch_size=60, decode=decode, columns=["image", "boxes"])

    (batch,) = loader

    for row in range(ROWS):
        height, width = 24 + row % 5, 32 + row % 7
        expected = boxes(row) * np.array([64 / width, 48 / height] * 2)
        expected[:, [0, 2]] = 64 - expected[:, [2, 0]]
        assert np.allclose(batch["boxes"][row], expected, atol=1e-3)


def test_boxes_stay_where_they_are_when_pixels_do(pets):
    loader = pets.loader(
        batch_size=60,
        decode={"image": tl.decode.ToFloat()},
        collate={"image": "list"},
        columns=["image", "boxes"],
    )

    (batch,) = loader

    assert all(np.array_equal(batch["boxes"][row], boxes(row)) for row in range(ROWS))
    assert batch["image"][1].shape == (25, 33, 3)
    assert batch["image"][1].dtype == np.float32


def test_ragged_columns_are_padded_or_concatenated_as_asked(pets):
    padded = next(iter(pets.loader(batch_size=6, collate={"boxes": "pad"}, columns=["boxes"])))
    joined = next(iter(pets.loader(batch_size=6, collate={"boxes": "concat"}, columns=["boxes"])))

    assert padded["boxes"].shape == (6, 2, 4)
    assert padded["boxes_mask"].sum(axis=1).tolist() == [0, 1, 2, 0, 1, 2]
    assert joined["boxes"].shape == (6, 4)
    assert joined["boxes_offsets"].tolist() == [0, 0, 1, 3, 3, 4, 6]


def test_null_is_none_in_a_list_and_refused_in_an_array(pets):
    listed = pets.loader(batch_size=60, collate={"score": "list"}, columns=["score"])

    (batch,) = listed
    assert batch["score"][3] is None
    assert batch["score"][4] == 2.0
    with pytest.raises(InvalidInputError, match="IS NOT NULL"):
        pets.loader(batch_size=60, columns=["score"])


def test_batches_are_the_users_to_change(pets):
    loader = pets.loader(batch_size=60, columns=["tokens", "boxes"])
    (first,) = loader
    first["tokens"][:] = 0
    first["boxes"][1][:] = 0

    (second,) = loader

    assert second["tokens"][7, 0] == 7
    assert second["boxes"][1].any()


# ---- transforms


def test_a_transform_sees_rows_and_what_it_returns_is_stacked(pets):
    def transform(row):
        return {"double": row["tokens"][:2].astype(np.int64) * 2, "name": row["name"].upper()}

    batches = list(pets.loader(batch_size=9, transform=transform, columns=["tokens", "name"]))

    assert batches[0]["double"].tolist() == [[2 * row] * 2 for row in range(9)]
    assert batches[1]["name"][0] == "PET 9"


def test_a_transforms_generator_depends_on_seed_epoch_and_place_alone(pets):
    def draws(batch_size, seed=1, epoch=0):
        loader = pets.loader(
            batch_size=batch_size,
            seed=seed,
            shuffle=True,
            transform=lambda row, rng: {"draw": rng.random(), "row": row["_row"]},
            columns=["_row"],
        )
        loader.set_epoch(epoch)
        return np.concatenate([batch["draw"] for batch in loader])

    assert np.array_equal(draws(60), draws(7))
    assert len(np.unique(draws(60))) == ROWS
    assert not np.array_equal(draws(60), draws(60, seed=2))
    assert not np.array_equal(draws(60), draws(60, epoch=1))


def test_a_transform_may_be_a_function_that_shows_no_parameters(pets):
    (batch,) = pets.loader(batch_size=ROWS, columns=["label"], transform=dict)

    assert batch["label"].tolist() == [row % 2 for row in range(ROWS)]


def test_shapes_that_a_transform_made_differ_are_refused_by_name(pets):
    loader = pets.loader(
        batch_size=4,
        transform=lambda row: {"x": np.zeros(int(row["_row"]))},
        columns=["_row"],
    )

    with pytest.raises(RaggedBatchError, match="'x'"):
        next(iter(loader))


def test_an_error_of_a_transform_reaches_the_loop_and_ends_the_threads(pets):
    def transform(row):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(pets.loader(batch_size=4, transform=transform, columns=["_row"]))

    assert threads_left() == []


@pytest.mark.parametrize("returned", [None, 3, [1]])
def test_a_transform_that_returns_no_row_is_refused(pets, returned):
    """A forgotten return made batches without columns."""
    loader = pets.loader(batch_size=9, transform=lambda _: returned, columns=["tokens"])

    with pytest.raises(InvalidInputError, match="not a dict\nreturn the row") as caught:
        next(iter(loader))

    assert caught.value.actual == type(returned).__name__


def test_a_transform_that_returns_an_empty_row_is_refused(pets):
    loader = pets[7:8].loader(batch_size=9, transform=lambda _: {}, columns=["tokens"])

    with pytest.raises(InvalidInputError, match="no values for row 7"):
        next(iter(loader))


def test_an_error_of_a_transform_names_the_row(pets):
    def fail(row):
        raise KeyError("height")

    with pytest.raises(KeyError) as caught:
        next(iter(pets[7:8].loader(batch_size=1, transform=fail, columns=["tokens"])))

    assert caught.value.__notes__ == ["in transform= (fail) of row 7"]


@pytest.mark.parametrize("batches", [-1, 1.5, True, "a", None])
def test_skip_takes_a_number_of_batches(pets, batches):
    loader = pets.loader(batch_size=9, columns=["tokens"])

    with pytest.raises(InvalidInputError, match="batches must be an integer >= 0"):
        loader.skip(batches)

    assert loader.state_dict()["position"] == 0


def test_a_skip_of_numpys_number_is_plain_json(pets):
    loader = pets.loader(batch_size=9, columns=["tokens"])
    loader.skip(np.int64(2))

    assert json.loads(json.dumps(loader.state_dict()))["position"] == 18


def test_a_batch_transform_sees_whole_batches(pets):
    loader = pets.loader(
        batch_size=30, batch_transform=lambda batch: batch["_row"].sum(), columns=["_row"]
    )

    assert list(loader) == [sum(range(30)), sum(range(30, 60))]


# ---- refusals, before anything is read


def test_images_that_cannot_be_stacked_are_refused_when_the_loader_is_made(pets):
    with pytest.raises(RaggedBatchError, match=r"tl\.decode\.Resize") as caught:
        pets.loader(batch_size=4, columns=["image"])

    assert "from (24, 32, 3) to (28, 38, 3), and cannot be stacked" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"decode": {"picture": tl.decode.Resize(8, 8)}},
        {"decode": {"label": tl.decode.Resize(8, 8)}},
        {"decode": {"name": tl.decode.ToFloat()}},
        {"decode": {"tokens": tl.decode.Normalize((0.5, 0.5), (0.1, 0.1))}},
        {"decode": {"label": tl.decode.Normalize((0.5,) * 8, (0.1,) * 8)}},
        {"columns": ["boxes"], "collate": {"boxes": tl.collate.Pad(1j)}},
        {"collate": {"tokens": "pad"}},
        {"collate": {"name": "pad"}},
        {"batch_size": 8, "global_batch_size": 17},
        {"batch_size": None},
        {"rank": 2, "world_size": 2},
        {"columns": []},
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_refused(pets, arguments):
    given = {"batch_size": 8, "columns": ["label", "tokens", "name"]} | arguments

    with pytest.raises(InvalidInputError):
        pets.loader(**given)


@pytest.mark.parametrize("name", ["colour", "_score"])
def test_unknown_columns_are_refused(pets, name):
    with pytest.raises(TensorNotFoundError, match=name):
        pets.loader(batch_size=4, columns=["label", name])


# ---- what it says


def test_explain_hands_out_nothing_and_names_order_and_columns(pets):
    loader = pets.loader(batch_size=16, shuffle=True, decode=RESIZE, columns=["image", "boxes"])

    text = loader.explain()

    assert "full shuffle" in text
    assert "(16, 16, 3) stacked" in text
    assert loader.stats().batches == 0


def test_explain_estimates_ceilings_before_a_batch_and_without_functions(pets):
    called: list[int] = []
    loader = pets.loader(
        batch_size=16, decode=RESIZE, columns=["image"], batch_transform=called.append
    )
    before = loader.state_dict()

    (line,) = [line for line in loader.explain().splitlines() if line.startswith("ceilings")]

    assert "decode " in line
    assert "estimated from" in line
    assert line.endswith("; not batch_transform=")
    assert not called
    assert loader.state_dict() == before


def test_explain_tells_that_there_is_no_batch(pets):
    loader = pets.query("WHERE score > 1000").loader(batch_size=16, columns=["label"])

    assert "ceilings  unknown: there is no batch" in loader.explain()


def test_explain_tells_ceilings_once_they_are_measured(pets):
    loader = pets.loader(batch_size=16, decode=RESIZE, columns=["image"])

    list(loader)

    measured = {stage.name: f"{stage.ceiling:,.0f}" for stage in loader.stats().stages}
    (line,) = [line for line in loader.explain().splitlines() if line.startswith("ceilings")]
    assert f"decode {measured['decode']}" in line
    assert line.endswith("rows/s")


def test_stats_count_and_name_the_stage_that_holds_back(pets):
    loader = pets.loader(batch_size=16, decode=RESIZE, columns=["image"])
    assert "Nothing has been read" in str(loader.stats())

    list(loader)

    stats = loader.stats()
    assert (stats.batches, stats.rows, stats.pictures) == (4, ROWS, ROWS)
    assert str(stats).splitlines()[0].split() == [
        "stage",
        "rate",
        "ceiling",
        "busy",
        "waits",
        "for",
    ]
    assert "holds the stream back" in str(stats) or "No stage" in str(stats)


def test_nothing_is_warned_of_in_an_ordinary_epoch(pets):
    # a warning is an error in this suite
    list(pets.loader(batch_size=7, shuffle=True, decode=RESIZE, columns=["image", "label"]))
