"""The type `Video`: what it takes and refuses, and what its handles read."""

import io
import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import DTypeMismatchError, InvalidInputError, SchemaError, ShapeMismatchError
from tensorlake.types import from_json
from tests.support.videos import (
    ENCODINGS,
    ODD,
    decoded_by_pyav,
    encode,
    moving_picture,
    video_file,
)


def committed(samples, sample_type=None):
    """A dataset with these videos, opened anew."""
    url = f"memory://videos-{np.random.default_rng().integers(1 << 60)}"
    with tl.create(url, {"clip": sample_type or tl.Video(nullable=True)}) as ds:
        ds.extend({"clip": samples})
        ds.commit()
    return tl.open(url)


@pytest.fixture(scope="module")
def videos():
    """A dataset with a video of each kind."""
    return committed([video_file(name) for name in (*ENCODINGS, *ODD)])


@pytest.mark.parametrize("row", range(len(ENCODINGS) + len(ODD)))
def test_handles_read_what_the_file_holds(videos, row):
    file = video_file((*ENCODINGS, *ODD)[row])
    whole = decoded_by_pyav(file)
    clip = videos["clip"][row]

    assert (clip.shape, len(clip)) == (whole.shape, len(whole))
    assert clip.content == videos["clip"].bytes(row) == file
    assert np.array_equal(clip, whole)
    assert np.array_equal(clip[5:20:3], whole[5:20:3])
    assert np.array_equal(videos["clip"][row, -4:, 8:20, :9], whole[-4:, 8:20, :9])
    assert np.array_equal(videos[row]["clip"][7], whole[7])


def test_regions_are_those_of_numpy(videos):
    clip, whole = videos["clip"][0], decoded_by_pyav(video_file("h264"))
    mask = np.arange(40) % 7 == 0

    for region in (
        *(np.s_[3], np.s_[-1, ..., 0], np.s_[::-9], np.s_[[7, 2, 2], :10, 3], np.s_[..., 2]),
        *(np.s_[mask], np.s_[[[1, 2], [3, 4]]], np.s_[5:5], np.s_[[1, 2], [3, 4]], np.s_[None, 4]),
    ):
        assert np.array_equal(clip[region], whole[region]), region
    assert np.array_equal(clip[np.int64(4)], whole[4])


def test_iterating_gives_all_frames(videos):
    frames = list(videos["clip"][1])

    assert np.array_equal(np.stack(frames), decoded_by_pyav(video_file("open_groups")))


def test_frames_by_time(videos):
    names = (*ENCODINGS, *ODD)
    for name in ("variable_rate", "matroska", "edit_list", "guessed_times"):
        clip, whole = videos["clip"][names.index(name)], decoded_by_pyav(video_file(name))

        assert np.array_equal(clip.frames(clip.times), whole)
        assert np.array_equal(clip.at(seconds=0), whole[0])
        assert np.array_equal(clip.at(seconds=clip.duration), whole[-1])
        between = (clip.times[5] + clip.times[6]) / 2
        assert np.array_equal(clip.frames([between, 0]), whole[[5, 0]])


def test_times_outside_a_video_are_refused_with_its_duration(videos):
    with pytest.raises(InvalidInputError, match=r"is not in it\ngive seconds from 0 to "):
        videos["clip"][0].at(seconds=1e9)
    with pytest.raises(InvalidInputError, match="times are seconds"):
        videos["clip"][0].at(seconds=None)


def test_times_are_not_lost_to_rounding():
    clip = committed([{"frames": moving_picture(40), "fps": 30}])["clip"][0]

    numbers = np.arange(40)
    assert np.array_equal(clip.frames(numbers / 30), np.asarray(clip))
    assert np.array_equal(clip.frames(np.round(numbers / 30, 6)), np.asarray(clip))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda clip: clip[40], "it has 40 frames"),
        (lambda clip: clip[[1, 99]], "it has 40 frames"),
        (lambda clip: clip["a"], "it has 40 frames"),
        (lambda clip: clip[:, 99], r"frames are \(48, 64, 3\)"),
        (lambda clip: clip.at(seconds=1.7), "lasts 1.6 s, and 1.7 s is not"),
        (lambda clip: clip.at(seconds=-0.1), "lasts 1.6 s"),
        (lambda clip: clip.at(seconds=np.nan), "times are seconds, got .nan."),
        (lambda clip: clip.frames(["x"]), "times are seconds"),
        (lambda clip: clip.frames(1.0), "a list of seconds"),
    ],
)
def test_what_a_video_has_not_is_refused(videos, wrong, reason):
    with pytest.raises(InvalidInputError, match=reason):
        wrong(videos["clip"][0])


def test_more_than_fits_in_memory_is_refused():
    url = "memory://a-long-video"
    with tl.create(url, {"clip": tl.Video(fps=30)}) as ds:
        ds.append({"clip": np.zeros((60, 512, 512, 3), np.uint8)})
        with pytest.raises(InvalidInputError, match=r"4\.4 GiB in memory, more than 4"):
            ds["clip"][0][np.zeros(6000, int)]
        ds.discard()


def test_handles_are_pickled_with_their_bytes(videos):
    clip = pickle.loads(pickle.dumps(videos["clip"][3]))

    assert np.array_equal(clip[2:4], decoded_by_pyav(video_file("fragments"))[2:4])


