"""Folders of NIfTI files: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import Nifti

__all__ = ["nifti"]

_ENDINGS = frozenset((".nii", ".nii.gz"))
_OTHER_ENDINGS = frozenset((".hdr", ".img", ".hdr.gz", ".img.gz"))


@shows_options
def nifti(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    table: Any = None,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    tensor: str = "volume",
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of NIfTI files, stored in tiles.

    Makes ``volume``, of the dtype and the number of axes of the first whole file; the columns of
    ``table`` or the fields of ``pattern``; otherwise ``label`` if the files are in folders, whose
    names are the classes, and ``split`` when those are in ``train/``, ``val/`` or ``test/``. Rows
    are in the order of the paths.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        table: A row per file, such as its subject: a CSV, JSON or JSON lines file, a DataFrame, a
            list of rows. Its column ``file`` has the paths below the folder, the others become
            tensors.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"volume": tl.Nifti("float32")}`` where files differ in dtype.
        labels: Whether folders are classes; a file outside them is then an error, or left out.
            Or a table, as ``table``.
        pattern: A pattern of the files' names or paths, whose fields become tensors in place of
            folders: ``"{subject}/{modality}.nii.gz"``.
        tensor: The name of the tensor of volumes.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no file, one is damaged or differs from the type, or has no row
            in the table; the message names the file.

    Example:
        >>> from pathlib import Path
        >>> import nibabel
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> Path("brains").mkdir()
        >>> for name in ("a", "b"):
        ...     image = nibabel.Nifti1Image(np.zeros((8, 9, 10), "int16"), np.eye(4))
        ...     image.to_filename(f"brains/{name}.nii.gz")
        >>> ds = tl.ingest.nifti("brains", "memory://doc-ingest-nifti", pattern="{subject}.nii.gz")
        >>> ds["subject"][:], ds["volume"].type, ds[0]["volume"].shape
        (['a', 'b'], Nifti('int16'), (10, 9, 8))
    """
    kind = FileKind(
        tensor, _ENDINGS | _OTHER_ENDINGS, lambda _: Nifti(), Nifti.of_file, several="volumes"
    )
    return ingest_files(kind, src, dst, schema, labels, pattern, options, table=table)
