"""Views as datasets of Hugging Face: every feature, and back."""

import datetime as dt

import numpy as np
import pytest
import simplejpeg

import tensorlake as tl

datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.extras

SEEN = dt.datetime(2026, 1, 31, 12, 30, 0, 250_000, tzinfo=dt.UTC)


def jpeg(seed: int) -> bytes:
    return simplejpeg.encode_jpeg(np.full((4, 6, 3), 10 * seed, np.uint8))


@pytest.fixture
def ds():
    made = tl.create(
        "memory://hf-out",
        {
            "image": tl.Image("jpeg"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "score": "float32",
            "count": tl.Scalar("int64", nullable=True),
            "seen": tl.Timestamp("ms", tz="UTC"),
            "boxes": tl.BBox(of="image"),
            "kinds": tl.ClassLabel(["a", "b"], multi=True),
            "vector": tl.Embedding(3),
            "grid": tl.Array("int16", (2, 3)),
            "clip": tl.Sequence(tl.Image("jpeg")),
        },
    )
    made.extend(
        {
            "image": [jpeg(i) for i in range(3)],
            "label": [1, 0, 1],
            "score": [0.5, 0.25, -1e9],
            "count": [1, None, 2**53 + 1],
            "seen": [SEEN, SEEN, SEEN],
            "boxes": [np.full((i, 4), i) for i in range(3)],
            "kinds": [[0, 1], [], [1]],
            "vector": np.arange(9).reshape(3, 3),
            "grid": np.arange(18).reshape(3, 2, 3),
            "clip": [[jpeg(1)], [], [jpeg(2), jpeg(3)]],
        }
    )
    made.commit("three")
    return made


def test_hugging_face_reads_every_feature_and_it_comes_back(ds):
    hf = ds.to_hf()

    assert isinstance(hf, datasets.Dataset)
    assert hf.features["label"] == datasets.ClassLabel(names=["cat", "dog"])
    assert hf.features["image"] == datasets.Image()
    assert hf.features["grid"] == datasets.Array2D(shape=(2, 3), dtype="int16")
    assert hf[0]["label"] == 1
    assert np.asarray(hf[1]["image"]).tolist() == ds[1]["image"].tolist()
    assert hf[2]["boxes"] == [[2] * 4] * 2
    assert hf[1]["grid"] == [[6, 7, 8], [9, 10, 11]]
    assert [row["kinds"] for row in hf] == [[0, 1], [], [1]]
    assert [row["count"] for row in hf] == [1, None, 2**53 + 1]
    assert hf[0]["seen"] == SEEN
    assert len(hf[2]["clip"]) == 2
    raw = hf.cast_column("image", datasets.Image(decode=False))
    assert [row["image"]["bytes"] for row in raw] == [jpeg(i) for i in range(3)]
    again = tl.ingest.huggingface(hf, "memory://tables-hf-again")
    assert again["image"].bytes(1) == jpeg(1)
    assert again["label"].names == ("cat", "dog")
    names = ["label", "score", "vector", "grid"]
    assert again.to_arrow(names).to_pylist() == ds.to_arrow(names).to_pylist()


def test_hugging_face_takes_views_their_computed_columns_and_dropped_classes(tmp_path):
    ds = tl.create("memory://tables-hf-view", {"y": tl.ClassLabel(["a", "b", "c"]), "x": "int64"})
    ds.extend({"y": ["c", "a"], "x": [1, 2]})
    ds["y"].drop_names(["b"])
    ds.commit("two")

    hf = ds.query("SELECT y, x * 2 AS twice ORDER BY x DESC").to_hf()

    assert hf.features["y"] == datasets.ClassLabel(names=["a", "c"])
    assert hf.to_dict() == {"y": [0, 1], "twice": [4, 2]}
    hf.save_to_disk(tmp_path / "hf")
    assert datasets.load_from_disk(tmp_path / "hf").to_dict() == hf.to_dict()
