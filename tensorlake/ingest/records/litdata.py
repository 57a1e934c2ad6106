"""LitData, the format of Lightning's streaming: `shards.py` draws a chunk.

    index.json   chunks: filename, rows, bytes · config: formats of the leaves, and their tree

Each leaf of the tree is a tensor, named by its path: ``image``, ``meta/id``, ``0`` in a tuple.
Layouts are those of https://github.com/Lightning-AI/litData (chunks of Arrow: `litdata_arrow.py`);
``pickle`` is refused, and so are chunks of frames and of ciphers, which only LitData reads.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Unpack, cast

import numpy as np

from tensorlake.dataset import LITDATA_DTYPES, Dataset
from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.index import read_index, shard_path
from tensorlake.ingest.records.litdata_arrow import ArrowRows
from tensorlake.ingest.records.nested_values import parse_nested
from tensorlake.ingest.records.parts import PackedNumbers
from tensorlake.ingest.records.shards import (
    Decoder,
    Shard,
    ShardReader,
    image_list,
    ingest_shards,
)
from tensorlake.ingest.records.values import PIL_MODES, array_of, pil_pixels
from tensorlake.storage import public_url
from tensorlake.types import Array, Bool, Bytes, Image, Json, SampleType, Scalar, Text

__all__ = ["litdata"]

_TORCH_DTYPES = (  # noqa: SIM905 - the format's list, in which some names are twice
    "float32 float32 float64 float64 complex64 complex64 complex128 complex128 float16 float16"
    " bfloat16 uint8 int8 int16 int16 int32 int32 int64 int64 bool uint16"
).split()

DEPTH_MAX = 64
"""Depth of a row's tree."""

_IMAGES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "webp": "webp"}
_FILES = ("bytes", "video", "audio", "file", "nifti", "mesh", "pdf", "tiff", "tifffile")


@shows_options
def litdata(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest what LitData's ``optimize`` wrote: each leaf of a sample a tensor.

    Folders written by ``to_litdata`` are restored to the same tensors. Images stay as they are
    stored; files (``video``, ``audio``, …) are bytes, unless ``schema`` has their type.

    Args:
        src: The folder of ``index.json``, by path or URL.
        dst: Path or URL of the dataset.
        schema: Types by tensor; they override those of the formats.
        key: The tensor whose value names a row; None: rows are known by position, so that a later
            call may find more chunks at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: It is not LitData, or damaged; the message names the chunk and the row.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-litdata", {"x": "int64", "name": tl.Text()})
        >>> ds.extend({"x": [1, 2], "name": ["one", "two"]})
        >>> ds.to_litdata("litdata")
        >>> tl.ingest.litdata("litdata", "memory://doc-litdata-in")["name"][:]
        ['one', 'two']
        >>> ds.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    folder, index = read_index(src, files, "LitData")
    place = public_url(folder)
    try:
        config = dict(index["config"])
        _check_config(config, place)
        chunks = [_chunk(folder, dict(one), config) for one in index["chunks"]]
        formats = [str(one) for one in config["data_format"]]
        paths = _paths(config.get("data_spec"), len(formats))
        names = ["/".join(path) or "data" for path in paths]
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        message = f"the index of {place!r} is not LitData: {error!r}"
        raise InvalidInputError(message, src=place) from error
    is_tokens = config.get("item_loader") == "TokensLoader"
    reader = ShardReader(files, [None] * len(formats), () if is_tokens else range(len(formats)))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"two leaves of the samples of {place!r} are {twice!r}{_THEIRS}"
        raise InvalidInputError(message, src=place)
    return ingest_shards(
        "litdata",
        chunks,
        ArrowRows(files, reader, paths),
        dict(zip(names, formats, strict=True)),
        partial(_field, optional=_optional(config.get("types"), paths)),
        dst,
        options,
        files=files,
        src=src,
        folder=folder,
        schema=schema,
        key=key,
    )


_THEIRS = "\nread it by LitData, and ingest the samples: tl.ingest.torch(StreamingDataset(…), url)"


def _check_config(config: Mapping[str, Any], place: str) -> None:
    """Refuse chunks that only LitData reads."""
    loader, level = config.get("item_loader"), config.get("compression_level")
    why = ""
    if config.get("encryption"):
        why = "its chunks are encrypted"
    elif loader not in {None, "PyTreeLoader", "TokensLoader"}:
        why = f"its chunks are for {loader}"
    elif config.get("compression") and level not in {None, "chunk"}:
        why = f"its chunks are compressed by {level}"
    if why:
        raise InvalidInputError(f"{place!r} is not read here: {why}{_THEIRS}", src=place)


def _chunk(folder: str, described: Mapping[str, Any], config: Mapping[str, Any]) -> Shard:
    rows, nbytes = int(described["chunk_size"]), int(described["chunk_bytes"])
    name = described["filename"]
    path = shard_path(folder, name)
    algorithm = str(config.get("compression") or "").partition(":")[0]
    if algorithm not in {"", "zstd"}:
        raise ValueError(f"the compression {algorithm!r} is unknown")
    is_packed = bool(algorithm) and f".{algorithm}." in str(name)
    if rows < 0 or (not is_packed and 4 * (rows + 2) > nbytes + 4):
        raise ValueError(f"a chunk of {nbytes:,} bytes has {rows:,} rows")
    return Shard(path, rows, 0 if is_packed else nbytes, algorithm if is_packed else None)


def _paths(spec: Any, count: int) -> list[list[str]]:
    """Return the keys that lead to each leaf of a row's tree."""
    paths = [[str(at)] for at in range(count)]
    if spec is not None:
        _, tree = json.loads(spec)
        paths = _leaves(tree, [], 0)
    if len(paths) != count:
        raise ValueError(f"its tree has {len(paths)} leaves, and {count} formats")
    return paths


def _leaves(tree: Any, path: list[str], depth: int) -> list[list[str]]:
    if depth > DEPTH_MAX:
        raise ValueError(f"its tree is deeper than {DEPTH_MAX}")
    children = tree["children_spec"]
    if tree["type"] is None:
        return [path]
    kind = str(tree["type"]).rpartition(".")[2]
    if kind in {"dict", "OrderedDict"}:
        context = tree["context"]
        keys = json.loads(context) if isinstance(context, str) else context
    else:
        keys = range(len(children))
    pairs = zip(keys, children, strict=True)
    return [leaf for key, one in pairs for leaf in _leaves(one, [*path, str(key)], depth + 1)]


def _optional(types: Any, paths: Sequence[Sequence[str]]) -> set[str]:
    """Return the leaves that may be None: their types in the index say so."""
    found: set[str] = set()
    for path in paths:
        one = types
        for key in path:
            fields = one.get("fields", one) if isinstance(one, dict) else {}
            one = cast("dict[str, Any]", fields).get(key)
            if isinstance(one, dict) and cast("dict[str, Any]", one).get("optional"):
                found.add("/".join(path))
    return found


def _field(
    name: str, text: str, first: Any, *, optional: Collection[str]
) -> tuple[SampleType, Decoder]:
    """Return type and decoder of a leaf, as `_known_field`; an error where there are none."""
    try:
        kind, decode = _known_field(name, text, first if isinstance(first, bytes) else b"")
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"{error}{_THEIRS}", tensor=name) from error
    if name in optional:
        kind = replace(cast("Any", kind), nullable=True)
    return kind, decode


