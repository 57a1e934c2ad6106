"""Resampling and mel spectrograms: properties that they have, and values of other libraries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.decode.sound.resampling import Ratio
from tensorlake.loader.decode.sound.spectrum import mel_bank, power_spectrum
from tests.support.sounds import tone

RATES = [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (16_000, 44_100), (22_050, 24_000)]

TORCHAUDIO = [
    0.048453,
    -0.116476,
    0.668192,
    0.219684,
    -0.076827,
    0.023572,
    0.226953,
    0.575363,
    0.959293,
]
LIBROSA = {
    "slaney": [
        [0.482186, 0.246647, 0.00670773, 0.00160371, 0.000479853, 0.000178984],
        [0.225069, 0.679834, 0.0634719, 8.94095e-05, 2.45257e-07, 3.08942e-09],
        [0.00231497, 0.205531, 0.531033, 0.0209449, 1.29287e-05, 3.71604e-08],
        [1.01867e-05, 0.001768, 0.254534, 0.27993, 0.00269421, 1.27198e-07],
        [4.15192e-07, 8.82337e-06, 0.00775148, 0.287063, 0.079633, 8.10911e-06],
        [2.59892e-05, 3.00915e-05, 6.49876e-05, 0.122247, 0.16824, 7.66372e-05],
    ],
    "htk": [
        [139.742, 133.467, 15.0982, 1.15603, 0.356558, 0.173776],
        [10.1979, 214.307, 102.537, 0.352291, 0.000202009, 2.78534e-06],
        [0.0357484, 15.6675, 221.706, 41.7037, 0.0113688, 3.31593e-05],
        [0.000483293, 0.0679796, 61.8313, 173.502, 2.45431, 0.000107787],
        [4.61518e-05, 0.000707613, 0.809009, 139.563, 62.3082, 0.00661271],
        [0.00619278, 0.00959592, 0.0153213, 61.4549, 118.512, 0.0664767],
    ],
}


def sine(hz: float, rate: int, frames: int) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(frames) / rate).astype(np.float32)


def resampled(values: np.ndarray, old: int, new: int) -> np.ndarray:
    ratio = Ratio.of(old, new)
    return ratio.resample(values, 0, 0, ratio.length(len(values)))


@pytest.mark.parametrize(("old", "new"), RATES)
def test_a_resampled_sine_is_the_sine_of_its_frequency(old, new):
    made = resampled(sine(440, old, old)[:, None], old, new)[:, 0]

    inner = slice(new // 20, -new // 20)
    assert len(made) == new
    assert np.abs(made - sine(440, new, new))[inner].max() < 2e-3


def test_frequencies_above_half_the_new_rate_vanish():
    made = resampled(sine(12_000, 44_100, 44_100)[:, None], 44_100, 16_000)

    assert np.abs(made[800:-800]).max() < 5e-3


@given(st.data())
def test_a_span_equals_that_of_the_whole(data):
    old, new = data.draw(st.sampled_from(RATES))
    values = tone(2_000, 2, rate=old)
    ratio, whole = Ratio.of(old, new), resampled(values, old, new)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))

    first, last = ratio.input_span(start, stop, len(values))
    made = ratio.resample(values[first:last], first, start, stop)

    assert made.shape == (stop - start, 2)
    assert np.abs(made - whole[start:stop]).max(initial=0) < 1e-6


def test_resampling_equals_torchaudio():
    """`torchaudio.functional.resample(x, 8_000, 6_000)` of release 2.11, of two shapes."""
    values = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0.25, 0.5, 0.75, 1], np.float32)[:, None]

    made = resampled(values, 8_000, 6_000)[:, 0]

    assert np.abs(made - TORCHAUDIO).max() < 1e-6


def test_rates_without_a_common_divisor_are_refused():
    with pytest.raises(ValueError, match="no common divisor"):
        Ratio.of(44_101, 16_007)


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize("hz", [200, 1_000, 3_700])
def test_a_sine_is_loudest_in_its_band(scale, hz):
    bank = mel_bank(40, 1_024, 16_000, low_hz=0.0, high_hz=8_000.0, scale=scale)

    mel = power_spectrum(sine(hz, 16_000, 16_000), 1_024, 256) @ bank

    loudest = int(mel.mean(axis=0).argmax())
    weights = bank[round(hz / (16_000 / 1_024))]
    assert weights[loudest] > 0
    assert mel.shape == (1 + 16_000 // 256, 40)


@given(st.integers(1, 2_000), st.floats(0.01, 10))
def test_power_is_quadratic_in_the_signal(frames, factor):
    signal = tone(frames)[:, 0]

    plain = power_spectrum(signal, 64, 16)
    scaled = power_spectrum(signal * np.float32(factor), 64, 16)

    assert plain.shape == (1 + frames // 16, 33)
    assert np.allclose(scaled, plain * factor**2, rtol=1e-3, atol=1e-5 * factor**2)


def test_bands_share_the_power_of_white_noise():
    bank = mel_bank(20, 512, 16_000, low_hz=0.0, high_hz=8_000.0, scale="htk")

    inner = bank[20:200].sum(axis=1)

    assert np.allclose(inner, 1.0, atol=1e-5)  # triangles that overlap to 1


def test_no_frames_have_no_spectrum():
    assert power_spectrum(np.zeros(0, np.float32), 400, 160).shape == (0, 201)


def test_mel_equals_librosa():
    """`librosa.feature.melspectrogram` 0.11 of a chirp: n_fft=64, hop_length=32, n_mels=6."""
    at = np.arange(160) / 8_000
    signal = (np.exp(-20 * at) * np.sin(2 * np.pi * (300 + 40_000 * at) * at)).astype(np.float32)
    power = power_spectrum(signal, 64, 32)

    for scale, expected in LIBROSA.items():
        mel = power @ mel_bank(6, 64, 8_000, low_hz=0.0, high_hz=4_000.0, scale=scale)
        assert np.allclose(mel, expected, rtol=1e-4, atol=1e-5 * np.max(expected))
