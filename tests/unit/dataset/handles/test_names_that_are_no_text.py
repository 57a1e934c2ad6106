"""Names of things that are given as numbers, lists or arrays are refused as unknown, in words."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

ODD = [None, 5, 10**5000, [], ["x"], {"x": 1}, {1}, np.arange(2), np.array(1.5)]
CALLS = {
    "drop_check": tl.Dataset.drop_check,
    "drop_index": tl.Dataset.drop_index,
    "drop_tensor": tl.Dataset.drop_tensor,
    "lint": lambda ds, name: ds.lint(rules=[name]),
}


@pytest.fixture(scope="module")
def ds():
    made = tl.create("memory://names-that-are-no-text", {"x": "int64"})
    made.extend({"x": [1, 2]})
    made.commit("two")
    return made


@pytest.mark.parametrize("call", ["drop_check", "drop_index", "drop_tensor", "lint"])
@pytest.mark.parametrize("name", ODD, ids=lambda odd: f"{type(odd).__name__} {np.ndim(odd)}")
def test_it_is_refused(ds, call, name):
    with pytest.raises(tl.TensorlakeError) as raised:
        CALLS[call](ds, name)

    assert len(str(raised.value)) < 1000
    assert not ds.has_changes


@pytest.mark.parametrize("name", [5, ["x"], {"x": 1}, np.arange(2)])
def test_a_tensor_to_absorb_is_named_by_a_text(ds, name):
    with pytest.raises(tl.TensorNotFoundError, match="no tensor"):
        ds.absorb(name)


@pytest.mark.parametrize("valid", [1, "no", np.array([True, False])])
def test_whether_old_rows_must_hold_is_a_boolean(ds, valid):
    with pytest.raises(tl.InvalidInputError, match="valid is True or False"):
        ds.add_check("positive", "x > 0", valid=valid)
