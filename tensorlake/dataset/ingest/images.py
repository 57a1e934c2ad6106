"""Folders of pictures: a folder's name is the class, ``train/`` and ``val/`` above it the split."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import read_files
from tensorlake.dataset.ingest.run import Mode, OnError, Source, run_ingest
from tensorlake.errors import InvalidInputError
from tensorlake.types import ClassLabel, Image

__all__ = ["images"]

ImageCodec = Literal["jpeg", "png"]
CODECS: Mapping[str, ImageCodec] = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png"}
SPLITS = ("train", "val", "valid", "validation", "test")


@dataclass(frozen=True, slots=True)
class _Picture:
    path: str  # plain text: making a Path costs as much as reading the file
    nbytes: int
    parts: tuple[str, ...]  # folders below the source, outermost first


def images(
    src: str | Path,
    dst: str | Path,
    *,
    mode: Mode = "create",
    schema: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
    commit_every: str = "8GiB",
    progress: bool | None = None,
    **open_arguments: Any,
) -> Dataset:
    """Ingest a folder of JPEG or PNG files, stored as they are.

    Makes ``image``; ``label`` when the files lie in folders, whose names are the classes; ``split``
    when those lie in ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths.

    Args:
        src: The folder.
        dst: Path or URL of the dataset.
        mode: "append" adds to a dataset that exists.
        schema: Types in place of those guessed, by tensor name.
        on_error: "skip" leaves files out that are no picture, and lists them in the report.
        commit_every: Source bytes a commit.
        progress: Whether to show progress; None: on a terminal.
        **open_arguments: ``storage_options`` and ``durability``, as in ``tl.open``.

    Raises:
        InvalidInputError: No picture is there, or one is damaged; the message names the file.
    """
    source = _source(Path(src), schema)
    return run_ingest(
        source,
        dst,
        mode=mode,
        on_error=on_error,
        commit_every=commit_every,
        progress=progress,
        **open_arguments,
    )


def _source(folder: Path, schema: Mapping[str, Any] | None) -> Source[_Picture]:
    if not folder.is_dir():
        raise InvalidInputError(
            f"no folder {str(folder)!r} to ingest\ngive a folder of pictures", src=str(folder)
        )
    pictures = sorted(_walk(str(folder), ()), key=lambda picture: picture.path)
    if not pictures:
        raise InvalidInputError(
            f"no picture under {str(folder)!r}\nknown are {', '.join(CODECS)}", src=str(folder)
        )
    has_split = all(p.parts and p.parts[0] in SPLITS for p in pictures)
    depth = 1 if has_split else 0
    has_label = all(len(p.parts) > depth for p in pictures)
    codecs: Counter[ImageCodec] = Counter(CODECS[_ending(p.path)] for p in pictures)
    codec = codecs.most_common(1)[0][0]
    types: dict[str, Any] = {"image": Image(codec)}
    if has_label:
        types["label"] = ClassLabel(sorted({p.parts[depth] for p in pictures}))
    if has_split:
        types["split"] = ClassLabel(sorted({p.parts[0] for p in pictures}))

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "image": read_files([p.path for p in batch], [p.nbytes for p in batch])
        }
        if has_label:
            columns["label"] = [p.parts[depth] for p in batch]
        if has_split:
            columns["split"] = [p.parts[0] for p in batch]
        return columns

    return Source(
        kind="images",
        schema={**types, **(schema or {})},
        items=pictures,
        sizes=[picture.nbytes for picture in pictures],
        name=lambda picture: "/".join((*picture.parts, picture.path.rpartition(os.sep)[2])),
        load=load,
    )


def _walk(folder: str, parts: tuple[str, ...]) -> Iterator[_Picture]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, (*parts, entry.name))
            elif _ending(entry.name) in CODECS:
                yield _Picture(entry.path, entry.stat().st_size, parts)


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}"
