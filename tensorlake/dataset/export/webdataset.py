"""WebDataset shards: tar files whose members of one name are one row.

    000000017.image.jpg  000000017.label.cls  000000017.boxes.npy

(https://github.com/webdataset/webdataset). A member's last ending says how it is decoded:

    pictures            jpg png webp avif jp2 tiff, the bytes that are stored
    ClassLabel          cls, the code                  arrays, numbers    npy
    Text, Uuid          txt                            Bytes              bin
    Json, Tags, runs    json

A tensor whose name is such an ending already (as those that were ingested from shards) keeps it.
The key is the tensor ``key`` where it is text, else the number of the row. A NULL has no member.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.export.arrow_stream import check_columns
from tensorlake.dataset.export.destination import new_folder
from tensorlake.dataset.export.samples import plain_columns, stored_rows
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import (
    Bytes,
    ClassLabel,
    Image,
    InstanceMask,
    Json,
    Polygon,
    SampleType,
    Scalar,
    Tags,
    Text,
    Timestamp,
    Uuid,
    widened_floats,
)
from tensorlake.types import (
    Sequence as SequenceType,
)

if TYPE_CHECKING:
    from tensorlake.dataset.exported import Exported

__all__ = ["picture_ending", "to_webdataset"]

PICTURE_ENDINGS = {"jpeg": "jpg", "jpeg2000": "jp2"}
SAME_ENDINGS = {
    "jpg": ("jpeg",),
    "cls": ("cls2", "index", "id"),
    "txt": ("text", "transcript"),
    "npy": ("cls", "cls2", "index", "id"),  # integers are written as their digits
}


def to_webdataset(
    rows: Exported,
    dst: str | Path,
    *,
    columns: Sequence[str] | None,
    shard_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into shards of about ``shard_nbytes`` in a folder."""
    view = rows.frozen()
    names = check_columns(view, columns)
    plain_columns(view, names, call="to_webdataset()")
    types = view.schema
    has_keys = "key" in names and isinstance(types["key"], Text)
    fields = {name: _field(name, types[name]) for name in names if not (has_keys and name == "key")}
    seen: set[str] = set()
    with new_folder(dst, overwrite=overwrite) as folder:
        shards = _Shards(folder, shard_nbytes)
        try:
            for row, values in enumerate(stored_rows(view, names)):
                key = _checked_key(values["key"], row, seen) if has_keys else f"{row:09d}"
                members = [
                    _member(key, name, types[name], fields[name], values[name])
                    for name in fields
                    if values[name] is not None
                ]
                shards.add(members)
        finally:
            shards.close()


class _Shards:
    """Tar files, each closed when it is large enough."""

    def __init__(self, folder: Path, nbytes: int) -> None:
        self._folder = folder
        self._limit = nbytes
        self._count = 0
        self._nbytes = 0
        self._open: tarfile.TarFile | None = None

    def add(self, members: Sequence[tuple[str, bytes]]) -> None:
        """Add one row's members to one shard."""
        nbytes = sum(len(content) for _, content in members)
        if self._open is not None and self._nbytes + nbytes > self._limit:
            self.close()
        if self._open is None:
            path = self._folder / f"shard-{self._count:06d}.tar"
            self._open = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by close()
            self._count += 1
            self._nbytes = 0
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            self._open.addfile(member, io.BytesIO(content))
        self._nbytes += nbytes

    def close(self) -> None:
        """Finish the shard that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None


def _member(
    key: str, name: str, sample_type: SampleType, field: str, value: Any
) -> tuple[str, bytes]:
    """Name a row's member and give its content; of pictures of any codec, each by its own."""
    if isinstance(sample_type, Image) and sample_type.codec == "any":
        field = _named(name, sample_type, picture_ending(sample_type, value))
    return f"{key}.{field}", _content(value, field)


def picture_ending(sample_type: Image, sample: bytes) -> str:
    """How the name of a stored picture's file ends, without the dot."""
    codec = sample_type.codec_of(sample) or sample_type.codec
    return PICTURE_ENDINGS.get(codec, codec)


def _field(name: str, sample_type: SampleType) -> str:
    return _named(name, sample_type, _ending(name, sample_type))


def _named(name: str, sample_type: SampleType, ending: str) -> str:
    last = name.rpartition(".")[2]
    is_integer = isinstance(sample_type, Scalar) and sample_type.dtype.kind in "iu"
    if last == ending or (last in SAME_ENDINGS.get(ending, ()) and (ending != "npy" or is_integer)):
        return name
    return f"{name.replace('/', '-')}.{ending}"


def _ending(name: str, sample_type: SampleType) -> str:
    match sample_type:
        case Image(codec=codec):
            return PICTURE_ENDINGS.get(codec, codec)
        case ClassLabel() if not sample_type.is_many:
            return "cls"
        case Text() | Uuid() | Timestamp():
            return "txt"
        case Json() | Tags() | InstanceMask() | Polygon():
            return "json"
        case Bytes():
            return "bin"
        case SequenceType() if not sample_type.item.is_media and sample_type.item.kind != "bytes":
            return "json"
        case _ if sample_type.dtype is not None and not sample_type.is_media:
            return "npy"
        case _:
            raise UnsupportedFeatureError(
                f"a shard has no form for {name!r} ({sample_type.describe()})"
                "\nleave it out: columns=[…]",
                tensor=name,
            )


def _content(value: Any, field: str) -> bytes:
    ending = field.rpartition(".")[2]
    if isinstance(value, bytes):
        return value
    if ending == "json":
        return json.dumps(value, ensure_ascii=False, default=_as_list).encode()
    if ending == "npy":
        out = io.BytesIO()
        np.save(out, widened_floats(np.asarray(value)), allow_pickle=False)
        return out.getvalue()
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).encode()
    is_integer = isinstance(value, int | np.integer)
    return str(int(value) if is_integer else value).encode()


def _as_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else [*value]


def _checked_key(key: Any, row: int, seen: set[str]) -> str:
    if not key or key in seen or "." in str(key).rpartition("/")[2]:
        raise InvalidInputError(
            f"row {row} has the key {key!r}, which is NULL, has a dot, or was another row's"
            "\nleave the tensor out, and rows are numbered: columns=[…]",
            row=row,
            actual=key,
        )
    seen.add(str(key))
    return str(key)
