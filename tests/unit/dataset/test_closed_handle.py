"""A closed handle: no changes, and what was read of it stays readable."""

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidStateError


def test_a_closed_handle_stays_readable_and_takes_no_changes(tmp_path):
    url = f"memory://closed-{tmp_path.name}"
    with tl.create(url, {"x": "int64"}) as ds:
        ds.extend({"x": [1, 2, 3]})
        ds.commit("three")
        view = ds.query("WHERE x > 1")

    assert ds["x"][:].tolist() == [1, 2, 3]
    assert view["x"][:].tolist() == [2, 3]
    assert [row["x"] for row in ds] == [1, 2, 3]
    with pytest.raises(InvalidStateError, match=r"is closed; open the dataset again with tl\.open"):
        ds.append({"x": 4})
    assert len(tl.open(url)) == 3
