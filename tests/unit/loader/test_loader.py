"""The loader on a small dataset: what comes, in which order, and how it ends."""

from __future__ import annotations

import gc
import json
import threading
import warnings

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    InvalidInputError,
    InvalidStateError,
    RaggedBatchError,
    StateMismatchError,
    StorageTimeoutError,
    TensorNotFoundError,
)
from tensorlake.loader import NewerVersionWarning, ShortBatchWarning, make_loader
from tests.unit.loader.conftest import ROWS, boxes, fill_pets, picture

RESIZE = {"image": tl.decode.Resize(16, 16)}
PLAIN = ["tokens", "label", "_row"]


def rows_of(loader):
    return [batch["_row"].tolist() for batch in loader]


def loader_threads():
    return [one for one in threading.enumerate() if one.name.startswith("tensorlake-loader")]


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


def test_a_view_is_streamed_in_its_own_order_and_repeats(pets):
    view = pets[[41, 7, 7, 3]]

    (batch,) = view.loader(batch_size=4, columns=PLAIN)

    assert batch["_row"].tolist() == [41, 7, 7, 3]
    assert batch["tokens"][:, 0].tolist() == [41, 7, 7, 3]


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


def test_pictures_are_decoded_the_same_whatever_the_batch_and_threads(pets):
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


def test_boxes_move_with_their_picture(pets):
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
    stacked = pets.loader(batch_size=60, columns=["score"])

    (batch,) = listed
    assert batch["score"][3] is None
    assert batch["score"][4] == 2.0
    with pytest.raises(InvalidInputError, match="IS NOT NULL"):
        list(stacked)


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

    assert loader_threads() == []


def test_a_batch_transform_sees_whole_batches(pets):
    loader = pets.loader(
        batch_size=30, batch_transform=lambda batch: batch["_row"].sum(), columns=["_row"]
    )

    assert list(loader) == [sum(range(30)), sum(range(30, 60))]


# ---- ranks


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_together_see_each_row_once_and_equally_many_batches(pets, world):
    ranks = [
        rows_of(
            pets.loader(
                batch_size=8, shuffle=True, seed=2, columns=PLAIN, rank=rank, world_size=world
            )
        )
        for rank in range(world)
    ]

    assert len({len(batches) for batches in ranks}) == 1
    assert sorted(row for batches in ranks for batch in batches for row in batch) == list(
        range(ROWS)
    )


def test_the_global_order_does_not_depend_on_the_number_of_ranks(pets):
    def order(world):
        ranks = [
            rows_of(
                pets.loader(
                    global_batch_size=12,
                    shuffle=True,
                    seed=2,
                    columns=["_row"],
                    rank=rank,
                    world_size=world,
                )
            )
            for rank in range(world)
        ]
        return [row for parts in zip(*ranks, strict=True) for part in parts for row in part]

    assert order(1) == order(2) == order(4)


def test_a_last_batch_smaller_than_the_world_repeats_rows_and_says_so(pets):
    view = pets[:9]
    seen = []
    for rank in range(4):
        loader = view.loader(batch_size=2, columns=["_row"], rank=rank, world_size=4)
        with pytest.warns(ShortBatchWarning, match="_valid"):
            batches = list(loader)
        assert len(batches) == 2
        assert batches[0]["_valid"].all()
        seen += [row for batch in batches for row in batch["_row"][batch["_valid"]]]

    assert sorted(seen) == list(range(9))


def test_dropping_the_last_batch_needs_no_padding(pets):
    loader = pets[:9].loader(batch_size=2, columns=["_row"], rank=1, world_size=4, drop_last=True)

    (batch,) = loader

    assert batch["_row"].tolist() == [2, 3]
    assert "_valid" not in batch


# ---- epochs


def test_each_loop_is_the_next_epoch_and_after_a_break_too(pets):
    loader = pets.loader(batch_size=20, shuffle=True, columns=["_row"])
    assert loader.epoch == 0

    first = rows_of(loader)
    assert loader.epoch == 1
    for _ in loader:
        break
    assert loader.epoch == 1
    third = rows_of(loader)

    expected = pets.loader(batch_size=20, shuffle=True, columns=["_row"])
    expected.set_epoch(2)
    assert third == rows_of(expected)
    assert first != third
    assert loader.epoch == 3


