"""WebDataset shards: tar files whose members of the same name form one sample.

    000017.jpg  000017.cls  000017.json    →  row with tensors jpg, cls, json

(https://github.com/webdataset/webdataset): a key is a member's path up to the first dot of its
name, the field what follows. A later run knows a sample by its key, whatever shard it is in then; a
key that several shards have, by shard and key. Shards are indexed by their headers first, and
members then read in place, so that shards are read in parallel and an interrupted run can continue.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import (
    EMPTY_ROW,
    IMAGE_ENDINGS,
    SCHEMA_KEYWORD,
    Dataset,
    SkippedItem,
    codec_of_files,
    given_sample,
    split_member,
)
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import (
    expand_braces,
    find_files,
    full_place,
    names_below,
    source_path,
)
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles, is_url
from tensorlake.ingest.vision.tar_index import END_NBYTES, TarIndex, index_tar
from tensorlake.quantities import plural
from tensorlake.storage import public_url
from tensorlake.types import (
    Array,
    Bytes,
    Image,
    Json,
    Nifti,
    SampleType,
    Scalar,
    Text,
    as_type,
    codec_of,
    from_json,
)

__all__ = ["webdataset"]

_TEXT = ("txt", "text", "transcript")
_INTEGER = ("cls", "cls2", "index", "inx", "id")


_Fields = Mapping[str, tuple[SampleType, tuple[str, ...]]]
"""The type of each tensor, and the fields that it comes from; none: it is the key."""


@dataclass(frozen=True, slots=True)
class _Sample:
    shard: str
    key: str
    members: tuple[tuple[str, int, int], ...]  # field, offset, length

    @property
    def nbytes(self) -> int:
        return sum(length for _, _, length in self.members)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(field for field, _, _ in self.members)

    @property
    def name(self) -> str:
        return f"{Path(self.shard).name}:{self.key}"


class _LeftOut(list[SkippedItem]):
    """Samples and parts of shards that were left out, and what is known of them."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self.is_damaged = False

    def may_be_there(self, item: str) -> bool:
        """Whether a sample that is not listed is one of these, or may be behind the damage."""
        return self.is_damaged or item in self.keys or item.partition("/")[2] in self.keys


@shows_options
def webdataset(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest WebDataset shards: each field a tensor, and the key as ``__key__``'s twin ``key``.

    Shards written by ``to_webdataset`` record their tensors, and are restored to these.

    The same call again knows a sample by its key, in whatever shard it is; by shard and key where
    several shards have the key.

    Images are stored without re-encoding; suffixes that differ from sample to sample make one
    tensor: ``jpg`` and ``png`` make ``image``, ``left.jpg`` and ``left.png`` make ``left``. ``cls``
    and its like become integers, ``txt`` Text, ``json`` Json, ``npy`` arrays, all others Bytes.

    Args:
        src: A tar file, a folder, a pattern such as ``"shards/*.tar"`` or
            ``"shards/{000000..000127}.tar"``, or a list of files.
        dst: Path or URL of the dataset.
        schema: Types in place of those, by field; with ``ClassLabel`` a ``cls`` is a code.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is not a whole tar file, or samples have different fields.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-webdataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2]})
        >>> ds.to_webdataset("shards")
        >>> list(tl.ingest.webdataset("shards", "memory://doc-webdataset-in").schema)
        ['x']
        >>> ds.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    left_out = _LeftOut()
    is_strict = options.get("on_error", "raise") == "raise"
    samples: list[_Sample] = []
    written: set[str | None] = set()
    for path in _shards(src, files):
        found, header = _index(path, files, None if is_strict else left_out)
        samples += found
        if found:
            written.add(header)
    if not samples and left_out:
        raise no_rows("webdataset", left_out)
    if not samples:
        raise InvalidInputError(f"no sample in {str(src)!r}", src=str(src))
    fields = _own_fields(written, samples)
    if fields is None:
        samples, mixed = _with_images_as_one(samples)
        samples = _of_the_same_fields(samples, None if is_strict else left_out)
        types = _types(samples, files, schema or {}, mixed, is_strict=is_strict)
        fields = {name: (one, (name,)) for name, one in types.items()} | {"key": (Text(), ())}
    else:
        fields = _declared(fields, schema or {})

    def load(batch: Sequence[_Sample]) -> dict[str, Any]:
        read = [_read(sample, files) for sample in batch]
        return {
            name: [
                _member_value(contents, kind, names, sample) if names else sample.key
                for contents, sample in zip(read, batch, strict=True)
            ]
            for name, (kind, names) in fields.items()
        }

    stamps = {sample.shard: files.stamp(sample.shard) for sample in samples}
    first = PurePath(full_place(samples[0].shard))
    where = full_place(src) if isinstance(src, str | PathLike) else ""
    names = names_below(stamps)
    counts = Counter(sample.key for sample in samples)
    source = Source(
        kind="webdataset",
        schema={name: kind for name, (kind, _) in fields.items()},
        items=samples,
        sizes=[max(1, sample.nbytes) for sample in samples],
        name=lambda sample: sample.name,
        load=load,
        place=first.name if where == str(first) else first.parent.name,
        where=where,
        stamp=lambda sample: (names[sample.shard], stamps[sample.shard]),
        file=lambda sample: (
            sample.key if counts[sample.key] == 1 else f"{names[sample.shard]}/{sample.key}"
        ),
        unit="sample",
        content=[name for name, (_, own) in fields.items() if own],
        may_be_there=left_out.may_be_there,
        settings=given_settings(schema),
        left_out=left_out,
    )
    return run_ingest(source, dst, **options)