def _known_field(name: str, text: str, first: bytes) -> tuple[SampleType, Decoder]:
    """Return type and decoder of a leaf.

    Args:
        name: The leaf, for errors.
        text: Its format.
        first: A value, for what the format leaves open.
    """
    base, _, rest = text.partition(":")
    match base:
        case "str" | "text":
            return Text(), bytes
        case "int":
            return Scalar("int64"), PackedNumbers(np.dtype("<i8"), ())
        case "float":
            return Scalar("float64"), PackedNumbers(np.dtype("<f8"), ())
        case "bool":
            return Bool(), PackedNumbers(np.dtype("u1"), ())
        case "jpeg":
            return Image("jpeg"), bytes
        case "image" if rest in _IMAGES:
            return Image(cast("Any", _IMAGES[rest])), bytes
        case "pil":
            mode = _first(name, pil_pixels, first)[0] if first else "RGB"
            return Image("png", cast("Any", PIL_MODES[mode])), lambda one: pil_pixels(one)[1]
        case "jpeg_array":
            return image_list("jpeg", 0)
        case "numpy" | "tensor":
            decode = _numpy if base == "numpy" else _tensor
            seen = _first(name, decode, first) if first else np.zeros(0)
            return Array(seen.dtype, (None,) * seen.ndim or (None,)), decode
        case "no_header_numpy" | "no_header_tensor":
            known = LITDATA_DTYPES if base == "no_header_numpy" else _TORCH_DTYPES
            dtype = _dtype(known, int(rest) if rest.isdecimal() else -1, name)
            return Array(dtype, (None,)), PackedNumbers(dtype, (None,))
        case "json":
            return Json(), parse_nested
        case _ if base in _FILES:
            return Bytes(), bytes
        case _:
            pass
    known = ("str", "int", "float", "bool", "jpeg", "pil", "numpy", "tensor", "json", "bytes")
    why = "would run any code when it is unpickled" if base == "pickle" else "is unknown"
    raise InvalidInputError(
        f"the format {text!r} of {name!r} {why}{did_you_mean(base, known)}{_THEIRS}",
        tensor=name,
        actual=text,
    )


def _first(name: str, decode: Any, content: bytes) -> Any:
    try:
        return decode(content)
    except (ValueError, IndexError) as error:
        message = f"the first row of {name!r} cannot be read: {error}"
        raise InvalidInputError(message, tensor=name) from error


def _dtype(known: Sequence[str], number: int, name: str) -> np.dtype:
    if not 0 <= number < len(known) or known[number].startswith("bfloat"):
        what = known[number] if 0 <= number < len(known) else f"the unknown dtype {number}"
        raise ValueError(f"{name!r} has {what}, of which there is no tensor")
    return np.dtype(known[number])


def _numpy(content: bytes) -> np.ndarray:
    """Decode an array: number of the dtype u32 · axes u32 · lengths u32 · elements."""
    return _with_header(content, "<", LITDATA_DTYPES)


def _tensor(content: bytes) -> np.ndarray:
    """Decode a tensor of torch: the same header, but big-endian."""
    return _with_header(content, ">", _TORCH_DTYPES)


def _with_header(content: bytes, order: str, known: Sequence[str]) -> np.ndarray:
    try:
        number, axes = struct.unpack_from(f"{order}II", content)
        if axes > len(content) // 4:
            raise ValueError("an array is cut off")
        shape = struct.unpack_from(f"{order}{axes}I", content, 8)
    except struct.error as error:
        raise ValueError("an array is cut off") from error
    return array_of(content[8 + 4 * axes :], _dtype(known, number, "the array"), shape)
