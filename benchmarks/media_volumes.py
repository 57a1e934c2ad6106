"""Patches of 96³ at random places of a NIfTI volume, beside nibabel.

A scan of 192 × 256 × 256 voxels of 16 bits, smooth with noise. nibabel opens ``.nii.gz``, which it
decompresses up to the patch, or ``.nii``, of which it reads the rows of the patch; all files are in
the page cache. ``voxels read`` is the share of the stored bytes of the tiles over a patch, over the
share of its voxels.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import (
    Benchmark,
    Contender,
    Goal,
    Limit,
    Measurement,
    stopwatch,
    warm_up,
)

__all__ = ["BENCHMARKS"]

SHAPE, SIDE = (192, 256, 256), 96
PATCHES, ZIPPED_PATCHES = 16, 2
OWN, ZIPPED, PLAIN = "tensorlake", "nibabel, .nii.gz", "nibabel, .nii"
READ = "voxels read ÷ voxels"


def volume_file(workspace: Workspace, ending: str = ".nii.gz") -> Path:
    """Return a scan as a file."""
    import nibabel

    path = workspace.folder / f"scan{ending}"
    if not path.exists():
        z, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
        smooth = 400 * np.sin(x / 17) * np.cos(y / 23) + 300 * np.sin(z / 11)
        noise = np.random.default_rng(0).normal(0, 12, SHAPE)
        voxels = (smooth + noise).astype(np.int16)
        nibabel.Nifti1Image(voxels.T, np.eye(4)).to_filename(path)
    return path


def corners(count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(1)
    return [tuple(int(rng.integers(length - SIDE)) for length in SHAPE) for _ in range(count)]


def region(corner: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(at, at + SIDE) for at in corner)


def own_patches(workspace: Workspace) -> Measurement:
    import tensorlake as tl
    from tensorlake.types import box_of
    from tensorlake.types.tiles import TileHead

    warm_up()
    path = workspace.folder / "scans.tl"
    if not path.exists():
        made = tl.create(str(path), {"scan": tl.Nifti("int16")})
        made.append({"scan": volume_file(workspace)})
        made.commit()
    volume = tl.open(str(path))["scan"][0]
    with stopwatch() as watch:
        patches = [volume[region(one)] for one in corners(PATCHES)]
    assert all(patch.shape == (SIDE,) * 3 for patch in patches)
    grid = TileHead.parse(volume.head).grid
    lengths = np.diff(volume.map.cuts, prepend=0)
    boxes = (box_of(SHAPE, region(one), ValueError) for one in corners(PATCHES))  # pyright: ignore[reportArgumentType] - never called
    read = np.mean([lengths[grid.over(box)].sum() for box in boxes]) / volume.nbytes
    ratio = float(read / (SIDE**3 / np.prod(SHAPE)))
    return Measurement(watch.seconds, PATCHES, watch.cpu_seconds, {READ: ratio})


def peer_patches(workspace: Workspace, *, ending: str, count: int) -> Measurement:
    import nibabel

    warm_up()
    path = volume_file(workspace, ending)
    with stopwatch() as watch:
        for one in corners(count):
            np.asarray(nibabel.load(path).dataobj[tuple(reversed(region(one)))])
    return Measurement(watch.seconds, count, watch.cpu_seconds)


BENCHMARKS = (
    Benchmark(
        name="volume_patch",
        question=f"Patches of {SIDE}³ of a NIfTI volume of {' × '.join(map(str, SHAPE))}",
        unit="patches/s",
        contenders=(
            Contender(OWN, own_patches),
            Contender(ZIPPED, partial(peer_patches, ending=".nii.gz", count=ZIPPED_PATCHES)),
            Contender(PLAIN, partial(peer_patches, ending=".nii", count=PATCHES)),
        ),
        goals=(
            Goal(OWN, ZIPPED, 5, "CPU second"),
            Goal(OWN, PLAIN, 1, "CPU second"),
        ),
        limits=(Limit(OWN, READ, at_most=2.6),),
        prepare=volume_file,
    ),
)
