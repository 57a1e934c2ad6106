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
