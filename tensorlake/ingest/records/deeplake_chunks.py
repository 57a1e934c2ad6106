"""Deep Lake, version 3: its folder of chunks, and the samples in them.

    version_control_info.json               the commit that each branch ends with, and its parents
    [versions/COMMIT/]dataset_meta.json     the tensors; the first commit is the folder itself
    [versions/COMMIT/]TENSOR/tensor_meta.json, tensor_info.json, chunks_index/unsharded
    [versions/COMMIT/]TENSOR/chunks/ID      a chunk, in the folder of the commit that wrote it

    table     u8 length, version · (bytes per number u8) · numbers
    chunk     u8 length, version · rows i32, columns i32 · shapes · rows u32 · places · samples
    shapes    sides of the sample, number of the last sample that has them      u32 each
    places    bytes of a sample, where the first one begins, the last of them   u32 each

A sample that is larger than a chunk is cut into tiles, a chunk each without places, in the order of
their first elements; those at its end are smaller. [versions/COMMIT/]TENSOR/tiles_index/unsharded:

    u8 length, version · samples in tiles, axes · number of the sample, its sides, a tile's   u64

Written from files that Deep Lake 3.9 makes; integers are little-endian. Links, and chunks
compressed as one image are refused.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url

__all__ = ["DeepLakeFolder", "DeepLakeTensor", "Sample", "TiledSample", "decompressed"]

FIRST_COMMIT = "firstdbf9474d461a19e9333c2fd19b46115348f"
"""The name of every dataset's first commit, whose files have no folder of their own."""

CHUNKS_IN_MEMORY = 16
DECOMPRESSED_NBYTES_MAX = 2 << 30

_U32 = np.dtype("<u4")
_U64 = np.dtype("<u8")
_TILES_HEAD = 2  # numbers before those of the samples
_FRAME = b"\x04\x22\x4d\x18"  # with which a frame of LZ4 begins


Sample = tuple[bytes, tuple[int, ...]]
"""The bytes of a sample, or of a tile, and its shape."""


