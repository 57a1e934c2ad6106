"""The fill of a tensor that is added: what it may be, and what is said of what it may not."""

import itertools
import math

import numpy as np
import pytest

import tensorlake as tl

_names = itertools.count()


@pytest.fixture
def ds():
    dataset = tl.create(f"memory://fills-{next(_names)}", {"number": "int64"})
    dataset.extend({"number": [1, 2, 3]})
    dataset.commit()
    return dataset


@pytest.mark.parametrize(
    ("sample_type", "fill"),
    [
        ("float32", math.nan),
        ("float16", np.float32(math.inf)),
        (tl.Array("float64", (2,)), [1.0, math.nan]),
        (tl.Array("float32", (None,)), [-math.inf]),
        (tl.Struct({"a": "float32"}), {"a": math.nan}),
        ("complex64", 1j),
    ],
)
def test_a_fill_that_json_has_no_word_for_is_refused_with_what_to_do(ds, sample_type, fill):
    with pytest.raises(tl.InvalidInputError) as caught:
        ds.add_tensor("x", sample_type, fill=fill)

    message = str(caught.value)
    assert message.startswith("add_tensor(fill=): 'x")
    assert "no NaN" in message
    assert "got " in message
    assert "give fill=None for NULL" in message
    assert list(ds.schema) == ["number"]
    assert not ds.has_changes


def test_what_is_said_to_do_instead_of_a_nan_fill_works(ds):
    ds.add_tensor("x", "float32", fill=0)
    ds["x"][:] = np.full(3, np.nan, np.float32)
    ds.add_tensor("y", "float32", fill=None)
    ds.commit()

    assert np.isnan(ds["x"][:]).all()
    assert ds["y"][0] is None


@pytest.mark.parametrize(
    ("sample_type", "fill", "got"),
    [
        ("int64", math.nan, "got float64 nan"),
        ("bool", 1.5, "got float64 1.5"),
        (tl.Array("float32", (3,)), 1.5, r"got float64 \(\)"),
        (tl.Text(), 7, "got int 7"),
        (tl.Json(), [math.nan], "got a number that it cannot represent: NaN"),
    ],
)
def test_a_fill_of_another_type_is_refused_as_a_value_and_not_as_a_row(ds, sample_type, fill, got):
    with pytest.raises(tl.InvalidInputError, match=rf"^add_tensor\(fill=\): 'x' expects .*{got}"):
        ds.add_tensor("x", sample_type, fill=fill)


def test_a_number_of_another_kind_is_not_to_be_converted_as_rows_are(ds):
    with pytest.raises(tl.DTypeMismatchError, match="give a value of int64, or None for NULL"):
        ds.add_tensor("x", "int64", fill=math.nan)
