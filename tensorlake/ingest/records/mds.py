"""MDS, the format of MosaicML's streaming: `shards.py` draws a shard.

Columns are in the order of the index; those with a fixed size have none in a row. Encodings and
their layouts are those of https://docs.mosaicml.com/projects/streaming, "Dataset format"; ``pkl``,
which unpickles, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Unpack, cast

import numpy as np

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.index import read_index, shard_path
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
from tensorlake.types import Array, Bytes, Image, Json, SampleType, Scalar, Text

__all__ = ["mds"]

_CODECS = {"br": "brotli", "bz2": "bz2", "gz": "gzip", "snappy": "snappy", "zstd": "zstd"}
_NUMBERS = "uint8 int8 uint16 int16 float16 uint32 int32 float32 uint64 int64 float64".split()  # noqa: SIM905 - the format's list
_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
"""Dtypes by the byte that an array without a fixed one begins with."""

_SHAPE_DTYPES = ("u1", "<u2", "<u4", "<u8")


@shows_options
def mds(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest MosaicML's MDS: each column a tensor, images as they are stored.

    Folders written by ``to_mds`` are restored to the same tensors. Compressed shards are read, too
    (``zstd``, ``gz``, ``bz2``, ``br``, ``snappy``).

    Args:
        src: The folder of ``index.json``, by path or URL.
        dst: Path or URL of the dataset.
        schema: Types by column; they override those of the encodings.
        key: The column whose value names a row; None: rows are known by position, so that a later
            call may find more shards at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: It is not MDS, or damaged; the message names the shard and the row.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-mds", {"x": "int64", "name": tl.Text()})
        >>> ds.extend({"x": [1, 2], "name": ["one", "two"]})
        >>> ds.to_mds("mds")
        >>> tl.ingest.mds("mds", "memory://doc-mds-in")["name"][:]
        ['one', 'two']
        >>> ds.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    folder, index = read_index(src, files, "MDS")
    try:
        described = [dict(one) for one in index["shards"]]
        shards = [_shard(folder, one, files) for one in described]
        columns = [_columns(one) for one in described]
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        place = public_url(folder)
        raise InvalidInputError(
            f"the index of {place!r} is not MDS: {error!r}", src=place
        ) from error
    if not shards:
        raise InvalidInputError(f"the index of {public_url(folder)!r} has no shards")
    different = next((at for at, one in enumerate(columns) if one != columns[0]), None)
    if different is not None:
        raise InvalidInputError(
            f"{public_url(shards[different].path)!r} has other columns than the first shard"
            "\ningest such shards apart, each with an index of its own",
            src=public_url(shards[different].path),
        )
    sizes = [size for _, _, size in columns[0]]
    reader = ShardReader(files, sizes, [at for at, size in enumerate(sizes) if size is None])
    return ingest_shards(
        "mds",
        shards,
        reader,
        {name: encoding for name, encoding, _ in columns[0]},
        _field,
        dst,
        options,
        files=files,
        src=src,
        folder=folder,
        schema=schema,
        key=key,
    )


def _columns(shard: Mapping[str, Any]) -> list[tuple[str, str, int | None]]:
    """Return name, encoding and size of each column of a shard."""
    parts = (shard["column_names"], shard["column_encodings"], shard["column_sizes"])
    columns = [
        (str(name), str(encoding), int(size or 0) or None)
        for name, encoding, size in zip(*parts, strict=True)
    ]
    if any(size is not None and size < 0 for _, _, size in columns):
        raise ValueError("a column has a negative size")
    return columns


def _shard(folder: str, described: Mapping[str, Any], files: SourceFiles) -> Shard:
    if described["format"] != "mds" or described["version"] != 2:  # noqa: PLR2004 - of the format
        raise ValueError(f"{described['format']} of version {described['version']}")
    raw, packed = described["raw_data"], described.get("zip_data")
    rows, nbytes = int(described["samples"]), int(raw["bytes"])
    if rows < 0 or 4 * (rows + 2) > nbytes:
        raise ValueError(f"a shard of {nbytes:,} bytes has {rows:,} rows")
    path = shard_path(folder, raw["basename"])
    if not packed or files.nbytes(path) is not None:
        return Shard(path, rows, nbytes)
    algorithm = str(described["compression"]).partition(":")[0]
    if algorithm not in _CODECS:
        raise ValueError(f"the compression {algorithm!r} is unknown")
    return Shard(shard_path(folder, packed["basename"]), rows, nbytes, _CODECS[algorithm])


def _field(name: str, encoding: str, first: bytes) -> tuple[SampleType, Decoder]:
    """Return type and decoder of a column.

    Args:
        name: The column, for errors.
        encoding: Its encoding.
        first: A value, for what the encoding leaves open.
    """
    base, _, rest = encoding.partition(":")
    match base:
        case "bytes":
            return Bytes(), bytes
        case "str":
            return Text(), bytes
        case "json":
            return Json(), bytes
        case "jpeg" | "png":
            return Image(base), bytes
        case "int":
            return _number("int64")
        case "str_int":
            return Scalar("int64"), lambda content: int(content.decode())
        case "str_float":
            return Scalar("float64"), lambda content: float(content.decode())
        case "str_decimal":
            return Text(), bytes
        case "ndarray":
            return _array(name, rest, first)
        case "pil":
            mode = _first(name, pil_pixels, first)[0] if first else "RGB"
            return Image("png", cast("Any", PIL_MODES[mode])), lambda content: pil_pixels(content)[
                1
            ]
        case "list[jpeg]" | "list[png]" | "list[pil]":
            return image_list(base[5:-1], 4)
        case "jpeg_array" | "jpegarray":
            return image_list("jpeg", 0)
        case _ if base in _NUMBERS:
            return _number(base)
        case _:
            pass
    why = "would run any code when it is unpickled" if base == "pkl" else "is unknown"
    raise InvalidInputError(
        f"the encoding {encoding!r} of {name!r} {why}\nread such rows by MosaicML's library, and"
        " ingest them: tl.ingest.torch(StreamingDataset(…), url)",
        tensor=name,
        actual=encoding,
    )


def _first(name: str, function: Any, content: bytes) -> Any:
    try:
        return function(content)
    except (ValueError, IndexError) as error:
        message = f"the first row of {name!r} cannot be read: {error}"
        raise InvalidInputError(message, tensor=name) from error


def _number(name: str) -> tuple[SampleType, Decoder]:
    return Scalar(name), PackedNumbers(np.dtype(name).newbyteorder("<"), ())


def _array(name: str, configured: str, first: bytes) -> tuple[SampleType, Decoder]:
    """Return type and decoder of arrays: ``dtype`` and ``shape`` may be fixed, or in each value."""
    text, _, axes = configured.partition(":")
    if text and text not in _NUMBERS:
        raise InvalidInputError(f"{name!r} has arrays of {text!r}", tensor=name, actual=text)
    try:
        shape = tuple(map(int, axes.split(","))) if axes else None
    except ValueError as error:
        raise InvalidInputError(f"{name!r} has arrays of shape {axes!r}", tensor=name) from error

    def decode(content: bytes) -> np.ndarray:
        at, dtype = 0, text
        if not text:
            at, dtype = 1, _DTYPES.get(content[0] if content else 0, "")
            if not dtype:
                raise ValueError("an array has an unknown dtype")
        own = shape
        if own is None:
            head = content[at] if len(content) > at else 0
            lengths = np.dtype(_SHAPE_DTYPES[head & 3])
            at, stop = at + 1, at + 1 + (head >> 2) * lengths.itemsize
            if stop > len(content):
                raise ValueError("an array is cut off")
            own, at = tuple(np.frombuffer(content[at:stop], lengths).tolist()), stop
        return array_of(content[at:], np.dtype(dtype).newbyteorder("<"), own)

    if shape is not None and text:
        return Array(text, shape), PackedNumbers(np.dtype(text).newbyteorder("<"), shape)
    seen = _first(name, decode, first) if first else np.zeros(0)
    return Array(text or seen.dtype, shape or (None,) * seen.ndim), decode
