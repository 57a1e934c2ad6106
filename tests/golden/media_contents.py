"""The contents of the golden dataset of media: arrays from which each sample was made."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlake as tl
from tests.support.dicoms import series_bytes

SCHEMA: dict[str, Any] = {
    "video": tl.Video(fps=10, nullable=True),
    "audio": tl.Audio(nullable=True),
    "points": tl.PointCloud(nullable=True),
    "mesh": tl.Mesh(nullable=True),
    "nifti": tl.Nifti("int16", nullable=True),
    "dicom": tl.Dicom(nullable=True),
    "link": tl.Link(tl.Audio(), nullable=True),
}
RATE = 8_000
LINKED = "waves/0.flac"


def wave(row: int) -> np.ndarray:
    """Return half a second of sound, int16."""
    return (9_000 * np.sin(np.arange(RATE // 2) * (0.05 + 0.01 * row))).astype(np.int16)


def frames(row: int) -> np.ndarray:
    """Return grey frames, of which each is brighter than the one before."""
    levels = np.arange(0, 200, 20, dtype=np.uint8) + np.uint8(row)
    return np.broadcast_to(levels[:, None, None, None], (10, 32, 32, 3)).copy()


def places(row: int) -> np.ndarray:
    """Return a spiral of points, float32 (300, 3)."""
    turn = np.arange(300, dtype=np.float32) / 20
    return np.stack([np.cos(turn), np.sin(turn), turn + row], axis=1).astype(np.float32)


def voxels(row: int) -> np.ndarray:
    """Return a volume, int16 (12, 14, 16)."""
    return (np.arange(12 * 14 * 16).reshape(12, 14, 16) + row).astype(np.int16)


def triangle(row: int) -> dict[str, np.ndarray]:
    """Return a mesh of one face."""
    return {"vertices": np.eye(3) * (row + 1), "faces": np.array([[0, 1, 2]])}


AFFINE = np.diag([1.0, 2.0, 3.0, 1.0])


def row(number: int) -> dict[str, Any]:
    """Return a row as it was appended."""
    return {
        "video": frames(number),
        "audio": {"samples": wave(number), "rate": RATE},
        "points": places(number),
        "mesh": triangle(number),
        "nifti": {"voxels": voxels(number), "affine": AFFINE},
        "dicom": series_bytes(voxels(number)),
        "link": LINKED,
    }
