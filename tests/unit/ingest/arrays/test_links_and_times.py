"""Links within files of HDF5, and times of Zarr that are none, dates or lengths."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.unit.ingest.arrays.test_array_files import h5py, write


def test_a_time_that_is_none_is_null(tmp_path: Path) -> None:
    times = np.array(["2020-01-01", "NaT"], "M8[ns]")
    path = write("zarr", tmp_path / "t", {"t": times, "day": times.astype("M8[D]")})
    write("zarr", path, {"whole": np.array([0, 1], "M8[s]")})

    ds = tl.ingest.zarr(path, "memory://arrays-nat")

    assert dict(ds.schema) == {
        "t": tl.Timestamp("ns", nullable=True),
        "day": tl.Timestamp("s", is_date=True, nullable=True),
        "whole": tl.Timestamp("s"),
    }
    assert (ds["t"][1], [row["day"] for row in ds]) == (None, [dt.date(2020, 1, 1), None])


def test_lengths_of_time_are_their_counts_where_the_schema_says_so(tmp_path: Path) -> None:
    path = write("zarr", tmp_path / "d", {"d": np.array([1, 2], "m8[s]")})

    with pytest.raises(InvalidInputError, match=r"schema=\{'d': 'int64'\}"):
        tl.ingest.zarr(path, "memory://arrays-durations")

    ds = tl.ingest.zarr(path, "memory://arrays-durations", schema={"d": "int64"})
    assert ds["d"][:].tolist() == [1, 2]


def test_links_within_a_file_are_read_where_they_are_named(tmp_path: Path) -> None:
    path = write("hdf5", tmp_path / "l.h5", {"x": np.arange(3), "g/y": np.arange(3) + 5})
    with h5py().File(path, "a") as file:
        file["soft"] = h5py().SoftLink("/x")
        file["gs"] = h5py().SoftLink("g")
        file["loop"] = h5py().SoftLink("loop")
        file["nowhere"] = h5py().SoftLink("/no")
        file["ext"] = h5py().ExternalLink("other.h5", "/x")

    ds = tl.ingest.hdf5(path, "memory://arrays-links", columns=["soft", "gs/y"])

    assert (ds["soft"][:].tolist(), ds["gs/y"][:].tolist()) == ([0, 1, 2], [5, 6, 7])
    for name, why in (("loop", "leads back to itself"), ("ext", "a link to another file")):
        with pytest.raises(InvalidInputError, match=why):
            tl.ingest.hdf5(path, "memory://arrays-links-no", columns=[name])
    with pytest.raises(InvalidInputError, match=r"no array 'nowhere'\narrays: ext, g/y, soft, x"):
        tl.ingest.hdf5(path, "memory://arrays-links-no", columns=["soft", "nowhere"])


def test_named_arrays_are_found_in_a_file_of_very_many_paths(tmp_path: Path) -> None:
    path = write("hdf5", tmp_path / "many.h5", {"base/x": np.arange(3)})
    with h5py().File(path, "a") as file:
        top = file["base"]
        for level in range(25):
            group = file.create_group(f"level{level}")
            group["a"], group["b"] = top, top
            top = group

    ds = tl.ingest.hdf5(path, "memory://arrays-many-paths", columns=["base/x"])

    assert ds["base/x"][:].tolist() == [0, 1, 2]
