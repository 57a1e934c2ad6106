"""Resampling of sound by a windowed sinc, any span of the output by itself.

An output frame i is at the input's time i · old / new. Its value is the sum of the input frames
within `ZEROS` zero crossings of a sinc, cut off at 0.99 of the lower Nyquist frequency, under a
Hann window (J. O. Smith, "Digital Audio Resampling"; torchaudio's ``sinc_interp_hann`` computes the
same). With old and new divided by their greatest common divisor, the weights repeat after `new`
output frames: they are one matrix, and resampling is a product of it with windows of the input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ratio"]

ZEROS = 6
ROLLOFF = 0.99
MAX_WEIGHTS = 1 << 24  # 64 MiB: rates without a common divisor, such as 44,101 to 16,000
KEPT_RATIOS = 16


@dataclass(frozen=True, slots=True)
class Ratio:
    """A change of rate, in lowest terms.

    >>> Ratio.of(44_100, 16_000), Ratio.of(44_100, 16_000).length(44_100)
    (Ratio(old=441, new=160), 16000)
    """

    old: int
    new: int

    @classmethod
    def of(cls, old: int, new: int) -> Ratio:
        """Return the ratio of two rates.

        Raises:
            ValueError: The rates have no common divisor to speak of.
        """
        common = math.gcd(old, new)
        ratio = cls(old // common, new // common)
        if ratio.new * ratio._span > MAX_WEIGHTS:
            raise ValueError(f"{old:,} and {new:,} Hz have no common divisor above {common}")
        return ratio

    def length(self, frames: int) -> int:
        """Return how many frames become of some."""
        return -(-frames * self.new // self.old)

    def input_span(self, start: int, stop: int, frames: int) -> tuple[int, int]:
        """Return the input frames, of `frames`, that the output frames [start, stop) need."""
        if start >= stop:
            return 0, 0
        first, last = start // self.new, (stop - 1) // self.new
        low = first * self.old - self._width
        high = last * self.old + self.old + self._width
        return max(low, 0), min(high, frames)

    def resample(
        self, values: NDArray[np.float32], begin: int, start: int, stop: int
    ) -> NDArray[np.float32]:
        """Return the output frames [start, stop), float32 (stop - start, channels).

        Args:
            values: Input frames (n, channels): those of `input_span`, or more.
            begin: Number of the first of them.
            start: First output frame.
            stop: First output frame beyond.
        """
        if start >= stop:
            return np.zeros((0, values.shape[1]), np.float32)
        if self.old == self.new:
            return values[start - begin : stop - begin]
        first, last = start // self.new, (stop - 1) // self.new
        low = first * self.old - self._width
        count = (last - first) * self.old + self._span
        padded = np.zeros((values.shape[1], count), np.float32)  # silence around the sound
        source = values[max(low - begin, 0) : max(low - begin + count, 0)]
        offset = max(begin - low, 0)
        padded[:, offset : offset + len(source)] = source.T
        windows = np.lib.stride_tricks.sliding_window_view(padded, self._span, axis=1)
        made = windows[:, :: self.old] @ _weights(self)  # (channels, blocks, new)
        flat = made.reshape(values.shape[1], -1)
        return np.ascontiguousarray(flat[:, start - first * self.new : stop - first * self.new].T)

    @property
    def _width(self) -> int:
        return math.ceil(ZEROS * self.old / (min(self.old, self.new) * ROLLOFF))

    @property
    def _span(self) -> int:
        return 2 * self._width + self.old


@lru_cache(KEPT_RATIOS)
def _weights(ratio: Ratio) -> NDArray[np.float32]:
    """Return the weights (span, new) of the input frames in a block of output frames."""
    cutoff = min(ratio.old, ratio.new) * ROLLOFF
    width = math.ceil(ZEROS * ratio.old / cutoff)
    at = np.arange(-width, width + ratio.old)[:, None] / ratio.old
    time = (at - np.arange(ratio.new) / ratio.new) * cutoff
    time = np.clip(time, -ZEROS, ZEROS)
    window = np.cos(time * np.pi / ZEROS / 2) ** 2
    weights = np.sinc(time) * window * (cutoff / ratio.old)
    return weights.astype(np.float32)