@dataclass(frozen=True, slots=True)
class TiledSample:
    """A sample in tiles.

    Attributes:
        shape: Its shape.
        tile: The shape of a tile, but at the sample's end.
        parts: The tiles, in the order of their first elements.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    parts: Sequence[Sample]

    def joined(self, decode: Callable[[Sample], np.ndarray]) -> np.ndarray:
        """Return the whole array; ValueError where tiles do not make it up."""
        counts = [
            -(-side // max(1, tile)) for side, tile in zip(self.shape, self.tile, strict=True)
        ]
        if math.prod(counts) != len(self.parts):
            raise ValueError(f"it has {len(self.parts)} tiles, not {math.prod(counts)}")
        decoded = [decode(one) for one in self.parts]
        if sum(one.size for one in decoded) != math.prod(self.shape):
            raise ValueError(f"its tiles do not make up {self.shape}")
        values = np.empty(self.shape, decoded[0].dtype)
        for corner, one in zip(np.ndindex(*counts), decoded, strict=True):
            starts = [at * tile for at, tile in zip(corner, self.tile, strict=True)]
            place = tuple(slice(at, at + tile) for at, tile in zip(starts, self.tile, strict=True))
            values[place] = one.reshape(values[place].shape)
        return values


@dataclass(frozen=True, slots=True)
class DeepLakeTensor:
    """A tensor.

    Attributes:
        name: Its name, with "/" after the names of groups.
        folder: Its folder, below that of a commit.
        meta: ``tensor_meta.json`` and ``tensor_info.json``.
        chunks: Names of its chunks.
        stops: The sample after the last one of each chunk, int64.
        items: The item after the last one of each row, int64, of a sequence; None otherwise.
        tiles: The shapes of samples in tiles, and of a tile of each, by number of the sample.
    """

    name: str
    folder: str
    meta: Mapping[str, Any]
    chunks: Sequence[str]
    stops: np.ndarray
    items: np.ndarray | None
    tiles: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]

    @property
    def length(self) -> int:
        """Number of rows."""
        samples = int(self.stops[-1]) if len(self.stops) else 0
        return samples if self.items is None else len(self.items)


class DeepLakeFolder:
    """A folder of Deep Lake's version 3.

    Args:
        folder: Its path, or its URL.
        files: Opens files.
        branch: The branch to read.

    Attributes:
        tensors: The tensors that are not hidden, by name.

    Raises:
        InvalidInputError: It is of another version, or damaged.
    """

    def __init__(self, folder: str, files: SourceFiles, branch: str) -> None:
        self._folder, self._files = folder.rstrip("/"), files
        self.place = public_url(self._folder)
        self._listed = files.below(self._folder)
        self._commits = self._ancestry(branch)
        self._chunk = lru_cache(CHUNKS_IN_MEMORY)(self._read_chunk)
        meta = self._json("dataset_meta.json")
        try:
            hidden = {*meta.get("hidden_tensors", ())}
            # By name, which a tensor may have got from another one since; before, only its folder
            folders = meta.get("tensor_names") or {name: name for name in meta["tensors"]}
            named = {str(name): str(one) for name, one in folders.items() if one not in hidden}
        except (KeyError, TypeError, AttributeError) as error:
            raise self._damaged(f"dataset_meta.json: {error!r}") from error
        self.tensors = {name: self._tensor(name, folder) for name, folder in named.items()}

    # ---- samples

    def nbytes(self, tensor: DeepLakeTensor) -> int:
        """Return the bytes of a tensor's chunks."""
        return sum(self._listed[self._path(tensor, name)] for name in tensor.chunks)

    def stamp(self, tensor: DeepLakeTensor, start: int, stop: int) -> str:
        """Return a string that changes with the chunks of rows [start, stop)."""
        if tensor.items is not None:
            start, stop = _items_of(tensor.items, start, stop)
        first = int(np.searchsorted(tensor.stops, start, side="right"))
        last = int(np.searchsorted(tensor.stops, stop - 1, side="right"))
        names = tensor.chunks[first : last + 1] if stop > start else ()
        paths = [self._path(tensor, name) for name in names]
        return " ".join(f"{path} {self._files.stamp(path)}" for path in paths)

    def rows(self, tensor: DeepLakeTensor, start: int, stop: int) -> list[Any]:
        """Read rows [start, stop): each the bytes and the shape of a sample; lists of sequences.

        Raises:
            InvalidInputError: A chunk is damaged, or missing.
        """
        if tensor.items is None:
            return [*self._samples(tensor, start, stop)]
        first, last = _items_of(tensor.items, start, stop)
        items = self._samples(tensor, first, last)
        counts = np.diff(tensor.items, prepend=0)[start:stop].tolist()
        return [[next(items) for _ in range(count)] for count in counts]

    def _samples(
        self, tensor: DeepLakeTensor, start: int, stop: int
    ) -> Iterator[Sample | TiledSample]:
        while start < stop:
            if start in tensor.tiles:
                yield self._tiled(tensor, start)
                start += 1
                continue
            number = int(np.searchsorted(tensor.stops, start, side="right"))
            begin = int(tensor.stops[number - 1]) if number else 0
            end = min(stop, int(tensor.stops[number]))
            with self._chunk_of(tensor, number) as chunk:
                yield from map(chunk.sample, range(start - begin, end - begin))
            start = end

    def _tiled(self, tensor: DeepLakeTensor, at: int) -> TiledSample:
        first, last = np.searchsorted(tensor.stops, [at, at + 1], side="right").tolist()
        parts: list[Sample] = []
        for number in range(first, last):
            with self._chunk_of(tensor, number) as chunk:
                parts.append(chunk.tile())
        return TiledSample(*tensor.tiles[at], parts)

    @contextmanager
    def _chunk_of(self, tensor: DeepLakeTensor, number: int) -> Generator[_Chunk]:
        path = self._path(tensor, tensor.chunks[number])
        try:
            yield self._chunk(path, tensor.meta.get("chunk_compression"))
        except (ValueError, IndexError, struct.error, OSError) as error:
            if isinstance(error, InvalidInputError):
                raise
            where = public_url(path)
            message = f"the chunk {where!r} of {tensor.name!r} is damaged: {error}"
            raise InvalidInputError(message, src=where, tensor=tensor.name) from error

    def _read_chunk(self, path: str, compression: str | None) -> _Chunk:
        return _Chunk.parse(self._files.content(path), compression)

    def _path(self, tensor: DeepLakeTensor, name: str) -> str:
        """Return the path of a chunk: of the newest commit that wrote it."""
        for commit in self._commits:
            path = f"{self._at(commit)}{tensor.folder}/chunks/{name}"
            if path in self._listed:
                return path
        message = f"{self.place!r} lacks the chunk {name!r} of {tensor.name!r}"
        raise InvalidInputError(message, src=self.place, tensor=tensor.name)

    # ---- metadata

    def _ancestry(self, branch: str) -> list[str]:
        """Return the commits of a branch, the newest first."""
        (content,) = self._files.contents([f"{self._folder}/version_control_info.json"])
        if content is None:
            return [FIRST_COMMIT]
        try:
            info = json.loads(content)
            heads = dict(info["branches"])
            parents = {name: one["parent"] for name, one in info["commits"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(f"version_control_info.json: {error!r}") from error
        if branch not in heads:
            known = ", ".join(map(repr, heads))
            message = f"{self.place!r} has no branch {branch!r}\nbranches: {known}"
            raise InvalidInputError(message, argument="branch", actual=branch)
        made = [str(heads[branch])]
        while (parent := parents.get(made[-1])) is not None:
            made.append(str(parent))
            if len(made) > len(parents):
                raise self._damaged("its commits do not end")
        if any("/" in one or one.startswith(".") for one in made):
            raise self._damaged(f"a commit is named {made[-1]!r}")
        return made

    def _at(self, commit: str) -> str:
        return f"{self._folder}/" + ("" if commit == FIRST_COMMIT else f"versions/{commit}/")

    def _json(self, name: str, *, default: dict[str, Any] | None = None) -> dict[str, Any]:
        path = f"{self._at(self._commits[0])}{name}"
        if path not in self._listed and default is not None:
            return default
        if path not in self._listed:
            hint = "give the folder of dataset_meta.json, which Deep Lake 2 and 3 write"
            raise InvalidInputError(
                f"no file {public_url(path)!r} to ingest\n{hint}", src=self.place
            )
        try:
            return dict(json.loads(self._files.content(path)))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._damaged(f"{name} is not JSON: {error}") from error

    def _tensor(self, name: str, folder: str) -> DeepLakeTensor:
        meta = self._json(f"{folder}/tensor_meta.json")
        meta |= self._json(f"{folder}/tensor_info.json", default={})
        try:
            ids = self._table(f"{folder}/chunks_index/unsharded", 2)
            items = None
            if meta.get("is_sequence"):
                items = _stops_of(self._table(f"{folder}/sequence_index/unsharded", 3, fixed=True))
            tiles = self._tiles(f"{folder}/tiles_index/unsharded")
            chunks = [f"{number:x}" for number in ids[:, 0].tolist()]
            stops = ids[:, -1].astype(np.int64) + 1
        except (ValueError, IndexError) as error:
            raise self._damaged(f"the index of {name!r}: {error}") from error
        if bool((np.diff(stops, prepend=0) < 0).any()):
            raise self._damaged(f"the index of {name!r} does not ascend")
        return DeepLakeTensor(name, folder, meta, chunks, stops, items, tiles)

    def _tiles(self, name: str) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        path = f"{self._at(self._commits[0])}{name}"
        content = self._files.content(path) if path in self._listed else b""
        if not content:
            return {}
        numbers = np.frombuffer(content, _U64, offset=1 + content[0]).tolist()
        if len(numbers) < _TILES_HEAD:
            return {}
        count, axes = numbers[:_TILES_HEAD]
        if len(numbers) != _TILES_HEAD + count * (1 + 2 * axes):
            raise ValueError("its tiles are cut off")
        rows = [numbers[at : at + 1 + 2 * axes] for at in range(2, len(numbers), 1 + 2 * axes)]
        return {at: (tuple(both[:axes]), tuple(both[axes:])) for at, *both in rows}

    def _table(self, name: str, columns: int, *, fixed: bool = False) -> np.ndarray:
        """Read a table of numbers, whose width follows its version unless it is ``fixed``."""
        path = f"{self._at(self._commits[0])}{name}"
        if path not in self._listed:
            return np.zeros((0, columns), np.uint64)
        content = self._files.content(path)
        start = 1 + content[0]
        width = 4
        version = content[1:start].decode("ascii").split(".")
        if not fixed and tuple(map(int, version[:3])) >= (2, 7, 6):
            width, start = content[start], start + 1
        if width not in {4, 8}:
            raise ValueError(f"numbers of {width} bytes")
        return np.frombuffer(content, f"<u{width}", offset=start).reshape(-1, columns)

    def _damaged(self, reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.place!r} is not of Deep Lake 3, or damaged: {reason}", src=self.place
        )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The samples of a chunk."""

    shapes: np.ndarray
    places: np.ndarray
    data: memoryview

    @classmethod
    def parse(cls, content: bytes, compression: str | None) -> _Chunk:
        """Parse a chunk; ValueError where it is damaged."""
        at = 1 + content[0]
        rows, columns = struct.unpack_from("<ii", content, at)
        at += 8
        if rows < 0 or columns < 0 or 4 * rows * columns > len(content):
            raise ValueError("it is cut off")
        shapes = np.frombuffer(content, _U32, rows * columns, at).reshape(rows, columns)
        at += shapes.nbytes
        count = int.from_bytes(content[at : at + 4], "little")
        at += 4
        if 12 * count > len(content):
            raise ValueError("it is cut off")
        places = np.frombuffer(content, _U32, 3 * count, at).reshape(count, 3)
        at += places.nbytes
        data: bytes | memoryview = memoryview(content)[at:]
        if compression == "lz4":
            data = decompressed(data)
        elif compression is not None:
            raise ValueError(f"it is compressed as {compression}, which is not read here")
        return cls(shapes, places, memoryview(data))

    def tile(self) -> Sample:
        """Return the one tile that it is."""
        if len(self.shapes) != 1 or len(self.places):
            raise ValueError("it is not one tile")
        return bytes(self.data), tuple(self.shapes[0, :-1].tolist())

    def sample(self, at: int) -> Sample:
        """Return a sample's bytes and shape."""
        shape: tuple[int, ...] = ()
        if len(self.shapes):
            row = int(np.searchsorted(self.shapes[:, -1], at))
            shape = tuple(self.shapes[row, :-1].tolist())
        if not len(self.places):  # all samples are empty
            return b"", shape
        row = int(np.searchsorted(self.places[:, 2], at))
        nbytes, begin, _ = map(int, self.places[row])
        first = int(self.places[row - 1, 2]) + 1 if row else 0
        start = begin + nbytes * (at - first)
        if start + nbytes > len(self.data):
            raise ValueError("it is cut off")
        return bytes(self.data[start : start + nbytes]), shape


def decompressed(data: bytes | memoryview) -> bytes:
    """Decompress LZ4: a frame, or a block after the bytes that it has, u32.

    Raises:
        ValueError: It is damaged, or larger than 2 GiB.
    """
    import pyarrow as pa

    if not len(data):
        return b""
    if bytes(data[:4]) == _FRAME:
        with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
            made = stream.read(DECOMPRESSED_NBYTES_MAX + 1)
        nbytes = len(made)
    else:
        nbytes = int.from_bytes(data[:4], "little")
        if nbytes > min(DECOMPRESSED_NBYTES_MAX, 255 * len(data)):  # LZ4's best is 255 to one
            raise ValueError(f"it promises {nbytes:,} bytes")
        made = pa.decompress(data[4:], nbytes, codec="lz4_raw", asbytes=True)
    if nbytes > DECOMPRESSED_NBYTES_MAX:
        raise ValueError(f"it has more than {DECOMPRESSED_NBYTES_MAX:,} bytes")
    return made


def _stops_of(runs: np.ndarray) -> np.ndarray:
    """Return where each row's items end, from runs: items per row, the first, the last row."""
    counts = np.diff(runs[:, 2].astype(np.int64), prepend=-1)
    return np.cumsum(np.repeat(runs[:, 0].astype(np.int64), counts))


def _items_of(items: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    first = int(items[start - 1]) if start else 0
    return first, int(items[stop - 1]) if stop > start else first
