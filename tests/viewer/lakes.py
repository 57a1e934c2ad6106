"""The datasets that the browser looks at: small, free, and with every shape in a known place."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

import tensorlake as tl
from tests.viewer.editable import GREY, make_editable
from tests.viewer.recorded import make_recorded
from tests.viewer.trained import make_trained

__all__ = ["make_lake"]

MARKUP = "<img src=x onerror='window.wasRun = 1'><script>window.wasRun = 1</script>"
ROWS = 40
TOUR = Path(__file__).parents[2] / "docs/tutorial/look-at-data.md"
ORIENTATION, TURN_RIGHT = 0x0112, 6  # EXIF's


def make_lake(root: Path) -> None:
    """Make every dataset under a folder."""
    _make_pets(str(root / "pets"))
    _make_shapes(str(root / "shapes"))
    _make_crowd(str(root / "crowd"))
    _make_values(str(root / "values"))
    _make_edits(str(root / "edits"))
    notes = tl.create(str(root / "notes"), {"text": tl.Text()}, durability="none")
    notes.extend({"text": [MARKUP, "a second note"]})
    notes.commit("two notes")
    turned = tl.create(str(root / "turned"), {"image": tl.Image("jpeg")}, durability="none")
    turned.extend({"image": [_turned_picture()]})
    turned.commit("from a camera")
    numbers = tl.create(str(root / "numbers"), {"x": "int32"}, durability="none")
    numbers.extend({"x": np.arange(4_000_000, dtype=np.int32)})
    numbers.commit("four million")
    _make_relabelled(str(root / "relabelled"))
    _make_named(str(root / "named"))
    _make_toured(root)
    _make_extremes(root)
    _make_measured(str(root / "measured"))
    _make_aspects(str(root / "aspects"))
    _make_cameras(str(root / "cameras"))
    _make_odd(str(root / "odd"))
    _make_clips(str(root / "clips"))
    _make_rig(str(root / "rig"))
    _make_people(str(root / "people"))
    _make_looks(str(root / "looks"))
    make_editable(root)
    make_recorded(root)
    make_trained(root)
    _make_scans(str(root / "scans"))
    _make_clusters(str(root / "clusters"))
    growing = tl.create(str(root / "growing"), {"x": "int64"}, durability="none")
    growing.extend({"x": range(5)})
    growing.commit("five")


def _make_pets(url: str) -> None:
    """Grey pictures; every second row has one box in a known place, a dog in every fourth."""
    pets = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox("xywh", of="image"),
            "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
            "score": "float32",
        },
        durability="none",
    )
    box = np.array([[20, 30, 60, 50]], dtype=np.float32)
    columns = {
        "image": [GREY] * ROWS,
        "boxes": [box if i % 2 else box[:0] for i in range(ROWS)],
        "labels": [["dog"] if i % 4 == 3 else ["cat"] if i % 2 else [] for i in range(ROWS)],
        "score": np.linspace(0, 1, ROWS, dtype=np.float32),
    }
    half = ROWS // 2
    pets.extend({name: values[:half] for name, values in columns.items()})
    pets.commit("first half")
    pets.extend({name: values[half:] for name, values in columns.items()})
    pets.commit("second half")


def _make_shapes(url: str) -> None:
    """One overlay of each kind a row, alone over grey: 160 × 120, in places that tests know."""
    shapes = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "inside": tl.BinaryMask(of="image", nullable=True),
            "ground": tl.SegmentMask(["background", "road", "sky"], of="image", nullable=True),
            "objects": tl.InstanceMask(of="image", nullable=True),
            "outlines": tl.Polygon(of="image", nullable=True),
            "joints": tl.Keypoints(["a", "b", "c"], [(0, 1), (1, 2)], of="image", nullable=True),
            "boxes": tl.BBox("xyxy", of="image", nullable=True),
            "predicted_boxes": tl.BBox("xyxy", of="image", nullable=True),
            "predicted_scores": tl.Array("float32", (None,), nullable=True),
        },
        durability="none",
    )
    inside = np.zeros((120, 160), dtype=np.bool_)
    inside[40:80, 40:120] = True
    ground = np.zeros((120, 160), dtype=np.uint8)
    ground[60:] = 1
    ground[:30] = 2
    objects = np.zeros((2, 120, 160), dtype=np.bool_)
    objects[0, 20:100, 20:100] = objects[1, 40:60, 40:140] = True
    outlines = [[[20, 20], [140, 20], [140, 100], [20, 100]]]
    joints = [[[40, 60, 2], [80, 60, 1], [120, 60, 0]]]
    truth, guess = [[20, 20, 80, 80]], [[24, 22, 82, 80], [100, 60, 150, 110]]
    rows = [
        {"inside": inside},
        {"ground": ground},
        {"objects": objects},
        {"outlines": outlines},
        {"joints": joints},
        {"boxes": truth, "predicted_boxes": guess, "predicted_scores": [0.934, 0.5]},
    ]
    for row in rows:
        shapes.append({"image": GREY, **row})
    shapes.commit("one of each")


def _make_crowd(url: str) -> None:
    """1,200 boxes without words: one in every 4 × 4 pixels, no two alike beside each other."""
    left, top = np.meshgrid(np.arange(0, 160, 4), np.arange(0, 120, 4))
    side = 1 + (left + top) // 4 % 3
    boxes = np.stack([left, top, side, side[::-1]], axis=-1).reshape(-1, 4).astype(np.float32)
    types = {"image": tl.Image("jpeg"), "boxes": tl.BBox("xywh", of="image")}
    crowd = tl.create(url, types, durability="none")
    crowd.append({"image": GREY, "boxes": boxes})
    crowd.commit("a crowd")


def _make_values(url: str) -> None:
    """One of each kind of value that is opened; the second row is NULL throughout."""
    types = {
        "caption": tl.Text(nullable=True),
        "meta": tl.Json(nullable=True),
        "plane": tl.Array("float32", (4, 6), nullable=True),
        "vector": tl.Embedding(2000, nullable=True),
        "tokens": tl.Array("int64", (None,), nullable=True),
        "tags": tl.Tags(nullable=True),
        "at": tl.Timestamp("us", "UTC", nullable=True),
        "id": tl.Uuid(nullable=True),
    }
    values = tl.create(url, types, durability="none")
    whole = {
        "caption": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd " * 40,
        "meta": {"camera": {"name": "left", "exposure": [1, 60]}, "ok": True},
        "plane": np.arange(24, dtype=np.float32).reshape(4, 6),
        "vector": np.sin(np.arange(2000, dtype=np.float32) / 50),
        "tokens": [101, 7592, 2088, 102],
        "tags": ["night", "rain"],
        "at": "2026-03-01T12:00Z",
        "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    }
    values.append(whole)
    values.append(dict.fromkeys(types))
    values.commit("one, and one of nothing")


def _make_edits(url: str) -> None:
    """Two versions: a box that moves, one that becomes a dog, a row that goes, one that comes."""
    edits = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox("xywh", of="image"),
            "labels": tl.ClassLabel(["cat", "dog"], per="boxes"),
        },
        durability="none",
    )
    boxes = [[20, 30, 60, 50], [100, 20, 40, 40]]
    for _ in range(4):
        edits.append({"image": GREY, "boxes": boxes, "labels": ["cat", "cat"]})
    edits.commit("drawn")
    edits["boxes"][0] = [[20, 30, 60, 50], [90, 20, 40, 40]]
    edits["labels"][1] = ["cat", "dog"]
    edits.delete([3])
    edits.append({"image": GREY, "boxes": boxes[:1], "labels": ["dog"]})
    edits.commit("corrected")


def _make_relabelled(url: str) -> None:
    """Two versions that differ in the label of a whole picture, and in nothing that is drawn."""
    types = {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])}
    relabelled = tl.create(url, types, durability="none")
    relabelled.extend({"image": [GREY] * 2, "label": ["cat", "dog"]})
    relabelled.commit("labelled")
    relabelled["label"][0] = "dog"
    relabelled.commit("it is a dog")


def _make_named(url: str) -> None:
    """Two versions, and two saved views of the first."""
    named = tl.create(url, {"x": "int64"}, durability="none")
    named.extend({"x": range(6)})
    named.commit("six")
    named.query("WHERE x > 3 ORDER BY x DESC").save("large")
    named[[5, 0]].save("picked")
    named.extend({"x": [9]})
    named.commit("seven")


def _make_toured(root: Path) -> None:
    """``scenes`` and ``digits``: what the tour shows is what its first snippet makes."""
    made = re.search(r"```python\n(.*?)```", TOUR.read_text(encoding="utf-8"), re.DOTALL)
    assert made is not None, "the tour begins with its data"
    with contextlib.chdir(root):
        exec(made[1], {})


def _make_measured(url: str) -> None:
    """Thirty rows of which statistics know everything: `n` items in row n // 10, and odd values."""
    types = {
        "score": tl.Scalar("float32", nullable=True),
        "wide": "int64",
        "tokens": tl.Array("int32", (None,)),
        "plane": tl.Array("uint8", (None, None)),
        "split": tl.Text(nullable=True),
        "nothing": tl.Scalar("float64", nullable=True),
        "pose": tl.Struct({"sure": "bool"}),
        "id": tl.Uuid(),
    }
    measured = tl.create(url, types, durability="none")
    rows = range(30)
    measured.extend(
        {
            "score": [None, None, np.nan, np.inf, *(i / 30 for i in rows[4:])],
            "wide": [2**63 - 1 - i for i in rows],
            "tokens": [list(range(i // 10)) for i in rows],
            "plane": [np.zeros((4, 5 + i % 2), dtype=np.uint8) for i in rows],
            "split": [None, *(["train", "it's"] * 15)[:29]],
            "nothing": [None] * len(rows),
            "pose": [{"sure": i % 3 == 0} for i in rows],
            "id": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"] * len(rows),
        }
    )
    measured.commit("thirty rows")


def _make_aspects(url: str) -> None:
    """Images of every shape; each has boxes in its four corners and one around all of it."""
    types = {
        "image": tl.Image("png"),
        "boxes": tl.BBox("xyxy", of="image"),
        "labels": tl.ClassLabel(["corner"], per="boxes"),
        "note": tl.Text(),
    }
    aspects = tl.create(url, types, durability="none")
    for width, height in ((90, 240), (128, 128), (640, 64), (1, 1), (3, 12_000), (160, 120)):
        w, h = width / 4, height / 4
        corners = [[x, y, x + w, y + h] for x in (0, width - w) for y in (0, height - h)]
        boxes = np.array([*corners, [0, 0, width, height]], dtype=np.float32)
        image = np.full((height, width, 3), 90, dtype=np.uint8)
        note = f"{width} by {height}"
        row = {"image": image, "boxes": boxes, "labels": ["corner"] * len(boxes), "note": note}
        aspects.append(row)
    aspects.commit("every shape")


def _make_cameras(url: str) -> None:
    """Two cameras a row, a red and a blue one, with a box of its own each."""
    cameras = tl.create(
        url,
        {
            "left": tl.Image("png"),
            "right": tl.Image("png", nullable=True),
            "seen_left": tl.BBox("xyxy", of="left"),
            "seen_right": tl.BBox("xyxy", of="right", nullable=True),
        },
        durability="none",
    )
    for i in range(3):
        red, blue = np.zeros((2, 120, 160, 3), dtype=np.uint8)
        red[..., 0] = blue[..., 2] = 200
        has_right = i != 1
        cameras.append(
            {
                "left": red,
                "right": blue if has_right else None,
                "seen_left": [[10, 10, 60, 60]],
                "seen_right": [[100, 60, 150, 110]] if has_right else None,
            }
        )
    cameras.commit("two cameras")


def _make_clips(url: str) -> None:
    """Sequences of images: red, green, blue and grey frames, one frame, none, and words."""
    types = {"clip": tl.Sequence(tl.Image("png"), nullable=True), "words": tl.Sequence("str")}
    clips = tl.create(url, types, durability="none")
    colors = ((200, 0, 0), (0, 200, 0), (0, 0, 200), (90, 90, 90))
    frames = [np.full((120, 160, 3), color, dtype=np.uint8) for color in colors]
    for some in (frames, frames[:1], [], None):
        clips.append({"clip": some, "words": ["one", "two"]})
    clips.commit("clips of four lengths")


def _make_looks(url: str) -> None:
    """Fifty classes, from the most frequent on; row k has a box, and a segment, of class k."""
    names = [f"class {code:02}" for code in range(50)]
    looks = tl.create(
        url,
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox("xyxy", of="image"),
            "labels": tl.ClassLabel(names, per="boxes"),
            "ground": tl.SegmentMask(names, of="image", ignore=255),
        },
        durability="none",
    )
    for code in range(50):
        ground = np.full((120, 160), 0xFF, dtype=np.uint8)
        ground[:, 80:] = code
        row = {"image": GREY, "boxes": [[8, 8, 72, 112]], "labels": [code], "ground": ground}
        looks.append(row)
    looks.commit("fifty classes")


def _make_scans(url: str) -> None:
    """Ramps of 12 bits from left to right, as a 16-bit PNG, an array and real numbers."""
    types = {
        "scan": tl.Image("png", mode="L16"),
        "depth": tl.Array("float32", (120, 160)),
        "side": tl.Array("int16", (None, None), nullable=True),
    }
    scans = tl.create(url, types, durability="none")
    ramp = np.tile(np.arange(160, dtype=np.uint16) * 25, (120, 1))  # 0 … 3,975
    for i in range(3):
        side = None if i == 2 else ramp.astype(np.int16) - 2000
        scans.append({"scan": ramp[:, :, None], "depth": ramp / np.float32(3975), "side": side})
    scans.commit("three scans")


def _make_people(url: str) -> None:
    """Two thousand rows of plain values, as a table has them."""
    types = {
        "name": tl.Text(),
        "age": tl.Scalar("int32", nullable=True),
        "born_year": "int32",
        "team": tl.ClassLabel(["red", "blue"]),
        "score": "float64",
        "vector": tl.Array("float32", (4,)),
    }
    people = tl.create(url, types, durability="none")
    rows = range(2000)
    people.extend(
        {
            "name": [f"person {i:04}" for i in rows],
            "age": [None if i % 100 == 3 else 20 + i % 50 for i in rows],
            "born_year": [1950 + i % 60 for i in rows],
            "team": [i % 2 for i in rows],
            "score": [i * 1000.5 for i in rows],
            "vector": np.arange(8000, dtype=np.float32).reshape(2000, 4),
        }
    )
    people.commit("two thousand people")


def _make_clusters(url: str) -> None:
    """Three classes in three corners of a plane in 8 dimensions; one row has no vector."""
    types = {
        "image": tl.Image("png"),
        "vector": tl.Embedding(8, metric="l2", nullable=True),
        "plane": tl.Array("float32", (2,)),
        "label": tl.ClassLabel(["cat", "dog", "owl"], nullable=True),
        "score": "float32",
    }
    corners = np.array([[0, 0], [30, 0], [0, 20]], dtype=np.float32)
    spread = np.random.default_rng(2).normal(0, 1, (300, 2)).astype(np.float32)
    plane = corners[np.arange(300) % 3] + spread
    turned = np.linalg.qr(np.random.default_rng(5).normal(size=(8, 8)))[0][:2].astype(np.float32)
    colors = np.array([[200, 0, 0], [0, 200, 0], [0, 0, 200]], dtype=np.uint8)
    images = [np.full((12, 16, 3), color, dtype=np.uint8) for color in colors]
    clusters = tl.create(url, types, durability="none")
    clusters.extend(
        {
            "image": [images[i % 3] for i in range(300)],
            "vector": [None if i == 299 else row for i, row in enumerate(plane @ turned)],
            "plane": plane,
            "label": [i % 3 for i in range(300)],
            "score": np.arange(300, dtype=np.float32),
        }
    )
    clusters.commit("three clusters")


def _make_rig(url: str) -> None:
    """Two cameras whose boxes do not say of which; then the right one's box is moved."""
    types = {
        "left": tl.Image("png"),
        "right": tl.Image("png"),
        "boxes": tl.BBox("xyxy"),
        "right_boxes": tl.BBox("xyxy"),
    }
    rig = tl.create(url, types, durability="none")
    grey = np.full((120, 160, 3), 90, dtype=np.uint8)
    corner = [[0, 0, 40, 40]]
    row = {"left": grey, "right": grey, "boxes": corner, "right_boxes": [[120, 80, 160, 120]]}
    rig.append(row)
    rig.commit("two cameras")
    rig["right_boxes"][0] = [[116, 76, 156, 116]]
    rig.commit("moved in the right one")


def _make_odd(url: str) -> None:
    """JSON 200 levels deep, a year, joints, and a JPEG of which the second half is missing."""
    deep: object = "bottom"
    for _ in range(200):
        deep = {"a": deep}
    types = {
        "image": tl.Image("jpeg"),
        "joints": tl.Keypoints(["nose", "eye"], [(0, 1)], of="image"),
        "meta": tl.Json(),
        "year": "int32",
    }
    noise = np.random.default_rng(7).integers(0, 255, (120, 160, 3), dtype=np.uint8)
    whole = simplejpeg.encode_jpeg(noise)
    odd = tl.create(url, types, durability="none")
    for image, year in ((GREY, 2008), (whole[: len(whole) // 2] + whole[-2:], 1999)):
        joints = [[[40, 60, 2], [80, 60, 2]]]
        odd.append({"image": image, "joints": joints, "meta": deep, "year": year})
    odd.commit("odd values")


def _make_extremes(root: Path) -> None:
    """Nothing, NULLs, a hundred megapixels, a thousand classes, fifty tensors."""
    tl.create(str(root / "empty"), {"image": tl.Image("jpeg"), "label": "int64"}, durability="none")
    types = {
        "image": tl.Image("jpeg", nullable=True),
        "boxes": tl.BBox("xyxy", of="image", nullable=True),
        "caption": tl.Text(nullable=True),
    }
    nulls = tl.create(str(root / "nulls"), types, durability="none")
    nulls.append(dict.fromkeys(types))
    nulls.append({"image": GREY, "boxes": [[20, 20, 80, 80]], "caption": "a whole row"})
    nulls.commit("nothing, and something")
    huge = tl.create(str(root / "huge"), {"image": tl.Image("jpeg")}, durability="none")
    huge.append({"image": _hundred_megapixels()})
    huge.commit("from a satellite")
    names = [f"class {code:04}" for code in range(1000)]
    classes = tl.create(str(root / "classes"), {"label": tl.ClassLabel(names)}, durability="none")
    classes.extend({"label": [*range(1000), *([0] * 1000)]})
    classes.commit("a thousand classes")
    wide = tl.create(
        str(root / "wide"), {f"t{i:02}": "float32" for i in range(50)}, durability="none"
    )
    wide.extend({f"t{i:02}": np.full(3, i, dtype=np.float32) for i in range(50)})
    wide.commit("fifty tensors")


def _hundred_megapixels() -> bytes:
    """Grey, and red in the middle: a tenth of each side."""
    side, tenth = 10_000, 1_000
    pixels = np.full((side, side, 3), 90, dtype=np.uint8)
    middle = slice((side - tenth) // 2, (side + tenth) // 2)
    pixels[middle, middle] = (230, 30, 30)
    return simplejpeg.encode_jpeg(pixels, quality=60, fastdct=True)


def _turned_picture() -> bytes:
    """Red at the left, blue at the right, with a header that tells viewers to turn it."""
    pixels = np.zeros((120, 160, 3), dtype=np.uint8)
    pixels[:, :80, 0] = pixels[:, 80:, 2] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = TURN_RIGHT
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", exif=exif, quality=95)
    return out.getvalue()
