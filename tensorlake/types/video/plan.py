"""Which packets, and so which bytes, the decoding of some frames takes.

A decoder starts at a key frame and goes on, packet by packet, to the last frame wanted. Frames that
lie apart are decoded in several runs, each from its own key frame, so that nothing between is read.

    wanted              ·  ·  ·  f  ·  f  ·  ·  ·  ·  ·  ·  f  ·
    packets     K  p  p  p  p  p  p  p  K  p  p  K  p  p  p  p
    runs        └───── run 0 ─────┘              └─ run 1 ┘

The bytes of a file are cut into parts, each with a checksum of its own, at packets: at a key frame
if the part has `_KEY_NBYTES`, at another packet if it has `_PART_NBYTES`. Cuts follow from the map,
so that they need not be stored with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tensorlake.types.video.map import VideoMap

__all__ = ["Run", "cut_points", "parts_of", "plan_runs", "run_from"]

# A window wastes half a part at its end (benchmarks/media_video.py measures it). A part costs seven
# bytes of its chunk's header, so that a file has at most 65,536.
_PART_NBYTES = 4 << 10
_KEY_NBYTES = 2 << 10
_MAX_PARTS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Packets `start` … `stop` − 1, decoded one after another for some frames.

    Attributes:
        start: A packet at which decoding may start.
        stop: One past the last packet.
        frames: The wanted frames, ascending, each once.
    """

    start: int
    stop: int
    frames: np.ndarray


def plan_runs(video: VideoMap, frames: np.ndarray) -> list[Run]:
    """Plan the decoding of frames, given in any order and maybe repeated.

    Frames must exist: 0 ≤ frame < number of frames.
    """
    wanted = np.unique(frames)
    if not len(wanted):
        return []
    packets = video.order[wanted]
    starts = _starts(video, wanted, packets)
    stops = _stops(video, packets)
    runs: list[Run] = []
    first = 0
    start, stop = int(starts[0]), int(stops[0])
    for place in range(1, len(wanted)):
        if starts[place] > stop:  # nothing between is wanted: the next run starts at its key frame
            runs.append(Run(start, stop, wanted[first:place]))
            first, start, stop = place, int(starts[place]), int(stops[place])
        else:
            start, stop = min(start, int(starts[place])), max(stop, int(stops[place]))
    runs.append(Run(start, stop, wanted[first:]))
    return runs


def run_from(video: VideoMap, start: int, frames: np.ndarray) -> Run:
    """Plan the decoding of frames, ascending, from a given packet."""
    return Run(start, int(_stops(video, video.order[frames]).max()), frames)


def _starts(video: VideoMap, frames: np.ndarray, packets: np.ndarray) -> np.ndarray:
    """Return the packet from which each frame is decoded: the last key frame that permits it."""
    by_frame = np.searchsorted(video.firsts, frames, side="right") - 1
    by_packet = np.searchsorted(video.keys, packets, side="right") - 1
    return video.keys[np.minimum(by_frame, by_packet)]


def _stops(video: VideoMap, packets: np.ndarray) -> np.ndarray:
    """Return the end of each frame: the next packet that holds one (a frame may have two)."""
    holding = np.sort(video.order)
    following = np.searchsorted(holding, packets, side="right")
    ends = np.append(holding, len(video.sizes))
    return ends[following]


def cut_points(video: VideoMap) -> np.ndarray:
    """Return the ends of the parts of the file: int64, ascending, the last its length."""
    least = max(_PART_NBYTES, video.nbytes // _MAX_PARTS)
    at_key = _KEY_NBYTES * (least // _PART_NBYTES)
    is_key = np.zeros(len(video.sizes), dtype=np.bool_)
    is_key[video.keys] = True
    places = np.argsort(video.offsets, kind="stable")
    pairs = zip(video.offsets[places].tolist(), is_key[places].tolist(), strict=True)
    cuts: list[int] = []
    last, begins_group = 0, True
    for offset, key in pairs:
        if key and offset - last < at_key and not begins_group:
            cuts.pop()  # a short end of a group belongs to the part before it
            last = cuts[-1] if cuts else 0
        if offset - last >= (at_key if key else least):
            cuts.append(offset)
            last, begins_group = offset, key
    if last < video.nbytes:
        cuts.append(video.nbytes)
    return np.array(cuts, dtype=np.int64)


def parts_of(video: VideoMap, runs: list[Run], cuts: np.ndarray) -> np.ndarray:
    """Return the numbers of the parts that hold the packets of the runs: int64, ascending."""
    needed = np.zeros(len(cuts) + 1, dtype=np.int64)
    for run in runs:
        offsets = video.offsets[run.start : run.stop]
        first = np.searchsorted(cuts, offsets, side="right")
        last = np.searchsorted(cuts, offsets + video.sizes[run.start : run.stop], side="left")
        np.add.at(needed, first, 1)
        np.add.at(needed, last + 1, -1)
    return np.flatnonzero(np.cumsum(needed)[:-1] > 0)
