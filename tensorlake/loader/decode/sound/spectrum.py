"""Mel spectrograms: power in bands of equal width on the mel scale, over windows of time.

The scales are those of HTK (2595 · log10(1 + f / 700), O'Shaughnessy) and of Slaney's Auditory
Toolbox, linear below 1 kHz and logarithmic above, whose bands are divided by their width in Hz.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MelScale", "mel_bank", "power_spectrum"]

MelScale: TypeAlias = Literal["slaney", "htk"]

_HTK_FACTOR, _HTK_HZ = 2595.0, 700.0
_SLANEY_HZ_PER_MEL, _SLANEY_LOG_HZ = 200.0 / 3, 1000.0
_SLANEY_LOG_STEP = np.log(6.4) / 27.0
_KEPT_BANKS = 16


def power_spectrum(signal: NDArray[np.float32], fft: int, hop: int) -> NDArray[np.float32]:
    """Return the power of each frequency in windows around every `hop`-th frame.

    Args:
        signal: float32 (frames,); mirrored at its ends.
        fft: Length of a window, under a Hann window.
        hop: Distance between windows.

    Returns:
        float32 (1 + frames // hop, fft // 2 + 1).
    """
    if not len(signal):
        return np.zeros((0, fft // 2 + 1), np.float32)
    padded = np.pad(signal, fft // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, fft)[::hop][: 1 + len(signal) // hop]
    spectrum = np.fft.rfft(windows * _hann(fft), axis=1)
    return (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)


@lru_cache(_KEPT_BANKS)
def _hann(length: int) -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)).astype(np.float32)


@lru_cache(_KEPT_BANKS)
def mel_bank(
    bands: int, fft: int, rate: int, *, low_hz: float, high_hz: float, scale: MelScale
) -> NDArray[np.float32]:
    """Return the weight of each frequency in each band, float32 (fft // 2 + 1, bands)."""
    to_mel, to_hz = _SCALES[scale]
    low, high = to_mel(np.array([low_hz, high_hz])).tolist()
    edges = to_hz(np.linspace(low, high, bands + 2))
    hertz = np.linspace(0, rate / 2, fft // 2 + 1)[:, None]
    rising = (hertz - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - hertz) / np.diff(edges)[1:]
    bank = np.maximum(0.0, np.minimum(rising, falling))
    if scale == "slaney":
        bank *= 2.0 / (edges[2:] - edges[:-2])
    return bank.astype(np.float32)


def _htk_mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return _HTK_FACTOR * np.log10(1.0 + hertz / _HTK_HZ)


def _htk_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return _HTK_HZ * (10.0 ** (mel / _HTK_FACTOR) - 1.0)


def _slaney_mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    above = np.log(np.maximum(hertz, _SLANEY_LOG_HZ) / _SLANEY_LOG_HZ) / _SLANEY_LOG_STEP
    return np.minimum(hertz, _SLANEY_LOG_HZ) / _SLANEY_HZ_PER_MEL + above


def _slaney_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    log_mel = _SLANEY_LOG_HZ / _SLANEY_HZ_PER_MEL
    above = np.exp(_SLANEY_LOG_STEP * np.maximum(mel - log_mel, 0.0))
    return np.minimum(mel, log_mel) * _SLANEY_HZ_PER_MEL * above


_SCALES = {"htk": (_htk_mel, _htk_hz), "slaney": (_slaney_mel, _slaney_hz)}
