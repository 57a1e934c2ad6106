"""Codecs: arrays to bytes and back, written as Zarr v3 codec JSON.

A pipeline is a tuple of codecs, applied in order:

    {"name": "bytes", "configuration": {"endian": "little"}}            always the first; C order
                                                                        (no endian at one byte)
    {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}  at most one, before
    {"name": "blosc", "configuration": {"cname", "clevel", "shuffle", "typesize", "blocksize"}}
    {"name": "zstd", "configuration": {"level", "checksum"}}            at most one of these two

An empty array is zero bytes in any pipeline. A decoder trusts no size in its input: it is given the
number of decoded bytes, and raises an error before it allocates any other number.
Blosc reads past the end of damaged input, so callers verify a checksum first.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np

from tensorlake.errors import SchemaError
from tensorlake.quantities import is_whole_number
from tensorlake.types import Buffer, SampleType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "Codec",
    "decode",
    "decode_into",
    "default_codecs",
    "encode",
    "is_raw",
    "parse_codecs",
    "raw_codecs",
]

Codec = dict[str, Any]  # Any: a codec's JSON

# From this size on, samples of fixed shape are stored raw: rows can be addressed, verified and
# memory-mapped alone (design: format.md, Chunks).
RAW_SAMPLE_NBYTES = 256
# c-blosc takes at most 2³¹ − 1 bytes less its overhead; larger payloads are stored uncompressed.
MAX_COMPRESSED_NBYTES = 2**31 - 1 - 16
# A number or two, of a commit of one row: Blosc's header alone is as long.
GROWING_NBYTES = 16

_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_BLOSC_NAMES = ("lz4", "lz4hc", "zstd", "zlib", "blosclz")
_BLOSC_HEADER_NBYTES = 16
_MAX_TYPESIZE = 255
_BLOSC_MAX_LEVEL, _ZSTD_MAX_LEVEL = 9, 22
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SHORT_FORMS = ("raw", "lz4", "zstd")


def encode(values: np.ndarray, codecs: Sequence[Mapping[str, Any]]) -> Buffer:
    """Encode an array; a raw pipeline of little-endian values in C order copies nothing."""
    little = values.dtype.newbyteorder("<")
    plain = np.ascontiguousarray(values, dtype=little).reshape(-1)
    if plain.size == 0 or plain.dtype.itemsize == 0:
        return b""
    data: Any = plain.view(np.uint8).data
    for codec in codecs[1:]:
        configuration = codec["configuration"]
        match codec["name"]:
            case "numcodecs.shuffle":
                data = numcodecs.Shuffle(configuration["elementsize"]).encode(data)
            case "blosc":
                itemsize = configuration["typesize"]
                whole = len(data) % itemsize == 0
                typed = np.frombuffer(data, dtype=np.dtype((np.void, itemsize)) if whole else "u1")
                data = _blosc(configuration).encode(typed)
            case _:
                data = _zstd(configuration).encode(data)
    return memoryview(data)


def decode(
    data: Buffer,
    codecs: Sequence[Mapping[str, Any]],
    dtype: np.dtype,
    shape: Sequence[int],
) -> np.ndarray:
    """Decode an array of known dtype and shape; a raw pipeline gives a view of `data`.

    Raises:
        ValueError: The bytes are not such an array; the caller knows where they came from.
    """
    little = dtype.newbyteorder("<")
    count = math.prod(shape)
    nbytes = count * little.itemsize
    if not nbytes:
        if len(data):
            raise ValueError(f"{len(data)} bytes for an empty array")
        return np.zeros(shape, dtype=little)
    plain = _plain(data, codecs, nbytes)
    return np.frombuffer(plain, dtype=little).reshape(shape)


def decode_into(data: Buffer, codecs: Sequence[Mapping[str, Any]], values: np.ndarray) -> None:
    """Decode an array of known dtype and shape into an existing one of little-endian values.

    Args:
        data: The bytes.
        codecs: Their pipeline.
        values: The destination; C-contiguous. Its content is undefined after an error.

    Raises:
        ValueError: The bytes are not such an array; the caller knows where they came from.
    """
    if not values.nbytes:
        if len(data):
            raise ValueError(f"{len(data)} bytes for an empty array")
        return
    memory = values.reshape(-1).view(np.uint8)
    plain = _plain(data, codecs, memory.nbytes, into=memory)
    if len(codecs) == 1:
        memory[:] = np.frombuffer(plain, np.uint8)


def _plain(
    data: Buffer,
    codecs: Sequence[Mapping[str, Any]],
    nbytes: int,
    *,
    into: np.ndarray | None = None,
) -> Any:
    """Undo all codecs but the first, the last of them into given memory, if any."""
    plain: Any = data
    for codec in reversed(codecs[1:]):
        memory = into if codec is codecs[1] else None
        try:
            match codec["name"]:
                case "numcodecs.shuffle":
                    if len(plain) != nbytes:  # it would trust this, and write past the end
                        raise ValueError(f"{len(plain):,} bytes instead of {nbytes:,}")
                    size = codec["configuration"]["elementsize"]
                    plain = numcodecs.Shuffle(size).decode(plain, memory)
                case "blosc":
                    _check_blosc(plain, nbytes)
                    plain = _blosc(codec["configuration"]).decode(plain, memory)
                case _:
                    _check_zstd(plain, nbytes)
                    plain = _zstd(codec["configuration"]).decode(plain, memory)
        except RuntimeError as error:  # what numcodecs raises for damage
            raise ValueError(str(error)) from error
    if len(plain) != nbytes:
        raise ValueError(f"{len(plain):,} bytes instead of {nbytes:,}")
    return plain


def is_raw(codecs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a pipeline leaves bytes unchanged."""
    return len(codecs) == 1


