"""Sparse matrices of SciPy: the columns and values of each row, and back by SciPy itself."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

sparse = pytest.importorskip("scipy.sparse")


def matrix_of(ds, columns):
    """Return what a dataset holds, as SciPy builds it."""
    indices, values = ds["x/indices"][:], ds["x/values"][:]
    indptr = np.concatenate([[0], np.cumsum([len(one) for one in indices])])
    parts = (np.concatenate([*values]), np.concatenate([*indices]), indptr)
    return sparse.csr_matrix(parts, shape=(len(ds), columns))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_rows_come_back_from_every_layout(tmp_path, layout, dtype):
    rng = np.random.default_rng(4)
    dense = (rng.random((20, 9)) < 0.2) * rng.integers(1, 9, (20, 9))
    dense[3] = 0
    given = sparse.coo_matrix(dense.astype(dtype)).asformat(layout)

    ds = tl.ingest.numpy({"x": given, "y": np.arange(20)}, tmp_path / "d.tl")

    assert (matrix_of(ds, 9).toarray() == dense.astype(dtype)).all()
    assert ds["x/values"].dtype == np.dtype(dtype)
    assert ds["x/indices"][3].shape == (0,)
    assert not tl.ingest.numpy(
        {"x": given, "y": np.arange(20)}, tmp_path / "d.tl"
    ).ingest_report.commits


def test_duplicates_are_summed_and_stored_zeros_stay(tmp_path):
    places = ([0, 0, 1], [2, 2, 0])
    given = sparse.coo_matrix((np.array([1.0, 2.0, 0.0]), places), shape=(2, 3))

    ds = tl.ingest.numpy({"x": given}, tmp_path / "d.tl")

    assert [row.tolist() for row in ds["x/indices"][:]] == [[2], [0]]
    assert [row.tolist() for row in ds["x/values"][:]] == [[3.0], [0.0]]
    assert given.nnz == 3


def test_a_sparse_vector_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="'x' is a sparse array of 1 axes"):
        tl.ingest.numpy({"x": sparse.coo_array(np.arange(3))}, tmp_path / "d.tl")


def test_the_number_of_columns_is_kept_and_followed(tmp_path):
    given = sparse.random(5, 1000, 0.01, random_state=1, format="csr")
    ds = tl.ingest.numpy({"x": given}, tmp_path / "d.tl")

    assert ds["x/indices"].metadata["columns"] == 1000
    assert (matrix_of(ds, ds["x/indices"].metadata["columns"]) != given).nnz == 0
    assert not tl.ingest.numpy({"x": given}, tmp_path / "d.tl").ingest_report.commits
    wider = sparse.hstack([given, sparse.csr_matrix((5, 200))])
    ds = tl.ingest.numpy({"x": wider}, tmp_path / "d.tl")
    assert (ds.ingest_report.unchanged, ds["x/indices"].metadata["columns"]) == (5, 1200)
    assert ds.ingest_report.commits == [ds.version]


def test_a_file_that_scipy_saved_is_refused_with_a_way_that_works(tmp_path):
    given = sparse.random(5, 10, 0.3, random_state=1, format="csc")
    sparse.save_npz(tmp_path / "m.npz", given)

    with pytest.raises(InvalidInputError, match=r"saved by SciPy\n.*sparse\.load_npz") as caught:
        tl.ingest.numpy(tmp_path / "m.npz", tmp_path / "d.tl")

    dst = tmp_path / "d.tl"
    code = str(caught.value).partition("give the matrix: ")[2]
    exec(code, {"tl": tl, "scipy": __import__("scipy"), "dst": dst})
    assert (matrix_of(tl.open(dst), 10) != given).nnz == 0
