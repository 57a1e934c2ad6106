"""WebDataset samples are followed by key when their shards are rewritten, renamed or damaged."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

import tensorlake as tl
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://resharded-{tmp_path.name}"


def shard(path: Path, samples: dict[str, int], *more: tuple[str, bytes]) -> None:
    """Write a shard of an image and a class for each key."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        members = [
            member
            for key, number in samples.items()
            for member in ((f"{key}.jpg", jpeg(number)), (f"{key}.cls", str(number).encode()))
        ]
        for name, content in (*members, *more):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    write(path, made.getvalue())


def correct(url: str, row: int, value: int) -> None:
    with tl.open(url) as ds:
        ds["cls"][row] = value
        ds.commit("by hand")


def test_samples_that_moved_to_another_shard_keep_rows_and_corrections(tmp_path, url):
    shard(tmp_path / "w" / "0.tar", {"a": 0, "b": 1})
    shard(tmp_path / "w" / "1.tar", {"c": 2, "d": 3})
    tl.ingest.webdataset(tmp_path / "w", url)
    correct(url, 2, 7)

    (tmp_path / "w" / "1.tar").unlink()
    shard(tmp_path / "w" / "0.tar", {"a": 0, "b": 1, "d": 3, "c": 2})
    ds = tl.ingest.webdataset(tmp_path / "w", url, delete=True)

    report = ds.ingest_report
    assert (report.unchanged, report.added, report.vanished) == (4, 0, 0)
    assert ds["cls"][:].tolist() == [0, 1, 7, 3]


def test_a_shard_under_another_name_has_the_same_samples(tmp_path, url):
    shard(tmp_path / "w" / "0.tar", {"a": 0, "b": 1})
    tl.ingest.webdataset(tmp_path / "w", url)

    (tmp_path / "w" / "0.tar").rename(tmp_path / "w" / "train-0.tar")
    again = tl.ingest.webdataset(tmp_path / "w", url)

    assert (again.ingest_report.unchanged, len(again)) == (2, 2)


def test_a_sample_under_another_key_is_recognised(tmp_path, url):
    shard(tmp_path / "0.tar", {"a": 0, "b": 1})
    tl.ingest.webdataset(tmp_path / "0.tar", url)
    shard(tmp_path / "0.tar", {"a": 0, "z": 1})

    ds = tl.ingest.webdataset(tmp_path / "0.tar", url)

    assert (ds.ingest_report.renamed, ds.ingest_report.added) == (1, 0)
    assert [str(one) for one in ds["key"][:]] == ["a", "z"]


def test_a_key_of_several_shards_is_known_by_shard_and_key(tmp_path, url):
    shard(tmp_path / "w" / "0.tar", {"a": 0, "b": 1})
    tl.ingest.webdataset(tmp_path / "w", url)
    correct(url, 0, 7)
    shard(tmp_path / "w" / "1.tar", {"a": 2})

    ds = tl.ingest.webdataset(tmp_path / "w", url)

    report = ds.ingest_report
    assert (report.added, report.renamed, report.unchanged) == (1, 1, 1)
    assert ds["cls"][:].tolist() == [7, 1, 2]
    assert len(tl.ingest.webdataset(tmp_path / "w", url, delete=True)) == 3
    assert ds.query("SELECT _source")["_source"][:] == ["w/0.tar/a", "w/b", "w/1.tar/a"]


@pytest.mark.parametrize("kind", ["cut", "fields"])
def test_samples_that_cannot_be_read_have_not_left_the_source(tmp_path, url, kind):
    shard(tmp_path / "w" / "0.tar", {"a": 0, "b": 1})
    shard(tmp_path / "w" / "1.tar", {"c": 2, "d": 3})
    tl.ingest.webdataset(tmp_path / "w", url)

    if kind == "cut":
        content = (tmp_path / "w" / "1.tar").read_bytes()
        write(tmp_path / "w" / "1.tar", content[: 3 * 512])
    else:
        more = ("c.jpg", jpeg(2)), ("c.json", json.dumps({}).encode())
        shard(tmp_path / "w" / "1.tar", {"d": 3}, *more)
    ds = tl.ingest.webdataset(tmp_path / "w", url, on_error="skip", delete=True)

    assert ds.ingest_report.rejected > 0
    assert (ds.ingest_report.vanished, len(ds)) == (0, 4)
