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
    _make_damaged(str(root / "damaged"))
    _make_disputed(str(root / "disputed"))
    _make_retold(str(root / "retold"))
    _make_suspect(str(root / "suspect"))
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


def _make_damaged(url: str) -> None:
    """Boxes whose edges are reversed, not numbers, and in one place."""
    types = {
        "image": tl.Image("jpeg"),
        "boxes": tl.BBox("xyxy", of="image"),
        "labels": tl.ClassLabel(["cat", "dog", "owl"], per="boxes"),
    }
    damaged = tl.create(url, types, durability="none")
    boxes = [[100, 90, 20, 10], [float("nan"), 0, 10, 10], [50, 50, 50, 50]]
    damaged.append({"image": GREY, "boxes": boxes, "labels": [0, 1, 2]})
    damaged.commit("damaged boxes")


def _make_disputed(url: str) -> None:
    """Two branches that changed the boxes of row 0; main deleted row 2, whose kind fix changed."""
    types = {
        "image": tl.Image("jpeg"),
        "boxes": tl.BBox("xyxy", of="image"),
        "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
        "kind": tl.ClassLabel(["day", "night"]),
    }
    main = tl.create(url, types, durability="none")
    boxes = [[[10, 10, 60, 60]], [[90, 20, 150, 100]], [[20, 20, 50, 80]]]
    rows = {"image": [GREY] * 3, "boxes": boxes, "labels": [[0]] * 3, "kind": [0] * 3}
    main.extend(rows)
    main.commit("three rows")
    fix = main.branch("fix")
    fix["boxes"][0] = [[10, 10, 90, 90]]
    fix["kind"][2] = "night"
    fix.commit("a larger box")
    main["boxes"][0] = [[10, 10, 60, 60], [70, 10, 100, 60], [110, 10, 150, 60]]
    main["labels"][0] = [1, 1, 1]
    main.delete([2])
    main.commit("three dogs")


def _make_retold(url: str) -> None:
    """Two branches that changed a word in the middle of long texts, of either direction."""
    main = tl.create(url, {"story": tl.Text()}, durability="none")
    latin, hebrew = "once upon a time " * 120, "היה היה פעם " * 160
    main.extend({"story": [f"{latin}a king {latin}", f"{hebrew}מלך {hebrew}", "x" * 3000]})
    main.commit("three stories")
    fix = main.branch("fix")
    for handle, (noun, name, character) in {
        fix: ("queen", "מלכה", "y"),
        main: ("toad", "צפרדע", "z"),
    }.items():
        handle["story"][0] = f"{latin}a {noun} {latin}"
        handle["story"][1] = f"{hebrew}{name} {hebrew}"
        handle["story"][2] = character * 3000
        handle.commit(noun)


def _make_suspect(url: str) -> None:
    """Twelve images of two classes: rows 4 and 9 have the other's label, row 7 is row 2 again.

    The note of row 5 is that of row 1, with one more character.

    The probabilities of row 11 are NaN: no model was run on it.
    """
    types = {
        "image": tl.Image("jpeg"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "pred_probs": tl.Array("float32", (2,)),
        "note": tl.Text(),
    }
    suspect = tl.create(url, types, durability="none")
    rng = np.random.default_rng(9)
    images = [
        simplejpeg.encode_jpeg(np.kron(coarse, np.ones((20, 20, 1), np.uint8)))
        for coarse in rng.integers(0, 255, (12, 6, 8, 3), dtype=np.uint8)
    ]
    images[7] = images[2]
    true = np.arange(12) % 2
    sure = np.linspace(0.8, 0.95, 12)
    probs = np.where(np.arange(2) == true[:, None], sure[:, None], 1 - sure[:, None])
    probs[11] = np.nan
    given = true.copy()
    given[[4, 9]] = 1 - given[[4, 9]]
    notes = [f"note {number} of {'abcdefghijkl'[number] * 9}" for number in range(12)]
    notes[1] = "هذه ملاحظة طويلة تظهر مرتين في هذه البيانات"  # "this long note is here twice"
    notes[5] = notes[1] + "!"
    columns = {"image": images, "label": given, "pred_probs": probs.astype(np.float32)}
    suspect.extend({**columns, "note": notes})
    suspect.commit("twelve")