def raw_codecs(dtype: np.dtype | None) -> tuple[Codec, ...]:
    """Return the pipeline that stores the elements themselves (None: bytes unchanged)."""
    if dtype is None or dtype.itemsize == 1:
        return ({"name": "bytes"},)
    return ({"name": "bytes", "configuration": {"endian": "little"}},)


def default_codecs(sample_type: SampleType) -> tuple[Codec, ...]:
    """Choose the pipeline of a tensor of this type.

    Raw: media, embeddings, and samples of fixed shape from 256 bytes on. Else small integers are
    packed by bits, 64-bit integers and floats by bytes, masks and text by zstd.
    """
    dtype = sample_type.dtype
    if sample_type.codec_default == "raw":
        return raw_codecs(None if sample_type.layout == "encoded" else dtype)
    if dtype is None or sample_type.layout == "encoded":
        return (*raw_codecs(None), _zstd_json())
    if sample_type.layout == "uniform":
        elements = math.prod(length or 0 for length in sample_type.shape)
        if elements * dtype.itemsize >= RAW_SAMPLE_NBYTES:
            return raw_codecs(dtype)
    if dtype.kind == "b":
        return (*raw_codecs(dtype), _blosc_json(dtype, "zstd", "bitshuffle"))
    packs_bits = dtype.kind in "iu" and dtype.itemsize < np.dtype(np.int64).itemsize
    return (
        *raw_codecs(dtype),
        _blosc_json(dtype, "lz4", "bitshuffle" if packs_bits else "shuffle"),
    )


def parse_codecs(
    value: str | Iterable[Mapping[str, Any]], dtype: np.dtype | None
) -> tuple[Codec, ...]:
    """Return the pipeline that a user or a stored schema names.

    A str is a short form: "raw", "lz4" or "zstd".

    Raises:
        SchemaError: A codec is unknown, or out of place.
    """
    if isinstance(value, str):
        if value not in _SHORT_FORMS:
            raise SchemaError(
                f"{value!r} is not a codec\nuse one of {', '.join(map(repr, _SHORT_FORMS))},"
                " or a list of Zarr v3 codecs",
                actual=value,
            )
        if value == "raw":
            return raw_codecs(dtype)
        if dtype is None:
            return (*raw_codecs(None), _zstd_json())
        return (*raw_codecs(dtype), _blosc_json(dtype, value, "shuffle"))
    codecs = tuple(dict(codec) for codec in value)
    names = [codec.get("name") for codec in codecs]
    order = [name for name in ("bytes", "numcodecs.shuffle", "blosc", "zstd") if name in names]
    if not names or names[0] != "bytes" or names != order or {"blosc", "zstd"} <= set(names):
        raise SchemaError(
            f"the codecs {names!r} are not a pipeline of this version"
            "\nuse 'bytes', then 'numcodecs.shuffle' if wanted, then one of 'blosc' and 'zstd'",
            actual=names,
        )
    for codec in codecs:
        problem = _problem(codec)
        if problem:
            raise SchemaError(
                f"the codec {codec!r} is invalid: {problem}\nwrite it as Zarr v3 does", actual=codec
            )
    return codecs


