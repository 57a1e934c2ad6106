"""Folders of texts: a file is a row, as folders of images are (`vision/folders.py`)."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, shown
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.vision.folder_scan import FileKind
from tensorlake.ingest.vision.folders import ingest_files
from tensorlake.types import Text

__all__ = ["texts"]

_MARK = "\ufeff"  # some programs begin a file of Unicode with it


@shows_options
def texts(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    labels: bool = True,
    pattern: str | None = None,
    ending: str = ".txt",
    encoding: str = "utf-8",
    **options: Unpack[IngestOptions],
) -> Dataset:
    r"""Ingest a folder or a zip file of texts, one per file, with line breaks as they are.

    Makes ``text``; ``label`` if the files are in folders, whose names are the classes; ``split``
    when those lie in ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    Args:
        src: The folder or the zip file, or the URL of one in a store.
        dst: Path or URL of the dataset.
        schema: Types by tensor name; they override the inferred ones.
        labels: Whether folders are classes; a text outside them is then an error, or left out.
        pattern: A pattern of the files' names, whose fields become tensors in place of folders:
            ``"{label}_{id}.txt"`` makes the classes ``label``, and the text ``id``.
        ending: Ending of the files' names; "" for all files.
        encoding: Text encoding, such as "latin-1".
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There are no texts, one is outside the folders of the others, or one is
            of another encoding; the message names the file.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> for name, words in (("neg", "too long"), ("pos", "a joy")):
        ...     Path("reviews", name).mkdir(parents=True)
        ...     _ = Path("reviews", name, "1.txt").write_text(words)
        >>> ds = tl.ingest.texts("reviews", "memory://doc-texts")
        >>> ds["text"][:], [str(one) for one in ds["label"][:].names]
        (['too long', 'a joy'], ['neg', 'pos'])
    """
    if not isinstance(ending, str):
        message = f"ending={shown(ending)}: give a string such as '.txt', or '' for all files"
        raise InvalidInputError(message, argument="ending", actual=ending)
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError, ValueError) as error:
        message = f"encoding={shown(encoding)}: give one that Python knows, such as 'utf-8'"
        raise InvalidInputError(message, argument="encoding", actual=encoding) from error

    def value(content: bytes, name: str) -> str:
        try:
            return content.decode(encoding).removeprefix(_MARK)
        except UnicodeDecodeError as error:
            part = content[error.start : error.start + 8]
            message = f"{name!r} is not {encoding} from the bytes {part!r} on"
            advice = "say how it is written, such as encoding='latin-1' or 'cp1252'"
            raise InvalidInputError(f"{message}\n{advice}", item=name) from error

    endings = frozenset({f".{ending.lower().lstrip('.')}"}) if ending else None
    kind = FileKind("text", endings, lambda _: Text(), value=value)
    return ingest_files(
        kind, src, dst, schema, labels, pattern, options, ending=ending, encoding=encoding
    )
