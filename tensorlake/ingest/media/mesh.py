"""Folders of meshes: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import Mesh

__all__ = ["mesh"]

_ENDINGS = frozenset((".glb", ".gltf", ".ply", ".stl", ".off", ".obj"))
_OTHER_ENDINGS = frozenset((".fbx", ".dae", ".3mf", ".usdz"))


@shows_options
def mesh(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    table: Any = None,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest a folder, a zip or a tar file of glTF, PLY, STL, OFF and OBJ, stored unchanged.

    Makes ``mesh``; the columns of ``table`` or the fields of ``pattern``; otherwise ``label`` if
    the files are in folders, whose names are the classes, and ``split`` when those are in
    ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        table: A row per file: a CSV, JSON or JSON lines file, a DataFrame, a list of rows. Its
            column ``file`` has the paths below the folder, the others become tensors.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"mesh": tl.Mesh(max_nbytes=1 << 32)}``.
        labels: Whether folders are classes; a file outside them is then an error, or left out.
            Or a table, as ``table``.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{id}.off"``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no meshes, one is damaged, or one has no row in the table; the
            message names the file.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> for name in ("chair", "desk"):
        ...     Path("models", name).mkdir(parents=True)
        ...     text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
        ...     _ = Path("models", name, "1.obj").write_text(text)
        >>> ds = tl.ingest.mesh("models", "memory://doc-ingest-mesh")
        >>> ds["label"].names, ds[0]["mesh"].num_faces
        (('chair', 'desk'), 1)
    """
    kind = FileKind("mesh", _ENDINGS | _OTHER_ENDINGS, lambda _: Mesh(), several="meshes")
    return ingest_files(kind, src, dst, schema, labels, pattern, options, table=table)
