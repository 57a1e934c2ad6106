"""Headless Chromium against a real server: the tests of viewer/e2e, then the tour's pictures.

They are one file, so that one process runs the browser, once, for all of them.

The pictures of docs/tutorial/look-at-data.md are what the viewer looks like: means of 16 × 16
pixels are compared, so that another version of Chromium, times and row ids are no difference; a
panel that is gone or a colour that changed is. To take them anew:
``TENSORLAKE_TOUR=write python -m pytest tests/viewer``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl
from tests.viewer.conftest import SLOWNESS, SPEC_OF

ROOT = Path(__file__).parents[2]
EVERY_RUN = {
    f"{name}.spec.ts" for name in ("viewer", "query", "overlays", "sample", "images", "tour")
}  # a third of the time of all: what every visitor meets; the other rooms run with the slow suite
CLAIMS = [
    pytest.param(claim, marks=[] if spec in EVERY_RUN else [pytest.mark.slow], id=claim)
    for claim, spec in SPEC_OF.items()
]
TOUR = ROOT / "docs/tutorial/look-at-data"
BLOCK = 16
SEEN = 12  # of 255: a mean of a block that differs by more is seen
SHARE = 0.04  # of blocks that may


@pytest.mark.viewer
@pytest.mark.timeout(900 * SLOWNESS)  # the first also builds the viewer and waits for the whole run
@pytest.mark.parametrize("claim", CLAIMS)
def test_in_a_browser(claim: str, browser_results: dict[str, list[str]]) -> None:
    assert browser_results[claim] == []


@pytest.mark.slow
@pytest.mark.viewer
@pytest.mark.timeout(900 * SLOWNESS)
@pytest.mark.parametrize("claim", ["shapes are edited by mouse and keyboard, and committed"])
def test_edited_shapes_are_stored_as_their_types_have_them(
    claim: str, browser_results: dict[str, list[str]], lake: Path
) -> None:
    assert browser_results[claim] == []
    edited = tl.open(str(lake / "drawn")).at("by-hand")
    before = tl.open(str(lake / "drawn")).at("main@1")

    boxes = edited["boxes"][0]
    assert boxes.dtype == np.float32
    # Moved by a mouse, to a pixel of the screen; its size is what it was, to the last bit.
    np.testing.assert_allclose(boxes[0, :2], [30, 35], atol=0.5)
    np.testing.assert_array_equal(boxes[0, 2:], before["boxes"][0][0, 2:])
    np.testing.assert_allclose(boxes[1], [100, 60, 30, 30], atol=0.75)
    assert edited["labels"][0].tolist() == [0, 2]
    np.testing.assert_array_equal(edited["weights"][0], np.array([0.1, 0], dtype=np.float32))
    np.testing.assert_array_equal(
        edited["centres"][1], np.array([[49, 130, 22.3, 40]], dtype=np.float32)
    )
    np.testing.assert_allclose(edited["corners"][2], [[0.38, 0.38, 0.63, 0.63]], atol=0.01)
    np.testing.assert_array_equal(edited["corners"][3], before["corners"][3][:1])
    square, drawn = edited["outlines"][4]
    np.testing.assert_array_equal(square, [[20, 20], [60, 20], [61, 60], [20, 60]])
    np.testing.assert_allclose(drawn, [[100, 40], [140, 40], [120, 80]], atol=0.75)
    np.testing.assert_array_equal(
        edited["joints"][5], np.array([[[40, 61, 1], [80, 60, 1], [120, 60, 0]]], np.float32)
    )


def block_means(path: Path) -> np.ndarray:
    """Mean colours of blocks, over the whole picture."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    height, width = (side // BLOCK * BLOCK for side in pixels.shape[:2])
    blocks = pixels[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    return blocks.mean(axis=(1, 3))


@pytest.mark.viewer
@pytest.mark.timeout(900 * SLOWNESS)  # it may be the first to wait for the browser's run
@pytest.mark.parametrize("name", ["grid", "close", "difference", "views", "map", "mistakes", "step"])
def test_the_tour_shows_what_is_there(
    name: str, browser_results: dict[str, list[str]], shots: Path
) -> None:
    assert browser_results["the pages of the tour can be photographed"] == []
    taken, shown = shots / f"{name}.png", TOUR / f"{name}.jpg"
    if os.environ.get("TENSORLAKE_TOUR") == "write":
        with Image.open(taken) as image:
            image.convert("RGB").save(shown, quality=80, optimize=True)

    difference = np.abs(block_means(taken) - block_means(shown)).max(axis=-1)

    assert (difference > SEEN).mean() <= SHARE
