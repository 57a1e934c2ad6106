"""Files that are damaged, cut short or made to harm: errors in bounded time and memory."""

import json
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from tensorlake.types.video.containers import Limits
from tensorlake.types.video.decoder import decode_frames
from tensorlake.types.video.index import index_video
from tensorlake.types.video.map import read_map
from tests.support.videos import ENCODINGS, video_file, with_media_time

HUGE = 2**31 - 1


def patched(file, box, offset, value):
    """Overwrite a number of a box, so many bytes after its name."""
    at = file.index(box) + 4 + offset
    return file[:at] + struct.pack(">I", value) + file[at + 4 :]


def box_at(data, start, stop, name):
    while start < stop:
        (size,) = struct.unpack(">I", data[start : start + 4])
        if data[start + 4 : start + 8] == name:
            return start, start + size
        start += size
    raise LookupError(name)


def with_tracks(file, count):
    """Repeat the track of an MP4."""
    start, stop = box_at(file, 0, len(file), b"moov")
    first, last = box_at(file, start + 8, stop, b"trak")
    content = file[start + 8 : stop] + file[first:last] * (count - 1)
    return file[:start] + struct.pack(">I", 8 + len(content)) + b"moov" + content + file[stop:]


HOSTILE = {
    "2,000 tracks": (lambda f: with_tracks(f, 2000), "2,000 tracks, more than 64"),
    "samples of one size": (
        lambda f: patched(patched(f, b"stsz", 4, 100), b"stsz", 8, HUGE),
        "'stsz' promises more than 4,194,304",
    ),
    "samples beyond their table": (lambda f: patched(f, b"stsz", 8, HUGE), "longer than its box"),
    "a run of times": (lambda f: patched(f, b"stts", 8, HUGE), "'stts' promises more"),
    "a run of offsets": (lambda f: patched(f, b"ctts", 8, HUGE), "'ctts' promises more"),
    "edits beyond their table": (lambda f: patched(f, b"elst", 4, HUGE), "longer than its box"),
    "chunks beyond the file": (lambda f: patched(f, b"stco", 8, HUGE), "no frame"),
    "an edit after the end": (lambda f: with_media_time(f, 99), "shows no frame"),
    "an edit long before": (lambda f: with_media_time(f, -99_999), "shows no frame"),
    "a box of no size": (lambda f: patched(f, b"moov", -8, 3), "size 3|not mp4|no frame|index"),
    "nothing": (lambda _: b"", "is not mp4, mov"),
    "text": (lambda _: b"#!/bin/sh\nrm -rf /", "is not mp4, mov"),
    "a playlist": (lambda _: b"#EXTM3U\nfile:///etc/passwd\n", "is not mp4, mov"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_by_name(case):
    harm, reason = HOSTILE[case]

    with pytest.raises(ValueError, match=reason):
        index_video(harm(video_file("h264")))


def test_fragments_cannot_promise_samples_without_bytes():
    with pytest.raises(ValueError, match="'trun' promises more"):
        index_video(patched(video_file("fragments"), b"trun", 4, HUGE))


@pytest.mark.parametrize("name", ENCODINGS)
def test_files_cut_short_are_refused(name):
    file = video_file(name)

    for share in (0.02, 0.4, 0.7, 0.99):
        with pytest.raises(ValueError, match=r"end|not mp4|no frame|cannot read|segment"):
            index_video(file[: int(len(file) * share)])
    with pytest.raises(ValueError, match="end"):
        index_video(file[:-1])


@pytest.mark.slow
def test_damaged_files_raise_value_errors_only():
    draw = np.random.default_rng(0)
    names = list(ENCODINGS)
    for _ in range(40):
        damaged = bytearray(video_file(names[draw.integers(len(names))]))
        for at in draw.integers(0, len(damaged), 4).tolist():
            damaged[at] = int(draw.integers(256))
        file = bytes(damaged)
        try:
            video = index_video(file)
            decode_frames(video, lambda start, stop, file=file: file[start:stop], np.arange(2))
        except ValueError:
            pass


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(frames=39), "more than 39"),
        (Limits(pixels=48 * 64 - 1), r"cannot read it|decoded|no video track"),
        (Limits(tracks=0), "1 tracks, more than 0"),
    ],
)
def test_limits_can_be_set(limits, reason):
    assert index_video(video_file("h264"), Limits(frames=40, pixels=48 * 64, tracks=1))

    with pytest.raises(ValueError, match=reason):
        index_video(video_file("h264"), limits)


CHILD = """
import resource, sys
from tensorlake.types.video.index import index_video
index_video(open(sys.argv[1], "rb").read())  # the libraries, and their threads
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for path in sys.argv[2:]:
    try:
        index_video(open(path, "rb").read())
    except ValueError:
        pass
    else:
        raise SystemExit(f"{path} was accepted")
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
print(grown)
"""


@pytest.mark.slow
def test_hostile_files_take_little_memory(tmp_path):
    sound = tmp_path / "sound.mp4"
    sound.write_bytes(video_file("h264"))
    paths = []
    for case, (harm, _) in HOSTILE.items():
        paths.append(tmp_path / f"{case.replace(',', '')}.mp4")
        paths[-1].write_bytes(harm(video_file("h264")))

    command = [sys.executable, "-c", CHILD, sound, *paths]
    child = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert child.returncode == 0, child.stderr
    assert int(child.stdout) < 64 << 10  # KiB


def map_with(**changes):
    body = zlib.decompress(index_video(video_file("h264")).to_bytes()[1:])
    length = int.from_bytes(body[:4], "little")
    facts = json.loads(body[4 : 4 + length]) | changes
    text = json.dumps(facts).encode()
    return b"\1" + zlib.compress(len(text).to_bytes(4, "little") + text + body[4 + length :])


DAMAGED_MAPS = {
    "empty": lambda: b"",
    "of a later version": lambda: b"\2abc",
    "not compressed": lambda: b"\1abc",
    "cut short": lambda: index_video(video_file("h264")).to_bytes()[:-9],
    "beyond the file": lambda: map_with(nbytes=100),
    "without height": lambda: map_with(size=[0, 64]),
    "of no rate": lambda: map_with(fps=[1, 0]),
    "without packets": lambda: map_with(arrays=[]),
    "longer than it is": lambda: map_with(arrays=[["offsets", 1, 10**9]] * 6),
    "not hexadecimal": lambda: map_with(extradata="zz"),
}


@pytest.mark.parametrize("case", DAMAGED_MAPS)
def test_damaged_maps_are_refused(case):
    with pytest.raises(ValueError, match="map"):
        read_map(DAMAGED_MAPS[case]())


def test_a_codec_that_ffmpeg_lacks_is_named():
    file = video_file("h264")
    video = read_map(map_with(codec="vvc9", decoder="vvc9"))

    with pytest.raises(ValueError, match="no decoder for 'vvc9'"):
        decode_frames(video, lambda start, stop: file[start:stop], np.arange(1))
