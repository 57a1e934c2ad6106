"""Copies with ``encode=``: smaller images, raw arrays, values of functions, and annotations."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tensorlake.errors import (
    CorruptSampleError,
    InvalidInputError,
    TensorNotFoundError,
    UnsupportedFeatureError,
)

SIZES = [(40, 80), (16, 16), (30, 10), (80, 80)]


def pixels(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)


def row(number, size):
    height = size[0]
    mask = np.zeros(size, np.uint8)
    mask[: height // 2] = 1
    masks = np.zeros((2, *size), bool)
    masks[0, :8, :8], masks[1, 4:12, 4:10] = True, True
    return {
        "image": pixels(*size, number),
        "boxes": [[0, 0, 8, 8], [4, 4, 10, 12]],
        "label": ["a", "b"],
        "mask": mask,
        "masks": masks,
        "outline": [np.array([[0, 0], [8, 0], [8, 8]], np.float32)],
        "points": np.array([[[1, 2, 2], [3, 4, 2]]], np.float32),
        "n": number,
    }


@pytest.fixture(scope="module")
def annotated():
    ds = tl.create(
        "memory://annotated",
        {
            "image": tl.Image("jpeg"),
            "boxes": tl.BBox(of="image"),
            "label": tl.ClassLabel(["a", "b"], multi=True, per="boxes"),
            "mask": tl.SegmentMask(["sky", "road"], of="image"),
            "masks": tl.InstanceMask(of="image", per="boxes"),
            "outline": tl.Polygon(of="image"),
            "points": tl.Keypoints(["left", "right"], of="image"),
            "n": "int64",
        },
    )
    ds.extend([row(number, size) for number, size in enumerate(SIZES)])
    ds.commit("four")
    return ds


@pytest.fixture
def url(request):
    return f"memory://copy-{request.node.name}"


def test_larger_images_are_scaled_with_all_that_is_of_them(annotated, url):
    kind = tl.Image("jpeg", max_side=20, quality=80)
    copy = annotated[:].materialize(url, encode={"image": kind})

    assert copy["image"].shapes()[:, :2].tolist() == [[10, 20], [16, 16], [20, 7], [20, 20]]
    assert copy["image"].bytes(1) == annotated["image"].bytes(1)  # it fits
    for at, (height, width) in enumerate(SIZES):
        now = copy["image"].shapes()[at, :2]
        x, y = now[1] / width, now[0] / height
        scale = np.array([x, y, x, y], np.float32)
        np.testing.assert_allclose(copy["boxes"][at], annotated["boxes"][at] * scale, rtol=1e-6)
        wanted = annotated["points"][at] * np.array([x, y, 1], np.float32)
        np.testing.assert_allclose(copy["points"][at], wanted, rtol=1e-6)
        np.testing.assert_allclose(
            copy["outline"][at][0], annotated["outline"][at][0] * scale[:2], rtol=1e-6
        )
        assert copy["mask"][at].shape == tuple(now)
        assert copy["masks"][at].shape == (2, *now)
    assert copy["n"][:].tolist() == [0, 1, 2, 3]
    assert copy.check().ok


def test_images_that_annotations_are_of_keep_no_max_side(annotated, url):
    kind = tl.Image("jpeg", max_side=20, quality=80)

    annotated_copy = annotated[:].materialize(url, encode={"image": kind})
    alone = annotated[["image", "n"]].materialize(f"{url}-alone", encode={"image": kind})

    assert annotated_copy.schema["image"] == tl.Image("jpeg", quality=80)
    assert alone.schema["image"] == kind


def test_steps_store_what_a_loader_makes_of_them(annotated, url):
    steps = [tl.decode.Resize(24), tl.decode.CenterCrop(12)]
    names = ["image", "boxes", "label", "mask", "points", "outline"]
    copy = annotated[:].materialize(url, encode={"image": steps})

    assert copy.schema["image"] == tl.Array("uint8", (12, 12, 3))
    lists = dict.fromkeys(("boxes", "label", "points", "outline"), "list")
    made = next(
        iter(
            annotated.loader(
                batch_size=4, shuffle=False, columns=names, decode={"image": steps}, collate=lists
            )
        )
    )
    assert np.array_equal(copy["image"][:], made["image"])
    assert np.array_equal(np.stack([copy["mask"][at] for at in range(4)]), made["mask"])
    for at in range(4):
        assert np.array_equal(copy["boxes"][at], made["boxes"][at])
        assert np.array_equal(np.asarray(copy["label"][at]), np.asarray(made["label"][at]))
        assert len(copy["masks"][at]) == len(copy["boxes"][at])


def test_steps_may_be_followed_by_a_type(annotated, url):
    steps = [tl.decode.Resize(8, 8)]
    copy = annotated[["image"]].materialize(url, encode={"image": (steps, tl.Image("png"))})
    raw = annotated[["image"]].materialize(f"{url}-raw", encode={"image": steps})

    assert copy.schema["image"] == tl.Image("png")
    assert np.array_equal(copy["image"][:], raw["image"][:])


def test_steps_of_numbers_store_their_dtype(annotated, url):
    steps = [tl.decode.Resize(4, 4), tl.decode.ToFloat()]
    copy = annotated[["image"]].materialize(url, encode={"image": steps})

    assert copy["image"][:].dtype == np.float32
    assert copy["image"][:].max() <= 1


def test_no_steps_encode_every_image_again(annotated, url):
    copy = annotated[["image"]].materialize(
        url, encode={"image": ([], tl.Image("jpeg", quality=30))}
    )

    assert copy["image"].shapes().tolist() == annotated["image"].shapes().tolist()
    assert all(len(copy["image"].bytes(at)) < len(annotated["image"].bytes(at)) for at in range(4))


def test_a_function_makes_a_value_of_each_and_null_stays(url):
    ds = tl.create(f"{url}-of", {"text": tl.Text(nullable=True)})
    ds.extend({"text": ["a b", None, "", "c d e"]})
    ds.commit()
    tokens = tl.Array("int32", (None,), nullable=True)
    copy = ds[:].materialize(
        url, encode={"text": (lambda text: [ord(one) for one in text.split()], tokens)}
    )

    assert [None if copy[at]["text"] is None else copy[at]["text"].tolist() for at in range(4)] == [
        [97, 98],
        None,
        [],
        [99, 100, 101],
    ]


@pytest.mark.parametrize("codec", ["png", "any"])
def test_images_of_other_codecs_are_encoded_where_a_type_names_one(codec, url):
    pytest.importorskip("imagecodecs")
    ds = tl.create(f"{url}-of", {"image": tl.Image(codec, nullable=True)})
    ds.extend({"image": [pixels(8, 8), None, pixels(40, 20)]})
    ds.commit()
    kind = tl.Image("jpeg", max_side=10, nullable=True)

    copy = ds[:].materialize(url, encode={"image": kind})

    assert copy["image"].shapes()[:, :2].tolist() == [[8, 8], [-1, -1], [10, 5]]
    assert copy["image"].bytes(0)[:3] == b"\xff\xd8\xff"


def test_images_in_tiles_become_whole_ones_and_arrays(url):
    pytest.importorskip("imagecodecs")
    ds = tl.create(f"{url}-of", {"image": tl.Image("png", tiles=(8, 8))})
    ds.extend({"image": [pixels(20, 30), pixels(9, 9)]})
    ds.commit()

    whole = ds[:].materialize(url, encode={"image": tl.Image("png", max_side=15)})
    arrays = ds[:].materialize(f"{url}-raw", encode={"image": [tl.decode.Resize(4, 4)]})

    assert whole["image"].shapes()[:, :2].tolist() == [[10, 15], [9, 9]]
    assert arrays["image"][:].shape == (2, 4, 4, 3)


@pytest.mark.parametrize("rows", [0, 1, 200])
def test_rows_stay_in_order_however_many_there_are(rows, url):
    ds = tl.create(f"{url}-of", {"x": "int64", "y": tl.Text()})
    ds.extend({"x": np.arange(rows), "y": [str(one) for one in range(rows)]})
    ds.commit()
    view = ds.query("SELECT *, x * 2 AS z ORDER BY x DESC")

    copy = view.materialize(url, encode={"x": (lambda x: x + 0.5, "float64")})

    assert copy["x"][:].tolist() == [one + 0.5 for one in range(rows)][::-1]
    assert copy["z"][:].tolist() == [2 * one for one in range(rows)][::-1]
    assert copy["y"][:] == [str(one) for one in range(rows)][::-1]
    assert len(copy.log()) == 2


def test_a_copy_is_made_of_an_old_version_and_of_repeated_rows(url):
    ds = tl.create(f"{url}-of", {"x": "int64"})
    ds.extend({"x": [1, 2, 3]})
    ds.commit()
    ds["x"][0] = 9
    ds.commit()

    copy = ds.at("main@1")[[2, 0, 0]].materialize(url, encode={})

    assert copy["x"][:].tolist() == [3, 1, 1]


def test_a_damaged_image_is_named_by_its_row(url):
    ds = tl.create(f"{url}-of", {"image": tl.Image("jpeg")})
    whole = tl.Image("jpeg").convert([pixels(64, 64)], tensor="image").samples[0]
    cut = bytearray(whole)
    cut[len(cut) // 2 : len(cut) // 2 + 2] = b"\xff\xd9"
    ds.extend({"image": [whole, bytes(cut[: len(cut) // 2 + 2])]})
    ds.commit()

    with pytest.raises((CorruptSampleError, InvalidInputError)) as error:
        ds[:].materialize(url, encode={"image": [tl.decode.Resize(4, 4)]})
    assert "row 1" in str(error.value)
    assert not tl.exists(url)


@pytest.mark.parametrize(
    ("encode", "error", "message"),
    [
        ({"image": [tl.decode.Flip()]}, InvalidInputError, "is random"),
        ({"image": [tl.decode.MixUp("label")]}, UnsupportedFeatureError, "leave it to the loader"),
        ({"image": [tl.decode.RandomPatch((8, 8))]}, UnsupportedFeatureError, "leave it to"),
        ({"image": len}, InvalidInputError, "without the type of what it returns"),
        ({"image": (len, "int64")}, UnsupportedFeatureError, "cannot be moved with it"),
        ({"n": [tl.decode.Resize(3)]}, InvalidInputError, "which are for images"),
        (
            {"image": ([tl.decode.Resize(3)], tl.Image("jpeg", max_side=4))},
            InvalidInputError,
            "leave one of the two out",
        ),
        ({"image": tl.Array("uint8", (4, 4, 3))}, InvalidInputError, "expects uint8 of shape"),
        ({"n": (lambda _: "x", "int64")}, InvalidInputError, "got str"),
        ({"nothing": "int64"}, TensorNotFoundError, "no column 'nothing'"),
        (3, InvalidInputError, "by the names of tensors"),
        ({"image": None}, InvalidInputError, "not a type of samples"),
    ],
)
def test_what_cannot_be_encoded_is_refused_and_leaves_nothing(
    annotated, url, encode, error, message
):
    with pytest.raises(error, match=message):
        annotated[:].materialize(url, encode=encode)

    assert not tl.exists(url)


def test_errors_say_what_to_write(annotated, url):
    with pytest.raises(InvalidInputError) as shape:
        annotated[["image"]].materialize(url, encode={"image": tl.Array("uint8", (4, 4, 3))})
    with pytest.raises(IndexError) as raised:
        annotated[["n"]].materialize(url, encode={"n": (lambda n: [0, 1][n], "float64")})

    assert "made of row 0 of 'memory://annotated'" in shape.value.__notes__
    assert "encode={'image': [tl.decode.Resize(224, 224)]}" in shape.value.__notes__[-1]
    assert raised.value.__notes__ == ["raised by the function of encode=, for row 2 of 'n'"]


def test_a_type_whose_samples_cannot_be_moved_is_refused(url):
    ds = tl.create(
        f"{url}-of",
        {"image": tl.Image("jpeg"), "mask": tl.SegmentMask(["a"], of="image", tiles=(8, 8))},
    )
    with pytest.raises(UnsupportedFeatureError, match="leave 'mask' out of the view"):
        ds[:].materialize(url, encode={"image": tl.Image("jpeg", max_side=4)})


def test_arrays_and_files_become_scaled_images(url):
    ds = tl.create(f"{url}-of", {"a": tl.Array("uint8", (8, 16, 3)), "b": tl.Bytes()})
    file = bytes(tl.Image("jpeg").convert([pixels(16, 8)], tensor="b").samples[0])
    ds.append({"a": pixels(8, 16), "b": file})
    ds.commit()
    small = tl.Image("jpeg", max_side=4)

    copy = ds[:].materialize(url, encode={"a": small, "b": small})

    assert copy["a"].shapes().tolist() == [[2, 4, 3]]
    assert copy["b"].shapes().tolist() == [[4, 2, 3]]


def test_annotations_of_arrays_and_values_of_missing_items_are_refused(annotated, url):
    ds = tl.create(f"{url}-of", {"a": tl.Array("uint8", (8, 16, 3)), "b": tl.BBox(of="a")})
    ds.append({"a": pixels(8, 16), "b": [[0, 0, 4, 4]]})
    ds.commit()

    with pytest.raises(UnsupportedFeatureError, match="leave 'b' out of the view"):
        ds[:].materialize(url, encode={"a": tl.Image("jpeg", max_side=4)})
    with pytest.raises(UnsupportedFeatureError, match="one for each of them"):
        annotated[["image", "label", "mask"]].materialize(
            url, encode={"image": [tl.decode.CenterCrop(4)]}
        )
    assert not tl.exists(url)


def test_boxes_in_space_stay_where_they_are(url):
    ds = tl.create(f"{url}-of", {"image": tl.Image("png"), "b": tl.BBox3D(of="image")})
    ds.append({"image": pixels(8, 16), "b": [[1, 2, 3, 4, 5, 6, 0]]})
    ds.commit()

    copy = ds[:].materialize(url, encode={"image": tl.Image("png", max_side=4)})

    assert copy["b"][0].tolist() == [[1, 2, 3, 4, 5, 6, 0]]


@pytest.mark.slow
def test_a_copy_that_is_killed_has_no_rows_and_is_made_by_the_same_call(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    ds = tl.create(source, {"x": "int64"})
    ds.extend({"x": np.arange(300)})
    ds.commit()
    program = f"""
        import os
        import tensorlake as tl
        def made(x):
            if x == 250:
                os._exit(9)
            return x
        ds = tl.open({str(source)!r})
        ds[:].materialize({str(target)!r}, encode={{"x": (made, "int64")}})
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=False, timeout=60
    )

    assert killed.returncode == 9
    assert len(tl.open(target)) == 0
    copy = ds[:].materialize(target, encode={"x": (lambda x: x, "int64")})
    assert copy["x"][:].tolist() == list(range(300))


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        (tl.Image("png", nullable=True), pixels(8, 8), tl.Image("png", max_side=5)),
        (tl.Image("png", nullable=True), pixels(8, 8), ([tl.decode.Resize(4)], tl.Image("png"))),
        (tl.Text(nullable=True), "ab", (len, "int64")),
    ],
    ids=["type", "steps", "function"],
)
def test_null_stays_null_whatever_the_type_says(kind, given, made, url):
    ds = tl.create(f"{url}-of", {"a": kind})
    ds.extend({"a": [given, None]})
    ds.commit()

    copy = ds[:].materialize(url, encode={"a": made})

    assert copy.schema["a"].nullable
    assert copy[1]["a"] is None
    assert copy[0]["a"] is not None
    ds.append({"a": None})
    ds.commit()
    assert copy.refresh_copy(functions={"a": len} if isinstance(given, str) else None).added == 1


def trusted(name):
    return Path(name)


def test_text_is_not_taken_for_the_path_of_a_file(url, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")
    ds = tl.create(f"{url}-of", {"t": tl.Text()})
    ds.append({"t": str(tmp_path / "secret.png")})
    ds.commit()

    with pytest.raises(InvalidInputError, match="name of a local file") as error:
        ds[:].materialize(url, encode={"t": tl.Image("png")})

    assert "(lambda name: pathlib.Path(name), tl.Image(…))" in str(error.value)
    assert not tl.exists(url)
    other = tl.create(f"{url}-rows", {"t": tl.Image("png")})
    with pytest.raises(InvalidInputError, match="name of a local file"):
        other.extend(ds[:])
    copy = ds[:].materialize(url, encode={"t": (trusted, tl.Image("png"))})
    assert copy["t"][0].shape == (4, 4, 3)
