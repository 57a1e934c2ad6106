"""The map of a file of audio: its track, as bytes for the chunk's header.

The cuts are the map's own; the head holds the rest, in MessagePack: numbers, the header, and the
differences of starts and of stops, compressed, as they are nearly regular.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import msgspec
import numpy as np

from tensorlake.types.audio.containers.track import Container, Track

__all__ = ["AudioHead", "read_head", "read_track", "write_head"]

_VERSION = 1
_KEPT_HEADS = 256  # the rows of a few batches, whose parts are planned, then decoded
_KEPT_TABLES = 64  # at most 128 KiB each: the rows of a batch


class AudioHead(msgspec.Struct, array_like=True, frozen=True):
    """All of a track but its cuts."""

    version: int
    container: Container
    codec: str
    rate: int
    channels: int
    frames: int
    delay: int
    header: bytes
    starts: bytes
    stops: bytes

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


def write_head(track: Track) -> bytes:
    """Return the head of a track."""
    head = AudioHead(
        *(_VERSION, track.container, track.codec, track.rate, track.channels, track.frames),
        *(track.delay, track.header, _packed(track.starts), _packed(track.stops)),
    )
    return msgspec.msgpack.encode(head)


@lru_cache(_KEPT_HEADS)
def read_head(head: bytes) -> AudioHead:
    """Parse what `write_head` wrote.

    Raises:
        ValueError: It is damaged, or of a newer version.
    """
    try:
        read = msgspec.msgpack.decode(head, type=AudioHead)
    except msgspec.MsgspecError as error:
        raise ValueError(f"its map is damaged: {error}") from error
    if read.version != _VERSION:
        raise ValueError(f"its map is of version {read.version}, not {_VERSION}")
    if min(read.rate, read.channels, read.frames + 1) < 1:
        raise ValueError("its map is damaged: a rate, channels or frames below 1")
    return read


def read_track(head: bytes, cuts: np.ndarray) -> Track:
    """Return the track whose head and cuts a map has.

    Raises:
        ValueError: They are damaged.
    """
    read = read_head(head)
    return Track(
        *(read.container, read.codec, read.rate, read.channels, read.frames, read.delay),
        *(read.header, cuts),
        *(_unpacked(read.starts, len(cuts)), _unpacked(read.stops, len(cuts))),
    )


def _packed(numbers: np.ndarray) -> bytes:
    return zlib.compress(np.diff(numbers, prepend=0).astype("<i8").tobytes())


@lru_cache(2 * _KEPT_TABLES)
def _unpacked(data: bytes, count: int) -> np.ndarray:
    try:
        plain = zlib.decompressobj().decompress(data, 8 * count + 1)
    except zlib.error as error:
        raise ValueError(f"its map is damaged: {error}") from error
    if len(plain) != 8 * count:
        raise ValueError(f"its map has other than {count:,} parts")
    numbers = np.cumsum(np.frombuffer(plain, "<i8"))
    numbers.flags.writeable = False  # it is shared
    return numbers
