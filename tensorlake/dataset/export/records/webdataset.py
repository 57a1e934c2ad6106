"""WebDataset shards: tar files whose members of the same name form one row.

    000000017.image.jpg  000000017.label.cls  000000017.boxes.npy

(https://github.com/webdataset/webdataset). The last suffix of a member defines its decoding:

    images              jpg png webp avif jp2 tiff, as stored
    ClassLabel          cls, the code                  arrays, numbers    npy
    Text, Uuid          txt                            Bytes              bin
    Json, Tags, runs    json

A tensor whose name is such an ending already (as those that were ingested from shards) keeps it.
The key is the tensor ``key`` where it is text, else the number of the row. A NULL has no member; a
row of nothing but NULLs has an empty one, ``null``.

Each shard begins with a global header of POSIX's pax format, which readers of tar pass over. Its
keyword `SCHEMA_KEYWORD` has each tensor's field and type, by which ``tl.ingest.webdataset`` makes
the same tensors again.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from tensorlake.dataset.export.destinations import Form, new_folder
from tensorlake.dataset.export.files import stored_rows, tensor_columns
from tensorlake.dataset.write.file_names import EMPTY_ROW, SCHEMA_KEYWORD, split_member
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import (
    Audio,
    Bytes,
    ClassLabel,
    Container,
    Image,
    ImageCodec,
    InstanceMask,
    Json,
    Mesh,
    MeshForm,
    Nifti,
    PointCloud,
    Polygon,
    SampleType,
    Scalar,
    Tags,
    Text,
    Timestamp,
    Uuid,
    container_of,
    mesh_form,
    untiled,
    widened_floats,
)
from tensorlake.types import (
    Sequence as SequenceType,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["image_ending", "to_webdataset"]


IMAGE_ENDINGS = {"jpeg": "jpg", "jpeg2000": "jp2"}
SAME_ENDINGS = {
    "jpg": ("jpeg",),
    "cls": ("cls2", "index", "id"),
    "txt": ("text", "transcript"),
    "npy": ("cls", "cls2", "index", "id"),  # integers are written as their digits
}


def to_webdataset(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None,
    shard_nbytes: int,
    overwrite: bool,
) -> None:
    """Write rows into shards of about ``shard_nbytes`` in a folder."""
    types = tensor_columns(view, columns, call="to_webdataset()")
    names = [*types]
    has_keys = "key" in names and isinstance(types["key"], Text)
    fields = {name: _field(name, types[name]) for name in names if not (has_keys and name == "key")}
    _check_fields(fields)
    described = {
        name: {"fields": _fields(name, types[name], fields), "type": types[name].to_json()}
        for name in names
    }
    header = {SCHEMA_KEYWORD: json.dumps(described)}
    seen: set[str] = set()
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        shards = _Shards(folder, shard_nbytes, header)
        try:
            for row, values in enumerate(stored_rows(view, names)):
                key = _checked_key(values["key"], row, seen) if has_keys else f"{row:09d}"
                members = [
                    _member(key, row, name, types[name], fields[name], values[name])
                    for name in fields
                    if values[name] is not None
                ]
                shards.add(members or [(f"{key}.{EMPTY_ROW}", b"")])
        finally:
            shards.close()


def _has_header(folder: Path) -> bool:
    """Whether the first shard has the types of tensors."""
    try:
        with tarfile.open(folder / "shard-000000.tar") as shard:
            return SCHEMA_KEYWORD in shard.pax_headers
    except (tarfile.TarError, FileNotFoundError):
        return False


FORM = Form("webdataset", re.compile(r"shard-\d{6}\.tar"), _has_header)


class _Shards:
    """Tar files, each closed when it is large enough."""

    def __init__(self, folder: Path, nbytes: int, header: dict[str, str]) -> None:
        self._folder = folder
        self._header = header
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
            self._open = tarfile.open(  # noqa: SIM115 - closed by close()
                path, "w", format=tarfile.PAX_FORMAT, pax_headers=self._header
            )
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


def _fields(name: str, sample_type: SampleType, fields: Mapping[str, str]) -> list[str]:
    """The fields that a tensor's members may have; none of the one that is the key."""
    endings: list[str] = []
    if isinstance(sample_type, Image) and sample_type.codec == "any":
        codecs: tuple[str, ...] = get_args(ImageCodec)
        endings = [IMAGE_ENDINGS.get(one, one) for one in codecs]
    elif isinstance(sample_type, Audio):
        endings = list(get_args(Container))
    elif isinstance(sample_type, Mesh):
        endings = list(get_args(MeshForm))
    if endings:
        return [_named(name, sample_type, one) for one in endings]
    return [fields[name]] if name in fields else []


