"""mlcroissant validates what `to_croissant` writes, and reads its rows."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

mlc = pytest.importorskip("mlcroissant")
pytestmark = [
    pytest.mark.extras,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of rdflib, which mlcroissant uses
]
ABOUT = {
    "description": "two pets",
    "license": "https://creativecommons.org/licenses/by/4.0/",
    "url": "https://example.org/pets",
    "creator": {"@type": "Person", "name": "Ada Lovelace"},
    "datePublished": "2026-11-29",
    "citeAs": "@misc{pets}",
    "rai:dataBiases": ["only pets"],
    "rai:hasSyntheticData": False,
    "prov:wasDerivedFrom": "https://example.org/photographs",
}
SCHEMA = {
    "image": tl.Image("png"),
    "label": tl.ClassLabel(["cat", "dog"], nullable=True),
    "x": "int16",
    "pose": tl.Array("float32", (2, 3)),
    "boxes": tl.BBox(of="image"),
    "tags": tl.Tags(),
    "note": "text",
}


def test_what_is_written_is_valid_and_its_rows_are_read(tmp_path):
    pose = np.arange(12, dtype="float32").reshape(2, 2, 3)
    with tl.create(tmp_path / "pets.tl", SCHEMA) as ds:
        ds.extend(
            {
                "image": [np.full((4, 5, 3), at, np.uint8) for at in (1, 2)],
                "label": ["dog", None],
                "x": [1, -2],
                "pose": pose,
                "boxes": [[[0, 0, 2, 2]], []],
                "tags": [["a", "b"], []],
                "note": ["é", ""],
            }
        )
        ds.commit("two")
        assert ds.to_croissant(tmp_path / "out", about=ABOUT) == ()

    read = mlc.Dataset(str(tmp_path / "out" / "croissant.json"))
    issues, about = read.metadata.ctx.issues, read.metadata
    first, second = read.records("rows")

    assert (issues.errors, issues.warnings) == (set(), set())
    assert (about.name, about.data_biases) == ("pets", ["only pets"])
    assert "http://mlcommons.org/croissant/1.1" in about.conforms_to
    assert np.asarray(first["rows/image"]).tolist() == np.full((4, 5, 3), 1).tolist()
    assert (first["rows/label"], second["rows/label"]) == (b"dog", None)
    assert (first["rows/x"], second["rows/x"]) == (1, -2)
    assert second["rows/pose"] == pose[1].ravel().tolist()
    assert np.asarray(first["rows/boxes"]).tolist() == [[0, 0, 2, 2]]
    assert len(second["rows/boxes"]) == 0
    assert (first["rows/tags"], first["rows/note"]) == ([b"a", b"b"], "é".encode())
    classes = [one["label_classes/name"] for one in read.records("label_classes")]
    assert classes == ["cat", "dog"]
