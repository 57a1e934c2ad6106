"""WAV: RIFF chunks (Microsoft, "Multiple Channel Audio Data and WAVE Files"; RF64: EBU Tech 3306).

    RIFF size WAVE | fmt  size … | other chunks | data size | samples … | other chunks

Samples of PCM, floats and companded codes have a fixed size; ADPCM comes in blocks that stand
alone. Other codecs are read whole.

PCM of whole bytes and floats are decoded here, equal to libsndfile to the bit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.types.audio.containers.track import MAX_PARTS, PART_SECONDS, Track
from tensorlake.types.base.file import Content, unpack_at, view_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.types.base.column import Buffer

__all__ = ["WavSamples", "parse_wav", "samples_of", "samples_of_file", "wav_file"]

_CODECS: Final = {1: "pcm", 2: "ms_adpcm", 3: "float", 6: "alaw", 7: "ulaw", 0x11: "ima_adpcm"}
_BLOCKS: Final = (2, 0x11)
_EXTENSIBLE = 0xFFFE
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a stream whose length was not known; in RF64: see ds64
_PCM, _FLOAT = 1, 3
_BYTE_MIDDLE = 128  # 8-bit samples are unsigned
_CHUNK, _SIZE = struct.Struct("<4sI"), struct.Struct("<Q")
_FMT_MIN, _FMT_EXTENSIBLE, _FMT_BLOCKS = 16, 40, 20


def parse_wav(content: Content) -> Track | None:
    """Find the samples of a WAV file; None for a codec whose parts cannot be read.

    Raises:
        ValueError: It is damaged, or ends before its samples do.
    """
    fmt, begin, size = _chunks(content)
    return _track(fmt, begin, size, len(content))


@dataclass(frozen=True, slots=True)
class WavSamples:
    """The form of samples that need no codec: PCM of 8, 16, 24 or 32 bits, floats of 32 or 64.

    Attributes:
        is_float: Whether they are floats.
        nbytes: Bytes of a number.
        channels: Number of channels.
    """

    is_float: bool
    nbytes: int
    channels: int

    @property
    def frame_nbytes(self) -> int:
        """Bytes of a frame."""
        return self.nbytes * self.channels

    def decode(self, samples: Buffer, out: NDArray[np.float32]) -> None:
        """Write frames to ``out`` (frames, channels), of full scale 1."""
        flat = out.reshape(-1)
        if self.is_float:
            with np.errstate(over="ignore"):  # a double beyond float32 is infinite, as in C
                flat[...] = np.frombuffer(samples, f"<f{self.nbytes}")
            return
        scale = np.float32(2.0 ** (1 - 8 * self.nbytes))
        match self.nbytes:
            case 1:
                np.subtract(np.frombuffer(samples, np.uint8), np.float32(_BYTE_MIDDLE), out=flat)
                flat *= scale
            case 3:
                wide = np.zeros((len(flat), 4), np.uint8)
                wide[:, 1:] = np.frombuffer(samples, np.uint8).reshape(-1, 3)
                flat[...] = wide.view("<i4")[:, 0]
                flat *= np.float32(2.0**-31)
            case _:
                flat[...] = np.frombuffer(samples, f"<i{self.nbytes}")
                flat *= scale


def samples_of(header: bytes) -> WavSamples | None:
    """Return the form of the samples, given a track's header; None where they need a codec.

    >>> fmt = struct.pack("<HHIIHH", 1, 2, 44_100, 176_400, 4, 16)
    >>> samples_of(struct.pack("<4sI", b"fmt ", len(fmt)) + fmt)
    WavSamples(is_float=False, nbytes=2, channels=2)
    """
    fmt = header[8:]
    if len(fmt) < _FMT_MIN:
        return None
    tag, channels, _, _, block, bits = struct.unpack_from("<HHIIHH", fmt)
    if tag == _EXTENSIBLE and len(fmt) >= _FMT_EXTENSIBLE:
        tag = struct.unpack_from("<H", fmt, 24)[0]
    whole = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}.get(tag, ())
    if bits not in whole or not channels or block != channels * bits // 8:
        return None
    return WavSamples(tag == _FLOAT, bits // 8, channels)


def samples_of_file(content: Buffer) -> tuple[WavSamples, Buffer] | None:
    """Return the form of a whole file's samples, and their bytes; None where they need a codec.

    Raises:
        ValueError: It is damaged, or ends before its samples do.
    """
    fmt, begin, size = _chunks(content)
    found = samples_of(struct.pack("<4sI", b"fmt ", len(fmt)) + fmt)
    return None if found is None else (found, memoryview(content)[begin : begin + size])


def _chunks(content: Content) -> tuple[bytes, int, int]:
    """Return the description of the samples, and where these begin and their bytes."""
    view = view_of(content)
    size_of_data: int | None = None
    fmt = b""
    offset = 12
    while offset + 8 <= len(view):
        name, size = unpack_at(_CHUNK, view, offset)
        offset += 8
        if name == b"ds64" and size >= 28:  # noqa: PLR2004 - its fixed part
            size_of_data = unpack_at(_SIZE, view, offset + 8)[0]
        elif name == b"fmt ":
            fmt = bytes(view[offset : offset + size])
        elif name == b"data":
            left = len(view) - offset
            promised = size_of_data if size == _UNKNOWN_SIZE and size_of_data is not None else size
            if promised == _UNKNOWN_SIZE:
                promised = left
            if promised > left:
                raise ValueError(f"its header promises {promised:,} bytes, and {left:,} follow")
            return fmt, offset, promised
        offset += size + (size & 1)
    raise ValueError("it has no chunk of samples ('data')")


def wav_file(header: bytes, samples: Buffer) -> bytes:
    """Return a file with these samples; `header` is a track's."""
    size = len(samples)
    riff = struct.pack("<4sI4s", b"RIFF", min(len(header) + 12 + size, _UNKNOWN_SIZE), b"WAVE")
    return b"".join([riff, header, struct.pack("<4sI", b"data", size), samples])


def _track(fmt: bytes, begin: int, size: int, end_of_file: int) -> Track | None:
    if len(fmt) < _FMT_MIN:
        raise ValueError("it has no description of its samples ('fmt ')")
    tag, channels, rate, _, block, _ = struct.unpack_from("<HHIIHH", fmt)
    if tag == _EXTENSIBLE and len(fmt) >= _FMT_EXTENSIBLE:
        tag = struct.unpack_from("<H", fmt, 24)[0]
    if tag not in _CODECS or not block:
        return None
    per_block = 1
    if tag in _BLOCKS:
        if len(fmt) < _FMT_BLOCKS:
            return None
        per_block = struct.unpack_from("<H", fmt, 18)[0]
    blocks = size // block
    frames = blocks * per_block
    if not frames or (tag in _BLOCKS and size % block):
        return None  # libsndfile decides what a part of a block is worth
    seconds = max(PART_SECONDS, frames / max(rate, 1) / MAX_PARTS)
    step = max(int(rate * seconds) // per_block, 1)
    ends = np.append(np.arange(step, blocks, step, dtype=np.int64), blocks)
    cuts = begin + ends * block
    cuts[-1] = end_of_file
    stops = ends * per_block
    starts = np.concatenate([[0], stops[:-1]])
    header = struct.pack("<4sI", b"fmt ", len(fmt)) + fmt
    return Track("wav", _CODECS[tag], rate, channels, frames, 0, header, cuts, starts, stops).after(
        begin
    )
