"""Files of audio that are cut, damaged or lie are refused, in bounded time and memory."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.types.audio.containers.crc import crc16
from tensorlake.types.audio.containers.flac import parse_flac
from tensorlake.types.audio.containers.parse import container_of
from tensorlake.types.audio.containers.track import Track
from tensorlake.types.audio.decoder import encode_frames, file_track
from tensorlake.types.audio.limits import too_many_frames
from tests.support.examples import examples
from tests.support.sounds import silent_flac, sound_file, undecodable_flac

FORMATS = [
    *(("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS")),
    *(("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")),
]


def track_of(content: bytes) -> Track:
    container = container_of(content)
    assert container is not None
    return file_track(content, container)


@pytest.mark.parametrize(("form", "subtype"), FORMATS)
@pytest.mark.parametrize("missing", [1, 2, 100, 3_001, 0.5])
def test_a_cut_file_is_refused(form: str, subtype: str, missing: float) -> None:
    content = sound_file(form, subtype, rate=16_000)
    stop = int(len(content) * missing) if missing < 1 else -int(missing)

    with pytest.raises(ValueError, match=r"whole|promises|ends before|frames"):
        track_of(content[:stop])


def test_a_file_cut_between_two_packets_is_refused() -> None:
    ogg, mp3 = sound_file("OGG", "VORBIS"), sound_file("MP3", "MPEG_LAYER_III", seconds=8)
    last_page = ogg.rindex(b"OggS")
    mp3_frame = mp3.rindex(mp3[track_of(mp3).cuts[0] :][:2])

    with pytest.raises(ValueError, match="ends before its last page"):
        track_of(ogg[:last_page])
    with pytest.raises(ValueError, match="promises"):
        track_of(mp3[:mp3_frame])


@given(st.data())
@examples(30)
def test_a_flac_file_with_a_changed_byte_is_refused(data: st.DataObject) -> None:
    content = bytearray(sound_file("FLAC", "PCM_16", rate=16_000))
    begin = bytes(content).index(b"\xff\xf8")
    content[data.draw(st.integers(begin, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ValueError, match=r"damaged|promises|no frame of samples"):
        parse_flac(bytes(content))


@pytest.mark.parametrize("changed", range(1, 8))
def test_a_flac_header_with_other_channels_than_its_frames_is_refused(changed: int) -> None:
    content = bytearray(sound_file("FLAC", "PCM_16", channels=2, seconds=0.5))
    content[20] ^= changed << 1  # RFC 9639, 8.2

    with pytest.raises(ValueError, match=r"promises \d channels, and its frames have 2"):
        parse_flac(bytes(content))


def test_appending_a_damaged_flac_names_the_row_and_the_frame() -> None:
    content = bytearray(silent_flac(20))
    content[len(content) // 2] ^= 0xFF
    ds = tl.create("memory://damaged-flac", {"a": tl.Audio()})

    with pytest.raises(InvalidInputError, match=r"FLAC file: its frame 9, bytes \d+ to \d+, is"):
        ds.append({"a": bytes(content)})


@given(st.binary(max_size=700))
@examples(50)
def test_checksums_are_those_of_the_definition(data: bytes) -> None:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x8005 if crc >> 15 else 0)) & 0xFFFF

    assert crc16(data) == crc
    assert crc16(data * 50 + crc16(data * 50).to_bytes(2)) == 0


def test_reading_a_flac_that_was_damaged_before_its_checksums_names_tensor_and_row() -> None:
    ds = tl.create("memory://damaged-flac-read", {"a": tl.Audio()})
    ds.append({"a": undecodable_flac()})

    with pytest.raises(CorruptSampleError, match="libsndfile cannot decode it") as caught:
        np.asarray(ds[0]["a"])
    assert (caught.value.tensor, caught.value.row) == ("a", 0)


def test_a_flac_file_cut_between_two_frames_is_refused() -> None:
    content = silent_flac(20)

    with pytest.raises(ValueError, match="promises 1,310,700 frames, and it has 1,245,165"):
        track_of(content[:-34])


def test_several_streams_one_after_another_are_refused() -> None:
    content = sound_file("OGG", "VORBIS")

    with pytest.raises(ValueError, match="several streams"):
        track_of(content + sound_file("OGG", "OPUS"))


def test_other_bytes_between_the_frames_of_an_mp3_are_refused() -> None:
    content = sound_file("MP3", "MPEG_LAYER_III")

    with pytest.raises(ValueError, match="not MPEG audio"):
        track_of(content + b"HTTP/1.1 404 Not Found\r\n\r\n<html></html>")


def test_tags_behind_an_mp3_are_no_damage() -> None:
    content = sound_file("MP3", "MPEG_LAYER_III")
    ape = b"APETAGEX" + struct.pack("<IIII8x", 2000, 40, 1, 0)

    tagged = track_of(content + bytes(8) + ape + b"TAG" + bytes(125))

    assert tagged.frames == track_of(content).frames


@pytest.mark.parametrize("channels", [0, 65, 65_535])
def test_too_many_channels_are_refused(channels: int) -> None:
    content = bytearray(sound_file("WAV", "PCM_16"))
    content[22:24] = struct.pack("<H", channels)

    with pytest.raises(ValueError, match="channels"):
        track_of(bytes(content))


def test_a_wav_file_of_unknown_length_has_all_its_samples() -> None:
    content = bytearray(sound_file("WAV", "PCM_16"))
    content[40:44] = b"\xff\xff\xff\xff"  # as ffmpeg writes to a pipe

    assert track_of(bytes(content)).frames == 64_000


def test_a_flac_file_that_does_not_tell_its_length_has_all_its_frames() -> None:
    content = bytearray(sound_file("FLAC", "PCM_16"))
    content[21] &= 0xF0
    content[22:26] = bytes(4)  # as an encoder writes to a pipe

    assert track_of(bytes(content)).frames == 64_000


def test_a_header_among_the_samples_of_a_flac_frame_is_not_a_frame() -> None:
    noise = np.random.default_rng(0).integers(-32_768, 32_767, 20_000, np.int16)
    plain = encode_frames(noise[:, None], 8_000)
    second = parse_flac(plain).cuts[1]
    header = plain[second : second + 6]
    noise[1_000:1_003] = np.frombuffer(header, ">i2")  # noise is stored verbatim

    content = encode_frames(noise[:, None], 8_000)

    assert content.count(header) == 2
    assert parse_flac(content).cuts[1] == second
    assert parse_flac(content).frames == 20_000


@given(data=st.data())
def test_a_damaged_file_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    form, subtype = data.draw(st.sampled_from(FORMATS))
    content = bytearray(sound_file(form, subtype, rate=8_000, seconds=1.5))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(12, len(content) - 1))] = data.draw(st.integers(0, 255))

    try:
        track = track_of(bytes(content))
    except ValueError:
        return

    assert track.cuts[-1] == len(content)
    assert (track.cuts[1:] > track.cuts[:-1]).all()


def test_few_bytes_of_flac_that_ask_for_4_gb_are_read_in_parts_alone() -> None:
    """In a child whose memory is limited to 600 MB."""
    script = """
import resource, sys
import numpy as np
from tests.support.sounds import silent_flac
from tensorlake.types.audio.decoder import decode_frames, file_track, parts_of
content = silent_flac(2_048)
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
track = file_track(content, "flac")
start, stop = track.frames - 100_000, track.frames
begins = [0, *track.cuts.tolist()]
parts = {n: content[begins[n]:begins[n + 1]] for n in parts_of(track, start, stop)}
print(len(content), track.frames, decode_frames(track, parts, start, stop).shape, len(parts))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )

    nbytes, frames = map(int, ran.stdout.split()[:2])
    assert too_many_frames(frames, 8, nbytes, limit=1 << 30) is not None
    assert "(100000, 8)" in ran.stdout