def _check_fields(fields: Mapping[str, str]) -> None:
    """Refuse tensors whose members would have one name, which readers take in lower case."""
    owners: dict[str, str] = {}
    for name, field in fields.items():
        other = owners.setdefault(field.lower(), name)
        if other != name:
            raise UnsupportedFeatureError(
                f"{other!r} and {name!r} would be the same member of a shard, {field.lower()!r}"
                f"\nleave one out: columns=[…], or rename it: ds.rename_tensor({name!r}, …)",
                tensor=name,
            )


def _member(
    key: str, row: int, name: str, sample_type: SampleType, field: str, value: Any
) -> tuple[str, bytes]:
    """Return a member's name and content; samples of several formats each have their suffix."""
    if isinstance(sample_type, Image) and sample_type.codec == "any":
        field = _named(name, sample_type, image_ending(sample_type, value))
    elif isinstance(sample_type, Audio):
        field = _named(name, sample_type, container_of(value) or "bin")
    elif isinstance(sample_type, Mesh):
        field = _named(name, sample_type, mesh_form(value) or "bin")
    try:
        return f"{key}.{field}", _content(sample_type, value, field)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"row {row} of {name!r} has no form in a shard: {error}"
            "\nleave the tensor out: columns=[…], or write to_parquet(dst)",
            tensor=name,
            row=row,
        ) from error


def image_ending(sample_type: Image, sample: bytes) -> str:
    """Return the file suffix of a stored image, without the dot."""
    codec = sample_type.codec_of(sample) or sample_type.codec
    return IMAGE_ENDINGS.get(codec, codec)


def _field(name: str, sample_type: SampleType) -> str:
    return _named(name, sample_type, _ending(name, untiled(sample_type)))


def _named(name: str, sample_type: SampleType, ending: str) -> str:
    last = name.rpartition(".")[2]
    is_integer = isinstance(sample_type, Scalar) and sample_type.dtype.kind in "iu"
    if last == ending or (last in SAME_ENDINGS.get(ending, ()) and (ending != "npy" or is_integer)):
        return name
    return f"{name.replace('/', '-')}.{ending}"


def _ending(name: str, sample_type: SampleType) -> str:
    match sample_type:
        case Audio():
            return "flac"
        case Mesh():
            return "glb"
        case Nifti():
            return "nii"
        case PointCloud():
            return "npz"
        case Image(codec=codec):
            return IMAGE_ENDINGS.get(codec, codec)
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
        case _ if sample_type.layout == "encoded" and sample_type.query_kind == "media":
            return "bin"
        case _:
            raise UnsupportedFeatureError(
                f"a shard does not support {name!r} ({sample_type.describe()})"
                "\nleave it out: columns=[…]",
                tensor=name,
            )


def _content(sample_type: SampleType, value: Any, field: str) -> bytes:
    ending = field.rpartition(".")[2]
    if isinstance(sample_type, PointCloud):
        return sample_type.npz(value)
    if isinstance(value, bytes):
        return sample_type.file_of(value) if isinstance(sample_type, Nifti) else value
    if ending == "json":
        has_form = isinstance(sample_type, InstanceMask | Polygon)  # lists already
        plain = value if has_form else sample_type.json_value(value)
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, default=_as_list).encode()
    if ending == "npy":
        out = io.BytesIO()
        np.save(out, widened_floats(np.asarray(value)), allow_pickle=False)
        return out.getvalue()
    if isinstance(sample_type, Timestamp):
        return _moment(sample_type, value).encode()
    is_integer = isinstance(value, int | np.integer)
    return str(int(value) if is_integer else value).encode()


def _moment(sample_type: Timestamp, value: Any) -> str:
    """Write a moment as ISO 8601; ValueError where its year has not four digits."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if sample_type.unit != "ns":
        raise ValueError(f"the year of {value} has not four digits")
    return str(value) + ("Z" if sample_type.tz else "")


def _as_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else [*value]


def _checked_key(key: Any, row: int, seen: set[str]) -> str:
    is_kept = bool(key) and "\n" not in key and split_member(f"{key}.x") == (key, "x")
    if not is_kept or key in seen:
        raise InvalidInputError(
            f"row {row} has the key {key!r}, which is NULL, has a dot or a line break, is not"
            " a file path, or was another row's"
            "\nleave the tensor out, and rows are numbered: columns=[…]",
            row=row,
            actual=key,
        )
    seen.add(str(key))
    return str(key)
