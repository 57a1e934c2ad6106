"""Croissant: the description beside the rows; tests/extras/croissant has mlcroissant read both."""

from __future__ import annotations

import hashlib
import json

import pyarrow.parquet as pq
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError


@pytest.fixture
def ds(tmp_path):
    schema = {
        "x": "uint8",
        "label": tl.ClassLabel(["cat", "dog"]),
        "boxes": tl.Array("float64", (None, 4)),
    }
    with tl.create(tmp_path / "pets.tl", {**schema, "raw": tl.Bytes()}) as made:
        made.extend(
            {
                "x": [1, 2],
                "label": ["dog", "cat"],
                "boxes": [[], [[0, 0, 2, 2]]],
                "raw": [b"", b"1"],
            }
        )
        made.commit("two")
        yield made


def test_the_description_is_of_the_rows_beside_it(ds, tmp_path):
    about = {"license": "CC0-1.0", "version": "2.0.0", "rai:dataBiases": "pets"}
    columns = ["x", "label", "boxes"]
    missing = ds.where("x = 2").to_croissant(tmp_path / "out", about=about, columns=columns)

    found = json.loads((tmp_path / "out" / "croissant.json").read_text("utf-8"))
    rows, (records, classes) = found["distribution"][0], found["recordSet"]
    content = (tmp_path / "out" / rows["contentUrl"]).read_bytes()
    fields = {one["name"]: (one["dataType"], one.get("arrayShape")) for one in records["field"]}
    assert missing == ("description", "url", "creator", "datePublished")
    assert (found["name"], found["version"], found["rai:dataBiases"]) == ("pets", "2.0.0", "pets")
    assert rows["sha256"] == hashlib.sha256(content).hexdigest()
    assert pq.read_table(tmp_path / "out" / "rows.parquet")["x"].to_pylist() == [2]
    assert fields == {
        "x": ("cr:UInt8", None),
        "label": ("sc:Text", None),
        "boxes": ("cr:Float64", "-1,4"),
    }
    assert classes["data"] == [{"label_classes/name": "cat"}, {"label_classes/name": "dog"}]
    assert str(tmp_path) not in json.dumps(found)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"licence": "MIT"}, "no property 'licence'\nthere are license"),
        ({"distribution": []}, "no property 'distribution'"),
        ({1: "MIT"}, "no property 1"),
        ({"rai:dataBias": "x"}, "rai:dataBiases"),
        ({"license": ""}, "is empty"),
        ({"datePublished": "yesterday"}, "ISO 8601"),
        ({"datePublished": 2026}, "ISO 8601"),
        ({"creator": "Ada"}, "a person or an organization"),
        ({"keywords": {1, 2}}, "JSON has no form"),
        ({"version": float("nan")}, "JSON has no form"),
        (["license"], "a dictionary of properties"),
    ],
)
def test_properties_that_are_wrong_are_refused_before_anything_is_written(
    ds, tmp_path, about, told
):
    with pytest.raises(InvalidInputError) as refused:
        ds.to_croissant(tmp_path / "out", about=about, columns=["x"])

    assert told in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_tensor_without_a_data_type_is_named(ds, tmp_path):
    with pytest.raises(UnsupportedFeatureError, match="no data type for 'raw'"):
        ds.to_croissant(tmp_path / "out")
    assert not (tmp_path / "out").exists()
