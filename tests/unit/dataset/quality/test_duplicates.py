"""Near-duplicates: found among encodings and sizes of images, and against all pairs of vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from PIL import Image

import tensorlake as tl


def picture(seed: int, width: int = 160, height: int = 120) -> np.ndarray:
    """Smooth shapes in colours: as different from one another as photographs are."""
    coarse = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def test_encodings_sizes_and_brightness_of_one_image_are_a_cluster(tmp_path: Path):
    ds = tl.create(str(tmp_path / "ds"), {"image": tl.Image("jpeg", nullable=True)})
    pictures = [picture(seed) for seed in range(30)]
    encoded = [simplejpeg.encode_jpeg(one, quality=95) for one in pictures]
    encoded[11] = simplejpeg.encode_jpeg(pictures[3], quality=40)
    encoded[25] = simplejpeg.encode_jpeg(picture(3, 320, 240), quality=90)
    brighter = np.minimum(pictures[7].astype(np.int16) + 6, 255).astype(np.uint8)
    encoded[20] = simplejpeg.encode_jpeg(brighter, quality=90)
    red, blue = np.zeros((2, 40, 50, 3), dtype=np.uint8)
    red[..., 0] = blue[..., 2] = 200
    flat = [simplejpeg.encode_jpeg(one) for one in (red, blue, red)]
    ds.extend({"image": [*encoded, *flat, None]})
    ds.commit("34")

    twins = tl.find_duplicates(ds, "image")

    assert twins.rows.tolist() == [3, 11, 25, 7, 20, 30, 32]
    assert twins["cluster"][:].tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert [row["duplicate_of"] for row in twins] == [None, 3, 3, None, 7, None, 30]
    assert tl.find_duplicates(ds[:3], "image").rows.tolist() == []


def test_vectors_are_clustered_as_by_all_pairs(tmp_path: Path):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(300, 16)).astype(np.float32)
    vectors[100:140] = 3 * vectors[:40] + rng.normal(size=(40, 16)).astype(np.float32) * 0.05
    vectors[200] = 0
    ds = tl.create(str(tmp_path / "ds"), {"vec": tl.Embedding(16), "x": "int64"})
    ds.extend({"vec": vectors, "x": range(300)})
    ds.commit("300")
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    near = (units @ units.T >= 0.98) & ~np.eye(300, dtype=bool)

    twins = tl.find_duplicates(ds, "vec")

    assert sorted(twins.rows.tolist()) == np.flatnonzero(near.any(axis=1)).tolist()
    assert all(
        near[row["duplicate_of"], at]
        for at, row in zip(twins.rows, twins, strict=True)
        if row["duplicate_of"] is not None
    )


@pytest.mark.parametrize(
    ("column", "kind", "threshold", "said"),
    [
        ("x", "cosine", None, "use kind='exact'"),
        ("x", "same", None, "kind must be one of"),
        ("x", None, 0.5, "1, or None"),
        ("text", None, 0.2, "a Jaccard similarity, 0.3 to 1"),
        ("vec", "perceptual", None, "use kind='cosine'"),
        ("vec", None, 1.5, "a cosine in"),
        ("vec", None, "0.9", "a cosine in"),
        ("vec", None, float("nan"), "a cosine in"),
        ("image", None, 2.5, "integer of bits"),
        ("image", "minhash", None, "use kind='perceptual'"),
        ("nothing", None, None, "nothing"),
    ],
)
def test_what_cannot_be_searched_is_refused(tmp_path: Path, column, kind, threshold, said):
    types = {"x": "int64", "text": "text", "vec": tl.Embedding(2), "image": tl.Image("png")}
    ds = tl.create(str(tmp_path / "ds"), types)
    with pytest.raises(tl.TensorlakeError, match=said):
        tl.find_duplicates(ds, column, kind, threshold)
