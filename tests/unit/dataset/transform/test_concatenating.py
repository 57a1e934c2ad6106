"""tl.concat: rows of several views of one version, in the order given."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("concat") / "d.tl")
    with tl.create(url, {"x": tl.Array("int32", ()), "label": tl.ClassLabel(["a", "b"])}) as made:
        made.extend({"x": np.arange(6, dtype="int32"), "label": list("ababab")})
        made.commit("six rows")
        yield made


def test_rows_come_in_the_order_given_and_may_repeat(ds):
    joined = tl.concat([ds.query("WHERE x >= 4"), ds[1:3], ds[[2, 2]]])

    assert joined["x"][:].tolist() == [4, 5, 1, 2, 2, 2]
    assert joined.rows.tolist() == [4, 5, 1, 2, 2, 2]
    assert joined.version == ds.version
    assert joined["label"][:].tolist() == [0, 1, 1, 0, 0, 0]


def test_a_dataset_is_all_of_its_rows(ds):
    assert tl.concat([ds, ds[:1]])["x"][:].tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert tl.concat([ds[:0], ds[:0]])["x"][:].tolist() == []


def test_what_is_joined_is_a_view_like_others(ds, tmp_path):
    joined = tl.concat([ds[3:], ds[:2]])

    assert joined.query("WHERE label = 'b'")["x"][:].tolist() == [3, 5, 1]
    assert pickle.loads(pickle.dumps(joined))["x"][:].tolist() == [3, 4, 5, 0, 1]
    batches = joined.loader(batch_size=5, columns=["x", "_row"])
    assert next(iter(batches))["_row"].tolist() == [3, 4, 5, 0, 1]
    with joined.materialize(str(tmp_path / "m.tl")) as written:
        assert written["x"][:].tolist() == [3, 4, 5, 0, 1]


def test_columns_must_be_the_same(ds):
    both = [ds[["x"]], ds]

    with pytest.raises(InvalidInputError) as caught:
        tl.concat(both)

    assert "views[0] has ['x'], views[1] has ['x', 'label']" in str(caught.value)


def test_other_versions_and_datasets_are_refused_and_mix_is_named(ds):
    with tl.create("memory://concat-other", {"x": tl.Array("int32", ())}) as other:
        other.extend({"x": [1]})
        other.commit("one row")
        for one in (other, ds.at("main@0")):
            with pytest.raises(UnsupportedFeatureError, match=r"views\[1\] of .*\n.*tl.mix"):
                tl.concat([ds[["x"]], one])


def test_computed_values_are_refused_and_named(ds):
    for one in (ds.select("x", y="x * 2"), ds.query("SELECT COUNT(*) AS n")):
        with pytest.raises(UnsupportedFeatureError, match=r"computed: (y|n)\n"):
            tl.concat([one, one])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "got an empty list"),
        ("main", "got str 'main'"),
        ([3], "got int 3"),
        (None, "got NoneType None"),
    ],
)
def test_what_is_no_list_of_views_is_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        tl.concat(given)


def test_one_view_alone_names_the_list(ds):
    with pytest.raises(InvalidInputError, match=r"tl.concat\(\[first, second\]\)"):
        tl.concat(ds)
