"""Patches of 96³ of a NIfTI volume, at random places, or about voxels of a mask; beside nibabel.

A scan of 192 × 256 × 256 voxels of 16 bits, smooth with noise. nibabel opens ``.nii.gz``, which it
decompresses up to the patch, or ``.nii``, of which it reads the rows of the patch; all files are in
the page cache. ``voxels read`` is the share of the stored bytes of the tiles over a patch, over the
share of its voxels.

Patches with a mask: half are about a voxel of one of two organs, as MONAI's RandCropByPosNegLabeld
draws them. By hand: the volume and the mask are read by nibabel, the voxels found by NumPy once per
volume, and patches cut from memory, two of each volume in a batch; each volume is read again, since
data sets do not fit into memory. ``bytes read`` is of tensorlake's store, over both files' bytes.
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
PAIRED_ROWS = 4
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


def mask_file(workspace: Workspace) -> Path:
    """Return a mask of two organs of the scan as a file."""
    import nibabel

    path = workspace.folder / "mask.nii.gz"
    if not path.exists():
        z, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
        organ = (z - 90) ** 2 / 40**2 + (y - 120) ** 2 / 60**2 + (x - 130) ** 2 / 50**2 < 1
        lesion = (z - 100) ** 2 + (y - 140) ** 2 + (x - 150) ** 2 < 7**2
        codes = organ.astype(np.uint8) + lesion
        nibabel.Nifti1Image(codes.T, np.eye(4)).to_filename(path)
    return path


def prepare_pair(workspace: Workspace) -> None:
    for ending in (".nii.gz", ".nii"):
        volume_file(workspace, ending)
    mask_file(workspace)


def own_pairs(workspace: Workspace) -> Measurement:
    import nibabel

    import tensorlake as tl

    warm_up()
    path = workspace.folder / "pairs.tl"
    if not path.exists():
        mask = tl.SegmentMask(["background", "organ", "lesion"], of="scan")
        made = tl.create(str(path), {"scan": tl.Nifti("int16"), "mask": mask})
        codes = np.asarray(nibabel.load(mask_file(workspace)).dataobj).T
        for _ in range(PAIRED_ROWS):
            made.append({"scan": volume_file(workspace), "mask": codes})
        made.commit()
    step = tl.decode.RandomPatch((SIDE,) * 3, n=2, center_on="mask", positive=0.5)
    loader = tl.open(str(path)).loader(batch_size=2, shuffle=True, decode={"scan": step}, workers=1)
    with stopwatch() as watch:
        batches = [(batch["scan"].shape, batch["mask"].any()) for batch in loader]
    assert len(batches) == PAIRED_ROWS // 2
    assert any(found for _, found in batches)
    return Measurement(watch.seconds, 2 * PAIRED_ROWS, watch.cpu_seconds)


def peer_pairs(workspace: Workspace, *, ending: str) -> Measurement:
    import nibabel

    warm_up()
    rng = np.random.default_rng(2)
    path, mask_path = volume_file(workspace, ending), mask_file(workspace)
    with stopwatch() as watch:
        for _ in range(PAIRED_ROWS):
            codes = np.asarray(nibabel.load(mask_path).dataobj).T
            scan = nibabel.load(path).dataobj
            voxels = scan if ending == ".nii" else np.asarray(scan).T
            for _ in range(2):
                wanted = np.flatnonzero((codes > 0) == (rng.random() < 0.5))
                centre = np.array(np.unravel_index(wanted[rng.integers(len(wanted))], SHAPE))
                box = region(tuple(np.clip(centre - SIDE // 2, 0, np.array(SHAPE) - SIDE).tolist()))
                part = voxels[tuple(reversed(box))].T if ending == ".nii" else voxels[box].copy()
                assert part.shape == codes[box].copy().shape
    return Measurement(watch.seconds, 2 * PAIRED_ROWS, watch.cpu_seconds)


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
    Benchmark(
        name="volume_patch_mask",
        question=f"Patches of {SIDE}³ of a volume with those of its mask, half about its classes",
        unit="patches/s",
        contenders=(
            Contender(OWN, own_pairs),
            Contender(ZIPPED, partial(peer_pairs, ending=".nii.gz")),
            Contender(PLAIN, partial(peer_pairs, ending=".nii")),
        ),
        goals=(
            Goal(OWN, ZIPPED, 5, "CPU second"),
            Goal(OWN, PLAIN, 1, "CPU second"),
        ),
        prepare=prepare_pair,
    ),
)