def test_remaining_counts_down_and_skip_passes_over(pets):
    loader = pets.loader(batch_size=20, columns=["_row"])
    loader.skip(1)
    assert loader.remaining == 2

    iterator = iter(loader)
    assert next(iterator)["_row"][0] == 20
    assert loader.remaining == 1
    assert loader.state_dict()["skipped"] == 20
    iterator.close()


def test_two_live_iterators_are_refused(pets):
    loader = pets.loader(batch_size=20, columns=["_row"])
    first = iter(loader)
    next(first)

    with pytest.raises(InvalidStateError, match="close"):
        iter(loader)

    first.close()
    assert len(rows_of(loader)) == 3


# ---- state


def test_a_state_continues_exactly_on_any_number_of_ranks(pets):
    def make(rank=0, world=1, size=7):
        return pets.loader(
            global_batch_size=size, shuffle=True, columns=["_row"], rank=rank, world_size=world
        )

    whole = [row for batch in rows_of(make()) for row in batch]
    loader = make()
    iterator = iter(loader)
    seen = [row for _ in range(3) for row in next(iterator)["_row"].tolist()]
    state = json.loads(json.dumps(loader.state_dict()))
    iterator.close()
    parts = []
    for rank in range(3):
        resumed = make(rank, world=3, size=12)
        resumed.load_state_dict(state)
        assert resumed.epoch == 0
        parts.append(rows_of(resumed))

    rest = [row for batches in zip(*parts, strict=True) for part in batches for row in part]
    assert seen + rest == whole


def test_a_state_counts_batches_handed_out_and_not_those_prefetched(pets):
    loader = pets.loader(batch_size=10, columns=["_row"])
    iterator = iter(loader)
    next(iterator)
    next(iterator)

    assert loader.state_dict()["position"] == 20
    iterator.close()
    assert loader.state_dict()["position"] == 20


def test_a_state_taken_at_the_end_of_an_epoch_begins_the_next(pets):
    loader = pets.loader(batch_size=25, shuffle=True, columns=["_row"])
    for batch in loader:
        state = loader.state_dict()
        assert len(batch["_row"]) <= 25
    resumed = pets.loader(batch_size=25, shuffle=True, columns=["_row"])

    resumed.load_state_dict(state)

    assert resumed.epoch == 1
    assert rows_of(resumed) == rows_of(loader)


def test_loading_a_state_takes_over_its_seed(pets):
    first = pets.loader(batch_size=60, shuffle=True, seed=11, columns=["_row"])
    second = pets.loader(batch_size=60, shuffle=True, columns=["_row"])

    second.load_state_dict(first.state_dict())

    assert rows_of(second) == rows_of(first)


@pytest.mark.parametrize("changes", [{"seed": 2}, {"shuffle": False}, {"shuffle": "window"}])
def test_a_state_of_another_order_is_refused(pets, changes):
    given = {"batch_size": 10, "shuffle": "full", "seed": 1, "columns": ["_row"]}
    state = pets.loader(**given).state_dict()

    with pytest.raises(StateMismatchError, match="recorded"):
        pets.loader(**given | changes).load_state_dict(state)


def test_a_state_of_another_view_is_refused(pets):
    state = pets[:30].loader(batch_size=10, columns=["_row"]).state_dict()

    with pytest.raises(StateMismatchError, match="selection"):
        pets.loader(batch_size=10, columns=["_row"]).load_state_dict(state)


def test_a_state_re_pins_the_version_it_recorded_with_one_warning():
    dataset = fill_pets("memory://loader-repin", rows=30)
    state = dataset.loader(batch_size=10, columns=["_row"]).state_dict()
    old = dataset.at(dataset.version)
    dataset.delete([0])
    dataset.commit("one less")
    loader = make_loader(
        dataset.selection(),
        dataset.reader(),
        framework="numpy",
        batch_size=10,
        columns=["_row"],
        repin=lambda _: (old.selection(), old.reader()),
    )

    with pytest.warns(NewerVersionWarning, match="continuing"):
        loader.load_state_dict(state)

    assert sum(len(rows) for rows in rows_of(loader)) == 30


# ---- refusals, before anything is read


