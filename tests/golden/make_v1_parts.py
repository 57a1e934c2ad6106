"""Write the golden dataset of samples in parts: ``python tests/golden/make_v1_parts.py FOLDER``.

Run once, when arrays in tiles began to be stored. Its bytes are in the repository and are never
made again: their contents must stay readable.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tensorlake as tl


def scans() -> list[np.ndarray | None]:
    """Return arrays of several shapes, one empty, one NULL."""
    ramp = np.add.outer(np.arange(100) * 300, np.arange(70)).astype(np.uint16)
    return [ramp, None, ramp[:0], ramp[3:9, :5], ramp.T.copy()]


def volumes() -> list[np.ndarray]:
    """Return arrays of one shape."""
    return [
        np.arange(3 * 40 * 50, dtype=np.float32).reshape(3, 40, 50) / (row + 1) for row in range(5)
    ]


def main(folder: Path) -> None:
    schema = {
        "scan": tl.Array("uint16", (None, None), tiles=(32, 16), nullable=True),
        "volume": tl.Array("float32", (3, 40, 50), tiles=(1, 16, 16)),
        "y": "int64",
    }
    ds = tl.create(str(folder), schema)
    ds.extend({"scan": scans()[:4], "volume": volumes()[:4], "y": range(4)})
    ds.commit("arrays in tiles")
    ds.extend({"scan": scans()[4:], "volume": volumes()[4:], "y": [4]})
    ds["scan"][3] = scans()[3] + np.uint16(1)
    ds.commit("another, and one cell")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
