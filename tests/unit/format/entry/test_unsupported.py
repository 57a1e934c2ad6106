"""A tensor that this version cannot read is refused alone: all others stay usable."""

import json

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import UnsupportedFeatureError
from tensorlake.format import Schema
from tensorlake.types.base import registry
from tests.support.chapters import Chapters

BOOKS = [[b"one ", b"two"], None, [b"three", b"four", b"five"]]


@pytest.fixture
def unknown(monkeypatch, tmp_path):
    """A dataset whose type `test-chapters` is not installed any more."""
    ds = tl.create(tmp_path / "ds", {"book": Chapters(nullable=True), "y": "int64"})
    ds.extend({"book": BOOKS, "y": range(3)})
    ds.commit()
    monkeypatch.delitem(registry._types, Chapters.kind)
    return tl.open(tmp_path / "ds")


def with_feature(name: str) -> dict:
    stored = Schema.new({"x": tl.Array("int8", (None,)), "y": "int64"}).to_json()
    stored["tensors"][0]["features"] = ["parts", name]
    return stored


def test_the_others_are_read_and_this_one_is_named(unknown):
    assert unknown["y"][:].tolist() == [0, 1, 2]
    assert unknown.query("WHERE y > 0")["y"][:].tolist() == [1, 2]
    assert "test-chapters (unsupported)" in repr(unknown)
    assert "test-chapters (unsupported)" in repr(unknown[0])
    assert unknown[0]["y"] == 0
    for read in (
        lambda: unknown["book"][0],
        lambda: unknown["book"][:],
        lambda: unknown["book"][0, 1:],
        lambda: unknown[0]["book"],
        lambda: unknown["book"].bytes(0),
        unknown["book"].shapes,
        lambda: list(unknown.loader(batch_size=1)),
        lambda: unknown.query("WHERE y = 0 AND book IS NOT NULL")["book"][:],
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"'book'.*'test-chapters'"):
            read()


def test_writes_of_others_work(unknown, monkeypatch):
    unknown["y"][1] = 7
    unknown.append({"y": 9})
    unknown.delete(0)
    unknown.commit()

    assert unknown["y"][:].tolist() == [7, 2, 9]
    with pytest.raises(UnsupportedFeatureError, match=r"'book'"):
        unknown["book"][0] = [b"x"]
    with pytest.raises(UnsupportedFeatureError, match=r"'book'"):
        unknown.append({"y": 1, "book": [b"x"]})

    monkeypatch.setitem(registry._types, Chapters.kind, Chapters)
    again = tl.open(unknown.url)
    assert again.schema["book"] == Chapters(nullable=True)
    assert [None if one is None else list(one[:]) for one in again["book"]] == [
        None,
        BOOKS[2],
        None,
    ]


def test_check_gc_and_copy_treat_it_as_bytes(unknown, tmp_path, monkeypatch):
    unknown["y"][0] = 5
    unknown.commit()
    unknown.optimize()

    assert unknown.check().ok
    unknown.gc()
    tl.copy(unknown.url, str(tmp_path / "copy"))
    monkeypatch.setitem(registry._types, Chapters.kind, Chapters)
    copied = tl.open(tmp_path / "copy")
    assert copied.check().ok
    assert list(copied["book"][2][1:]) == BOOKS[2][1:]


def test_a_feature_of_a_tensor_is_refused_like_a_type():
    stored = with_feature("holograms")

    schema = Schema.from_json(stored)

    assert schema["y"].type == tl.Scalar("int64")
    assert schema.to_json() == stored
    with pytest.raises(UnsupportedFeatureError, match=r"'x'.*'holograms'"):
        schema["x"].check_supported()


def test_what_was_stored_is_written_back():
    stored = Schema.new({"y": tl.ClassLabel(["a", "b"])}).to_json()
    stored["tensors"][0]["type"] = {"kind": "from-the-future", "nullable": True, "more": [1, 2]}
    stored["tensors"][0] |= {"class_ids": {"00000000aa": 1}, "later": 3}

    schema = Schema.from_json(json.loads(json.dumps(stored)))

    assert schema.to_json() == stored
    assert schema["y"].type.nullable
    column = schema["y"].type.fill_column(None, 2)
    assert not np.asarray(column.valid).any()
