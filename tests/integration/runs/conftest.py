"""Pictures that runs read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

ROWS = 47


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(3)
    ds = tl.create(tmp_path / "pictures.tl", {"image": tl.Image("png"), "label": "int64"})
    for start in range(0, ROWS, 10):
        stop = min(start + 10, ROWS)
        images = [rng.integers(0, 256, (11, 12, 3), np.uint8) for _ in range(start, stop)]
        ds.extend({"image": images, "label": range(start, stop)})
        ds.commit(f"rows from {start}")
    return ds
