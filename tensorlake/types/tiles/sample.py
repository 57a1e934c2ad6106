"""A tiled sample: its tiles, encoded one after another, and a table of them at its end.

    tile 0 │ tile 1 │ … │ lengths u64 each │ head │ head length u32 │ lengths u64 │ "TLTILES1"

    head    JSON: {"codec": "zstd", "dtype": "uint16", "shape": [4000, 6000], "tiles": [256, 256]},
            of masks also "classes" (``classes.py``); with "overview": [341, 512] a smaller image of
            these sides follows the tiles, encoded as they are (``overview.py``)

Numbers are little-endian. A tile is a part of the sample, as are overview and table: a region
reads its tiles only, and needs no table, because the map in the chunk's header has the head and
where tiles end. Bytes alone, as exported, are a complete sample.

    codec    a tile
    zstd     Blosc: shuffled elements in C order, compressed by Zstandard
    others   an image file of an image type's codec
"""

from __future__ import annotations

import json
import math
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.column import SampleMap
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.region import part_of
from tensorlake.types.tiles.box import box_of
from tensorlake.types.tiles.classes import ClassTable
from tensorlake.types.tiles.grid import MAX_TILES, TileGrid
from tensorlake.types.tiles.overview import Shrink, is_overview_of, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tensorlake.errors import InvalidInputError
    from tensorlake.types.base.column import Buffer
    from tensorlake.types.base.parts import SampleParts
    from tensorlake.types.base.region import Region
    from tensorlake.types.tiles.box import Box

__all__ = [
    "BLOSC_TILES",
    "TileCodec",
    "TileHead",
    "is_tiled",
    "parse_tiles",
    "read_overview",
    "read_region",
    "read_tiles",
    "store_tiles",
    "tile_map",
]

_MAGIC = b"TLTILES1"
_FOOTER = struct.Struct("<IQ8s")
_MAX_HEAD_NBYTES = 1 << 26  # most of it a table of classes
_MAX_NDIM = 32
_BLOSC_HEADER = struct.Struct("<4xIII")
_LEVEL, _FAST_LEVEL = 5, 1
_FAST_BLOCK_NBYTES = 256 << 10  # Blosc's own blocks at level 1 are so small that they compress less
_TRIED_TILES, _TILES_A_TRIAL = 3, 16
_WORTH = 0.95
"""Size at level 5, as a share of that at level 1, up to which level 5 is used: it takes five to
seven times as long. Scans, most of whose bytes are noise, gain 1 to 3 % by it, smooth voxels and
masks 13 to 35 % (decision 0584)."""

_THREADS_NBYTES = 4 << 20  # below, a sample takes less time than threads to begin
_RUNS_A_THREAD, _MOST_THREADS = 4, 16
_TOGETHER_NBYTES = 1 << 19  # decoded in a few times as long as a thread takes to begin

MAX_TILE_NBYTES = 256 << 20
"""Bytes of one decoded tile."""


class TileCodec(Protocol):
    """Encodes the tiles of a sample."""

    @property
    def name(self) -> str:
        """Its name in the head."""
        ...

    def encode(self, tile: np.ndarray) -> bytes:
        """Encode one tile."""
        ...

    def suited(self, tiles: Sequence[np.ndarray]) -> TileCodec:
        """Return the codec for a sample: one whose tiles this one decodes."""
        ...

    def decode(self, data: Buffer, tile: np.ndarray) -> None:
        """Decode one tile into an array of its shape; ValueError for any other bytes."""
        ...


