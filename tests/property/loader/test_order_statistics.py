"""Each order against what chance would do: where rows come, after which, and in the next epoch.

The seeds are fixed, so that a statistic is one number for ever; five standard deviations are
allowed. Rows drawn by weight, and classes, are counted instead of drawn, which is why their counts
must lie closer to their shares than independent draws would.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorlake as tl

pytestmark = pytest.mark.slow

ROWS, EPOCHS, TENTHS, ALLOWED = 2000, 40, 10, 5.0
FEW_EPOCHS, LISTED = 5, ("packed", "strata of windows")  # whose rows are found one by one
CLASSES = np.repeat([0, 1, 2, 3], [1000, 600, 300, 100])  # stored by class
WEIGHTS = 0.2 + np.random.default_rng(4).random(ROWS)
GROUPS = np.arange(ROWS) // 20


def by_function(place):
    return {"label": {3: 4.0}}


ORDERS = {
    "full": {"shuffle": "full"},
    "windows": {"shuffle": "window"},
    "weighted": {"weights": "w"},
    "balanced": {"weights": {"label": "balanced"}},
    "factors": {"weights": {"label": {3: 5.0}}},
    "function": {"weights": by_function},
    "stratified": {"stratify": "label"},
    "grouped": {"group": "group"},
    "repeated": {"repeat": 2, "limit": ROWS},
    "mix": {},
    "packed": {},
    "strata of windows": {"stratify": "label"},
}
ONCE = ("full", "windows", "stratified", "grouped", "repeated", "packed", "strata of windows")
COUNTED = {  # by stretches of four to eight rows for each class or source
    "balanced": 16,
    "factors": 16,
    "function": 16,
    "stratified": 16,
    "strata of windows": 16,
    "mix": 8,
}
DRAWN = {  # the share of each row that is drawn by weight
    "weighted": WEIGHTS / WEIGHTS.sum(),
    "balanced": 0.25 / np.bincount(CLASSES)[CLASSES],
    "factors": np.where(CLASSES == 3, 5.0, 1.0) / 2400,
    "function": np.where(CLASSES == 3, 4.0, 1.0) / 2300,
    "mix": np.where(np.arange(ROWS) < 500, 0.7 / 500, 0.3 / 1500),
}


@pytest.fixture(scope="module")
def epochs():
    """The rows of forty epochs of each order, in their order; none is read."""
    schema = {"label": "int64", "w": "float64", "group": "int64", "x": "int64"}
    with tl.create("memory://order-statistics", schema | {"t": tl.Array("int64", (None,))}) as ds:
        columns = {"label": CLASSES, "w": WEIGHTS, "group": GROUPS, "x": np.arange(ROWS)}
        ds.extend({**columns, "t": [[row] * 8 for row in range(ROWS)]})
        ds.commit("rows")
        yield {name: rows_of(ds, name) for name in ORDERS}


def rows_of(ds, name):
    order = {"shuffle": True} | ORDERS[name]
    source, columns = ds, ["x"]
    if name == "mix":
        parts = {"few": (ds[:500], 0.7), "many": (ds[500:], 0.3)}
        source, order["limit"] = tl.mix(parts, stop="never"), ROWS
    elif name == "packed":
        source, columns = ds.pack("t", 8), None
    elif name == "strata of windows":
        source, columns = ds.windows("x", by="x", size=1), None
    loader = source.loader(batch_size=100, seed=11, columns=columns, **order)
    found = []
    for epoch in range(EPOCHS if name not in LISTED else FEW_EPOCHS):
        loader.set_epoch(epoch)
        plan = loader.plan
        if name in LISTED:  # a document or row for each place
            found.append(np.concatenate(plan.rows_at(np.arange(ROWS))))
        else:
            found.append(plan.plan.at(np.arange(ROWS)))
    return np.stack(found)


def deviations(statistic, degrees):
    """Standard deviations of a chi-square statistic from its mean."""
    return (statistic - degrees) / np.sqrt(2 * degrees)


def kinds_of(name):
    """Twenty kinds of rows: neighbours in the selection, of one class."""
    return np.arange(ROWS) * 20 // ROWS


@pytest.mark.parametrize("name", ORDERS)
def test_rows_of_any_kind_are_in_any_part_of_an_epoch(epochs, name):
    rows = epochs[name]
    kinds, tenths = kinds_of(name)[rows], np.arange(rows.shape[1]) * TENTHS // rows.shape[1]
    counts = np.zeros((20, TENTHS))
    np.add.at(counts, (kinds, np.broadcast_to(tenths, rows.shape)), 1)
    # a kind's rows come as one where they are one group
    size = 20 if name == "grouped" else 1

    expected = counts.sum(1, keepdims=True) / TENTHS
    statistic = ((counts - expected) ** 2 / expected).sum() / size

    assert deviations(statistic, 19 * (TENTHS - 1)) < ALLOWED


@pytest.mark.parametrize("name", ORDERS)
def test_rows_say_nothing_about_those_that_follow(epochs, name):
    rows = epochs[name].astype(float)
    if name == "grouped":
        rows = GROUPS[epochs[name][:, ::20]].astype(float)
    elif name in COUNTED:  # inside their class
        kinds = np.where(epochs[name] < 500, 0, 1) if name == "mix" else CLASSES[epochs[name]]
        means = np.bincount(kinds.ravel(), rows.ravel()) / np.bincount(kinds.ravel())
        rows -= means[kinds]

    for lag in (1, 2, 7):
        assert abs(correlation(rows, lag)) < ALLOWED / np.sqrt(rows[:, lag:].size)


@pytest.mark.parametrize("name", COUNTED)
def test_classes_follow_each_other_as_in_a_shuffle_of_their_stretch(epochs, name):
    kinds = np.where(epochs[name] < 500, 0, 1) if name == "mix" else CLASSES[epochs[name]]
    within = ALLOWED / np.sqrt(kinds.size)

    found = correlation(kinds.astype(float), 1)

    # of a shuffle of n rows; pairs of rows of two stretches are independent
    size = COUNTED[name]
    expected = -1 / (size - 1) * (size - 1) / size
    assert abs(found - expected) < within + 0.3 * abs(expected)


def correlation(values, lag):
    return np.corrcoef(values[:, :-lag].ravel(), values[:, lag:].ravel())[0, 1]


@pytest.mark.parametrize("name", ONCE)
def test_where_a_row_comes_says_nothing_about_the_next_epoch(epochs, name):
    places = np.argsort(epochs[name], axis=1).astype(float)
    if name == "grouped":
        places = places[:, ::20]

    for one, other in pairwise(places):
        assert abs(np.corrcoef(one, other)[0, 1]) < ALLOWED / np.sqrt(places.shape[1])


@pytest.mark.parametrize("name", ONCE)
def test_each_row_comes_once_an_epoch(epochs, name):
    assert (np.sort(epochs[name], axis=1) == np.arange(ROWS)).all()


@pytest.mark.parametrize("name", DRAWN)
def test_rows_come_as_often_as_their_share_and_more_evenly_than_draws(epochs, name):
    counts = np.bincount(epochs[name].ravel(), minlength=ROWS)
    expected = DRAWN[name] * EPOCHS * ROWS

    statistic = ((counts - expected) ** 2 / expected).sum()

    assert statistic < ROWS / 2  # independent draws: about the number of rows
    # in one epoch a weighted row has its share rounded up or down, and a class gives all of its
    # rows before any again
    one = np.bincount(epochs[name][0], minlength=ROWS)
    assert (np.abs(one - DRAWN[name] * ROWS) < 1.5).all()
