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

from tests.viewer.conftest import SLOWNESS, SPEC_OF

ROOT = Path(__file__).parents[2]
SLOW = {"widths.spec.ts"}  # every room at every width: a sixth of the time of all
CLAIMS = [
    pytest.param(claim, marks=[pytest.mark.slow] if spec in SLOW else [], id=claim)
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


def block_means(path: Path) -> np.ndarray:
    """Mean colours of blocks, over the whole picture."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"), dtype=np.float32)
    height, width = (side // BLOCK * BLOCK for side in pixels.shape[:2])
    blocks = pixels[:height, :width].reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3)
    return blocks.mean(axis=(1, 3))


@pytest.mark.viewer
@pytest.mark.timeout(900 * SLOWNESS)  # it may be the first to wait for the browser's run
@pytest.mark.parametrize("name", ["grid", "close", "difference", "views"])
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