def _own_fields(written: Collection[str | None], samples: Sequence[_Sample]) -> _Fields | None:
    """Return the types and fields of the tensors that shards say they were; None where they don't.

    Shards to which other fields were added are as any other.
    """
    texts = [one for one in written if one is not None]
    if len(texts) != 1 or len(written) > 1:
        return None
    try:
        described = json.loads(texts[0])
        fields = {
            str(name): (from_json(one["type"]), tuple(field.lower() for field in one["fields"]))
            for name, one in described.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):  # another program's keyword
        return None
    known = {EMPTY_ROW, *(one for _, names in fields.values() for one in names)}
    return fields if all(sample.fields <= known for sample in samples) else None


def _declared(fields: _Fields, schema: Mapping[str, Any]) -> _Fields:
    """Put the types of the call in place of those written; it names tensors, or their fields."""
    tensors = {one: name for name, (_, names) in fields.items() for one in (*names, name)}
    unknown = [name for name in schema if name not in tensors]
    if unknown:
        message = f"schema names {unknown}; the shards have the tensors {', '.join(fields)}"
        raise InvalidInputError(message, fields=[*fields])
    given = {tensors[name]: as_type(one) for name, one in schema.items()}
    return {name: (given.get(name, kind), names) for name, (kind, names) in fields.items()}


def _shards(
    src: str | PathLike[str] | Sequence[str | PathLike[str]], files: SourceFiles
) -> list[str]:
    """List the tar files of a source; braces in its name are expanded unless a file has it."""
    if not isinstance(src, str | PathLike) or files.nbytes(source_path(src)) is not None:
        return find_files(src, ".tar", files)
    parts = expand_braces(source_path(src))
    return [path for part in parts for path in find_files(part, ".tar", files)]


