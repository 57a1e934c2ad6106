"""The outline of a sound: exact where all of it is decoded, and within it where it is sampled."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.types import EncodedColumn, MemorySample, Waveform
from tensorlake_server.media.waveforms import draw_waveform, peaks_of


def sound_of(frames: np.ndarray) -> Waveform:
    kind = tl.Audio(rate=8_000)
    column = kind.convert([frames], tensor="a")
    assert isinstance(column, EncodedColumn)
    return Waveform(kind, MemorySample.of(kind, column, 0))


@pytest.mark.parametrize(("frames", "channels", "stretches"), [(1, 1, 9), (1000, 2, 7), (5, 3, 5)])
def test_peaks_are_the_extremes_of_equal_stretches(
    frames: int, channels: int, stretches: int
) -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (frames, channels)).astype(np.float32)

    peaks = peaks_of(sound_of(values), stretches)

    bounds = np.linspace(0, frames, min(frames, stretches) + 1).astype(int)
    pieces = [values[start:stop] for start, stop in pairwise(bounds)]
    np.testing.assert_array_equal(peaks.low, [piece.min() for piece in pieces])
    np.testing.assert_array_equal(peaks.high, [piece.max() for piece in pieces])
    assert not peaks.is_sampled


def test_a_long_sound_is_sampled_and_says_so() -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (4000, 1)).astype(np.float32)
    sound = sound_of(values)

    peaks, whole = peaks_of(sound, 10, most_frames=500), peaks_of(sound, 10)

    assert peaks.is_sampled
    assert bool((peaks.low >= whole.low).all() and (peaks.high <= whole.high).all())
    np.testing.assert_array_equal(peaks.low, values.reshape(10, 400)[:, :50].min(axis=1))


@pytest.mark.parametrize("width", [1, 16, 512])
def test_silence_is_a_line_and_nan_no_error(width: int) -> None:
    for level in (0, np.nan):
        image = draw_waveform(sound_of(np.full((40, 1), level, np.float32)), width)

        assert image.shape == (max(2, width // 4), width, 3)
