"""``_source``: the item that a row came from, read from the ledger wherever columns are named."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tests.support.sources import write
from tests.unit.ingest.vision.test_annotations import jpeg


@pytest.fixture
def url(tmp_path) -> str:
    return f"memory://{tmp_path.name}"


@pytest.fixture
def photos(tmp_path) -> Path:
    for number in range(4):
        name = f"{'cat' if number < 2 else 'dog'}/{number}.jpg"
        write(tmp_path / "photos" / name, jpeg(number))
    return tmp_path / "photos"


NAMES = ["photos/cat/0.jpg", "photos/cat/1.jpg", "photos/dog/2.jpg", "photos/dog/3.jpg"]


def sources(ds: tl.Dataset | tl.View) -> list[str | None]:
    return ds.query("SELECT _source")["_source"][:]


def test_source_is_in_queries_exports_and_batches_when_it_is_named(url, photos, tmp_path):
    ds = tl.ingest.images(photos, url)

    assert sources(ds) == NAMES
    assert ds.where("_source LIKE '%/dog/%'").rows.tolist() == [2, 3]
    assert ds.query("ORDER BY _source DESC").rows.tolist() == [3, 2, 1, 0]
    assert ds[[3, 1]].to_arrow(columns=["_source"])["_source"].to_pylist() == [NAMES[3], NAMES[1]]
    assert ds.to_pandas(columns=["_source", "label"])["_source"].tolist() == NAMES
    assert ds.to_numpy(columns=["_source"])["_source"].tolist() == NAMES
    assert ds.to_hf(columns=["_source"])["_source"][:] == NAMES
    ds.to_parquet(tmp_path / "out.parquet", columns=["label", "_source"])
    found = duckdb.sql(f"SELECT _source FROM '{tmp_path / 'out.parquet'}'").fetchall()
    assert [name for (name,) in found] == NAMES
    for loader in (ds.loader, ds.torch):
        batches = loader(batch_size=3, columns=["label", "_source"], shuffle=True)
        rows = [(int(y), name) for b in batches for y, name in zip(*b.values(), strict=True)]
        assert sorted(rows) == [(0, NAMES[0]), (0, NAMES[1]), (1, NAMES[2]), (1, NAMES[3])]
    assert "_source" not in ds.to_arrow().column_names
    assert "_source" not in next(iter(ds.loader(batch_size=1)))


def test_source_follows_renamed_files_hands_branches_and_compaction(url, photos):
    ds = tl.ingest.images(photos, url)
    (photos / "cat" / "1.jpg").rename(photos / "dog" / "9.jpg")
    (photos / "dog" / "2.jpg").unlink()  # its row stays: it still came from there
    write(photos / "cat" / "7.jpg", jpeg(7))
    ds = tl.ingest.images(photos, url)
    ds.append({"image": jpeg(8), "label": "cat"})  # nobody ingested it
    ds["label"][0] = "dog"
    ds.delete([3])
    expected = [NAMES[0], "photos/dog/9.jpg", NAMES[2], "photos/cat/7.jpg", None]

    assert sources(ds) == expected  # with staged changes
    ds.commit("by hand")
    assert sources(ds.branch("other")) == expected
    ds.optimize()
    assert sources(ds) == expected
    assert ds.query("SELECT COUNT(_source) AS n")["n"][:].tolist() == [4]
    assert ds.where("_source IS NULL").rows.tolist() == [4]
    assert ds.query("SELECT UPPER(_source) AS name WHERE label = 'cat'")["name"][:] == [
        "PHOTOS/CAT/7.JPG",
        None,
    ]
    batches = ds.loader(batch_size=8, columns=["label", "_source"])
    assert next(iter(batches))["_source"] == expected


def test_items_of_several_sources_and_in_conflict_have_their_names(url, photos, tmp_path):
    write(tmp_path / "more" / "cat" / "0.jpg", jpeg(9))
    ds = tl.ingest.images(photos, url, labels=False)
    with ds.transaction("by hand"):
        ds["image"][0] = jpeg(5)
    write(photos / "cat" / "0.jpg", jpeg(6))
    tl.ingest.images(photos, url, labels=False)  # of which every cell is now in conflict
    ds = tl.ingest.images(tmp_path / "more", url, labels=False, mode="append")

    assert sources(ds) == [*NAMES, "more/cat/0.jpg"]


def test_rows_by_position_have_their_file_and_keyed_ones_their_key(url, tmp_path):
    lines = [json.dumps({"id": n, "x": n * n}) + "\n" for n in range(3)]
    file = tmp_path / "squares.jsonl"
    file.write_text("".join(lines))
    pq.write_table(pa.table({"x": range(5)}), tmp_path / "x.parquet", row_group_size=2)
    folder = tmp_path / "parts"
    for name in ("a", "b"):
        write(folder / f"{name}.csv", b"x\n1\n")

    keyed = tl.ingest.jsonl(file, f"{url}-keyed", key="id")
    assert sources(keyed) == [f"squares.jsonl/id={n}" for n in range(3)]
    assert sources(tl.ingest.jsonl(file, f"{url}-lines")) == ["squares.jsonl"] * 3
    assert sources(tl.ingest.parquet(tmp_path / "x.parquet", f"{url}-one")) == ["x.parquet"] * 5
    assert sources(tl.ingest.csv(folder, f"{url}-csv")) == ["parts"] * 2
    arrays = tl.ingest.numpy({"x": np.arange(3)}, f"{url}-arrays")
    assert sources(arrays) == [None] * 3  # in memory, nothing has a name


def test_source_of_a_group_and_as_a_name_is_refused(url, photos):
    ds = tl.ingest.images(photos, url)

    for name in ("_source", "_row_id"):
        with pytest.raises(tl.QueryTypeError, match="a group is not a row of the source"):
            ds.query(f"SELECT {name}, COUNT(*) AS n GROUP BY label").to_pandas()
    with pytest.raises(tl.QueryNameError, match=r"item in its source in every output(.|\n)*source"):
        ds.query("SELECT label AS _source")


def test_a_mix_numbers_its_sources_also_where_rows_have_items(url, photos):
    ds = tl.ingest.images(photos, url)
    mixed = tl.mix({"all": (ds, 1), "same": (ds.query("SELECT *, _source"), 1)})

    batch = next(iter(mixed.loader(batch_size=4, columns=["label", "_source"])))

    assert batch["_source"].dtype.kind == "i"
    assert set(batch["_source"].tolist()) <= {0, 1}
