"""Folders of videos: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import Video

__all__ = ["video"]

_ENDINGS = frozenset((".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".gif"))
_OTHER_ENDINGS = frozenset((".ts", ".m2ts", ".mts", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp"))


@shows_options
def video(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    table: Any = None,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of videos, stored without re-encoding.

    Makes ``video``; the columns of ``table`` or the fields of ``pattern``; otherwise ``label`` if
    the files are in folders, whose names are the classes, and ``split`` when those lie in
    ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        table: A row per file: a CSV, JSON or JSON lines file, a DataFrame, a list of rows. Its
            column ``file`` has the paths below the folder, the others become tensors.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"video": tl.Video(remux=True)}`` for MPEG-TS.
        labels: Whether folders are classes; a video outside them is then an error, or left out.
            Or a table, as ``table``.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{id}.mp4"`` makes the classes ``label``, and the text ``id``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no videos, one is damaged, or one has no row in the table; the
            message names the file.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> made = tl.create("memory://doc-video-files", {"clip": tl.Video(fps=10)})
        >>> made.extend({"clip": np.zeros((2, 8, 32, 32, 3), np.uint8)})
        >>> _ = made.commit()
        >>> Path("clips").mkdir()
        >>> for row in range(2):
        ...     _ = Path(f"clips/{row}.mp4").write_bytes(made["clip"].bytes(row))
        >>> rows = [{"file": "0.mp4", "caption": "a door"}, {"file": "1.mp4", "caption": "a cup"}]
        >>> ds = tl.ingest.video("clips", "memory://doc-ingest-video", table=rows)
        >>> ds["caption"][:], ds[0]["video"].shape
        (['a door', 'a cup'], (8, 32, 32, 3))
    """
    kind = FileKind("video", _ENDINGS | _OTHER_ENDINGS, lambda _: Video())
    return ingest_files(kind, src, dst, schema, labels, pattern, options, table=table)
