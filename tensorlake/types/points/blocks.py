"""The stored form of a point cloud: a preamble and blocks of points, each a part of the sample.

    "TLPOINT1" │ head length u32 │ head │ block 0 │ block 1 │ …

    head     MessagePack: fields, number of points, points of a block, bounds of all and of each
             block, and the origin of float32 coordinates
    block    column lengths u32 each │ columns, shuffled and compressed by Zstandard

Numbers are little-endian. Blocks are in the order of `levels`; the last block of each level holds
the rest of it. Integer coordinates are stored as differences from point to point. The map in the
chunk's header has the head, so that reading points needs their blocks only; bytes alone, as
exported, are a complete sample.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tensorlake.types.base.column import SampleMap
from tensorlake.types.points.cloud import (
    AXES,
    MAX_FIELD_LENGTH,
    MAX_FIELDS,
    Cloud,
    Field,
    is_storable,
)
from tensorlake.types.points.levels import arrange, bounds_of, level_counts
from tensorlake.types.tiles import BLOSC_TILES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.parts import SampleParts

__all__ = ["MAGIC", "PointMap", "map_of_points", "read_blocks", "read_head", "store_points"]

MAGIC = b"TLPOINT1"
_PREAMBLE = struct.Struct("<8sI")
_VERSION = 1
_BLOCK_NBYTES = 1 << 15  # a box of 1/40 of an area reads 1/7 of it; of 64 KiB, 1/5; of 16, 1/10
_LEAST_BLOCK = 256
_KEPT_HEADS = 256  # the rows of a few batches, whose parts are planned, then decoded
_BOUNDS_NBYTES = 48  # float64 (2, 3)
_MAX_BLOCKS = 1 << 24
_FAR = 16
_PROJECTED = b"\x98"  # of MessagePack, an array of 8: a head with a projection


class _Head(msgspec.Struct, array_like=True, frozen=True):
    version: int
    fields: list[tuple[str, str, int, tuple[float, float] | None]]
    points: int
    block_points: int
    origin: tuple[float, float, float]
    bounds: bytes
    block_bounds: bytes


class _ProjectedHead(_Head, array_like=True, frozen=True):
    """A head with one member more; without it a head is as older versions wrote it."""

    projection: dict[int, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class PointMap:
    """The head of a sample, parsed.

    Attributes:
        fields: Its fields.
        points: Number of points.
        block_points: Points of a block, but for the last of each level.
        origin: The point that float32 coordinates are relative to, float64 (3,).
        bounds: Least and greatest finite coordinates, float64 (2, 3).
        starts: First point of each block, and the number of points: int64 (blocks + 1,).
        lows: Least coordinates in each block, float64 (blocks, 3).
        highs: Greatest ones.
        projection: Records of the coordinate reference system, by their number in LAS.
    """

    fields: tuple[Field, ...]
    points: int
    block_points: int
    origin: np.ndarray
    bounds: np.ndarray
    starts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    projection: Mapping[int, bytes]

    def field(self, name: str) -> Field | None:
        """Return the field of a name; None if there is none."""
        return next((one for one in self.fields if one.name == name), None)

    def blocks_in(self, low: np.ndarray, high: np.ndarray, stop: int) -> np.ndarray:
        """Return the numbers of the blocks before `stop` that a box may have points of."""
        meets = (self.lows[:stop] <= high).all(axis=1) & (self.highs[:stop] >= low).all(axis=1)
        return np.flatnonzero(meets)

    def blocks_before(self, points: int) -> int:
        """Return how many blocks the first points have."""
        return int(np.searchsorted(self.starts[:-1], points))


def store_points(cloud: Cloud) -> tuple[bytes, SampleMap]:
    """Arrange and encode a cloud; return the sample and its map.

    Raises:
        ValueError: It has too many blocks.
    """
    coordinates = cloud.coordinates()
    order = arrange(coordinates)
    coordinates = coordinates[order]
    columns = [column[order] for column in cloud.columns]
    per_point = sum(field.nbytes for field in cloud.fields)
    block_points = max(_LEAST_BLOCK, _BLOCK_NBYTES // per_point)
    starts = _starts(len(cloud), block_points)
    spans = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    if len(spans) > _MAX_BLOCKS:
        raise ValueError(
            f"{len(cloud):,} points are {len(spans):,} blocks; at most {_MAX_BLOCKS:,}"
        )
    bounds = [bounds_of(coordinates[start:stop]) for start, stop in spans]
    whole = np.stack(bounds_of(coordinates[np.isfinite(coordinates).all(axis=1)]))
    made = _Head(
        _VERSION,
        [(one.name, one.dtype.str, one.length, one.scaling) for one in cloud.fields],
        len(cloud),
        block_points,
        tuple(_origin(cloud, whole).tolist()),
        whole.astype("<f8").tobytes(),
        zlib.compress(np.array(bounds, "<f8").tobytes()),
    )
    if cloud.projection:
        known = msgspec.structs.asdict(made)
        made = _ProjectedHead(**known, projection=dict(cloud.projection))
    head = msgspec.msgpack.encode(made)
    preamble = _PREAMBLE.pack(MAGIC, len(head)) + head
    blocks = [
        _encode(cloud.fields, [column[start:stop] for column in columns]) for start, stop in spans
    ]
    return b"".join((preamble, *blocks)), SampleMap(
        head, np.cumsum([len(preamble), *map(len, blocks)])
    )


def _starts(points: int, block_points: int) -> np.ndarray:
    first, starts = 0, [np.zeros(0, np.int64)]
    for count in level_counts(points):
        starts.append(np.arange(first, count, block_points))
        first = count
    return np.concatenate([*starts, [points]])


def _origin(cloud: Cloud, bounds: np.ndarray) -> np.ndarray:
    """Return the origin of coordinates that float32 would not resolve: far ones of wider dtypes."""
    dtypes = [field.value_dtype for field in cloud.fields if field.name in AXES]
    is_wide = any(not np.can_cast(one, np.float32) for one in dtypes)
    if not is_wide or not np.isfinite(bounds).all():
        return np.zeros(3)
    with np.errstate(over="ignore"):
        extent = (bounds[1] - bounds[0]).max()
    return np.floor(bounds[0]) if np.abs(bounds).max() / _FAR > extent else np.zeros(3)


def _is_delta(field: Field) -> bool:
    return field.name in AXES and field.dtype.kind in "iu"


def _encode(fields: Sequence[Field], columns: Sequence[np.ndarray]) -> bytes:
    made: list[bytes] = []
    for field, column in zip(fields, columns, strict=True):
        stored = column
        if _is_delta(field):
            unsigned = column.view(f"<u{field.dtype.itemsize}")  # whose differences wrap around
            stored = np.diff(unsigned, prepend=unsigned.dtype.type(0))
        made.append(BLOSC_TILES.encode(stored))
    lengths = np.array([len(one) for one in made], "<u4")
    return b"".join((lengths.tobytes(), *made))


def _decode(
    block: Buffer, fields: Sequence[Field], wanted: Sequence[int], into: Sequence[np.ndarray]
) -> None:
    view = memoryview(block)
    table = 4 * len(fields)
    if len(view) < table:
        raise ValueError(f"a block of {len(view)} bytes")
    ends = np.cumsum([table, *np.frombuffer(view[:table], "<u4").tolist()]).tolist()
    if ends[-1] != len(view):
        raise ValueError("the columns of a block are not those of its table")
    for place, column in zip(wanted, into, strict=True):
        field = fields[place]
        data = view[ends[place] : ends[place + 1]]
        if _is_delta(field):
            stored = np.empty(column.shape, f"<u{field.dtype.itemsize}")
            BLOSC_TILES.decode(data, stored)
            np.cumsum(stored, dtype=stored.dtype, out=column.view(stored.dtype))
        else:
            BLOSC_TILES.decode(data, column)


@lru_cache(_KEPT_HEADS)
def read_head(head: bytes) -> PointMap:
    """Parse the head of a sample.

    Raises:
        ValueError: It is damaged, or of a newer version.
    """
    try:
        read = msgspec.msgpack.decode(head, type=_Head)
        is_longer = head[:1] == _PROJECTED
        projected = msgspec.msgpack.decode(head, type=_ProjectedHead) if is_longer else None
    except msgspec.MsgspecError as error:
        raise ValueError(f"its map is damaged: {error}") from error
    if read.version != _VERSION:
        raise ValueError(f"its map is of version {read.version}, not {_VERSION}")
    if not (0 <= read.points < 1 << 48 and 0 < read.block_points < 1 << 48):
        raise ValueError(f"{read.points:,} points in blocks of {read.block_points:,}")
    if not 0 < len(read.fields) <= MAX_FIELDS or len(read.bounds) != _BOUNDS_NBYTES:
        raise ValueError("its map is damaged: its fields or bounds")
    if read.points // read.block_points > _MAX_BLOCKS:
        raise ValueError(f"{read.points:,} points in blocks of {read.block_points:,}")
    starts = _starts(read.points, read.block_points)
    try:
        plain = zlib.decompressobj().decompress(
            read.block_bounds, _BOUNDS_NBYTES * (len(starts) - 1) + 1
        )
    except zlib.error as error:
        raise ValueError(f"its map is damaged: {error}") from error
    if len(plain) != _BOUNDS_NBYTES * (len(starts) - 1):
        raise ValueError("its map has the bounds of other blocks")
    blocks = np.frombuffer(plain, "<f8").reshape(-1, 2, 3)
    return PointMap(
        tuple(_field(*one) for one in read.fields),
        read.points,
        read.block_points,
        np.array(read.origin),
        np.frombuffer(read.bounds, "<f8").reshape(2, 3),
        starts,
        blocks[:, 0],
        blocks[:, 1],
        {} if projected is None else projected.projection,
    )


def _field(name: str, kind: str, length: int, scaling: tuple[float, float] | None) -> Field:
    try:
        dtype = np.dtype(kind)
    except TypeError as error:
        raise ValueError(f"its field {name!r} is damaged: {error}") from error
    if not is_storable(dtype) or not 0 <= length < MAX_FIELD_LENGTH:
        raise ValueError(f"its field {name!r} is {kind} of length {length}")
    return Field(name, dtype, length, scaling)


def map_of_points(sample: Buffer) -> SampleMap:
    """Make the map of a stored sample from its bytes.

    Raises:
        ValueError: It is not one.
    """
    view = memoryview(sample)
    if len(view) < _PREAMBLE.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise ValueError("its first bytes are not those of a stored point cloud")
    _, head_nbytes = _PREAMBLE.unpack_from(view)
    first = _PREAMBLE.size + head_nbytes
    if first > len(view):
        raise ValueError("its head is longer than the sample")
    head = bytes(view[_PREAMBLE.size : first])
    known = read_head(head)
    cuts, table = [first], 4 * len(known.fields)
    for _ in range(len(known.starts) - 1):
        lengths = view[cuts[-1] : cuts[-1] + table]
        if len(lengths) < table:
            raise ValueError("it ends before its last block")
        cuts.append(cuts[-1] + table + int(np.frombuffer(lengths, "<u4").sum(dtype=np.int64)))
        if cuts[-1] > len(view):
            raise ValueError("it ends before its last block")
    if cuts[-1] != len(view):
        raise ValueError(f"{len(view) - cuts[-1]:,} bytes follow its last block")
    return SampleMap(head, np.array(cuts))


def read_blocks(
    sample: SampleParts, known: PointMap, blocks: np.ndarray, names: Sequence[str]
) -> list[np.ndarray]:
    """Decode the stored columns of some fields from some blocks, one after another.

    Raises:
        ValueError: A block cannot be decoded, or was not fetched.
    """
    if sample.map.num_parts != len(known.starts):
        raise ValueError(f"{sample.map.num_parts:,} parts, where {len(known.starts):,} should be")
    own = [one.name for one in known.fields]
    wanted = [own.index(name) for name in names]
    counts = np.diff(known.starts)[blocks]
    ends = np.concatenate([[0], np.cumsum(counts)]).tolist()
    made = [np.empty(known.fields[at].shape(ends[-1]), known.fields[at].dtype) for at in wanted]
    for block, start, stop in zip(blocks.tolist(), ends[:-1], ends[1:], strict=True):
        part = sample.read(*sample.map.span(block + 1))  # the preamble is the first part
        _decode(part, known.fields, wanted, [column[start:stop] for column in made])
    return made
