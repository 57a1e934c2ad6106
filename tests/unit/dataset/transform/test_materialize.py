"""A dataset made of a view's rows."""

import numpy as np
import pytest

import tensorlake as tl


@pytest.mark.parametrize("lengths", [(4, 4, 4), (4, 5, 6), (4,), ()])
def test_computed_columns_alone_become_tensors_of_any_shapes(lengths):
    masks = [np.ones((length, 3), np.uint8) for length in lengths]
    ds = tl.create(f"memory://masks-of-{lengths}", {"m": tl.SegmentMask(["road", "car"])})
    ds.extend({"m": masks})
    ds.commit()

    made = ds.query("SELECT m AS q").materialize(f"memory://made-of-{lengths}")

    assert [one.tolist() for one in made["q"].read()] == [mask.tolist() for mask in masks]


def images(url):
    ds = tl.create(url, {"image": tl.Image("png", nullable=True), "x": "int64"})
    ds.extend({"image": [np.zeros((4, 4, 3), np.uint8), None], "x": [1, 2]})
    ds.commit()
    return ds.query("SELECT *")


def test_a_call_that_fails_leaves_nothing_and_names_the_argument(tmp_path):
    view, url = images("memory://made-nothing"), tmp_path / "made"

    def nothing(x):
        return None

    with pytest.raises(tl.DTypeMismatchError, match=r"tl\.Scalar\(…, nullable=True\)"):
        view.materialize(url, encode={"x": (nothing, "int64")})

    assert not [path for path in url.rglob("*") if path.is_file()]
    made = view.materialize(url, encode={"image": tl.Image("png", nullable=True)})
    assert made["x"][:].tolist() == [1, 2]


def test_a_call_that_fails_removes_no_dataset_of_others(tmp_path):
    view = images("memory://made-by-others")
    url = tmp_path / "made"
    schema = {"image": tl.Image("png", nullable=True), "x": "int64"}
    tl.create(url, schema).close()

    with pytest.raises(tl.DTypeMismatchError):
        view.materialize(url, encode={"x": (lambda x: None, "int64")})

    assert tl.exists(url)


def test_a_call_that_fails_removes_no_rows_that_another_committed(tmp_path):
    url = tmp_path / "made"
    view = images("memory://made-beside-others").where("x > 1")

    def commit_beside(x):
        other = tl.open(url)
        other.append({"image": None, "x": 7, "y": 7})
        other.commit()
        raise RuntimeError("refused")

    tl.udf("commit_beside", commit_beside, dtype="int64")

    with pytest.raises(tl.QueryError, match="refused"):
        view.query("SELECT *, COMMIT_BESIDE(x) AS y").materialize(url)

    assert tl.open(url)["x"][:].tolist() == [7]
