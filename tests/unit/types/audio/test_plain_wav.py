"""WAV without a codec is decoded by NumPy: equal to soundfile, to the bit."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import CorruptSampleError
from tensorlake.types import MemorySample, SampleParts
from tensorlake.types.audio.containers.wav import WavSamples, parse_wav, samples_of

SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]
FORMS = ["WAV", "WAVEX", "RF64"]
TYPE = tl.Audio()
EXTREMES = [-1.0, 1.0, 0.0, -0.0, 1.5, -1.5, 1e-8, 2.0**-23, 0.999999]


def file_of(frames, *, form="WAV", subtype="PCM_16", rate=8_000):
    file = io.BytesIO()
    soundfile.write(file, frames, rate, format=form, subtype=subtype)
    return file.getvalue()


def decoded(content, start, stop):
    sample = MemorySample(content, TYPE.map_of(content, tensor="a", row=0))
    request = (slice(start, stop),)
    parts = sample.fetch(TYPE.wanted_parts(sample.map, request, tensor="a", row=0))
    return TYPE.decode_parts(SampleParts(sample.map, parts), request, tensor="a", row=0)


def expected(content, start, stop):
    return soundfile.read(
        io.BytesIO(content), start=start, stop=stop, dtype="float32", always_2d=True
    )[0]


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_windows_equal_soundfile_s_in_one_part_and_in_many(form, subtype, channels):
    rng = np.random.default_rng(0)
    for count in (len(EXTREMES), 20_000):
        frames = rng.standard_normal((count, channels)) * 0.5
        frames[: len(EXTREMES), 0] = EXTREMES
        content = file_of(frames, form=form, subtype=subtype)
        track = parse_wav(content)
        assert track is not None
        assert samples_of(track.header) is not None
        for start, stop in ((0, count), (0, 1), (count // 3, count // 2 + 1), (count - 1, count)):
            found = decoded(content, start, stop)
            assert found.dtype == np.float32
            assert found.tobytes() == expected(content, start, stop).tobytes()


@settings(max_examples=40)
@given(
    st.binary(min_size=24, max_size=24 * 700),
    st.sampled_from(["<u1", "<i2", "<i3", "<i4", "<f4", "<f8"]),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_any_bytes_are_the_numbers_that_soundfile_reads(samples, kind, channels, random):
    nbytes, is_float = int(kind[2]), kind[1] == "f"
    block = nbytes * channels
    fmt = struct.pack(
        "<HHIIHH", 3 if is_float else 1, channels, 500, 500 * block, block, 8 * nbytes
    )
    data = samples[: len(samples) // block * block]
    chunks = b"fmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", len(data)) + data
    content = (
        b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks + b"\0" * (len(data) % 2)
    )
    count = len(data) // block
    start = random.randrange(count)
    stop = random.randrange(start + 1, count + 1)

    found = decoded(content, start, stop)

    assert np.array_equal(found, expected(content, start, stop), equal_nan=is_float)


@pytest.mark.parametrize(
    ("tag", "bits", "block"),
    [(6, 8, 2), (1, 12, 4), (1, 16, 8), (3, 16, 4), (0x11, 4, 512), (1, 0, 0)],
)
def test_samples_that_need_a_codec_or_are_padded_are_left_to_libsndfile(tag, bits, block):
    fmt = struct.pack("<HHIIHH", tag, 2, 8_000, 8_000 * block, block, bits)

    assert samples_of(b"fmt \x10\0\0\0" + fmt) is None


def test_the_form_of_extensible_samples_is_in_their_subformat():
    fmt = struct.pack("<HHIIHHHHI", 0xFFFE, 6, 48_000, 48_000 * 18, 18, 24, 22, 24, 63)
    subformat = struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")

    assert samples_of(b"fmt \x28\0\0\0" + fmt + subformat) == WavSamples(
        is_float=False, nbytes=3, channels=6
    )
    assert samples_of(b"") is None


def test_a_part_that_is_cut_short_is_refused():
    content = file_of(np.zeros((20_000, 1)))
    sample = MemorySample(content, TYPE.map_of(content, tensor="a", row=0))
    request = (slice(0, 9_000),)
    parts = sample.fetch(TYPE.wanted_parts(sample.map, request, tensor="a", row=0))
    parts = {number: bytes(part)[:-2] for number, part in parts.items()}
    cut = SampleParts(sample.map, parts)

    with pytest.raises(CorruptSampleError, match="frames 0 to 2,000 decode to 1,999 frames"):
        TYPE.decode_parts(cut, request, tensor="a", row=0)
