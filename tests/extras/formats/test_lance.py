"""Lance writes what `tl.ingest.lance` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError

lance: Any = pytest.importorskip("lance")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def table(start: int, stop: int) -> Any:
    count = stop - start
    vectors = np.arange(40 * start, 40 * stop, dtype=np.float32)
    return pa.table(
        {
            "id": np.arange(start, stop),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 40),
            "name": [None if at % 5 == 4 else f"n{at}" for at in range(start, stop)],
            "tokens": [[*range(at % 4)] for at in range(start, stop)],
            "pairs": [[at, at + 1] for at in range(start, stop)],
            "about": [{"a": at, "b": ["x"] * (at % 2)} for at in range(start, stop)],
            "flag": np.arange(count) % 2 == 0,
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "x.lance")
    lance.write_dataset(table(0, 25), path, max_rows_per_file=10)
    return path


def test_columns_become_tensors(source: str, tmp_path: Path) -> None:
    ds = tl.ingest.lance(source, str(tmp_path / "in.tl"))
    theirs = lance.dataset(source).to_table()

    assert ds.schema["vector"] == tl.Embedding(40, nullable=True)
    assert ds.schema["pairs"] == tl.Array("int64", (None,), nullable=True)
    assert len(ds) == 25
    for name in ("id", "vector", "flag"):
        assert np.array_equal(ds[name][:], np.array(theirs[name].to_pylist())), name
    assert [row["name"] for row in ds] == theirs["name"].to_pylist()
    assert [row["about"] for row in ds] == theirs["about"].to_pylist()
    for name in ("tokens", "pairs"):
        assert [row[name].tolist() for row in ds] == theirs[name].to_pylist()


def test_a_large_fragment_is_read_in_pieces(tmp_path: Path) -> None:
    values = np.arange(3000 * 1024, dtype=np.float32).reshape(3000, 1024)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 1024)
    lance.write_dataset(pa.table({"v": lists}), str(tmp_path / "large.lance"))
    ds = tl.ingest.lance(tmp_path / "large.lance", str(tmp_path / "in.tl"))

    assert np.array_equal(ds["v"][:], values)


def test_the_same_call_adds_what_was_appended(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    tl.ingest.lance(source, url)
    lance.write_dataset(table(25, 31), source, mode="append")
    ds = tl.ingest.lance(source, url)

    assert ds.ingest_report is not None
    assert (ds.ingest_report.added, ds.ingest_report.unchanged) == (6, 25)
    assert ds["id"][:].tolist() == [*range(31)]


def test_rows_known_by_a_key_may_change(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    tl.ingest.lance(source, url, key="id")
    opened = lance.dataset(source)
    opened.update({"name": "'new'"}, where="id = 3")
    opened.delete("id = 12")
    ds = tl.ingest.lance(source, url, key="id", delete=True)

    assert ds.ingest_report is not None
    assert (ds.ingest_report.updated, ds.ingest_report.deleted) == (1, 1)
    assert ds[3]["name"] == "new"
    assert 12 not in ds["id"][:]


def test_rows_known_by_position_may_not_change(source: str, tmp_path: Path) -> None:
    url = str(tmp_path / "in.tl")
    tl.ingest.lance(source, url)
    lance.dataset(source).delete("id = 3")

    with pytest.raises(InvalidInputError, match="changed"):
        tl.ingest.lance(source, url)


def test_a_version_and_columns_are_chosen(source: str, tmp_path: Path) -> None:
    lance.write_dataset(table(25, 31), source, mode="append")
    ds = tl.ingest.lance(source, str(tmp_path / "in.tl"), version=1, columns=["id", "name"])

    assert len(ds) == 25
    assert [*ds.schema] == ["id", "name"]


def test_blobs_are_bytes(tmp_path: Path) -> None:
    field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"one", b"two"], pa.large_binary())], schema=pa.schema([field]))
    lance.write_dataset(rows, str(tmp_path / "b.lance"), data_storage_version="2.0")
    ds = tl.ingest.lance(tmp_path / "b.lance", str(tmp_path / "in.tl"))

    assert [row["blob"] for row in ds] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"columns": ["nam"]}, "did you mean 'name'"),
        ({"version": 9}, "version 9"),
        ({"version": -1}, "version=-1: give the number of a version"),
        ({"version": 2**70}, "give the number of a version"),
        ({"version": True}, "version=True: give the number of a version"),
        ({"key": "no"}, "key='no'"),
        ({"schema": {"no": "int64"}}, "unknown"),
    ],
)
def test_wrong_arguments_are_errors(source: str, tmp_path: Path, arguments: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        tl.ingest.lance(source, str(tmp_path / "in.tl"), **arguments)
    with pytest.raises(InvalidInputError, match="not read as a Lance dataset"):
        tl.ingest.lance(tmp_path / "nothing", str(tmp_path / "in.tl"))