def _index(
    path: str, files: SourceFiles, left_out: _LeftOut | None
) -> tuple[list[_Sample], str | None]:
    """List the samples of a shard, and return its record of tensors.

    Invalid samples are errors, or ``left_out``.
    """
    shown = public_url(path)
    if path.endswith((".gz", ".zst", ".bz2", ".xz", ".lz4", ".tgz")):
        message = (
            f"{shown!r} is compressed, so its members cannot be read alone\ndecompress it first"
        )
        raise InvalidInputError(message, src=shown)
    try:
        with files.open(path) as file:
            index = index_tar(file)
    except tarfile.TarError as error:
        if left_out is None:
            raise InvalidInputError(f"{shown!r} is not a tar file: {error}", src=shown) from error
        left_out.append(SkippedItem(PurePath(shown).name, f"not a tar file: {error}"))
        left_out.is_damaged = True
        return [], None
    found: dict[str, list[tuple[str, int, int]]] = {}
    bad: dict[str, str] = {}
    for member in index.members:
        split = split_member(member.name)
        if split is None:
            continue
        key, field, name = split[0], split[1].lower(), PurePath(member.name).name
        fields = found.setdefault(key, [])
        if member.problem is not None:
            bad[key] = f"{name!r} {member.problem}"
        elif any(field == known for known, _, _ in fields):
            bad[key] = f"there are two members {key}.{field}"
        fields.append((field, member.start, member.nbytes))
    samples = [_Sample(path, key, tuple(sorted(members))) for key, members in found.items()]
    if index.damage is not None:
        samples = _before_damage(samples, index, path, left_out)
    for key, reason in bad.items():
        if left_out is None:
            raise InvalidInputError(f"sample {key!r} of {shown!r}: {reason}", src=shown, item=key)
        left_out.append(SkippedItem(f"{Path(path).name}:{key}", reason))
        left_out.keys.add(key)
    kept = [one for one in samples if one.key not in bad]
    return kept, index.headers.get(SCHEMA_KEYWORD)


def _before_damage(
    samples: list[_Sample], index: TarIndex, path: str, left_out: _LeftOut | None
) -> list[_Sample]:
    """Return the samples before the damage: the last of them only where it lacks no field."""
    shown = public_url(path)
    behind = f", behind sample {samples[-1].key!r}" if samples else ""
    reason = f"not a whole tar file: {index.damage}{behind}"
    whole = {one.fields for one in samples[:-1]}
    is_last_cut = len(samples) > 1 and samples[-1].fields not in whole
    if left_out is None:
        advice = "make or fetch the shard again, or ingest these samples: on_error='skip'"
        if index.lacks_end and samples and not is_last_cut and not is_url(path):
            file = shlex.quote(str(Path(path).absolute()))
            advice += (
                "; only if its writer is known to have finished, add the end that it left out:"
                f" truncate -s +{END_NBYTES} {file}"
            )
        raise InvalidInputError(
            f"{shown!r} is {reason}; {plural(len(samples), 'sample')} can be read\n{advice}",
            src=shown,
            item=samples[-1].key if samples else None,
        )
    left_out.append(SkippedItem(PurePath(shown).name, reason))
    left_out.is_damaged = True
    if is_last_cut:
        cut = samples.pop()
        name = f"{PurePath(shown).name}:{cut.key}"
        left_out.append(SkippedItem(name, f"cut: only {', '.join(sorted(cut.fields))} are there"))
    return samples


def _of_the_same_fields(samples: list[_Sample], left_out: _LeftOut | None) -> list[_Sample]:
    """Return the samples with the fields of the first, or, where some are left out, of most."""
    expected = samples[0].fields
    if left_out is not None:
        expected = Counter(sample.fields for sample in samples).most_common(1)[0][0]
    same: list[_Sample] = []
    for sample in samples:
        if sample.fields == expected:
            same.append(sample)
            continue
        has = f"has {', '.join(sorted(sample.fields))}"
        others = ", ".join(sorted(expected))
        if left_out is None:
            shown = public_url(sample.shard)
            raise InvalidInputError(
                f"sample {sample.key!r} of {shown!r} {has}; the first has {others}"
                "\ningest shards of other fields apart, or leave such samples out: on_error='skip'",
                src=shown,
                item=sample.key,
            )
        left_out.append(SkippedItem(sample.name, f"{has}; most have {others}"))
        left_out.keys.add(sample.key)
    return same


