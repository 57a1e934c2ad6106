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