def _problem(codec: Codec) -> str | None:
    configuration = codec.get("configuration", {})
    if not isinstance(configuration, dict):
        return "its configuration is not an object"
    level, size = configuration.get("clevel"), configuration.get("typesize")
    match codec["name"]:
        case "bytes":
            good = configuration.get("endian", "little") == "little"
            return None if good else "only little-endian is stored"
        case "numcodecs.shuffle":
            size = configuration.get("elementsize")
            return None if _within(size, 1, _MAX_TYPESIZE) else "elementsize is 1 … 255"
        case "blosc":
            if configuration.get("cname") not in _BLOSC_NAMES:
                return f"cname is one of {', '.join(_BLOSC_NAMES)}"
            if configuration.get("shuffle") not in _SHUFFLES:
                return f"shuffle is one of {', '.join(_SHUFFLES)}"
            good = _within(level, 0, _BLOSC_MAX_LEVEL) and _within(size, 1, _MAX_TYPESIZE)
            return None if good else "clevel is 0 … 9, typesize 1 … 255"
        case _:
            level = configuration.get("level")
            return None if _within(level, -7, _ZSTD_MAX_LEVEL) else "level is -7 … 22"


def _within(value: object, low: int, high: int) -> bool:
    return is_whole_number(value) and low <= value <= high


def _blosc_json(dtype: np.dtype, cname: str, shuffle: str) -> Codec:
    return {
        "name": "blosc",
        "configuration": {
            "cname": cname,
            "clevel": 5,
            "shuffle": shuffle,
            "typesize": dtype.itemsize,
            "blocksize": 0,
        },
    }


def _zstd_json() -> Codec:
    return {"name": "zstd", "configuration": {"level": 3, "checksum": False}}


def _blosc(configuration: Mapping[str, Any]) -> Any:
    shuffle = _SHUFFLES[configuration["shuffle"]]
    blocksize = configuration.get("blocksize", 0)
    return _blosc_codec(configuration["cname"], configuration["clevel"], shuffle, blocksize)


_blosc_codec = lru_cache(maxsize=64)(numcodecs.Blosc)  # making one takes as long as 8 kB do


def _zstd(configuration: Mapping[str, Any]) -> Any:
    return numcodecs.Zstd(
        level=configuration["level"], checksum=configuration.get("checksum", False)
    )


def _check_blosc(data: Buffer, nbytes: int) -> None:
    """Compare the sizes in a Blosc header: bytes 4–8 decoded, 12–16 the whole buffer."""
    if len(data) < _BLOSC_HEADER_NBYTES:
        raise ValueError("a Blosc buffer without its header")
    decoded, stored = int.from_bytes(data[4:8], "little"), int.from_bytes(data[12:16], "little")
    if decoded != nbytes or stored != len(data):
        raise ValueError(
            f"Blosc: {stored:,} bytes for {decoded:,}, not {len(data):,} for {nbytes:,}"
        )


def _check_zstd(data: Buffer, nbytes: int) -> None:
    """Compare the content size in a Zstandard frame header (RFC 8878, 3.1.1.1)."""
    head = bytes(data[:18])
    if head[:4] != _ZSTD_MAGIC or len(head) < len(_ZSTD_MAGIC) + 1:
        raise ValueError("no Zstandard frame")
    descriptor = head[4]
    is_single, dictionary = descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
    form = descriptor >> 6
    size = (is_single, 2, 4, 8)[form]
    start = 5 + (1 - is_single) + dictionary
    content = int.from_bytes(head[start : start + size], "little") + (256 if form == 1 else 0)
    if not size or content != nbytes:
        raise ValueError(f"Zstandard: a frame of {content:,} bytes instead of {nbytes:,}")
