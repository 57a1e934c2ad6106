"""PCD, the Point Cloud Library's format (version 0.7): ASCII, binary, and compressed by LZF."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from tensorlake.errors import missing_extra
from tensorlake.quantities import human_nbytes
from tensorlake.types.points.cloud import MAX_FIELD_LENGTH, MAX_FIELDS

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["is_pcd", "read_pcd_columns"]

_MAX_HEADER = 1 << 16
_KINDS = {"I": "i", "U": "u", "F": "f"}
_SIZES = (1, 2, 4, 8)
_NEEDED = ("FIELDS", "SIZE", "TYPE", "DATA")
_STARTS = (b"# .PCD", b"VERSION", b"FIELDS")
_PADDING = "_"


def is_pcd(content: Buffer) -> bool:
    """Whether the first bytes are those of a PCD file."""
    return bytes(memoryview(content)[:7]).startswith(_STARTS)


def read_pcd_columns(content: Buffer, *, limit: int) -> dict[str, np.ndarray]:
    """Return the fields of a file; compressed ones may have at most `limit` bytes.

    Raises:
        ValueError: It is damaged or cut, or promises more.
    """
    view = memoryview(content)
    given, start = _header(bytes(view[:_MAX_HEADER]))
    names, dtypes, lengths = _fields(given)
    count = _count(given)
    body = view[start:]
    per_point = sum(one.itemsize * length for one, length in zip(dtypes, lengths, strict=True))
    form = given["DATA"][0].lower() if given["DATA"] else ""
    if form == "ascii":
        arrays = _read_lines(body, count, dtypes, lengths)
    elif form == "binary":
        if count * per_point > len(body):
            raise ValueError(
                f"promises {count:,} points of {per_point} bytes, and has {len(body):,}"
            )
        table = np.frombuffer(body, np.uint8, count * per_point).reshape(count, per_point)
        ends = np.cumsum([one.itemsize * n for one, n in zip(dtypes, lengths, strict=True)])
        pieces = np.split(table, ends[:-1], axis=1)
        arrays = [
            np.ascontiguousarray(piece).view(one) for piece, one in zip(pieces, dtypes, strict=True)
        ]
    elif form == "binary_compressed":
        arrays = _decompress(body, count, per_point, dtypes, lengths, limit)
    else:
        raise ValueError(f"its data are {form!r}: ascii, binary or binary_compressed are read")
    columns: dict[str, np.ndarray] = {}
    for name, array, length in zip(names, arrays, lengths, strict=True):
        if name == _PADDING:
            continue
        if name in columns:
            raise ValueError(f"it has two fields {name!r}")
        shaped = array.reshape(count, length)
        columns[name] = shaped[:, 0] if length == 1 else shaped
    return columns


def _header(head: bytes) -> tuple[dict[str, list[str]], int]:
    given: dict[str, list[str]] = {}
    at = 0
    while "DATA" not in given:
        stop = head.find(b"\n", at)
        if stop < 0:
            raise ValueError(f"its header has no line DATA within {_MAX_HEADER:,} bytes")
        try:
            words = head[at:stop].decode("ascii").split()
        except UnicodeDecodeError as error:
            raise ValueError(f"its header is not ASCII: {error}") from error
        at = stop + 1
        if words and not words[0].startswith("#"):
            given[words[0].upper()] = words[1:]
    missing = [name for name in _NEEDED if name not in given]
    if missing:
        raise ValueError(f"its header has no line {missing[0]}")
    return given, at


def _fields(given: dict[str, list[str]]) -> tuple[list[str], list[np.dtype], list[int]]:
    names, sizes, kinds = given["FIELDS"], given["SIZE"], given["TYPE"]
    lengths = given.get("COUNT", ["1"] * len(names))
    if not 0 < len(names) <= MAX_FIELDS or {len(sizes), len(kinds), len(lengths)} != {len(names)}:
        raise ValueError(f"its header has {len(names):,} fields, {len(sizes):,} sizes, …")
    dtypes: list[np.dtype] = []
    for name, size, kind, length in zip(names, sizes, kinds, lengths, strict=True):
        is_size = size.isdigit() and int(size) in _SIZES and (kind != "F" or int(size) > 1)
        if kind not in _KINDS or not is_size or not _is_count(length, MAX_FIELD_LENGTH):
            raise ValueError(f"its field {name!r} is {kind} of {size} bytes, {length} times")
        dtypes.append(np.dtype(f"<{_KINDS[kind]}{size}"))
    return names, dtypes, [int(one) for one in lengths]


def _is_count(text: str, most: int) -> bool:
    return text.isdigit() and len(text) < 20 and 1 <= int(text) < most  # noqa: PLR2004 - digits of 64 bits


def _count(given: dict[str, list[str]]) -> int:
    numbers: dict[str, int] = {}
    for name in ("WIDTH", "HEIGHT", "POINTS"):
        words = given.get(name)
        if words is None:
            continue
        if len(words) != 1 or not words[0].isdigit() or len(words[0]) > 15:  # noqa: PLR2004 - 2^48
            raise ValueError(f"its header has {name} {' '.join(words)[:40]}")
        numbers[name] = int(words[0])
    product = (
        numbers["WIDTH"] * numbers["HEIGHT"] if {"WIDTH", "HEIGHT"} <= numbers.keys() else None
    )
    points = numbers.get("POINTS", product)
    if points is None or product not in (None, points):
        raise ValueError(f"its header has {points} points, and width × height {product}")
    return points


def _read_lines(
    body: memoryview, count: int, dtypes: list[np.dtype], lengths: list[int]
) -> list[np.ndarray]:
    if 2 * count * sum(lengths) > len(body) + 1:  # a digit and a separator each
        raise ValueError(f"its header promises {count:,} points, and it has {len(body):,} bytes")
    table = np.dtype(
        [(f"f{at}", one, (n,)) for at, (one, n) in enumerate(zip(dtypes, lengths, strict=True))]
    )
    if not count:
        made = np.empty(0, table)
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # as of no data
                made = np.loadtxt(
                    io.TextIOWrapper(io.BytesIO(body), "ascii"),
                    table,
                    max_rows=count,
                    ndmin=1,
                    comments=None,
                )
        except (ValueError, UserWarning, OverflowError, DeprecationWarning) as error:
            raise ValueError(f"its points are not lines of numbers: {error}") from error
    if len(made) != count:
        raise ValueError(f"its header promises {count:,} points, and it has {len(made):,}")
    return [made[f"f{at}"] for at in range(len(dtypes))]


def _decompress(
    body: memoryview,
    count: int,
    per_point: int,
    dtypes: list[np.dtype],
    lengths: list[int],
    limit: int,
) -> list[np.ndarray]:
    if len(body) < 8:  # noqa: PLR2004 - two sizes
        raise ValueError("it has no compressed points")
    stored, plain = (int(one) for one in np.frombuffer(body[:8], "<u4"))
    if stored > len(body) - 8:
        raise ValueError(f"promises {stored:,} compressed bytes, and has {len(body) - 8:,}")
    if plain != count * per_point:
        raise ValueError(f"{count:,} points of {per_point} bytes, compressed from {plain:,}")
    if plain > limit:
        raise ValueError(f"{len(body):,} bytes promise {human_nbytes(plain)} of points")
    if not plain:
        data = b""
    else:
        try:
            import imagecodecs
        except ModuleNotFoundError as error:
            raise missing_extra("reading compressed PCD", "media") from error

        try:
            data = imagecodecs.lzf_decode(bytes(body[8 : 8 + stored]), out=plain)
        except (imagecodecs.LzfError, ValueError, RuntimeError) as error:
            raise ValueError(f"its points cannot be decompressed: {error}") from error
    if len(data) != plain:
        raise ValueError(f"its points decompress to {len(data):,} bytes, not {plain:,}")
    arrays, at = list[np.ndarray](), 0
    for dtype, length in zip(dtypes, lengths, strict=True):  # one field after another
        arrays.append(np.frombuffer(data, dtype, count * length, at))
        at += count * length * dtype.itemsize
    return arrays
