"""Track: where the packets of a file of audio are, and which frames they give.

A parser of a container cuts the bytes of a file into parts of about a quarter of a second, without
decoding. A *frame* is one sample of every channel. For each part it reports the frames that
can be read from it:

    file      | part 0: header | part 1 | part 2 | … | part n-1 |     cuts: where each part ends
    starts      first frame that is exact when decoding begins with this part
    stops       first frame that needs the next part

The codec decides the rest: a FLAC frame stands alone, so that starts and stops adjoin; MP3, Vorbis
and Opus need packets before, so that a start comes later than the stop of the part before.

The frames [start, stop) are read from the last part that starts at or before `start` to the first
that stops at or after `stop`, behind `header`, which makes of them a small file of its own. A file
of one part is decoded as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

__all__ = ["MAX_PARTS", "PART_SECONDS", "Container", "Track", "thinned"]

Container: TypeAlias = Literal["wav", "flac", "ogg", "mp3"]

PART_SECONDS = 0.25  # a window of 1 s reads at most 1.5 times its share: measured, media.py
MAX_PARTS = 1 << 14  # 68 minutes of quarters; parts of a longer file are longer


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """The packets of one file.

    Attributes:
        container: The format of the file.
        codec: The codec, as the container names it: "pcm", "flac", "vorbis", "opus", "mp3" ….
        rate: Frames per second.
        channels: Number of channels.
        frames: Number of frames.
        delay: Frames that a decoder gives before frame 0 of the file.
        header: Bytes that a decoder needs before a part; empty in a file of one part.
        cuts: End of each part in the file, int64 (parts,).
        starts: First exact frame of each part, int64 (parts,).
        stops: First frame beyond each part, int64 (parts,).
    """

    container: Container
    codec: str
    rate: int
    channels: int
    frames: int
    delay: int
    header: bytes
    cuts: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    def after(self, begin: int) -> Track:
        """Return the track with a part 0 that ends at byte `begin` and has no frame."""
        return replace(
            self,
            cuts=np.concatenate([[begin], self.cuts]),
            starts=np.concatenate([[0], self.starts]),
            stops=np.concatenate([[0], self.stops]),
        )

    @property
    def is_whole_file(self) -> bool:
        """Whether libsndfile reads the file whole as it is: of an MP3 without a tag it may not."""
        return self.container != "mp3" or self.delay > 0

    def undivided(self) -> Track:
        """Return the track with one part, the whole file."""
        return replace(
            self,
            header=b"",
            cuts=self.cuts[-1:],
            starts=np.zeros(1, np.int64),
            stops=np.full(1, self.frames, np.int64),
        )


def thinned(stops: np.ndarray, rate: int) -> np.ndarray:
    """Return the packets with which parts begin: one about every `PART_SECONDS`.

    Args:
        stops: First frame beyond each packet, int64 (packets,), ascending.
        rate: Frames per second.

    Returns:
        Numbers of packets, ascending, the first 0.
    """
    total = int(stops[-1]) if len(stops) else 0
    step = max(int(rate * PART_SECONDS), -(-total // MAX_PARTS), 1)
    begins = np.concatenate([[0], stops[:-1]])
    quarter = begins // step
    return np.flatnonzero(np.diff(quarter, prepend=-1))
