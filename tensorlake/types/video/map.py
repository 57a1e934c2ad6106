"""The map of a video: all that is needed to decode any of its frames without its container.

It is found once, at ingestion (`index.py`), and stored beside the file. With it a frame is planned
(`plan.py`) and decoded (`decoder.py`) from the bytes of some packets: neither the file's own index
is read again, nor a demuxer run.

    map    := version u8, zlib(u32 length of JSON, JSON, arrays)
    JSON   := the decoder's parameters, frame size, rate, …, and "arrays": [[name, width, length]]
    arrays := the columns below, each as its differences (zigzag where they may be negative), of
              `width` bytes per number, all lowest bytes first, then all next ones, …

    offsets, sizes   of each packet, in decoding order: bytes of the file
    keys, firsts     the packets at which decoding may start, and for each the first frame (in order
                     of presentation) that is exact when decoding starts there
    order, times     of each frame, in order of presentation: the packet that holds it, and its
                     time, in units of the time base

An hour of 30 frames per second takes 0.2 to 0.5 MB. Integers are little-endian.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

__all__ = ["DecoderParameters", "VideoMap", "read_map"]

_VERSION: Final = 1
_COLUMNS: Final = ("offsets", "sizes", "keys", "firsts", "order", "times")
_MAX_NBYTES: Final = 1 << 28  # decompressed: an hour takes 3 MB at most
_MAPS_IN_MEMORY: Final = 64


@dataclass(frozen=True, slots=True)
class DecoderParameters:
    """The parameters of a decoder, which it needs before its first packet.

    Attributes:
        codec: FFmpeg's name of the codec, such as "av1".
        name: The decoder that was used at ingestion, such as "libdav1d".
        extradata: The codec's configuration.
        tag: The container's code of the codec, four characters.
        pixel_format: FFmpeg's name, or "".
        size: Height and width, as the container records them.
        reorder_depth: Frames that the decoder delays to put them in order.
        bits: Bits per coded sample; 0 if unknown.
        colours: Range, primaries, transfer characteristics and matrix, as ITU-T H.273 numbers them.
    """

    codec: str
    name: str
    extradata: bytes
    tag: str
    pixel_format: str
    size: tuple[int, int]
    reorder_depth: int
    bits: int
    colours: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class VideoMap:
    """Where the packets of a video are, and which frames they hold.

    Attributes:
        decoder: The parameters of the decoder.
        container: "mov" (also MP4), "matroska" (also WebM), "avi" or "gif".
        nbytes: Length of the file.
        size: Height and width of decoded frames.
        rotation: Degrees by which players turn the frames counter-clockwise: 0, 90, 180 or 270.
        fps: Frames per second; of a variable rate, the mean.
        time_base: Seconds per unit of `times`.
        offsets, sizes, keys, firsts, order, times: See above; int64.
    """

    decoder: DecoderParameters
    container: str
    nbytes: int
    size: tuple[int, int]
    rotation: int
    fps: Fraction
    time_base: Fraction
    offsets: np.ndarray = field(repr=False)
    sizes: np.ndarray = field(repr=False)
    keys: np.ndarray = field(repr=False)
    firsts: np.ndarray = field(repr=False)
    order: np.ndarray = field(repr=False)
    times: np.ndarray = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Frames, height, width, channels: the shape of the decoded video."""
        return (len(self.order), *self.size, 3)

    @property
    def seconds(self) -> np.ndarray:
        """Time of each frame in seconds, from the first frame: float64, ascending."""
        ticks, base = self.times - self.times[0], self.time_base
        return ticks * base.numerator / base.denominator

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last one."""
        last = int(self.times[-1] - self.times[0]) * self.time_base
        return float(last + 1 / self.fps)

    def to_bytes(self) -> bytes:
        """Return the map as it is stored."""
        given = self.decoder
        facts: dict[str, Any] = {
            "codec": given.codec,
            "decoder": given.name,
            "extradata": given.extradata.hex(),
            "tag": given.tag,
            "pixel_format": given.pixel_format,
            "coded_size": given.size,
            "reorder_depth": given.reorder_depth,
            "bits": given.bits,
            "colours": given.colours,
            "container": self.container,
            "nbytes": self.nbytes,
            "size": self.size,
            "rotation": self.rotation,
            "fps": self.fps.as_integer_ratio(),
            "time_base": self.time_base.as_integer_ratio(),
            "arrays": [],
        }
        parts: list[bytes] = []
        for name in _COLUMNS:
            numbers = _zigzag(self._residue(name))
            width = _width(numbers)
            facts["arrays"].append([name, width, len(numbers)])
            parts.append(_planes(numbers, width))
        text = json.dumps(facts, separators=(",", ":")).encode()
        body = len(text).to_bytes(4, "little") + text + b"".join(parts)
        return bytes([_VERSION]) + zlib.compress(body, 6)

    def _residue(self, name: str) -> np.ndarray:
        """Return what is stored of a column: small numbers where a video is regular."""
        column: np.ndarray = getattr(self, name)
        match name:
            case "offsets":  # from the end of the packet before
                return column - np.concatenate([[0], (column + self.sizes)[:-1]])
            case "sizes":
                return column
            case "order":
                return column - np.arange(len(column))
            case "times":
                return np.diff(np.diff(column, prepend=0), prepend=0)
            case _:
                return np.diff(column, prepend=0)


@lru_cache(_MAPS_IN_MEMORY)
def read_map(data: bytes) -> VideoMap:
    """Read a stored map.

    Raises:
        ValueError: It is damaged, or of a later version.
    """
    if data[:1] != bytes([_VERSION]):
        raise ValueError(f"its map has the version {data[:1].hex() or 'none'}, not {_VERSION}")
    try:
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(data[1:], _MAX_NBYTES)
        read = _parsed(body, is_whole=unpacker.eof)
        _check(read)
    except (zlib.error, ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise ValueError(f"its map is damaged: {error}") from error
    return read


def _parsed(body: bytes, *, is_whole: bool) -> VideoMap:
    if not is_whole:
        raise ValueError("it does not end")
    length = int.from_bytes(body[:4], "little")
    facts: dict[str, Any] = json.loads(body[4 : 4 + length])
    decoder = DecoderParameters(
        codec=str(facts["codec"]),
        name=str(facts["decoder"]),
        extradata=bytes.fromhex(facts["extradata"]),
        tag=str(facts["tag"]),
        pixel_format=str(facts["pixel_format"]),
        size=_pair(facts["coded_size"]),
        reorder_depth=int(facts["reorder_depth"]),
        bits=int(facts["bits"]),
        colours=_four(facts["colours"]),
    )
    return VideoMap(
        decoder,
        container=str(facts["container"]),
        nbytes=int(facts["nbytes"]),
        size=_pair(facts["size"]),
        rotation=int(facts["rotation"]),
        fps=Fraction(*_pair(facts["fps"])),
        time_base=Fraction(*_pair(facts["time_base"])),
        **_columns(body, 4 + length, facts["arrays"]),
    )


def _check(video: VideoMap) -> None:
    """Reject a map whose numbers point outside of the file, or that is inconsistent."""
    packets, frames = len(video.sizes), len(video.order)
    stops = video.offsets + video.sizes
    is_sound = (
        packets > 0
        and 0 < frames == len(video.times)
        and packets == len(video.offsets)
        and int(video.sizes.min()) > 0
        and int(video.offsets.min()) >= 0
        and int(stops.max()) <= video.nbytes
        and int(video.order.min()) >= 0
        and int(video.order.max()) < packets
        and len(video.keys) == len(video.firsts) > 0
        and bool(np.all(np.diff(video.keys) > 0))
        and bool(np.all(np.diff(video.firsts) >= 0))
        and (int(video.keys[0]), int(video.firsts[0])) == (0, 0)
        and int(video.keys[-1]) < packets
        and bool(np.all(np.diff(video.times) >= 0))
        and min(*video.size, video.fps, video.time_base) > 0
    )
    if not is_sound:
        raise ValueError("it contradicts itself")


def _columns(body: bytes, at: int, arrays: list[Any]) -> dict[str, np.ndarray]:
    read: dict[str, np.ndarray] = {}
    for (name, width, length), expected in zip(arrays, _COLUMNS, strict=True):
        if name != expected or width not in {1, 2, 4, 8} or at + width * length > len(body):
            raise ValueError(f"{name!r} is not in it")
        planes = np.frombuffer(body, np.uint8, width * length, at).reshape(width, length)
        numbers = np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(-1).astype(np.uint64)
        read[name] = (numbers >> 1).astype(np.int64) ^ -(numbers & 1).astype(np.int64)
        at += width * length
    sizes = read["sizes"]
    read["offsets"] = np.cumsum(read["offsets"] + np.concatenate([[0], sizes[:-1]]))
    read["keys"], read["firsts"] = np.cumsum(read["keys"]), np.cumsum(read["firsts"])
    read["order"] = read["order"] + np.arange(len(read["order"]))
    read["times"] = np.cumsum(np.cumsum(read["times"]))
    return read


def _zigzag(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers.astype(np.int64)
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _width(numbers: np.ndarray) -> int:
    bits = int(numbers.max(initial=0)).bit_length()
    return next(width for width in (1, 2, 4, 8) if bits <= 8 * width)


def _planes(numbers: np.ndarray, width: int) -> bytes:
    return numbers.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T.tobytes()


def _pair(values: Any) -> tuple[int, int]:
    first, second = map(int, values)
    return first, second


def _four(values: Any) -> tuple[int, int, int, int]:
    a, b, c, d = map(int, values)
    return a, b, c, d
