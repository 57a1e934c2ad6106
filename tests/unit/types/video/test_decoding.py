"""Windows of videos equal the frames of PyAV's full decoding, whatever the container."""

import io

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlake.types.video.decoder import decode_frames
from tensorlake.types.video.index import index_video
from tensorlake.types.video.map import read_map
from tensorlake.types.video.plan import cut_points, parts_of, plan_runs
from tests.support.videos import (
    ENCODINGS,
    ODD,
    decoded_by_pyav,
    encode,
    moving_picture,
    video_file,
)


def mapped(file):
    """The map of a file as it is read back from storage."""
    return read_map(index_video(file).to_bytes())


def window(file, video, frames):
    """Decode frames from the parts that the plan names, and from nothing else."""
    cuts = cut_points(video)
    starts = np.concatenate([[0], cuts[:-1]])
    parts = set(parts_of(video, plan_runs(video, frames), cuts).tolist())

    def read(start, stop):
        first = int(np.searchsorted(cuts, start, side="right"))
        last = int(np.searchsorted(cuts, stop, side="left"))
        assert set(range(first, last + 1)) <= parts
        assert starts[first] <= start < stop <= cuts[last]
        return file[start:stop]

    return decode_frames(video, read, frames)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ENCODINGS, *ODD])
def test_every_window_equals_the_whole(name):
    file = video_file(name)
    whole = decoded_by_pyav(file)
    video = mapped(file)
    assert video.shape == whole.shape

    draw = np.random.default_rng(0)
    for _ in range(24):
        start, stop = np.sort(draw.integers(0, len(whole) + 1, 2))
        frames = np.arange(start, stop, draw.integers(1, 7))
        assert np.array_equal(window(file, video, frames), whole[frames])


@pytest.mark.slow
@settings(max_examples=30)
@given(
    name=st.sampled_from([*ENCODINGS, *ODD]),
    frames=st.lists(st.integers(0, 32), min_size=1, max_size=6),
)
def test_frames_come_in_the_order_asked_for(name, frames):
    file = video_file(name)
    wanted = np.array(frames)

    assert np.array_equal(window(file, mapped(file), wanted), decoded_by_pyav(file)[wanted])


@pytest.mark.parametrize("size", [(34, 50), (2, 2), (90, 130)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p"])
def test_other_frame_sizes(size, pixel_format):
    frames = moving_picture(9, *size)
    file = encode(frames, "mp4", "libx264", pixel_format, {"g": "4"})

    assert np.array_equal(window(file, mapped(file), np.arange(9)), decoded_by_pyav(file))


def test_lossless_frames_come_back_as_given():
    frames = moving_picture(12)
    file = encode(frames, "matroska", "ffv1", "bgr0")

    assert np.array_equal(window(file, mapped(file), np.arange(12)), frames)


def test_key_frames_that_are_none_are_not_used():
    assert len(mapped(video_file("h264")).keys) == 4
    assert mapped(video_file("intra_refresh")).keys.tolist() == [0]


def test_frames_before_an_open_group_need_the_group_before():
    video = mapped(video_file("open_groups"))
    key, first = int(video.keys[1]), int(video.firsts[1])
    before = plan_runs(video, np.array([first - 1]))[0]
    at_key = plan_runs(video, np.array([first]))[0]

    assert video.order[first - 1] > key  # it comes after the key frame, and is shown before it
    assert (before.start, at_key.start) == (0, key)


def test_frames_far_apart_read_nothing_between():
    file = video_file("prores")
    video = mapped(file)
    runs = plan_runs(video, np.array([39, 0]))
    parts = parts_of(video, runs, cut_points(video))

    assert [(run.start, run.stop) for run in runs] == [(0, 1), (39, 40)]
    assert len(parts) < len(cut_points(video)) / 4


def test_times_of_a_variable_rate():
    steps = np.random.default_rng(1).integers(5, 90, 40)
    video = mapped(video_file("variable_rate"))

    expected = (np.cumsum(steps) - steps[0]) / 1000
    assert np.allclose(video.seconds, expected, atol=1e-4)
    assert float(video.fps) == pytest.approx(39 / expected[-1], rel=1e-3)


def test_facts_of_a_file():
    video = mapped(video_file("with_sound"))

    assert (float(video.fps), video.duration, video.container) == (25.0, 1.6, "mov")
    assert mapped(video_file("rotated")).rotation == 270
    assert mapped(video_file("edit_list")).shape[0] == 33
    assert decoded_by_pyav(video_file("edit_list")).shape[0] == 33


def test_maps_are_small():
    many = index_video(video_file("mjpeg", 400))

    assert len(many.to_bytes()) < 3 * 400


def test_packets_are_padded_for_the_decoder():
    """MPEG-4 decodes otherwise when bytes follow a packet that are not zero."""
    file = encode(moving_picture(60, seed=4), "avi", "mpeg4", "yuv420p", {"g": "10"})
    video = mapped(file)
    noise = memoryview(file + bytes(range(256)) * 4)

    decoded = decode_frames(video, lambda start, stop: noise[start:stop], np.arange(60))
    with av.open(io.BytesIO(file)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            assert np.array_equal(decoded[number], frame.to_ndarray(format="rgb24"))
