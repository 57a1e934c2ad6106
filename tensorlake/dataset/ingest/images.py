"""Folders and zip files of pictures.

A folder's name is the class, ``train/`` and ``val/`` above it the split. Of a zip file the same
holds for the paths in it; its members are read where they lie, never unpacked to disk, and one
that says it is larger than ``MAX_MEMBER_NBYTES`` is refused.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.files import FileReader
from tensorlake.dataset.ingest.found_files import local_path
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.run import run_ingest
from tensorlake.dataset.ingest.source import Source
from tensorlake.dataset.schema_inference import PICTURE_ENDINGS
from tensorlake.errors import InvalidInputError
from tensorlake.types import ClassLabel, Image, ImageCodec

__all__ = ["images"]

MAX_MEMBER_NBYTES = 1 << 30
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
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, or a zip file, of pictures, stored as they are.

    Makes ``image``; ``label`` when the files lie in folders, whose names are the classes; ``split``
    when those lie in ``train/``, ``val/`` or ``test/``. Rows are in the order of the paths. All
    pictures are of one codec: the most frequent, unless ``schema`` names another.

    Args:
        src: The folder or the zip file.
        dst: Path or URL of the dataset.
        schema: Types in place of those guessed, by tensor name.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: No picture is there, or one is damaged; the message names the file.
    """
    return run_ingest(_source(local_path(src), schema), dst, **options)


def _source(folder: Path, schema: Mapping[str, Any] | None) -> Source[_Picture]:
    is_zip = folder.is_file() and zipfile.is_zipfile(folder)
    if folder.is_file() and not is_zip:
        message = f"{str(folder)!r} is no folder, and no whole zip file\ngive one of pictures"
        raise InvalidInputError(message, src=str(folder))
    if not folder.is_dir() and not is_zip:
        raise InvalidInputError(
            f"no folder {str(folder)!r} to ingest\ngive a folder or a zip file of pictures",
            src=str(folder),
        )
    found = _members(folder) if is_zip else _walk(str(folder), ())
    pictures = sorted(found, key=lambda picture: picture.path)
    if not pictures:
        raise InvalidInputError(
            f"no picture under {str(folder)!r}\nknown are {', '.join(PICTURE_ENDINGS)}",
            src=str(folder),
        )
    has_split = all(p.parts and p.parts[0] in SPLITS for p in pictures)
    depth = 1 if has_split else 0
    has_label = all(len(p.parts) > depth for p in pictures)
    codecs: Counter[ImageCodec] = Counter(PICTURE_ENDINGS[_ending(p.path)] for p in pictures)
    codec = codecs.most_common(1)[0][0]
    types: dict[str, Any] = {"image": Image(codec)}
    if has_label:
        types["label"] = ClassLabel(sorted({p.parts[depth] for p in pictures}))
    if has_split:
        types["split"] = ClassLabel(sorted({p.parts[0] for p in pictures}))
    unknown = [name for name in schema or {} if name not in types]
    if unknown:
        message = f"schema names {unknown}; these pictures make {', '.join(types)}"
        raise InvalidInputError(message, src=str(folder), expected=[*types])
    files = FileReader()

    def load(batch: Sequence[_Picture]) -> dict[str, Any]:
        paths, sizes = [p.path for p in batch], [p.nbytes for p in batch]
        contents = _read_members(folder, paths) if is_zip else files.read(paths, sizes)
        columns: dict[str, Any] = {"image": contents}
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
        name=lambda picture: "/".join(
            (*picture.parts, picture.path.rpartition(os.sep)[2].rpartition("/")[2])
        ),
        load=load,
        place=folder.name,
    )


def _walk(folder: str, parts: tuple[str, ...], above: tuple[str, ...] = ()) -> Iterator[_Picture]:
    above = (*above, os.path.realpath(folder))
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                if entry.is_symlink() and os.path.realpath(entry.path) in above:
                    continue  # a link to where we are would never end
                yield from _walk(entry.path, (*parts, entry.name), above)
            elif _ending(entry.name) in PICTURE_ENDINGS:
                yield _Picture(entry.path, _nbytes(entry), parts)


def _nbytes(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # a link to nothing: told, or left out, when it is read
        return 0


def _members(file: Path) -> Iterator[_Picture]:
    seen: set[str] = set()
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            *parts, name = member.filename.split("/")
            if member.is_dir() or name.startswith(".") or "__MACOSX" in parts:
                continue
            if _ending(name) not in PICTURE_ENDINGS:
                continue
            if member.file_size > MAX_MEMBER_NBYTES:
                message = (
                    f"{member.filename!r} of {str(file)!r} says it has {member.file_size:,} bytes"
                )
                raise InvalidInputError(message, src=str(file), item=member.filename)
            if member.filename in seen:
                message = f"{str(file)!r} holds two files {member.filename!r}"
                raise InvalidInputError(message, src=str(file), item=member.filename)
            seen.add(member.filename)
            yield _Picture(member.filename, member.file_size, tuple(parts))


def _read_members(file: Path, names: Sequence[str]) -> list[bytes]:
    with zipfile.ZipFile(file) as archive:
        return [_read_member(archive, name, str(file)) for name in names]


def _read_member(archive: zipfile.ZipFile, name: str, file: str) -> bytes:
    try:
        with archive.open(name) as member:
            content = member.read(archive.getinfo(name).file_size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        message = f"{name!r} of {file!r} cannot be read: {error}"
        raise InvalidInputError(message, src=file, item=name) from error
    if len(content) > archive.getinfo(name).file_size:
        message = f"{name!r} of {file!r} is larger than it says"
        raise InvalidInputError(message, src=file, item=name)
    return content


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}"
