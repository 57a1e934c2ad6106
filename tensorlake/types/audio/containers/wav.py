"""WAV: RIFF chunks (Microsoft, "Multiple Channel Audio Data and WAVE Files"; RF64: EBU Tech 3306).

    RIFF size WAVE | fmt  size … | other chunks | data size | samples … | other chunks

Samples of PCM, floats and companded codes have a fixed size; ADPCM comes in blocks that stand
alone. Other codecs are read whole.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlake.types.audio.containers.track import MAX_PARTS, PART_SECONDS, Track

if TYPE_CHECKING:
    from tensorlake.types.base.column import Buffer

__all__ = ["parse_wav", "wav_file"]

_CODECS: Final = {1: "pcm", 2: "ms_adpcm", 3: "float", 6: "alaw", 7: "ulaw", 0x11: "ima_adpcm"}
_BLOCKS: Final = (2, 0x11)
_EXTENSIBLE = 0xFFFE
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a stream whose length was not known; in RF64: see ds64
_FMT_MIN, _FMT_EXTENSIBLE, _FMT_BLOCKS = 16, 40, 20


def parse_wav(content: Buffer) -> Track | None:
    """Find the samples of a WAV file; None for a codec whose parts cannot be read.

    Raises:
        ValueError: It is damaged, or ends before its samples do.
    """
    view = memoryview(content)
    size_of_data: int | None = None
    fmt = b""
    offset = 12
    while offset + 8 <= len(view):
        name, size = struct.unpack_from("<4sI", view, offset)
        offset += 8
        if name == b"ds64" and size >= 28:  # noqa: PLR2004 - its fixed part
            size_of_data = struct.unpack_from("<Q", view, offset + 8)[0]
        elif name == b"fmt ":
            fmt = bytes(view[offset : offset + size])
        elif name == b"data":
            left = len(view) - offset
            promised = size_of_data if size == _UNKNOWN_SIZE and size_of_data is not None else size
            if promised == _UNKNOWN_SIZE:
                promised = left
            if promised > left:
                raise ValueError(f"its header promises {promised:,} bytes, and {left:,} follow")
            return _track(fmt, offset, promised, len(view))
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
