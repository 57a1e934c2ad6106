"""WebDataset shards: tar files whose members of one name are one sample.

    000017.jpg  000017.cls  000017.json    →  row with tensors jpg, cls, json

(https://github.com/webdataset/webdataset): a key is a member's path up to the first dot of its
name, the field what follows. Shards are indexed by their headers first, and members then read
where they lie, so that shards are read side by side and a killed run goes on.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.ingest.found_files import find_files
from tensorlake.dataset.ingest.options import IngestOptions
from tensorlake.dataset.ingest.run import run_ingest
from tensorlake.dataset.ingest.source import Source, given_settings
from tensorlake.dataset.ingest.source_files import SourceFiles
from tensorlake.dataset.schema_inference import PICTURE_ENDINGS
from tensorlake.errors import InvalidInputError
from tensorlake.types import (
    Array,
    Bytes,
    Image,
    Json,
    SampleType,
    Scalar,
    Text,
    as_type,
    codec_of,
)

__all__ = ["webdataset"]

_TEXT = ("txt", "text", "transcript")
_INTEGER = ("cls", "cls2", "index", "inx", "id")


@dataclass(frozen=True, slots=True)
class _Sample:
    shard: str
    key: str
    members: tuple[tuple[str, int, int], ...]  # field, offset, length

    @property
    def nbytes(self) -> int:
        return sum(length for _, _, length in self.members)


def webdataset(
    src: str | Path | Sequence[str | Path],
    dst: str | Path,
    *,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest WebDataset shards: each field a tensor, and the key as ``__key__``'s twin ``key``.

    Pictures are stored as they are; where their endings differ from sample to sample they are one
    tensor: ``jpg`` and ``png`` make ``image``, ``left.jpg`` and ``left.png`` make ``left``. ``cls``
    and its like become integers, ``txt`` Text, ``json`` Json, ``npy`` arrays, all others Bytes.

    Args:
        src: A tar file, a folder, a pattern such as ``"shards/*.tar"``, or a list of files.
        dst: Path or URL of the dataset.
        schema: Types in place of those, by field; with ``ClassLabel`` a ``cls`` is a code.
        **options: See `IngestOptions`.

    Raises:
        InvalidInputError: A file is no tar, or samples have different fields.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-webdataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2]})
        >>> ds.to_webdataset("shards")
        >>> list(tl.ingest.webdataset("shards", "memory://doc-webdataset-in").schema)
        ['x.npy', 'key']
        >>> ds.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    samples = [sample for path in find_files(src, ".tar", files) for sample in _index(path, files)]
    if not samples:
        raise InvalidInputError(f"no sample in {str(src)!r}", src=str(src))
    samples, mixed = _with_pictures_as_one(samples)
    first = _read(samples[0], files)
    types = {
        field: as_type(
            (schema or {}).get(field)
            or (Image("any") if field in mixed else _type_of(field, content))
        )
        for field, content in first.items()
    }
    unknown = [field for field in schema or {} if field not in types]
    if unknown:
        message = f"schema names {unknown}; the first sample has {', '.join(types)}"
        raise InvalidInputError(message, fields=[*types])
    for sample in samples:
        fields = {field for field, _, _ in sample.members}
        if fields != set(types):
            raise InvalidInputError(
                f"sample {sample.key!r} of {sample.shard!r} has {', '.join(sorted(fields))};"
                f" the first has {', '.join(sorted(types))}\ningest shards of other fields apart",
                src=sample.shard,
                item=sample.key,
            )

    def load(batch: Sequence[_Sample]) -> dict[str, Any]:
        read = [_read(sample, files) for sample in batch]
        columns: dict[str, Any] = {
            field: [_value(one[field], kind, field) for one in read]
            for field, kind in types.items()
        }
        columns["key"] = [sample.key for sample in batch]
        return columns

    stamps = {sample.shard: files.stamp(sample.shard) for sample in samples}
    folder = posixpath.commonpath([posixpath.dirname(path) for path in stamps])
    source = Source(
        kind="webdataset",
        schema={**types, "key": Text()},
        items=samples,
        sizes=[max(1, sample.nbytes) for sample in samples],
        name=lambda sample: f"{Path(sample.shard).name}:{sample.key}",
        load=load,
        stamp=lambda sample: stamps[sample.shard],
        file=lambda sample: sample.shard[len(folder) :].lstrip("/"),
        unit="shard",
        settings=given_settings(schema),
    )
    return run_ingest(source, dst, **options)


def _index(path: str, files: SourceFiles) -> list[_Sample]:
    if path.endswith((".gz", ".zst", ".bz2")):
        message = (
            f"{path!r} is compressed, so its members cannot be read alone\ndecompress it first"
        )
        raise InvalidInputError(message, src=path)
    samples: dict[str, list[tuple[str, int, int]]] = {}
    try:
        with files.open(path) as file, tarfile.open(fileobj=file, mode="r:") as shard:
            for member in shard:
                folder, _, name = member.name.rpartition("/")
                stem, dot, field = name.partition(".")
                if not member.isfile() or not dot or not stem or name.startswith("__"):
                    continue
                key = f"{folder}/{stem}" if folder else stem
                members = samples.setdefault(key, [])
                if any(field.lower() == known for known, _, _ in members):
                    message = f"{path!r} has two members {key}.{field.lower()}"
                    raise InvalidInputError(message, src=path, item=key)
                members.append((field.lower(), member.offset_data, member.size))
    except tarfile.TarError as error:
        raise InvalidInputError(f"{path!r} is no tar file: {error}", src=path) from error
    return [_Sample(path, key, tuple(sorted(members))) for key, members in samples.items()]


def _with_pictures_as_one(samples: list[_Sample]) -> tuple[list[_Sample], frozenset[str]]:
    """Give pictures whose endings differ from sample to sample one field; and name such fields."""
    sets = {frozenset(field for field, *_ in sample.members) for sample in samples}
    common = frozenset[str].intersection(*sets)
    names = {
        field: (field.rpartition(".")[0] or "image")
        for field in frozenset[str].union(*sets) - common
        if f".{field.rpartition('.')[2]}" in PICTURE_ENDINGS
    }
    if len(sets) == 1 or {frozenset(names.get(one, one) for one in each) for each in sets} != {
        common | set(names.values())
    }:
        return samples, frozenset()  # of one kind, or of fields that differ in other ways too
    if any(len({names.get(one, one) for one in each}) < len(each) for each in sets):
        return samples, frozenset()  # a sample has two of them
    renamed = [
        replace(one, members=tuple((names.get(f, f), at, size) for f, at, size in one.members))
        for one in samples
    ]
    return renamed, frozenset(names.values())


def _read(sample: _Sample, files: SourceFiles) -> dict[str, bytes]:
    with files.open(sample.shard) as shard:
        contents: dict[str, bytes] = {}
        for field, offset, length in sample.members:
            shard.seek(offset)
            contents[field] = shard.read(length)
    return contents


def _type_of(field: str, content: bytes) -> SampleType:
    ending = field.rpartition(".")[2]
    codec = codec_of(content)
    if codec is not None:
        return Image(codec)
    if ending in _INTEGER:
        return Scalar("int64")
    if ending in _TEXT:
        return Text()
    if ending == "json":
        return Json()
    if ending == "npy":
        array = _array(content, field)
        return Array(array.dtype, (None,) * array.ndim) if array.ndim else Scalar(array.dtype)
    return Bytes()


def _value(content: bytes, kind: SampleType, field: str) -> Any:
    ending = field.rpartition(".")[2]
    if ending == "npy":
        return _array(content, field)
    if isinstance(kind, Text) or ending in _TEXT:
        return content.decode()
    if isinstance(kind, Json):
        import json

        return json.loads(content)
    if ending in _INTEGER:
        text = content.decode().strip()
        return int(text) if text.lstrip("-").isdigit() else text
    return content


def _array(content: bytes, field: str) -> np.ndarray:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"a member {field!r} is no .npy file: {error}") from error
