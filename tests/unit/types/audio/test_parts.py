"""Frames decoded from parts of a file equal those that soundfile decodes from the whole of it."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.types.audio.containers.parse import container_of
from tensorlake.types.audio.containers.track import Track
from tensorlake.types.audio.decoder import decode_frames, encode_frames, file_track, parts_of
from tensorlake.types.audio.map import read_track, write_head
from tests.support.sounds import real_file, sound_file, tone

LOSSLESS = [
    *(("WAV", kind, 44_100, 2) for kind in ("PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT")),
    *(("WAV", kind, 8_000, 1) for kind in ("DOUBLE", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM")),
    ("WAVEX", "PCM_24", 48_000, 6),
    ("RF64", "PCM_16", 16_000, 1),
    ("FLAC", "PCM_16", 44_100, 2),
    ("FLAC", "PCM_24", 96_000, 1),
    ("FLAC", "PCM_S8", 16_000, 8),
]
LOSSY = [
    *(("OGG", "VORBIS", rate, channels, 0.0) for rate, channels in ((8_000, 1), (44_100, 2))),
    *(("OGG", "OPUS", rate, channels, 1e-6) for rate, channels in ((16_000, 2), (48_000, 1))),
    ("MP3", "MPEG_LAYER_III", 44_100, 2, 0.0),
    *(("MP3", "MPEG_LAYER_III", rate, 1, 5e-7) for rate in (8_000, 16_000, 24_000, 32_000)),
]


def whole(content: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)[0]


def track_of(content: bytes) -> Track:
    container = container_of(content)
    assert container is not None
    return file_track(content, container)


def part_bytes(content: bytes, track: Track, numbers: range) -> dict[int, bytes]:
    begins = [0, *track.cuts.tolist()]
    return {number: content[begins[number] : begins[number + 1]] for number in numbers}


def difference(content: bytes, track: Track, start: int, stop: int, expected: np.ndarray) -> float:
    parts = part_bytes(content, track, parts_of(track, start, stop))
    frames = decode_frames(track, parts, start, stop)
    assert frames.shape == (stop - start, track.channels)
    return float(np.abs(frames - expected[start:stop]).max(initial=0.0))


def windows(track: Track) -> list[tuple[int, int]]:
    """Return windows at both ends, at the borders of parts, and at random places."""
    last, rate = track.frames, track.rate
    edges = track.stops[1:-1].tolist()[:2]
    chosen = [(0, 1), (0, last), (last - 1, last), (0, rate // 2), (last - rate, last)]
    chosen += [(edge - 1, edge + 1) for edge in edges] + [(edge, edge + rate) for edge in edges]
    starts = np.random.default_rng(0).integers(0, last - rate, 6).tolist()
    return chosen + [(start, start + rate) for start in starts]


@pytest.mark.parametrize(("form", "subtype", "rate", "channels"), LOSSLESS)
def test_parts_of_a_lossless_file_equal_the_whole_to_the_bit(
    form: str, subtype: str, rate: int, channels: int
) -> None:
    content = sound_file(form, subtype, rate=rate, channels=channels)
    track = track_of(content)
    expected = whole(content)

    differences = [difference(content, track, *one, expected) for one in windows(track)]

    assert (track.frames, track.channels, track.rate) == (*expected.shape, rate)
    assert max(differences) == 0.0


@pytest.mark.parametrize(("form", "subtype", "rate", "channels", "tolerance"), LOSSY)
def test_parts_of_a_lossy_file_equal_the_whole(
    form: str, subtype: str, rate: int, channels: int, tolerance: float
) -> None:
    content = sound_file(form, subtype, rate=rate, channels=channels, seconds=4)
    track = track_of(content)
    expected = whole(content)

    differences = [difference(content, track, *one, expected) for one in windows(track)]

    assert (track.frames, track.channels, track.rate) == (*expected.shape, rate)
    assert max(differences) <= tolerance


@pytest.mark.parametrize("name", ["nasa_13013.mp4.audio.mp3", "sine_mono_s16.wav"])
def test_parts_of_a_real_file_equal_the_whole(name: str) -> None:
    content = real_file(f"audio/torchcodec/{name}")
    track = track_of(content)
    expected = whole(content)

    differences = [difference(content, track, *one, expected) for one in windows(track)]

    assert track.frames == len(expected)
    assert max(differences) <= 5e-7


@given(st.data())
def test_any_window_of_a_flac_file_equals_the_whole(data: st.DataObject) -> None:
    content = sound_file("FLAC", "PCM_16", rate=8_000, seconds=3)
    track = track_of(content)
    start = data.draw(st.integers(0, track.frames))
    stop = data.draw(st.integers(start, track.frames))

    assert difference(content, track, start, stop, whole(content)) == 0.0


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")],
)
def test_a_window_reads_at_most_1_6_times_its_share_on_average(form: str, subtype: str) -> None:
    content = sound_file(form, subtype, rate=44_100, channels=2, seconds=10)
    track = track_of(content)
    wide = 2 * track.rate
    starts = np.random.default_rng(1).integers(0, track.frames - wide, 20).tolist()

    read = [part_bytes(content, track, parts_of(track, one, one + wide)) for one in starts]

    shares = [sum(map(len, parts.values())) / len(content) for parts in read]
    assert np.mean(shares) <= 1.6 * wide / track.frames


def test_an_mp3_without_a_tag_has_all_its_frames() -> None:
    content = sound_file("MP3", "MPEG_LAYER_III", rate=44_100)
    plain = content[track_of(content).cuts[0] :]  # libsndfile estimates the length of this one

    track = track_of(plain)
    frames = decode_frames(track, part_bytes(plain, track, range(1, len(track.cuts))), 0, 44_100)

    delay = track_of(content).delay
    assert track.frames >= 4 * 44_100 + delay
    assert np.abs(frames[delay:] - whole(content)[: 44_100 - delay]).max() <= 5e-7


@pytest.mark.parametrize(("form", "subtype"), [("WAV", "PCM_16"), ("MP3", "MPEG_LAYER_III")])
def test_parts_that_give_fewer_frames_are_refused(form: str, subtype: str) -> None:
    content = sound_file(form, subtype, rate=44_100)
    track = track_of(content)
    numbers = parts_of(track, 50_000, 90_000)
    parts = part_bytes(content, track, numbers)
    parts[numbers[-1]] = parts[numbers[-1]][:100]

    with pytest.raises(ValueError, match="decode to"):
        decode_frames(track, parts, 50_000, 90_000)


def test_a_small_file_is_one_part() -> None:
    content = sound_file("WAV", "PCM_16", seconds=0.3)

    track = track_of(content)

    assert track.cuts.tolist() == [len(content)]
    assert difference(content, track, 100, 200, whole(content)) == 0.0


@pytest.mark.parametrize(("form", "subtype"), [("WAV", "GSM610"), ("WAV", "NMS_ADPCM_32")])
def test_a_codec_without_parts_is_read_whole(form: str, subtype: str) -> None:
    content = sound_file(form, subtype, rate=8_000, seconds=8)

    track = track_of(content)

    assert len(track.cuts) == 1
    assert difference(content, track, 8_000, 9_000, whole(content)) == 0.0


def test_a_track_survives_its_map() -> None:
    track = track_of(sound_file("OGG", "VORBIS"))

    read = read_track(write_head(track), track.cuts)

    assert (read.header, read.codec, read.frames) == (track.header, "vorbis", track.frames)
    assert (read.starts == track.starts).all()
    assert (read.stops == track.stops).all()


def test_a_damaged_map_is_refused() -> None:
    track = track_of(sound_file("WAV", "PCM_16"))
    head = write_head(track)

    for damaged in (b"", head[:-3], head + b"\0", b"\x91\x07"):
        with pytest.raises(ValueError, match="map"):
            read_track(damaged, track.cuts)
    with pytest.raises(ValueError, match="parts"):
        read_track(head, track.cuts[:-1])


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 2, 12])
def test_arrays_are_encoded_without_loss(dtype: str, channels: int) -> None:
    frames = tone(1_000, channels)
    if dtype != "float32":
        limits = np.iinfo(dtype)
        frames = ((frames + 1) / 2 * limits.max).astype(dtype)

    decoded = whole(encode_frames(frames, 16_000))

    scale = {"int16": 2.0**-15, "int32": 2.0**-31, "uint8": 2.0**-7}.get(dtype, 1.0)
    offset = 128 if dtype == "uint8" else 0
    expected = ((frames.astype(np.float64) - offset) * scale).astype(np.float32)
    assert (decoded == expected).all()