def test_null_is_none(videos):
    ds = committed([None, video_file("h264")])

    assert ds["clip"][0] is None
    assert ds["clip"][0, 3:5] is None
    assert ds["clip"][1].shape == (40, 48, 64, 3)


def test_queries_see_the_shape(videos):
    found = videos.query("SELECT SHAPE(clip)[0] AS frames WHERE SHAPE(clip)[0] < 40")

    assert found.to_pandas()["frames"].tolist() == [33]
    assert videos["clip"].shapes()[0].tolist() == [40, 48, 64, 3]


def test_paths_files_handles_and_arrays_are_taken(tmp_path, videos):
    path = tmp_path / "a.mp4"
    path.write_bytes(video_file("h264"))
    file = video_file("h264")
    samples = [path, str(path), tl.File(path), io.BytesIO(file), bytearray(file), videos["clip"][0]]

    ds = committed(samples)

    assert [ds["clip"].bytes(row) for row in range(len(samples))] == [file] * 6


@pytest.mark.parametrize(("codec", "error"), [("h264", 12), ("av1", 16), ("ffv1", 0)])
@pytest.mark.parametrize("size", [(64, 96), (47, 65)])
def test_arrays_are_encoded(codec, error, size):
    frames = moving_picture(16, *size)
    ds = committed([frames, {"frames": frames[:5], "fps": 12.5}], tl.Video(codec, fps=30))

    clip, other = ds["clip"][0], ds["clip"][1]
    assert (clip.shape, clip.fps, other.fps) == (frames.shape, 30, 12.5)
    assert np.abs(np.asarray(clip).astype(int) - frames).mean() <= error


@pytest.mark.parametrize(
    ("sample", "kind", "reason"),
    [
        (moving_picture(2), DTypeMismatchError, "frames without fps"),
        ({"frames": moving_picture(2), "fps": 0}, DTypeMismatchError, "fps=0"),
        ({"frames": moving_picture(2), "fps": np.nan}, DTypeMismatchError, "fps=nan"),
        ({"frames": moving_picture(2), "fps": 10**400}, DTypeMismatchError, "fps="),
        ({"frames": moving_picture(2), "rate": 9}, DTypeMismatchError, "a mapping of"),
        ({"frames": moving_picture(2) / 255, "fps": 9}, DTypeMismatchError, "float64"),
        (moving_picture(2).transpose(0, 3, 1, 2), ShapeMismatchError, "channels come last"),
        (moving_picture(2)[..., :1], ShapeMismatchError, r"uint8 \(2, 48, 64, 1\)"),
        (moving_picture(2)[:0], ShapeMismatchError, r"uint8 \(0, 48, 64, 3\)"),
        (b"RIFF....WAVE", InvalidInputError, "cannot take a sample .12 bytes.: it is not mp4"),
        ("missing.mp4", InvalidInputError, "cannot read the file 'missing.mp4'"),
    ],
)
def test_other_samples_are_refused(sample, kind, reason):
    ds = tl.create("memory://refused-videos", {"clip": tl.Video()}, exist_ok=True)

    with pytest.raises(kind, match=reason):
        ds.append({"clip": sample})
    assert not ds.has_changes


def test_files_in_pieces_are_remuxed_on_request():
    file = encode(moving_picture(20), "mpegts", "libx264", "yuv420p", {"g": "10"})
    ds = tl.create("memory://mpegts", {"clip": tl.Video()}, exist_ok=True)

    with pytest.raises(InvalidInputError, match=r"it is MPEG-TS.*\nuse tl.Video\(remux=True\)"):
        ds.append({"clip": file})
    clip = committed([file], tl.Video(remux=True))["clip"][0]

    assert np.array_equal(clip, decoded_by_pyav(file))


def test_rotated_files_are_turned_on_request():
    whole = decoded_by_pyav(video_file("rotated"))
    as_stored = committed([video_file("rotated")])["clip"][0]
    upright = committed([video_file("rotated")], tl.Video(upright=True))["clip"][0]

    assert np.array_equal(as_stored, whole)
    assert upright.shape == (40, 64, 48, 3)
    assert np.array_equal(upright[3:5, 10:], np.rot90(whole, 3, (1, 2))[3:5, 10:])


def test_limits_of_a_schema_hold():
    ds = tl.create("memory://limited", {"clip": tl.Video(max_frames=39)}, exist_ok=True)

    with pytest.raises(InvalidInputError, match="more than 39"):
        ds.append({"clip": video_file("h264")})


@pytest.mark.parametrize(
    "given",
    [{"codec": "mpeg2"}, {"fps": 0}, {"fps": "30"}, {"fps": True}, {"default": b"x"}],
)
def test_wrong_parameters_are_refused(given):
    with pytest.raises(SchemaError):
        tl.Video(**given)


def test_types_survive_json():
    for kind in (tl.Video(), tl.Video("av1", fps=29.97, upright=True, nullable=True, max_frames=9)):
        assert from_json(kind.to_json()) == kind


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("h264", "video/mp4"),
        ("prores", "video/quicktime"),
        ("vp9", "video/webm"),
        ("matroska", "video/x-matroska"),
        ("mjpeg", "video/x-msvideo"),
        ("gif", "image/gif"),
    ],
)
def test_media_types(name, media_type):
    assert tl.Video().media_type_of(video_file(name)[:64]) == media_type
