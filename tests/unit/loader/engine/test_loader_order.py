"""The loader's order: ranks, epochs, and states that continue it exactly."""

from __future__ import annotations

import json

import pytest

from tensorlake.dataset import rowset_of
from tensorlake.errors import (
    InvalidStateError,
    StateMismatchError,
)
from tensorlake.loader import NewerVersionWarning, SelectedRows, ShortBatchWarning, make_loader
from tests.unit.loader.conftest import PLAIN, ROWS, fill_pets, rows_of

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


def test_of_two_iterators_the_older_raises(pets):
    """A trainer's sanity check keeps an iterator that it has left."""
    loader = pets.loader(batch_size=20, columns=["_row"])
    older = iter(loader)
    next(older)
    newer = iter(loader)
    next(newer)

    with pytest.raises(InvalidStateError, match="a newer iterator of its loader"):
        next(older)

    assert loader.epoch == 1
    assert len(list(newer)) == 2
    assert loader.epoch == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda loader: loader.skip(1),
        lambda loader: loader.set_epoch(3),
        lambda loader: loader.load_state_dict(loader.state_dict()),
    ],
    ids=["skip", "set_epoch", "load_state_dict"],
)
def test_the_position_is_not_moved_under_a_running_loop(pets, change):
    loader = pets.loader(batch_size=20, columns=["_row"])
    iterator = iter(loader)
    next(iterator)

    with pytest.raises(InvalidStateError, match="not finished"):
        change(loader)

    assert next(iterator)["_row"][0] == 20
    iterator.close()


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
        SelectedRows(
            rowset_of(dataset).selection,
            rowset_of(dataset).reader(),
            repin=lambda _: (rowset_of(old).selection, rowset_of(old).reader()),
        ),
        "numpy",
        batch_size=10,
        columns=["_row"],
    )

    with pytest.warns(NewerVersionWarning, match="continuing"):
        loader.load_state_dict(state)

    assert sum(len(rows) for rows in rows_of(loader)) == 30
