"""Orders that need a column: ``weights=``, ``stratify=``, ``group=``; ``limit=``, ``repeat=``."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, StateMismatchError

NAMES = itertools.count()
ROWS = 1200
CLASSES = ["cat", "dog", "owl"]
LABEL = np.random.default_rng(0).choice(3, ROWS, p=[0.7, 0.25, 0.05])
WEIGHT = np.where(np.arange(ROWS) < 10, 0, np.random.default_rng(1).random(ROWS))
ORDERS = {
    "by column": {"weights": "w"},
    "by array": {"weights": WEIGHT},
    "balanced": {"weights": {"label": "balanced"}},
    "by class": {"weights": {"label": {"owl": 10.0, "cat": 0.5}}},
    "stratified": {"stratify": "label"},
    "grouped": {"group": "episode"},
    "repeated": {"repeat": 3},
    "limited": {"limit": 500},
    "repeated and limited": {"stratify": "label", "repeat": 2, "limit": 1700},
}
ALL = pytest.mark.parametrize("name", ORDERS)
ONCE = ["stratified", "grouped"]


def fill(url):
    dataset = tl.create(
        url,
        {
            "x": "int64",
            "w": "float64",
            "label": tl.ClassLabel(CLASSES),
            "episode": "str",
            "holes": tl.Scalar("float32", nullable=True),
            "pair": tl.Array("int64", shape=(2,)),
        },
    )
    dataset.extend(
        {
            "x": np.arange(ROWS),
            "w": WEIGHT,
            "label": LABEL,
            "episode": [f"e{row * 7 % 40}" for row in range(ROWS)],
            "holes": [None if row == 7 else 1.0 for row in range(ROWS)],
            "pair": np.zeros((ROWS, 2), np.int64),
        }
    )
    dataset.commit("rows")
    return dataset


@pytest.fixture(scope="module")
def dataset():
    with fill(f"memory://arrangement-{next(NAMES)}") as filled:
        yield filled


def loader_of(dataset, name, **arguments):
    given = {"batch_size": 64, "columns": ["_row"], "shuffle": True, "seed": 3}
    return dataset.loader(**given | ORDERS[name] | arguments)


def rows_of(batches):
    return np.concatenate([batch["_row"] for batch in batches])


@ALL
def test_len_is_that_of_the_pass_and_plan_has_its_rows(dataset, name):
    loader = loader_of(dataset, name)
    batches, plan = len(loader), loader.plan

    listed = list(loader)

    assert len(listed) == batches == -(-len(plan) // 64)
    assert np.array_equal(rows_of(listed), plan.rows_at(np.arange(len(plan))))


@ALL
def test_positions_are_the_first_of_rows(dataset, name):
    plan = loader_of(dataset, name).plan
    rows = plan.rows_at(np.arange(len(plan)))
    first = {int(row): place for place, row in reversed(list(enumerate(rows)))}

    found = plan.position_of(np.arange(ROWS))

    assert found.tolist() == [first.get(row, -1) for row in range(ROWS)]


@ALL
@pytest.mark.parametrize("world", [1, 3])
def test_a_state_goes_on_on_any_number_of_ranks(dataset, name, world):
    loader = loader_of(dataset, name, batch_size=48)
    passed = iter(loader)
    before = [next(passed)["_row"] for _ in range(5)]
    state = json.loads(json.dumps(loader.state_dict()))
    whole = rows_of([{"_row": np.concatenate(before)}, *passed])
    assert len(json.dumps(state)) < 1024

    ranks = [
        loader_of(dataset, name, batch_size=15, rank=rank, world_size=world)
        for rank in range(world)
    ]
    for one in ranks:
        one.load_state_dict(state)
    rest = [np.concatenate([b["_row"] for b in one]) for one in zip(*ranks, strict=True)]

    assert np.array_equal(np.concatenate([*before, *rest]), whole)


@ALL
def test_epochs_differ_and_come_again(dataset, name):
    loader, again = loader_of(dataset, name), loader_of(dataset, name)
    first, second = rows_of(loader), rows_of(loader)
    again.set_epoch(1)

    assert not np.array_equal(first, second)
    assert np.array_equal(rows_of(again), second)


@pytest.mark.parametrize("name", ONCE)
def test_each_row_comes_once(dataset, name):
    assert sorted(rows_of(loader_of(dataset, name))) == list(range(ROWS))


def test_weighted_rows_come_as_often_as_their_weight_says(dataset):
    loader = loader_of(dataset, "by column")
    shares = WEIGHT / WEIGHT.sum() * ROWS
    total = np.zeros(ROWS)
    for _ in range(40):
        counts = np.bincount(rows_of(loader), minlength=ROWS)
        assert (np.abs(counts - shares) < 1 + 1e-6).all()  # never more than one from its share
        total += counts

    assert total[:10].sum() == 0
    # rounded up or down at random: the error of 40 epochs is that of 40 draws
    assert np.abs(total / 40 - shares).max() < 4 * 0.5 / 40**0.5


def test_an_array_of_weights_gives_what_its_column_gives(dataset):
    by_column, by_array = (rows_of(loader_of(dataset, one)) for one in ("by column", "by array"))

    assert np.array_equal(by_column, by_array)


def test_balanced_classes_come_equally_often_everywhere_and_every_row_before_any_again(dataset):
    loader = loader_of(dataset, "balanced")
    rows = np.concatenate([rows_of(loader) for _ in range(3)])
    classes = LABEL[rows]

    for size in (30, 300):
        for one in range(3):
            held = np.convolve(classes == one, np.ones(size), "valid")
            assert np.abs(held - size / 3).max() <= 5
    for one in range(3):
        own, count = rows[classes == one], np.count_nonzero(one == LABEL)
        for start in range(0, len(own) - count + 1, count):
            assert len(np.unique(own[start : start + count])) == count


def test_class_weights_multiply_the_rows_of_a_class(dataset):
    rows = rows_of(loader_of(dataset, "by class"))
    shares = np.bincount(LABEL) * [0.5, 1, 10]

    assert np.abs(np.bincount(LABEL[rows]) - shares / shares.sum() * ROWS).max() <= 1


def test_classes_of_weight_0_are_left_out(dataset):
    rows = rows_of(loader_of(dataset, "by class", weights={"label": {"cat": 0}}))

    assert set(LABEL[rows]) == {1, 2}
    assert len(rows) == ROWS


def test_stratified_batches_have_the_classes_in_proportion(dataset):
    rows = rows_of(loader_of(dataset, "stratified"))
    shares = np.bincount(LABEL) / ROWS

    for start in range(0, ROWS - 64, 64):
        counts = np.bincount(LABEL[rows[start : start + 64]], minlength=3)
        assert np.abs(counts - 64 * shares).max() <= 4


def test_groups_stay_together_in_their_own_order(dataset):
    rows = rows_of(loader_of(dataset, "grouped"))
    episode = rows * 7 % 40
    borders = np.flatnonzero(np.diff(episode)) + 1

    assert len(borders) == 39
    assert all((np.diff(one) > 0).all() for one in np.split(rows, borders))


def test_groups_come_first_as_they_come_in_the_view_without_shuffle(dataset):
    rows = rows_of(loader_of(dataset, "grouped", shuffle=False))

    assert rows[:30].tolist() == [row for row in range(ROWS) if row * 7 % 40 == 0]
    assert rows[30] == 1


def test_repeated_epochs_are_the_epochs_one_after_another(dataset):
    rows = rows_of(loader_of(dataset, "repeated"))
    plain = dataset.loader(batch_size=64, columns=["_row"], shuffle=True, seed=3)

    assert np.array_equal(rows, np.concatenate([rows_of(plain) for _ in range(3)]))


def test_the_pass_over_a_column_is_priced(dataset):
    said = loader_of(dataset, "by column").explain()

    assert "weighted by 'w', full shuffle (a first pass reads up to" in said
    assert "of 'w'; takes 9.6 kB of memory)" in said
    said = loader_of(dataset, "stratified").explain()
    assert "of 'label'; takes 9.6 kB of memory, for 3 distinct values)" in said


def test_columns_of_a_query_are_taken_too(dataset):
    view = dataset.query("SELECT x, x % 4 AS part WHERE x < 400")

    rows = rows_of(view.loader(batch_size=40, columns=["_row"], group="part"))

    assert rows[:100].tolist() == list(range(0, 400, 4))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"weights": "nothing"}, "nothing"),
        ({"weights": "episode"}, "a weight is a number"),
        ({"weights": [1.0, 2.0]}, r"of shape \(2,\)"),
        ({"weights": np.full(ROWS, -1.0)}, "is -1.0 at place 0"),
        ({"weights": np.zeros(ROWS)}, "is 0 for all 1,200 rows"),
        ({"weights": "holes"}, "NULL at place 7"),
        ({"stratify": "pair"}, "one value for each row"),
        ({"weights": {"label": {"bird": 2}}}, "'bird'"),
        ({"weights": {"label": {"cat": -2}}}, "weight of a class is a finite number"),
        ({"weights": {"label": "even"}}, "weights by class have"),
        ({"weights": {}}, "weights by class have"),
        ({"weights": 3}, "the name of a column"),
        ({"weights": lambda place: 1.0}, "returned 1.0 at place 0"),
        ({"weights": "w", "group": "episode"}, "give one of them"),
        ({"group": 3}, "group is the name of a column"),
        ({"group": "episode", "shuffle": "window"}, "shuffle='window' reads adjacent rows"),
        ({"limit": 0}, "limit must be an integer >= 1"),
        ({"repeat": 1.5}, "repeat must be an integer"),
    ],
)
def test_what_is_impossible_is_refused_by_name(dataset, arguments, said):
    with pytest.raises((InvalidInputError, tl.TensorNotFoundError), match=said):
        next(
            iter(dataset.loader(**{"batch_size": 4, "columns": ["x"], "shuffle": True} | arguments))
        )


@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ("by column", "stratified", "order"),
        ("by column", "limited", "order"),
        ("balanced", "by class", "weights"),
        ("repeated", "limited", "repeat"),
    ],
)
def test_a_state_of_another_order_is_refused_by_name(dataset, was, now, named):
    state = loader_of(dataset, was).state_dict()

    with pytest.raises(StateMismatchError, match=named):
        loader_of(dataset, now).load_state_dict(state)
    with pytest.raises(StateMismatchError, match="order"):
        loader_of(dataset, "limited", limit=None).load_state_dict(state)


def test_a_state_of_other_weights_is_refused(dataset):
    state = loader_of(dataset, "by array").state_dict()

    with pytest.raises(StateMismatchError, match="weights"):
        loader_of(dataset, "by array", weights=WEIGHT[::-1].copy()).load_state_dict(state)


def test_other_factors_are_shown_as_they_were_given(dataset):
    state = loader_of(dataset, "by class").state_dict()
    other = loader_of(dataset, "by class", weights={"label": {"owl": 3.0}})

    with pytest.raises(StateMismatchError, match=r"weights  recorded .*'owl': 10.0.*given .*3.0"):
        other.load_state_dict(state)


def test_explain_prices_the_rows_that_an_epoch_draws(dataset):
    def priced(**order):
        text = dataset.loader(batch_size=10, columns=["w"], **order).explain()
        return float(text.partition("fetch     about ")[2].partition(" kB an epoch")[0])

    whole = priced()

    assert priced(limit=500) == pytest.approx(whole * 500 / 1200, abs=0.1)
    assert priced(repeat=3) == pytest.approx(whole * 3, abs=0.2)


def test_a_loader_returns_to_the_version_of_its_state():
    with fill(f"memory://arrangement-{next(NAMES)}") as moved:
        loader = loader_of(moved, "balanced", batch_size=100)
        passed = iter(loader)
        before = [next(passed)["_row"] for _ in range(3)]
        state, rest = loader.state_dict(), rows_of(passed)
        moved["label"][[0, 1, 2]] = [2, 2, 2]
        moved.commit("three owls")
        later = loader_of(tl.open(moved.url), "balanced", batch_size=100)
        with pytest.warns(UserWarning, match="continuing on main@1"):
            later.load_state_dict(state)

        assert len(before) == 3
        assert np.array_equal(rows_of(later), rest)