@dataclass(frozen=True, slots=True)
class BloscTiles:
    """Shuffled elements, compressed by Zstandard.

    Attributes:
        level: Blosc's level, which decoding does not depend on.
    """

    level: int = _LEVEL

    @property
    def name(self) -> str:
        """Its name in the head, whatever the level."""
        return "zstd"

    def suited(self, tiles: Sequence[np.ndarray]) -> BloscTiles:
        """Return the fast level where some tiles, by which a sample is judged, gain little more."""
        count = min(_TRIED_TILES, len(tiles) // _TILES_A_TRIAL)
        tried = [tiles[len(tiles) * (2 * at + 1) // (2 * count)] for at in range(count)]
        fast = BloscTiles(_FAST_LEVEL)
        nbytes, fast_nbytes = (
            sum(len(codec.encode(one)) for one in tried) for codec in (self, fast)
        )
        return fast if nbytes > _WORTH * fast_nbytes else self

    def encode(self, tile: np.ndarray) -> bytes:
        """Encode one tile, in C order."""
        plain = np.ascontiguousarray(tile, tile.dtype.newbyteorder("<")).reshape(-1)
        typed = plain.view(np.dtype((np.void, plain.dtype.itemsize)))
        return bytes(_blosc(self.level).encode(typed))

    def decode(self, data: Buffer, tile: np.ndarray) -> None:
        """Decode one tile."""
        if len(data) < _BLOSC_HEADER.size:
            raise ValueError(f"{len(data)} bytes of a tile")
        nbytes, _, stored = _BLOSC_HEADER.unpack_from(data)
        if nbytes != tile.nbytes or stored != len(data):  # before anything is allocated
            raise ValueError(f"a tile of {nbytes:,} bytes, where {tile.nbytes:,} should be")
        stored = tile.dtype.newbyteorder("<")
        is_ready = tile.flags.c_contiguous and tile.dtype == stored and tile.size > 0
        plain = tile if is_ready else np.empty(tile.shape, stored)
        if plain.size:
            try:
                _blosc(self.level).decode(data, plain.reshape(-1).view(np.uint8))
            except RuntimeError as error:  # numcodecs raises it for damaged bytes
                raise ValueError(f"a tile cannot be decompressed ({error})") from error
        if plain is not tile:
            tile[...] = plain


BLOSC_TILES: Final[TileCodec] = BloscTiles()


@lru_cache(maxsize=2)
def _blosc(level: int) -> Any:
    import numcodecs

    block_nbytes = _FAST_BLOCK_NBYTES if level == _FAST_LEVEL else 0
    return numcodecs.Blosc("zstd", level, numcodecs.Blosc.SHUFFLE, block_nbytes)


@dataclass(frozen=True, slots=True)
class TileHead:
    """The head of a tiled sample.

    Attributes:
        codec: Name of the codec of its tiles.
        dtype: Dtype of its elements.
        grid: Its tiles.
        more: Bytes that a type records beside them; opaque.
        classes: Which classes the tiles of a mask have; None of other samples.
        overview: Height and width of the smaller image that follows the tiles; None without one.
    """

    codec: str
    dtype: np.dtype
    grid: TileGrid
    more: bytes = b""
    classes: ClassTable | None = field(default=None, repr=False)
    overview: tuple[int, int] | None = None

    @property
    def num_parts(self) -> int:
        """How many parts the sample has: tiles, overview, table."""
        return len(self.grid) + (self.overview is not None) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the decoded sample."""
        return self.grid.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded sample."""
        return math.prod(self.shape) * self.dtype.itemsize

    def to_bytes(self) -> bytes:
        """Write the head."""
        made = {
            "codec": self.codec,
            "dtype": self.dtype.name,
            "shape": list(self.grid.shape),
            "tiles": list(self.grid.tiles),
            **({"more": self.more.decode("latin-1")} if self.more else {}),
            **({} if self.classes is None else {"classes": self.classes.to_text()}),
            **({} if self.overview is None else {"overview": list(self.overview)}),
        }
        return json.dumps(made, separators=(",", ":")).encode()

    @classmethod
    @lru_cache(maxsize=64)
    def parse(cls, head: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            ValueError: It is not such a head.
        """
        try:
            read = json.loads(head)
            codec, dtype = str(read["codec"]), parse_dtype(read["dtype"])
            shape, tiles = tuple(read["shape"]), tuple(read["tiles"])
            more, classes = str(read.get("more", "")).encode("latin-1"), read.get("classes")
            sides = None if (small := read.get("overview")) is None else small
        except (KeyError, TypeError, ValueError, SchemaError, RecursionError) as error:
            raise ValueError(f"its head is not one of tiles ({error})") from error
        good = all(type(one) is int and 0 <= one < 1 << 48 for one in (*shape, *tiles))
        if not good or len(shape) != len(tiles) or 0 in tiles or len(shape) > _MAX_NDIM:
            raise ValueError(f"tiles of {tiles} over {shape}")
        grid = TileGrid(shape, tiles)
        if len(grid) > MAX_TILES:
            raise ValueError(f"{len(grid):,} tiles")
        if sides is not None and not is_overview_of(sides, shape):
            raise ValueError(f"an overview of {sides}")
        table = None if classes is None else ClassTable.parse(str(classes), grid)
        return cls(codec, dtype, grid, more, table, sides and (sides[0], sides[1]))


def store_tiles(
    values: np.ndarray,
    tiles: tuple[int, ...],
    codec: TileCodec,
    *,
    more: bytes = b"",
    has_classes: bool = False,
    shrink: Shrink | None = None,
) -> tuple[bytes, SampleMap]:
    """Encode an array by its tiles; return the sample and its map.

    Args:
        values: The array.
        tiles: Lengths of a tile.
        codec: Encodes them.
        more: Bytes that the type records beside them, in the head.
        has_classes: Whether values may be classes, of which the head gets a table.
        shrink: How a large sample's overview is made; None for none.

    Raises:
        ValueError: It has too many tiles.
    """
    grid = TileGrid(values.shape, tiles)
    if len(grid) > MAX_TILES:
        raise ValueError(f"{len(grid):,} tiles of {tiles}; at most {MAX_TILES:,} of a sample")
    is_mask = has_classes and np.can_cast(values.dtype, np.int64)
    classes = ClassTable.of(values, grid) if is_mask else None
    small = None if shrink is None else shrunk(values, shrink)
    sides = None if small is None else small.shape[:2]
    head = TileHead(codec.name, values.dtype, grid, more, classes, sides).to_bytes()
    starts, stops = (one.T.tolist() for one in grid.corners(np.arange(len(grid))))
    tiled = [values[tuple(map(slice, a, b))] for a, b in zip(starts, stops, strict=True)]
    encoded = _encoded(tiled, codec.suited(tiled), values.nbytes)
    if small is not None:
        encoded.append(codec.encode(small))
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    footer = _FOOTER.pack(len(head), len(encoded), _MAGIC)
    table = lengths.astype("<u8").tobytes() + head + footer
    return b"".join((*encoded, table)), SampleMap(head, np.cumsum([*lengths, len(table)]))


def _encoded(tiles: Sequence[np.ndarray], codec: TileCodec, nbytes: int) -> list[bytes]:
    """Encode tiles, those of a large sample in threads, which a codec leaves the interpreter to."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if nbytes < _THREADS_NBYTES or not cores or cores == 1:
        return _encode_run(codec, tiles)
    count = min(len(tiles), _RUNS_A_THREAD * cores)
    cuts = np.linspace(0, len(tiles), count + 1).astype(np.int64).tolist()
    runs = [tiles[start:stop] for start, stop in pairwise(cuts)]
    with ThreadPoolExecutor(min(cores, _MOST_THREADS), "tensorlake-tiles") as pool:
        return [one for run in pool.map(partial(_encode_run, codec), runs) for one in run]


def _encode_run(codec: TileCodec, tiles: Sequence[np.ndarray]) -> list[bytes]:
    return [codec.encode(tile) for tile in tiles]


def read_tiles(sample: SampleParts, head: TileHead, codec: TileCodec, box: Box) -> np.ndarray:
    """Decode a box of an array from the tiles over it.

    Raises:
        ValueError: A tile cannot be decoded, or was not fetched.
    """
    grid = head.grid
    if sample.map.num_parts != head.num_parts:
        raise ValueError(f"{sample.map.num_parts:,} parts, where {head.num_parts:,} should be")
    values = np.empty(box.shape, head.dtype)
    numbers = grid.over(box)
    tile_nbytes = math.prod(grid.tiles) * head.dtype.itemsize
    together = max(1, _TOGETHER_NBYTES // max(1, tile_nbytes))
    runs = [numbers[at : at + together] for at in range(0, len(numbers), together)]
    for _ in sample.each(partial(_place_tiles, sample, head, codec, box, values), runs):
        pass
    return values


def read_overview(sample: SampleParts, head: TileHead, codec: TileCodec) -> np.ndarray:
    """Decode the overview of a sample that has one.

    Raises:
        ValueError: It cannot be decoded, or was not fetched.
    """
    assert head.overview is not None
    if sample.map.num_parts != head.num_parts:
        raise ValueError(f"{sample.map.num_parts:,} parts, where {head.num_parts:,} should be")
    values = np.empty((*head.overview, *head.shape[2:]), head.dtype)
    codec.decode(sample.read(*sample.map.span(len(head.grid))), values)
    return values


def read_region(
    sample: SampleParts,
    head: TileHead,
    region: Region,
    codec: TileCodec,
    refused: Callable[[str], InvalidInputError],
) -> np.ndarray | np.generic:
    """Decode a region, given by NumPy's indices, from its tiles; keeps nothing else in memory.

    Raises:
        InvalidInputError: The array has no such region.
        ValueError: A tile cannot be decoded, or was not fetched.
    """
    box = box_of(head.shape, region, refused)
    values = read_tiles(sample, head, codec, box)
    part = part_of(values, box.inside, refused)
    return part.copy() if isinstance(part, np.ndarray) and part.nbytes < values.nbytes else part


def _place_tiles(
    sample: SampleParts,
    head: TileHead,
    codec: TileCodec,
    box: Box,
    values: np.ndarray,
    numbers: np.ndarray,
) -> None:
    """Decode tiles into the values of a box."""
    starts, stops = head.grid.corners(numbers)
    low = np.maximum(starts, np.array(box.starts, np.int64)[:, None])
    high = np.minimum(stops, np.array(box.stops, np.int64)[:, None])
    origin = np.array(box.starts, np.int64)[:, None]
    columns = (stops - starts, low - starts, high - starts, low - origin, high - origin)
    sides = zip(numbers.tolist(), *(one.T.tolist() for one in columns), strict=True)
    for number, shape, a, b, c, d in sides:
        part = values[tuple(map(slice, c, d))]
        is_whole = part.shape == tuple(shape)
        tile = part if is_whole else np.empty(shape, head.dtype)
        codec.decode(sample.read(*sample.map.span(number)), tile)
        if not is_whole:
            part[...] = tile[tuple(map(slice, a, b))]


def is_tiled(sample: Buffer) -> bool:
    """Whether bytes end as a tiled sample does."""
    return bytes(memoryview(sample)[-len(_MAGIC) :]) == _MAGIC


def tile_map(sample: Buffer) -> SampleMap:
    """Make the map of a tiled sample from the table at its end.

    Raises:
        ValueError: It is not a tiled sample.
    """
    view = memoryview(sample)
    if len(view) < _FOOTER.size:
        raise ValueError(f"{len(view)} bytes, which have no table of tiles")
    head_nbytes, count, magic = _FOOTER.unpack(view[-_FOOTER.size :])
    if magic != _MAGIC or count > MAX_TILES + 1 or head_nbytes > _MAX_HEAD_NBYTES:
        raise ValueError("it does not end in a table of tiles")
    table_nbytes = _FOOTER.size + head_nbytes + 8 * count
    if table_nbytes > len(view):
        raise ValueError("its table of tiles is longer than the sample")
    table = view[len(view) - table_nbytes :]
    lengths = np.frombuffer(table[: 8 * count], "<u8")
    if bool((lengths > len(view)).any()):
        raise ValueError("a tile is longer than the sample")
    ends = np.cumsum([*lengths.astype(np.int64).tolist(), table_nbytes])
    head = bytes(table[8 * count : 8 * count + head_nbytes])
    if int(ends[-1]) != len(view) or TileHead.parse(head).num_parts != count + 1:
        raise ValueError("its tiles are not those of its table")
    return SampleMap(head, ends)


def parse_tiles(tiles: Iterable[int], ndim: int, dtype: np.dtype, what: str) -> tuple[int, ...]:
    """Check the lengths of a tile that a user declared.

    Raises:
        SchemaError: There is not one above 0 for each axis, or a tile is too large.
    """
    try:
        lengths = tuple(tiles)
    except TypeError:
        lengths = ()
    if len(lengths) != ndim or not all(is_whole_number(one) and one > 0 for one in lengths):
        raise SchemaError(
            f"tiles={shown(tiles)} of {what}: give a length for each of its {ndim} axes,"
            f" such as {(256,) * min(ndim, 2) + (1,) * max(0, ndim - 2)}",
            actual=tiles,
        )
    nbytes = math.prod(lengths) * dtype.itemsize
    if nbytes > MAX_TILE_NBYTES:
        raise SchemaError(
            f"tiles={shown(tiles)} of {what}: a tile of {nbytes:,} bytes is larger than"
            f" {MAX_TILE_NBYTES:,}\ngive smaller tiles: some 100 kB are read at once",
            actual=tiles,
        )
    return tuple(int(one) for one in lengths)