def test_pictures_that_cannot_be_stacked_are_refused_when_the_loader_is_made(pets):
    with pytest.raises(RaggedBatchError, match=r"tl\.decode\.Resize"):
        pets.loader(batch_size=4, columns=["image"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"decode": {"picture": tl.decode.Resize(8, 8)}},
        {"decode": {"label": tl.decode.Resize(8, 8)}},
        {"decode": {"name": tl.decode.ToFloat()}},
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


# ---- failures


@pytest.fixture(scope="module")
def damaged():
    """Pictures of which row 5 ends in the middle of its scan."""
    whole = [tl.Image("jpeg").convert([picture(row)], tensor="x") for row in range(12)]
    samples = [bytes(column.samples[0]) for column in whole]
    samples[5] = samples[5][:-100]
    dataset = tl.create("memory://loader-damaged", {"image": tl.Image(codec="jpeg"), "n": "int64"})
    dataset.extend({"image": samples, "n": range(12)})
    dataset.commit("one of them is cut")
    return dataset


def test_a_damaged_picture_raises_with_row_and_tensor(damaged):
    with pytest.raises(CorruptSampleError, match="row 5 of 'image'"):
        list(damaged.loader(batch_size=4, decode=RESIZE))

    assert loader_threads() == []


def test_skipping_leaves_its_place_empty_and_counts_it(damaged, caplog):
    loader = damaged.loader(batch_size=4, decode=RESIZE, on_error="skip")

    batches = list(loader)

    assert [len(batch["image"]) for batch in batches] == [4, 3, 4]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == [
        row for row in range(12) if row != 5
    ]
    assert loader.stats().skipped == 1
    assert "row 5 of 'image'" in caplog.text


def test_a_store_that_does_not_answer_ends_the_wait():
    dataset = fill_pets("memory://loader-stuck", rows=10)
    release = threading.Event()

    class StuckReader:
        def __getattr__(self, name):
            return getattr(dataset.reader(), name)

        def map_chunk(self, key):
            release.wait(30)

    loader = make_loader(
        dataset.selection(),
        StuckReader(),
        framework="numpy",
        batch_size=4,
        columns=["tokens"],
        timeout=0.05,
        workers=1,
    )
    iterator = iter(loader)
    threading.Timer(0.2, release.set).start()

    with pytest.raises(StorageTimeoutError, match="timeout="):
        next(iterator)


# ---- ends


def test_leaving_the_loop_ends_every_thread(pets):
    for _ in pets.loader(batch_size=1, columns=PLAIN):
        break
    gc.collect()

    assert loader_threads() == []


def test_forgetting_a_live_iterator_ends_every_thread(pets):
    iterator = iter(pets.loader(batch_size=1, columns=PLAIN))
    next(iterator)
    assert loader_threads()

    del iterator
    gc.collect()

    assert loader_threads() == []


def test_an_interrupt_in_the_loop_ends_every_thread(pets):
    def interrupt(batch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(pets.loader(batch_size=4, batch_transform=interrupt, columns=PLAIN))

    assert loader_threads() == []


def test_closing_a_loader_ends_its_iterator(pets):
    with pets.loader(batch_size=1, columns=PLAIN) as loader:
        iterator = iter(loader)
        next(iterator)

    assert list(iterator) == []
    assert loader_threads() == []


def test_a_tiny_prefetch_still_delivers_everything(pets):
    loader = pets.loader(
        batch_size=7, decode=RESIZE, columns=["image", "_row"], prefetch=1, cache=0, shuffle=True
    )

    assert sorted(row for rows in rows_of(loader) for row in rows) == list(range(ROWS))


# ---- what it says


def test_explain_reads_nothing_and_names_order_and_columns(pets):
    loader = pets.loader(batch_size=16, shuffle=True, decode=RESIZE, columns=["image", "boxes"])

    text = loader.explain()

    assert "full shuffle" in text
    assert "(16, 16, 3) stacked" in text
    assert loader.stats().batches == 0


def test_stats_count_and_name_the_stage_that_holds_back(pets):
    loader = pets.loader(batch_size=16, decode=RESIZE, columns=["image"])
    assert "Nothing has been read" in str(loader.stats())

    list(loader)

    stats = loader.stats()
    assert (stats.batches, stats.rows, stats.pictures) == (4, ROWS, ROWS)
    assert str(stats).splitlines()[0].split() == ["stage", "rate", "busy", "waits", "for"]
    assert "holds the stream back" in str(stats) or "No stage" in str(stats)


def test_nothing_is_warned_of_in_an_ordinary_epoch(pets):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(pets.loader(batch_size=7, shuffle=True, decode=RESIZE, columns=["image", "label"]))
