"""Lint finds each planted defect, with a query that finds the same rows, and nothing else."""

import datetime as dt
import io
from itertools import count
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import tensorlake as tl

_numbers = count()
ROWS = 24
NUMBER = np.random.default_rng(0)
DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - no zone

SCHEMA = {
    "image": tl.Image("png", nullable=True),
    "boxes": tl.BBox("xyxy", of="image"),
    "corner": tl.BBox("xywh", of="image"),
    "middle": tl.BBox("cxcywh", of="image"),
    "room": tl.BBox3D(),
    "label": tl.ClassLabel(["cat", "dog", "Dog ", "DOG"]),
    "labels": tl.ClassLabel(["rain", "snow", "Snow"], multi=True),
    "town": "str",
    "caption": "str",
    "split": tl.ClassLabel(["train", "val", "test"]),
    "score": tl.Scalar("float32", nullable=True),
    "camera/pose": tl.Array("float64", (None, 2)),
    "vec": tl.Embedding(3),
    "at": tl.Timestamp("us", nullable=True),
    "number": "int32",
    "note": tl.Text(nullable=True),
}


def picture(seed: int, shape: tuple[int, ...] = (12, 16, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, shape).astype(np.uint8)


def clean() -> dict[str, Any]:
    """Rows with nothing wrong."""
    rows = range(ROWS)
    return {
        "image": [picture(row) for row in rows],
        "boxes": [[[0, 0, 16, 12], [1, 2, 3, 4]][: row % 3] for row in rows],
        "corner": [[[0, 0, 16, 12]] for _ in rows],
        "middle": [[[8, 6, 16, 12]] for _ in rows],
        "room": [[[0, 0, 0, 1, 2, 3, 0]] for _ in rows],
        "label": [("cat", "dog")[row % 2] for row in rows],
        "labels": [["rain", "snow"][: row % 3] for row in rows],
        "town": [("Ulm", "Bonn", "Köln")[row % 3] for row in rows],
        "caption": [f"a text that says {row} things of its own" for row in rows],
        "split": ["train"] * 16 + ["val"] * 4 + ["test"] * 4,
        "score": [row / ROWS for row in rows],
        "camera/pose": [np.full((row % 4, 2), row / 7) for row in rows],
        "vec": [[row, 1, 2] for row in rows],
        "at": [DAY + dt.timedelta(hours=row) for row in rows],
        "number": [row % 5 for row in rows],
        "note": [None if row % 2 else f"note {row}" for row in rows],
    }


def made(rows: dict[str, Any], schema=SCHEMA) -> tl.Dataset:
    ds = tl.create(f"memory://lint-{next(_numbers)}", schema)
    ds.extend(rows)
    ds.commit("rows")
    return ds


def damaged_png() -> bytes:
    """A file whose header and end are whole, and whose pixels are not."""
    file = io.BytesIO()
    Pillow.fromarray(picture(99)).save(file, "PNG")
    content = bytearray(file.getvalue())
    content[80:90] = bytes(10)
    return bytes(content)


def test_a_clean_dataset_has_no_findings():
    report = made(clean()).lint()

    assert (report.ok, len(report), report.num_rows) == (True, 0, ROWS), report
    assert "nothing found" in repr(report)


FLAT = np.full((12, 16, 3), 7, np.uint8)
PLANTED = [
    ("image", {5: FLAT, 6: FLAT}, "unreadable", "warning"),
    ("image", {3: damaged_png()}, "unreadable", "error"),
    ("image", {8: picture(1, (12, 17, 3))}, "odd-size", "note"),
    ("image", {17: picture(0), 20: picture(1)}, "leakage", "error"),
    ("boxes", {2: [[4, 4, 4, 9]], 4: [[4, 9, 6, 3]]}, "box-without-area", "error"),
    ("corner", {2: [[4, 4, 0, 9]]}, "box-without-area", "error"),
    ("middle", {2: [[4, 4, 3, -1]]}, "box-without-area", "error"),
    ("room", {9: [[0, 0, 0, 1, 0, 3, 0]]}, "box-without-area", "error"),
    ("boxes", {1: [[-3, 0, 4, 4]], 5: [[0, 0, 4, 14]]}, "box-outside", "error"),
    ("corner", {7: [[10, 0, 8, 4]]}, "box-outside", "error"),
    ("middle", {7: [[1, 6, 6, 4]]}, "box-outside", "error"),
    ("label", {0: "Dog ", 1: "DOG"}, "similar-classes", "warning"),
    ("labels", {3: ["Snow"]}, "similar-classes", "warning"),
    ("town", {3: "ulm"}, "similar-classes", "warning"),
    ("town", {4: "KÖLN"}, "similar-classes", "warning"),
    ("caption", {16: "a text that says 0 things of its own"}, "leakage", "error"),
    ("score", {3: np.nan}, "not-finite", "error"),
    ("camera/pose", {5: [[1, -np.inf]]}, "not-finite", "error"),
    ("vec", {5: [1, np.nan, 0]}, "not-finite", "error"),
    ("vec", {18: [7, 7, 7], 23: [7, 7, 7]}, "leakage", "error"),
    ("at", {9: DAY}, "time-order", "warning"),
    ("number", dict.fromkeys(range(ROWS), 4), "constant", "note"),
    ("note", dict.fromkeys(range(ROWS)), "constant", "note"),
]


def test_planted_defects_are_found_with_their_rows_and_nothing_else():
    rows = clean()
    for column, values, *_ in PLANTED:
        for row, value in values.items():
            rows[column][row] = value
    ds = made(rows)

    report = ds.lint()

    found = [(one.column, one.rows.tolist(), one.rule, one.severity) for one in report]
    planted = [(name, sorted(rows), rule, how) for name, rows, rule, how in PLANTED]
    assert sorted(found) == sorted(planted)
    for finding in report:
        assert ds.query(finding.query).rows.tolist() == finding.rows.tolist()
        assert finding.count == len(finding.rows)
        assert finding.remedy
    gravity = [("error", "warning", "note").index(one.severity) for one in report]
    assert gravity == sorted(gravity)


def test_a_damaged_image_does_not_hide_a_black_one():
    rows = clean()
    rows["image"][3], rows["image"][4], rows["image"][11] = damaged_png(), FLAT, None
    ds = made(rows)

    damaged, black = ds.lint(["unreadable"])

    assert (damaged.rows.tolist(), black.rows.tolist()) == ([3], [4])
    assert ds.query(black.query).rows.tolist() == [4]


def test_images_of_many_sizes_are_not_odd():
    rows = {"image": [picture(row, (10 + row % 4, 9, 3)) for row in range(ROWS)]}

    assert made(rows, {"image": tl.Image("png")}).lint().ok


def test_times_in_random_order_are_not_found():
    rows = {"at": [DAY + dt.timedelta(hours=int(hour)) for hour in NUMBER.permutation(200)]}

    assert made(rows, {"at": tl.Timestamp("us")}).lint().ok


def test_a_view_is_linted_alone_and_its_rows_have_numbers_of_the_version():
    rows = clean()
    rows["score"][3] = rows["score"][20] = np.nan
    rows["image"][17] = picture(3)
    ds = made(rows)
    view = ds[[20, 17, 3, 0]]

    leak, finding = sorted(view.lint(["not-finite", "leakage"]), key=lambda one: one.rule)

    assert (leak.rule, finding.rule) == ("leakage", "not-finite")
    assert leak.rows.tolist() == [17]
    assert finding.rows.tolist() == [20, 3]
    assert view.query(leak.query).rows.tolist() == [17]
    assert view.query(finding.query).rows.tolist() == [20, 3]


def test_staged_rows_are_linted():
    ds = made(clean())
    ds["score"][2] = np.nan

    assert [one.rows.tolist() for one in ds.lint()] == [[2]]
    ds.discard()
    assert ds.lint().ok


def test_an_empty_dataset_and_one_of_one_row_have_no_findings():
    assert made({name: [] for name in SCHEMA}).lint().ok
    assert made({name: values[:1] for name, values in clean().items()}).lint().ok


def test_rows_are_listed_up_to_a_bound_and_counted_beyond():
    values = np.where(np.arange(30_000) % 2, np.nan, 1.0)
    ds = made({"x": values}, {"x": "float64"})

    (finding,) = ds.lint(["not-finite"])

    assert (finding.count, len(finding.rows)) == (15_000, 10_000)
    assert len(ds.query(finding.query)) == 15_000


def test_rows_without_a_condition_are_named_by_number_and_range():
    rule = tl.LintRule(
        "by-hand",
        "some rows",
        lambda view: [tl.Suspect("x", "is bad", "", "none", rows=[1, 3, 4, 5, 6, 8, 9])],
    )
    ds = made({"x": np.arange(12.0)}, {"x": "float64"})

    (finding,) = ds.lint([rule])

    assert finding.query == "WHERE ROW_NUMBER() BETWEEN 3 AND 6 OR ROW_NUMBER() IN (1, 8, 9)"
    assert ds.query(finding.query).rows.tolist() == [1, 3, 4, 5, 6, 8, 9]


def test_more_bytes_than_allowed_are_not_read():
    ds = made(clean())

    with pytest.raises(tl.QueryLimitError, match=r"ds\.sample\(\d+\)\.lint\(\)"):
        ds.lint(max_bytes="1KB")
    assert ds.lint(max_bytes="1GB").ok
    with pytest.raises(tl.QueryLimitError, match="timeout=0 s"):
        ds.lint(timeout=0)


def test_bad_arguments_are_named():
    ds = made(clean())

    with pytest.raises(tl.InvalidInputError, match="did you mean 'constant'"):
        ds.lint(["constent"])
    with pytest.raises(tl.InvalidInputError, match="needs rows of a dataset"):
        ds.query("SELECT COUNT(*) AS n").lint()
    for suspect in (
        tl.Suspect("y", "is bad", "x > 0", "none"),
        tl.Suspect("x", "is bad", "x > 0", "none", "grave"),
    ):
        rule = tl.LintRule("wrong", "gives another column", lambda _view, one=suspect: [one])
        with pytest.raises(tl.InvalidInputError, match=r"the lint rule 'wrong' failed: .* it gave"):
            made({"x": [1.0, 2.0]}, {"x": "float64"}).lint([rule])


@pytest.mark.parametrize(
    "find",
    [
        lambda view: None,
        lambda view: [1],
        lambda view: [tl.Suspect("x", "is bad", "", "none", rows=[99])],
        lambda view: [tl.Suspect("x", "is bad", "x >", "none")],
        lambda view: 1 // 0,
    ],
)
def test_a_rule_that_fails_is_named(find: Any):
    ds = made({"x": [1.0, 2.0]}, {"x": "float64"})

    with pytest.raises(tl.InvalidInputError, match="the lint rule 'wrong' failed: ") as e:
        ds.lint([tl.LintRule("wrong", "fails", find)])

    assert e.value.__cause__ is not None


@pytest.mark.parametrize(("name", "find"), [("", lambda view: []), (None, len), ("rule", None)])
def test_a_rule_has_a_name_and_a_function(name: Any, find: Any):
    with pytest.raises(tl.InvalidInputError, match="a rule has a name, and a function"):
        tl.LintRule(name, "odd", find)


def test_signs_of_names_and_numbers_tell_classes_apart():
    names = ["C", "C++", "C#", "10", "-10", "1.0", "50%", "50", "node.js", ".net", "net"]
    same = [["T-shirt", "T shirt"], ["St. Bernard", "st bernard"], ["a_b", "a b"], ["x, y", "x y"]]
    kind = {"label": tl.ClassLabel([*names, *(one for pair in same for one in pair)])}
    rows = list(kind["label"].names)
    ds = made({"label": rows}, kind)

    found = [one.what for one in ds.lint(["similar-classes"])]

    pairs = [pair for pair in same if any(repr(pair[0]) in what for what in found)]
    assert (pairs, len(found)) == (same, len(same) + 1)  # .net beside net


def test_audio_of_silence_and_damaged_audio_are_found():
    soundfile = pytest.importorskip("soundfile")
    from tests.support.sounds import silent_flac, undecodable_flac

    def wave(level: float) -> bytes:
        file = io.BytesIO()
        noise = NUMBER.uniform(-level, level, 4000)
        soundfile.write(file, noise, 8000, format="WAV")
        return file.getvalue()

    sounds = [wave(0.5), silent_flac(2), wave(0.4), undecodable_flac(), wave(0.0), wave(0.3)]
    ds = made({"sound": sounds}, {"sound": tl.Audio()})

    damaged, silent = ds.lint()

    assert (damaged.severity, damaged.rows.tolist()) == ("error", [3])
    assert (silent.severity, silent.rows.tolist()) == ("warning", [1, 4])
    assert ds.query(silent.query).rows.tolist() == [1, 4]


def test_a_black_video_is_found():
    pytest.importorskip("av")
    from tests.support.videos import encode, moving_picture

    black = np.zeros((8, 48, 64, 3), np.uint8)
    options = ("mp4", "libx264", "yuv420p", {"g": "10"})
    videos = [encode(frames, *options) for frames in (moving_picture(8), black)]
    ds = made({"video": videos}, {"video": tl.Video()})

    (finding,) = ds.lint()

    assert (finding.rule, finding.rows.tolist()) == ("unreadable", [1])
