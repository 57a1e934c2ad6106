"""What a user's type checker knows of the SDK: `make check` reads this page, and nothing runs it.

Where a type depends on the schema or on the query, which no type checker sees, `Any` is right: the
values of a row, of a column, of a batch. All else has a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

import numpy as np

import tensorlake as tl


def reading(ds: tl.Dataset) -> None:
    """Brackets tell by what stands in them."""
    assert_type(ds[0], tl.Row)
    assert_type(ds[np.int64(3)], tl.Row)
    assert_type(ds[1:9:2], tl.View)
    assert_type(ds[[3, 1, 1]], tl.View)
    assert_type(ds[np.array([True, False])], tl.View)
    assert_type(ds[ds["label"] == "cat"], tl.View)
    assert_type(ds[["image", "label"]], tl.View)
    assert_type(ds["label"], tl.Tensor)
    assert_type(ds["label"].names, tuple[str, ...])
    assert_type((ds["label"] == "cat") & ~(ds["score"] > 0.5), tl.Predicate)
    assert_type([row["label"] for row in ds], list[Any])


def selecting(ds: tl.Dataset, view: tl.View) -> None:
    """Whatever chooses rows gives a view."""
    assert_type(ds.query("WHERE score > $low", low=0.5), tl.View)
    assert_type(view.where("score > 1").order_by("score DESC").take(3).sample(2), tl.View)
    assert_type(view[0], tl.Row)
    assert_type(view[:5], tl.View)
    assert_type(ds.split({"train": 0.9, "val": 0.1}), dict[str, tl.View])
    assert_type(ds.views["sharp"], tl.View)


def versions(ds: tl.Dataset) -> None:
    """Commits, branches and differences are values with names."""
    assert_type(ds.commit("message").version, str)
    assert_type(ds.log()[0], tl.Commit)
    assert_type(ds.at("main@1"), tl.Dataset)
    assert_type(ds.branch("fix"), tl.Dataset)
    assert_type(ds.diff("main@1"), tl.Diff)
    assert_type(ds.diff().updated["label"].before, tl.Tensor)
    assert_type(ds.branches, list[str])
    with ds.transaction("one") as same:
        assert_type(same, tl.Dataset)


def opening() -> None:
    """A dataset is a dataset, wherever it comes from."""
    assert_type(tl.ingest.images("photos", "pets.tl"), tl.Dataset)
    assert_type(tl.list("s3://bucket"), list[str])
    with tl.open("pets.tl", version="main@12") as ds:
        assert_type(ds, tl.Dataset)
    loader = ds.torch(batch_size=4, decode={"image": tl.decode.Letterbox(640)})
    assert_type(len(loader), int)
    assert_type(loader.state_dict(), dict[str, Any])


def failing(error: tl.ConflictError) -> None:
    """What an error knows depends on the error."""
    assert_type(error.code, str)
    assert_type(error.facts, dict[str, Any])


def schemas(schema: Mapping[str, Any]) -> None:
    """A schema may be written with short forms."""
    assert_type(tl.create("memory://x", {"x": "float32", "y": tl.Text()}), tl.Dataset)
    assert_type(tl.create("memory://x", schema), tl.Dataset)
