"""Splits: every row on one side, the same side whatever else there is, shares as asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import InvalidInputError, TensorNotFoundError, UnsupportedFeatureError
from tests.support.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::tensorlake.EmptySideWarning")  # few rows
NUMBER = itertools.count()
SHARES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(
    lambda parts: {f"s{at}": part / sum(parts) for at, part in enumerate(parts)}
)


def dataset(rows: int, *, classes: int = 3, groups: int = 5):
    ds = tl.create(
        f"memory://split-{next(NUMBER)}",
        {"x": "int64", "y": tl.ClassLabel([f"c{i}" for i in range(classes)]), "who": "str"},
    )
    add(ds, rows, classes=classes, groups=groups)
    return ds


def add(ds, rows: int, *, classes: int = 3, groups: int = 5) -> None:
    start = len(ds)
    numbers = np.arange(start, start + rows)
    names = [f"p{i % groups}" for i in numbers]
    ds.extend({"x": numbers, "y": numbers % classes, "who": names})
    ds.commit(f"{rows} rows")


def sides(ds, shares, **options) -> dict[int, str]:
    parts = ds.split(shares, **options)
    assert list(parts) == list(shares)
    pairs = [(int(x), name) for name, part in parts.items() for x in part["x"][:]]
    assert len(pairs) == len(ds)
    assert len(dict(pairs)) == len(ds)
    return dict(pairs)


@examples(10)
@given(
    rows=st.integers(1, 60),
    more=st.integers(1, 60),
    shares=SHARES,
    seed=st.integers(-(2**70), 2**70),
    how=st.sampled_from([{}, {"stratify": "y"}, {"group": "who"}]),
)
def test_row_keeps_its_side_when_rows_are_added(rows, more, shares, seed, how):
    ds = dataset(rows)
    before = sides(ds, shares, seed=seed, **how)

    add(ds, more)

    after = sides(ds, shares, seed=seed, **how)
    assert {x: after[x] for x in before} == before


@examples(10)
@given(shares=SHARES, gone=st.sets(st.integers(0, 39), max_size=30), group=st.booleans())
def test_row_keeps_its_side_when_others_go_and_in_every_view(shares, gone, group):
    ds = dataset(40)
    how = {"group": "who"} if group else {}
    before = sides(ds, shares, **how)
    view = ds.where("x % 2 = 0").order_by("x DESC")
    in_view = {int(x): name for name, part in view.split(shares, **how).items() for x in part["x"]}

    ds.delete(sorted(gone))
    ds.commit("fewer")

    assert in_view == {x: before[x] for x in range(0, 40, 2)}
    assert sides(ds, shares, **how) == {x: s for x, s in before.items() if x not in gone}


@examples(10)
@given(rows=st.integers(1, 200), shares=SHARES, seed=st.integers(0, 99))
def test_exact_shares_hold_to_one_row(rows, shares, seed):
    parts = dataset(rows).split(shares, seed=seed, exact=True)

    for name, share in shares.items():
        assert abs(len(parts[name]) - share * rows) <= 1


@examples(10)
@given(rows=st.integers(1, 200), shares=SHARES, seed=st.integers(0, 99), exact=st.booleans())
def test_stratified_shares_hold_in_each_class(rows, shares, seed, exact):
    ds = dataset(rows)

    parts = ds.split(shares, seed=seed, stratify="y", exact=exact)

    of_class = np.bincount(ds["y"][:], minlength=3)
    for name, share in shares.items():
        counts = np.bincount(np.asarray(parts[name]["y"][:]), minlength=3)
        assert (np.abs(counts - share * of_class) <= (1 if exact else 4)).all()


@examples(10)
@given(shares=SHARES, seed=st.integers(0, 99), exact=st.booleans())
def test_rows_of_a_group_stay_together(shares, seed, exact):
    parts = dataset(60).split(shares, seed=seed, group="who", exact=exact)

    groups = [set(part["who"][:]) for part in parts.values()]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 5


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_exact_shares_hold_over_classes_of_few_rows_together(seed):
    ds = tl.create(f"memory://split-few-{seed}", {"y": "int64"})
    ds.extend({"y": [0, *range(1, 301), *range(1, 301), *range(1, 301)]})

    parts = ds.split({"train": 0.5, "val": 0.3, "test": 0.2}, stratify="y", exact=True, seed=seed)

    counts = [len(part) for part in parts.values()]
    assert np.abs(np.array(counts) - 901 * np.array([0.5, 0.3, 0.2])).max() <= 2
    ds.discard()


@pytest.mark.parametrize("seed", [None, "x", 1.5, True])
def test_seed_that_is_no_number_is_refused(seed):
    with pytest.raises(InvalidInputError, match=r"seed must be an integer"):
        dataset(2).split({"a": 0.5, "b": 0.5}, seed=seed)


def test_shares_hold_to_chance_and_seeds_differ():
    ds = dataset(10_000)

    one = sides(ds, {"train": 0.8, "val": 0.2}, seed=1)
    two = sides(ds, {"train": 0.8, "val": 0.2}, seed=2)

    count = sum(side == "val" for side in one.values())
    assert abs(count - 2000) < 5 * np.sqrt(10_000 * 0.2 * 0.8)
    both = sum(one[x] == two[x] == "val" for x in one)
    assert abs(both - 400) < 100  # independent: 0.2 × 0.2 of them


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": "who"}, r"'val' got none of 2 groups of 'who' in 50 rows;\nwith exact=True"),
        ({"exact": True, "group": "who"}, r"(?s)'val' got none of 2 groups.*rounds to none"),
    ],
)
def test_side_without_rows_is_told_and_one_of_no_rows_is_not(options, words):
    shares = {"train": 0.9, "val": 0.1}
    ds = dataset(50, groups=2)
    with pytest.warns(tl.EmptySideWarning, match=words) as caught:
        parts = ds.split(shares, **options)
    assert (len(parts["train"]), len(parts["val"])) == (50, 0)
    assert caught[0].filename == __file__
    # a warning is an error in this suite
    ds.take(0).split(shares, **options)


def test_repeated_row_is_on_one_side():
    ds = dataset(20)

    parts = ds[[3] * 10 + [4] * 10].split({"a": 0.5, "b": 0.5}, exact=True)

    assert sorted(set(part["x"][:].tolist()) for part in parts.values()) in ([{3}, {4}], [{4}, {3}])


def test_staged_rows_are_on_the_side_they_keep():
    ds = dataset(5)
    ds.extend({"x": range(5, 50), "y": [0] * 45, "who": ["p"] * 45})
    staged = sides(ds, {"a": 0.5, "b": 0.5})

    ds.commit("more")

    assert sides(ds, {"a": 0.5, "b": 0.5}) == staged


BAD_SHARES = [{}, {"a": 1.2}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": "x"}, [0.8, 0.2], None]


@pytest.mark.parametrize("shares", BAD_SHARES)
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(InvalidInputError, match="sum to 1"):
        dataset(1).split(shares)


def test_what_cannot_be_split_by_is_refused_by_name():
    ds = dataset(4)
    ds.add_tensor("maybe", tl.Scalar("int64", nullable=True))
    ds.add_tensor("boxes", tl.BBox(), fill=np.zeros((0, 4)))
    half = {"a": 0.5, "b": 0.5}

    with pytest.raises(TensorNotFoundError, match="wo"):
        ds.split(half, group="wo")
    with pytest.raises(InvalidInputError, match="row 0 of 'maybe' is NULL"):
        ds.split(half, stratify="maybe")
    with pytest.raises(InvalidInputError, match="one value a row"):
        ds.split(half, group="boxes")
    with pytest.raises(UnsupportedFeatureError, match="not both"):
        ds.split(half, group="who", stratify="y")
    with pytest.raises(InvalidInputError, match="no row ids"):
        ds.query("SELECT COUNT(*) AS n").split(half)
    ds.discard()
