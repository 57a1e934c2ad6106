"""Waveforms: the least and the greatest value of each stretch of a sound, to be drawn.

A recording longer than `MOST_FRAMES` is not decoded whole: of each stretch the first frames are
read, so that the outline of a day of sound costs what that of some minutes costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tensorlake.types import Waveform

__all__ = ["MOST_FRAMES", "MOST_STRETCHES", "Peaks", "draw_waveform", "peaks_of"]

MOST_STRETCHES = 4096
MOST_FRAMES = 1 << 24  # decoded for one outline: six minutes at 44.1 kHz, about a second of work
MOST_DRAWN_FRAMES = 1 << 21  # for a thumbnail
DECODED_FRAMES = 1 << 20  # at once
ASPECT = 4  # width ÷ height of a thumbnail
BACKGROUND, MIDDLE, WAVE = (16, 20, 27), (48, 58, 74), (94, 196, 214)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The outline of a sound.

    Attributes:
        low: Least value of each stretch, over all channels, float32 (stretches,); full scale is 1.
        high: Greatest value.
        is_sampled: Whether only the beginning of each stretch was read.
    """

    low: np.ndarray
    high: np.ndarray
    is_sampled: bool


def peaks_of(sound: Waveform, stretches: int, *, most_frames: int = MOST_FRAMES) -> Peaks:
    """Find the peaks of equally long stretches; of a sound with fewer frames, of each frame.

    Raises:
        CorruptSampleError: It cannot be decoded.
    """
    stretches = min(stretches, sound.frames)
    starts = np.linspace(0, sound.frames, stretches + 1).astype(np.int64)
    low, high = np.zeros((2, stretches), np.float32)
    if sound.frames > most_frames:
        read = max(1, most_frames // stretches)
        for at, start in enumerate(starts[:-1].tolist()):
            frames = sound[start : min(start + read, int(starts[at + 1]))]
            low[at], high[at] = frames.min(), frames.max()
        return Peaks(low, high, is_sampled=True)
    each = max(1, sound.frames // max(1, stretches))
    step = max(1, DECODED_FRAMES // each)
    for at in range(0, stretches, step):
        bounds = starts[at : at + step + 1]
        frames = sound[int(bounds[0]) : int(bounds[-1])]
        offsets = bounds[:-1] - bounds[0]
        low[at : at + step] = np.minimum.reduceat(frames.min(axis=1), offsets)
        high[at : at + step] = np.maximum.reduceat(frames.max(axis=1), offsets)
    return Peaks(low, high, is_sampled=False)


def draw_waveform(sound: Waveform, width: int) -> np.ndarray:
    """Draw a waveform: uint8 (width ÷ 4, width, 3).

    Raises:
        CorruptSampleError: It cannot be decoded.
    """
    height = max(2, width // ASPECT)
    peaks = peaks_of(sound, width, most_frames=MOST_DRAWN_FRAMES)
    image = np.full((height, width, 3), BACKGROUND, np.uint8)
    image[height // 2] = MIDDLE
    count = len(peaks.low)
    if count == 0:
        return image
    columns = np.arange(width) * count // width
    top = np.nan_to_num(1 - peaks.high.clip(-1, 1)) * (height - 1) / 2
    bottom = np.nan_to_num(1 - peaks.low.clip(-1, 1)) * (height - 1) / 2
    rows = np.arange(height)[:, None]
    is_wave = (rows >= np.floor(top)[columns]) & (rows <= np.ceil(bottom)[columns])
    image[is_wave] = WAVE
    return image
