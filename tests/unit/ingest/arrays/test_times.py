"""Arrays of times, and of what no tensor holds: named, with a way to ingest them."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_times_of_every_unit_come_back(url, unit):
    given = np.array(["2020-01-02", "1960-03-04"], f"datetime64[{unit}]")

    ds = tl.ingest.numpy({"t": given}, url)

    assert (ds["t"][:] == given).all()
    again = tl.ingest.numpy({"t": np.append(given, given[:1])}, url).ingest_report
    assert (again.added, again.unchanged) == (1, 2)


def test_no_time_is_null(url):
    given = np.array(["2020-01-02", "NaT"], "datetime64[s]")

    ds = tl.ingest.numpy({"t": given}, url)

    assert ds.to_arrow()["t"].to_pylist()[1] is None
    assert ds["t"][:1].tolist() == given[:1].tolist()


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (np.array(["2020-01"], "datetime64[M]"), r"array\.astype\('datetime64\[s\]'\)"),
        (np.array([1], "timedelta64[s]"), r"array\.astype\('int64'\)"),
        (np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), r"array\[field\] .* \['a', 'b'\]"),
        (np.array([b"abc"], "V3"), "numbers, booleans or strings"),
    ],
)
def test_arrays_that_no_tensor_holds_are_named_with_a_way(url, given, advice):
    with pytest.raises(InvalidInputError, match=rf"^'x' is an array of(.|\n)*{advice}"):
        tl.ingest.numpy({"x": given}, url)

    if given.dtype.names:
        fields = {field: given[field] for field in given.dtype.names}
        assert tl.ingest.numpy(fields, url)["b"][:].tolist() == [2.0]
