"""Folders of audio: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import Audio

__all__ = ["audio"]

_ENDINGS = frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3"))
_OTHER_ENDINGS = frozenset((".m4a", ".aac", ".wma", ".aif", ".aiff", ".au", ".amr"))


@shows_options
def audio(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    table: Any = None,
    schema: Mapping[str, Any] | None = None,
    labels: Any = True,
    pattern: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of WAV, FLAC, Ogg and MP3, stored without re-encoding.

    Makes ``audio``; the columns of ``table`` or the fields of ``pattern``; otherwise ``label`` if
    the files are in folders, whose names are the classes, and ``split`` when those lie in
    ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        table: A row per file, such as its transcript: a CSV, JSON or JSON lines file, a DataFrame,
            a list of rows. Its column ``file`` has the paths below the folder, the others become
            tensors.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"audio": tl.Audio(rate=16_000, channels=1)}``, which refuses other files.
        labels: Whether folders are classes; a file outside them is then an error, or left out.
            Or a table, as ``table``.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{speaker}_{take}.wav"``.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no audio, one file is damaged, or one has no row in the table;
            the message names the file.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import soundfile
        >>> import tensorlake as tl
        >>> Path("speech").mkdir()
        >>> for name in ("a", "b"):
        ...     soundfile.write(f"speech/{name}.flac", np.zeros(8_000), 16_000)
        >>> rows = [{"file": "a.flac", "text": "one"}, {"file": "b.flac", "text": "two"}]
        >>> ds = tl.ingest.audio("speech", "memory://doc-ingest-audio", table=rows)
        >>> ds["text"][:], ds[0]["audio"].duration
        (['one', 'two'], 0.5)
    """
    kind = FileKind("audio", _ENDINGS | _OTHER_ENDINGS, lambda _: Audio())
    return ingest_files(kind, src, dst, schema, labels, pattern, options, table=table)
