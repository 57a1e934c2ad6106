"""export: rows become files."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tensorlake as tl


def dataset(folder: Path) -> str:
    ds = tl.create(str(folder / "x.tl"), {"x": "int64", "y": "str"})
    ds.extend({"x": [1, 2, 3], "y": ["a", "b", "c"]})
    ds.commit("three")
    return ds.url


def test_a_query_s_rows_and_columns_become_a_file(run: Any, tmp_path: Path) -> None:
    url, dst = dataset(tmp_path), str(tmp_path / "out.parquet")

    done = run("export", "parquet", url, dst, "--query", "WHERE x > 1", "-c", "y,_row")

    assert done.code == 0
    assert done.out.startswith("2 rows of")
    assert pq.read_table(dst).to_pydict() == {"y": ["b", "c"], "_row": [1, 2]}


def test_what_is_there_is_replaced_only_when_told(run: Any, tmp_path: Path) -> None:
    url, dst = dataset(tmp_path), str(tmp_path / "shards")
    run("export", "webdataset", url, dst)

    again = run("export", "webdataset", url, dst)
    told = run("export", "webdataset", url, dst, "--overwrite")

    assert (again.code, told.code) == (1, 0)
    assert "is there already" in again.err


def test_unknown_kind_is_wrong_usage_and_lists_the_kinds(run: Any, tmp_path: Path) -> None:
    failed = run("export", "lmdb", dataset(tmp_path), str(tmp_path / "out"))

    assert failed.code == 2
    assert (
        "hdf5, jsonl, lerobot, litdata, mds, numpy, parquet, tfrecord, webdataset, zarr"
        in failed.err
    )


@pytest.mark.parametrize(
    ("kind", "ingest"), [("csv", tl.ingest.csv), ("jsonl", tl.ingest.jsonl), ("numpy", None)]
)
def test_text_and_arrays_come_back_as_they_were(
    run: Any, tmp_path: Path, kind: str, ingest: Any
) -> None:
    dst = str(tmp_path / "out.npz") if ingest is None else str(tmp_path / f"out.{kind}")

    done = run("export", kind, dataset(tmp_path), dst)

    assert done.code == 0
    again = (ingest or tl.ingest.numpy)(dst, f"memory://cli-export-{kind}")
    assert (again["x"][:].tolist(), again["y"][:]) == ([1, 2, 3], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("-",), "tensorlake query {url} 'SELECT *' --format csv"),
        (("-", "--query", "WHERE x > 1"), "tensorlake query {url} 'WHERE x > 1' --format csv"),
        (("out.csv", "--workers", "2"), "leave it out"),
    ],
)
def test_what_export_does_not_do_is_wrong_usage_and_says_what_to_write(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, instead: Any
) -> None:
    url = dataset(tmp_path)
    monkeypatch.chdir(tmp_path)

    failed = run("export", "csv", url, *arguments)

    assert failed.code == 2
    assert instead.format(url=url) in failed.err
    assert {one.name for one in tmp_path.iterdir()} == {"x.tl"}


def test_a_description_says_which_properties_it_lacks(run: Any, tmp_path: Path) -> None:
    url, about = dataset(tmp_path), tmp_path / "about.json"
    about.write_text('{"license": "MIT", "description": "numbers", "url": "https://example.org"}')

    done = run("export", "croissant", url, str(tmp_path / "out"), "-c", "x", "--about", str(about))
    about.write_text("{")
    broken = run("export", "croissant", url, str(tmp_path / "b"), "--about", str(about))
    other = run("export", "csv", url, str(tmp_path / "c.csv"), "--about", str(about))

    assert done.code == 0
    assert "--about lacks: creator, datePublished" in done.err
    assert (tmp_path / "out" / "croissant.json").exists()
    assert (broken.code, other.code) == (2, 2)
    assert "expected a file of JSON" in broken.err
    assert "leave it out" in other.err


def test_a_url_is_written_to_and_takes_the_options_of_its_store(run: Any, tmp_path: Path) -> None:
    url, dst = dataset(tmp_path), "memory://cli-export-bucket/x.parquet"

    done = run("export", "parquet", url, dst, "--storage-option", "region=eu-west-1")
    again = run("export", "parquet", url, dst)
    wrong = run("export", "parquet", url, f"{dst}.2", "--storage-option", "colour=red")

    assert done.code == 0, done.err
    assert done.out.startswith("3 rows of")
    assert len(tl.ingest.parquet(dst, "memory://cli-export-bucket-back")) == 3
    assert (again.code, wrong.code) == (1, 1)
    assert "is there already" in again.err
    assert "no store knows: 'colour'" in wrong.err
    assert "to a path or into a bucket" in run("export", "csv", url, "https://host/x.csv").err