def _types(
    samples: Sequence[_Sample],
    files: SourceFiles,
    schema: Mapping[str, Any],
    mixed: Collection[str],
    *,
    is_strict: bool,
) -> dict[str, SampleType]:
    """Return the type of each field by the first sample where it is valid.

    Fields of images of which none is valid have the codec that their suffixes name.
    """
    unknown = [field for field in schema if field not in samples[0].fields]
    if unknown:
        told = ", ".join(sorted(samples[0].fields))
        message = f"schema names {unknown}; the first sample has {told}"
        raise InvalidInputError(message, fields=sorted(samples[0].fields))
    fields = [field for field, _, _ in samples[0].members]
    types = {field: Image("any") if field in mixed else None for field in fields}
    types |= {field: as_type(one) for field, one in schema.items()}
    refused: dict[str, InvalidInputError] = {}
    for sample in samples:
        left = [field for field in fields if types[field] is None]
        for field, content in _read(sample, files, left).items() if left else ():
            try:
                types[field] = _type_of(field, content, sample)
            except InvalidInputError as error:
                if is_strict:
                    raise
                refused.setdefault(field, error)
    for field in fields:
        if types[field] is None and field in refused:
            raise refused[field]
    return {field: found or Image(codec_of_files([f".{field}"])) for field, found in types.items()}


def _with_images_as_one(samples: list[_Sample]) -> tuple[list[_Sample], frozenset[str]]:
    """Merge images whose suffixes differ between samples into one field; return such fields."""
    sets = {sample.fields for sample in samples}
    common = frozenset[str].intersection(*sets)
    names = {
        field: (field.rpartition(".")[0] or "image")
        for field in frozenset[str].union(*sets) - common
        if f".{field.rpartition('.')[2]}" in IMAGE_ENDINGS
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


def _read(
    sample: _Sample, files: SourceFiles, only: Collection[str] | None = None
) -> dict[str, bytes]:
    with files.open(sample.shard) as shard:
        contents: dict[str, bytes] = {}
        for field, offset, length in sample.members:
            if only is not None and field not in only:
                continue
            shard.seek(offset)
            contents[field] = shard.read(length)
            if len(contents[field]) < length:
                raise _wrong(sample, field, "the shard became shorter while it was read")
    return contents


def _type_of(field: str, content: bytes, sample: _Sample) -> SampleType | None:
    """Return the type of a field by its content; None for an image that cannot be one."""
    ending = field.rpartition(".")[2]
    codec = codec_of(content)
    if codec is not None:
        return Image(codec)
    if f".{ending}" in IMAGE_ENDINGS:
        return None
    if ending == "nii" or field.endswith("nii.gz"):
        try:
            return Nifti.of_file(content)
        except ValueError as error:
            raise _wrong(sample, field, str(error)) from error
    if ending in _INTEGER:
        return Scalar("int64")
    if ending in _TEXT:
        return Text()
    if ending == "json":
        return Json()
    if ending == "npy":
        array = _array(content, field, sample)
        return Array(array.dtype, (None,) * array.ndim) if array.ndim else Scalar(array.dtype)
    return Bytes()


def _member_value(
    contents: Mapping[str, bytes], kind: SampleType, names: Collection[str], sample: _Sample
) -> Any:
    """Return the value of the field that a sample has of these; None where it has none."""
    field = next((one for one in names if one in contents), None)
    return None if field is None else _value(contents[field], kind, field, sample)


def _value(content: bytes, kind: SampleType, field: str, sample: _Sample) -> Any:
    ending = field.rpartition(".")[2]
    if ending == "npy":
        return _array(content, field, sample)
    try:
        if isinstance(kind, Text) or ending in _TEXT:
            return content.decode()
        if isinstance(kind, Json) or (ending == "json" and not isinstance(kind, Bytes)):
            return json.loads(content)
        if kind.is_media:
            return given_sample(kind, content)
        if ending in _INTEGER:
            text = content.decode().strip()
            return int(text) if text.lstrip("-").isdigit() else text
    except (ValueError, RecursionError) as error:  # also of UTF-8
        raise _wrong(sample, field, str(error)) from error
    return content


def _array(content: bytes, field: str, sample: _Sample) -> np.ndarray:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _wrong(sample, field, f"it is not a .npy file: {error}") from error


def _wrong(sample: _Sample, field: str, why: str) -> InvalidInputError:
    shown = public_url(sample.shard)
    message = f"{field!r} of sample {sample.key!r} of {shown!r}: {why}"
    return InvalidInputError(message, src=shown, item=sample.key, tensor=field)
