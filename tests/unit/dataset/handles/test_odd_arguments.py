"""Arguments of a wrong kind are refused by the tree's errors, not by bare ones of Python."""

import numpy as np
import pytest

import tensorlake as tl

ODD = [3, ["x", 3], {1: 2}, np.array([1, 2]), b"x", len]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_storage_options_are_a_dict_by_names(odd):
    for call in (tl.open, tl.exists, tl.list):
        with pytest.raises(tl.InvalidInputError, match="storage_options= is a dict"):
            call("memory://odd", storage_options=odd)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_a_schema_is_like_that_of_a_dataset(odd):
    with pytest.raises(tl.SchemaError, match="like= is an open dataset"):
        tl.create("memory://odd", like=odd)


@pytest.mark.parametrize("odd", [None, *ODD], ids=repr)
def test_a_function_of_the_user_has_a_name(odd):
    with pytest.raises(tl.InvalidInputError, match=r"udf\(\) takes the function's name"):
        tl.udf(odd, len, dtype="int64")


@pytest.mark.parametrize("odd", [None, *ODD], ids=repr)
def test_a_mix_is_by_rows(odd):
    ds = tl.create("memory://odd-mix", {"x": "int64"}, exist_ok=True)

    with pytest.raises(tl.InvalidInputError, match="by is 'rows'"):
        tl.mix({"a": (ds, 1)}, by=odd)


@pytest.mark.parametrize("odd", [None, 3, len])
def test_class_names_come_as_a_list(odd):
    ds = tl.create("memory://odd-names", {"y": tl.ClassLabel(["a"])}, exist_ok=True)

    for call in (ds["y"].add_names, ds["y"].drop_names):
        with pytest.raises(tl.InvalidInputError, match="takes a list of names"):
            call(odd)


@pytest.fixture
def ds():
    with tl.create("memory://odd-rows", {"x": "int64", "v": tl.Array("float32", (3,))}) as made:
        made.extend({"x": [1, 2, 3], "v": np.zeros((3, 3))})
        made.commit("three")
        yield made
    tl.delete("memory://odd-rows", confirm="memory://odd-rows")


@pytest.mark.parametrize("mixed", [[True, 0], (0, False), [np.True_, 1]], ids=repr)
def test_booleans_among_row_numbers_are_refused(ds, mixed):
    for call in (lambda: ds[mixed], lambda: ds["x"][list(mixed)], lambda: ds.delete(mixed)):
        with pytest.raises(tl.InvalidInputError, match="cannot be indexed by"):
            call()


def test_slices_are_of_integers(ds):
    odd = slice("a", "b")
    for call in (
        lambda: ds[odd],
        lambda: ds["x"][odd],
        lambda: ds["x"].read(odd),
        lambda: ds[:2][odd],
        lambda: ds.delete(odd),
        lambda: ds.log()[odd],
    ):
        with pytest.raises(tl.InvalidInputError, match=r"cannot be indexed by \['a':'b'\]"):
            call()


@pytest.mark.parametrize("region", [np.s_[::0], 2**63, np.s_["a":]], ids=repr)
def test_a_region_that_no_array_has_is_refused(ds, region):
    with pytest.raises(tl.InvalidInputError, match="no such region"):
        ds["v"][0, region]


def test_positions_of_a_log_are_those_that_it_has(ds):
    log = ds.log()
    for odd in (None, 1.5, True):
        with pytest.raises(tl.InvalidInputError, match="must be an integer"):
            log[odd]
    for beyond in (2, -3, 10**30):
        with pytest.raises(tl.VersionNotFoundError, match="the log has 2 commits") as caught:
            log[beyond]
        assert isinstance(caught.value, IndexError)  # as sequences raise
    assert log[-1] == log[1] == log[np.int64(1)]


def test_integers_beyond_64_bits_compare_as_they_are():
    ds = tl.create("memory://odd-large", {"x": "uint64", "y": "int64", "f": "float64"})
    ds.extend({"x": [0, 2**64 - 1], "y": [-(2**63), 1], "f": [1.0, 2.0**64]})
    counts = {
        2: (ds["x"] < 2**64, ds["x"] != 10**30, ds["y"] > -(2**63) - 1, ds["f"] < 10**400),
        1: (ds["f"] == 2**64, ds["f"] >= 2**64),
        0: (ds["x"] == 2**64, ds["y"] == -(2**63) - 1, ds["x"] > 10**30, ds["x"].isin([2**64])),
    }
    for count, conditions in counts.items():
        assert [len(ds[condition]) for condition in conditions] == [count] * len(conditions)
    with pytest.raises(tl.QueryError, match=r"\$p is an integer that does not fit in 64 bits"):
        ds.query("WHERE x < $p", p=2**64)


def test_parameters_have_any_name(ds):
    assert len(ds.query("WHERE x = $tql", tql=1)) == 1
    assert len(ds.where("x > $condition", condition=1)) == 2


def test_deep_lists_are_refused(ds):
    deep = [1]
    for _ in range(3000):
        deep = [deep]
    for call in (lambda: ds["x"] == deep, lambda: ds["x"].isin(deep)):
        with pytest.raises(tl.InvalidInputError, match="levels of lists"):
            call()


@pytest.mark.parametrize("dst", [None, b"x", 3], ids=repr)
def test_an_export_goes_to_a_path(ds, dst):
    for call in (ds.select("x").to_csv, ds.to_jsonl, ds.to_parquet):
        with pytest.raises(tl.InvalidInputError, match="dst is a path or URL"):
            call(dst)


def test_parameters_of_types_are_no_arrays():
    several = np.zeros(2)
    for make in (
        lambda: tl.Embedding(2, metric=several),
        lambda: tl.Struct({"x": "int64"}, nullable=several),
        lambda: tl.Scalar("int64", nullable=several),
    ):
        with pytest.raises(tl.InvalidInputError):
            make()


@pytest.mark.parametrize("odd", [1, "yes", None, np.array([True, False])], ids=repr)
def test_whether_a_search_is_exact_is_a_boolean(ds, odd):
    with pytest.raises(tl.InvalidInputError, match="exact is True or False"):
        ds.search("v", np.ones(3), exact=odd)


@pytest.mark.parametrize("odd", [3, "x", {"x": 1}, len, np.array(["x"])], ids=repr)
def test_columns_to_refresh_come_as_a_list(ds, odd):
    with pytest.raises(tl.InvalidInputError, match="names is a list of columns"):
        ds.refresh_columns(odd)


@pytest.mark.parametrize("odd", [3, None, ["threads"], np.array(["threads", "x"])], ids=repr)
def test_where_columns_are_refreshed_is_one_of_two_words(ds, odd):
    with pytest.raises(tl.InvalidInputError, match="give 'threads' or 'processes'"):
        ds.refresh_columns(engine=odd)


@pytest.mark.parametrize("odd", [1, None, ["keep"], np.array(["keep", "keep"])], ids=repr)
def test_how_conflicts_are_resolved_is_one_of_three_words(ds, odd):
    with pytest.raises(tl.InvalidInputError, match="on_conflict="):
        ds.map(len, schema={"n": "int64"}, to="memory://odd-map", on_conflict=odd)


def test_a_parameter_may_have_more_digits_than_python_prints(ds):
    with pytest.raises(tl.TensorlakeError) as raised:
        len(ds.query("WHERE x > $n", params={"n": 10**5000}))
    assert len(str(raised.value)) < 1000
