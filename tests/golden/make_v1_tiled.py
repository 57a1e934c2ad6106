"""Write the golden dataset of images in tiles and what goes with them: ``make_v1_tiled.py FOLDER``.

Run once, when the types were whole. Its bytes are in the repository and are never made again: what
they hold must be readable for ever. Images of 1,100 × 1,300 pixels have an overview beside their
tiles; masks of volumes, a table of classes; a GIF is a sequence of its frames; ``max_side`` scaled
an image when it was appended.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as PillowImage

import tensorlake as tl

HEIGHT, WIDTH = 1100, 1300
SCHEMA: dict[str, Any] = {
    "slide": tl.Image("png", tiles=(512, 512)),
    "photo": tl.Image("jpeg", tiles=(512, 512)),
    "roofs": tl.SegmentMask(["none", "roof", "wall"], of="slide"),
    "scan": tl.Nifti("int16"),
    "organs": tl.SegmentMask(["none", "liver"], of="scan"),
    "frames": tl.Sequence(tl.Image("png")),
    "thumb": tl.Image("jpeg", max_side=32, quality=90),
    "cars": tl.BBox3D("xyzlwhq"),
}


def slide() -> np.ndarray:
    """Return bands of colour, uint8 (height, width, 3)."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    bands = [x // 64 * 12, y // 64 * 14, (x // 128 + y // 128) * 12]
    return np.stack(bands, axis=2).astype(np.uint8)


def roofs() -> np.ndarray:
    """Return two classes in rectangles, uint8 (height, width)."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[100:400, 200:700], mask[900:1000, 1000:1290] = 1, 2
    return mask


def scan() -> np.ndarray:
    """Return a volume of voxels, int16 (40, 50, 60)."""
    return (np.arange(40 * 50 * 60).reshape(40, 50, 60) // 7).astype(np.int16)


def organs() -> np.ndarray:
    """Return the voxels of the scan that are an organ."""
    return (np.abs(scan() - 9_000) < 500).astype(np.uint8)


def moving() -> list[np.ndarray]:
    """Return three small frames."""
    return [np.full((6, 8, 3), level, np.uint8) for level in (10, 100, 200)]


def gif() -> bytes:
    """Return the frames as a GIF."""
    file = io.BytesIO()
    first, *others = map(PillowImage.fromarray, moving())
    first.save(file, "GIF", save_all=True, append_images=others, duration=100, loop=0)
    return file.getvalue()


def cars() -> np.ndarray:
    """Return two boxes in space: centre, length, width, height, quaternion."""
    return np.array([[1, 2, 3, 4, 2, 1.5, 0, 0, 0, 1], [5, 6, 7, 4, 2, 1.5, 0, 0, 1, 0]])


AFFINE = np.diag([1.0, 2.0, 3.0, 1.0])


def main(folder: Path) -> None:
    ds = tl.create(str(folder), SCHEMA)
    ds.append(
        {
            "slide": slide(),
            "photo": slide(),
            "roofs": roofs(),
            "scan": {"voxels": scan(), "affine": AFFINE},
            "organs": organs(),
            "frames": gif(),
            "thumb": slide()[:650],
            "cars": cars(),
        }
    )
    ds.commit("one of each")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
