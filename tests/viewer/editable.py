"""The datasets that browser tests edit: labels of images, of many rows, and shapes of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import simplejpeg

import tensorlake as tl

__all__ = ["GREY", "make_editable"]

GREY = simplejpeg.encode_jpeg(np.full((120, 160, 3), 90, dtype=np.uint8))


def make_editable(root: Path) -> None:
    """Make these datasets under a folder."""
    _make_unlabelled(str(root / "unlabelled"))
    _make_drawn(str(root / "drawn"))
    _make_beside(str(root / "beside"))
    catalog = tl.create(
        str(root / "catalog"),
        {"label": tl.ClassLabel(["cat", "dog", "owl"], nullable=True)},
        durability="none",
    )
    catalog.extend({"label": [None if i % 4 == 0 else i % 3 for i in range(120_000)]})
    catalog.commit("120,000 rows")


def _make_unlabelled(url: str) -> None:
    """Twenty images; the first two and the sixth are cats, the others have no label yet."""
    names = ["cat", "dog", "owl", *(f"breed {code:02}" for code in range(20))]
    types = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(names, nullable=True)}
    unlabelled = tl.create(url, types, durability="none")
    labels = ["cat" if i in (0, 1, 5) else None for i in range(20)]
    unlabelled.extend({"image": [GREY] * 20, "label": labels})
    unlabelled.commit("three of twenty")


def _make_drawn(url: str) -> None:
    """One kind of shape a row, over images of every aspect; boxes have a label and a weight."""
    types = {
        "image": tl.Image("png"),
        "boxes": tl.BBox("xywh", of="image"),
        "labels": tl.ClassLabel(["cat", "dog", "owl"], per="boxes"),
        "weights": tl.Array("float32", (None,), per="boxes"),
        "centres": tl.BBox("cxcywh", of="image", nullable=True),
        "corners": tl.BBox("xyxy", of="image", nullable=True),
        "outlines": tl.Polygon(of="image", nullable=True),
        "joints": tl.Keypoints(["a", "b", "c"], [(0, 1), (1, 2)], of="image", nullable=True),
    }
    shapes = [
        {"boxes": [[20, 30, 60.1, 50]], "labels": ["cat"], "weights": [0.1]},
        {"centres": [[45, 120, 20.3, 40]]},
        {"corners": []},
        {"corners": [[10.1, 10, 60, 50], [500, 20, 560, 50]]},
        {"outlines": [[[20, 20], [60, 20], [60, 60], [20, 60]]]},
        {"joints": [[[40, 60, 2], [80, 60, 1], [120, 60, 0]]]},
    ]
    sizes = ((160, 120), (90, 240), (1, 1), (640, 64), (160, 120), (160, 120))
    drawn = tl.create(url, types, durability="none")
    for row, (width, height) in zip(shapes, sizes, strict=True):
        image = np.full((height, width, 3), 90, dtype=np.uint8)
        drawn.append({"image": image, "boxes": [], "labels": [], "weights": [], **row})
    drawn.commit("a shape of each kind")


def _make_beside(url: str) -> None:
    """A box and an outline in a row, each with a class of its own."""
    types = {
        "image": tl.Image("jpeg"),
        "boxes": tl.BBox("xywh", of="image"),
        "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
        "outlines": tl.Polygon(of="image"),
        "kinds": tl.ClassLabel(["wall", "door"], per="outlines"),
    }
    beside = tl.create(url, types, durability="none")
    outline = [[90, 10], [150, 10], [150, 40]]
    row = {"boxes": [[20, 30, 60, 50]], "labels": [0], "outlines": [outline], "kinds": [0]}
    beside.append({"image": GREY, **row})
    beside.commit("a box beside an outline")
