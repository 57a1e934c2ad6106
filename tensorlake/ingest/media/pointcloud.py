"""Folders of point clouds: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import PointCloud, as_type

__all__ = ["pointcloud"]

_RAW_ENDING = ".bin"
_NUSCENES_ENDING = ".pcd.bin"
_ENDINGS = frozenset((".las", ".laz", ".ply", ".pcd", ".npz", ".npy", _RAW_ENDING))
_OTHER_ENDINGS = frozenset((".e57", ".xyz", ".pts", ".ptx"))
_KITTI = PointCloud(("x", "y", "z", "intensity"), raw="float32")
_NUSCENES = PointCloud(("x", "y", "z", "intensity", "ring"), raw="float32")


@shows_options
def pointcloud(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    table: Any = None,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of LAS, LAZ, PLY, PCD, NPZ and NPY, or of ``.bin``.

    Makes ``points``; the columns of ``table`` or the fields of ``pattern``; otherwise ``label`` if
    the files are in folders, whose names are the classes, and ``split`` when those are in
    ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    A ``.bin`` file has no header. Where all files are such, they are read as records of float32 in
    the layout of KITTI (x, y, z, intensity), or, if all names end in ``.pcd.bin``, of nuScenes (x,
    y, z, intensity, ring). Other layouts are declared by ``schema``; beside other files they have
    to be.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        table: A row per file: a CSV, JSON or JSON lines file, a DataFrame, a list of rows. Its
            column ``file`` has the paths below the folder, the others become tensors.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"points": tl.PointCloud(("x", "y", "z", "time"), raw="float64")}`` for ``.bin`` files
            of another layout.
        labels: Whether folders are classes; a file outside them is then an error, or left out.
            Or a table, as ``table``.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{id}.ply"``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no point clouds, one is damaged, or one has no row in the
            table; the message names the file.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> for name in ("chair", "desk"):
        ...     Path("scans", name).mkdir(parents=True)
        ...     np.save(f"scans/{name}/1.npy", np.ones((500, 3), np.float32))
        >>> ds = tl.ingest.pointcloud("scans", "memory://doc-pointcloud")
        >>> ds["label"].names, ds[0]["points"].xyz.shape
        (('chair', 'desk'), (500, 3))
    """
    declared = None if schema is None or "points" not in schema else as_type(schema["points"])
    has_raw = isinstance(declared, PointCloud) and declared.raw is not None
    endings = _ENDINGS if has_raw else _ENDINGS | _OTHER_ENDINGS
    kind = FileKind("points", endings, _type_of, several="point clouds", unit="point cloud")
    return ingest_files(kind, src, dst, schema, labels, pattern, options, table=table)


def _type_of(paths: Iterable[str]) -> PointCloud:
    """Choose the type: files without a header have that of the data set whose names they have."""
    names = [path.lower() for path in paths]
    if not all(name.endswith(_RAW_ENDING) for name in names):
        return PointCloud()  # of which a file without a header is refused by its name
    of_nuscenes = [name.endswith(_NUSCENES_ENDING) for name in names]
    if any(of_nuscenes):
        return _NUSCENES if all(of_nuscenes) else PointCloud()
    return _KITTI
