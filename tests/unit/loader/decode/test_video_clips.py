"""`tl.decode.Clip`: which frames a batch has, and what is read for them."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, RaggedBatchError
from tensorlake.loader.decode import parse_steps, step_from_json, step_to_json
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types.video.map import read_map
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.videos import (
    decoded_by_pyav,
    encode,
    moving_picture,
    video_file,
)

Clip = tl.decode.Clip
LONG = ("mp4", "libx264", "yuv420p", {"g": "15", "bf": "0"})
NAMES = ["h264", "open_groups", "vp9", "guessed_times", "gif", "variable_rate", "edit_list"]


@pytest.fixture(scope="module", params=["folder", "memory"])
def videos(request, tmp_path_factory):
    """A dataset of seven videos of 33 or 40 frames, on disk and in a store without memory maps."""
    url = "memory://clips"
    if request.param == "folder":
        url = str(tmp_path_factory.mktemp("clips") / "ds")
    with tl.create(url, {"clip": tl.Video(), "name": "str"}) as ds:
        ds.extend({"clip": [video_file(name) for name in NAMES], "name": NAMES})
        ds.commit()
    yield tl.open(url)
    tl.delete(url, confirm=url)


def clips(ds, *steps, **options):
    """All clips of an epoch, by row."""
    given = {"batch_size": 4, "columns": ["clip", "name", "_row"], "shuffle": True, "seed": 3}
    found = {}
    for batch in ds.loader(decode={"clip": list(steps)}, **given | options):
        for row, name, clip in zip(batch["_row"], batch["name"], batch["clip"], strict=True):
            found[int(row)] = (name, clip)
    return found


@pytest.mark.slow
def test_random_clips_are_windows_of_their_videos(videos):
    found = clips(videos, Clip(8, stride=2))

    starts = set()
    for name, clip in found.values():
        whole = decoded_by_pyav(video_file(name))
        fits = [
            at for at in range(len(whole) - 14) if np.array_equal(clip, whole[at : at + 16 : 2])
        ]
        assert fits, name
        starts.update(fits)
    assert len(found) == len(NAMES)
    assert len(starts) > 3


@pytest.mark.parametrize(
    ("step", "numbers"),
    [
        (Clip(6, start=3), np.arange(3, 9)),
        (Clip(6, start="center"), np.arange(17, 23)),
        (Clip(5, stride=3, start="center"), np.arange(13, 28, 3)),
        (Clip(4, stride=4, start=30), [30, 34, 38, 39]),
        (Clip(42, start="random"), [*range(40), 39, 39]),
        (Clip(3, start=99), [39, 39, 39]),
    ],
)
def test_starts(videos, step, numbers):
    name, clip = clips(videos, step)[0]

    assert np.array_equal(clip, decoded_by_pyav(video_file(name))[numbers])


def test_all_clips_follow_one_another(videos):
    found = clips(videos, Clip(8, stride=2, start="all"))

    for name, clip in found.values():
        whole = decoded_by_pyav(video_file(name))
        count = (len(whole) - 15) // 16 + 1
        expected = [whole[16 * at : 16 * at + 16 : 2] for at in range(count)]
        assert np.array_equal(clip, expected)


def test_steps_of_images_treat_all_frames_alike(videos):
    steps = (Clip(4, start=5), tl.decode.RandomResizedCrop(24, 32), tl.decode.Flip())
    schema = {"clip": tl.Video("ffv1", fps=9), "name": "str"}
    still = create_on(MemoryStore(), schema)
    frame = moving_picture(1)
    still.extend({"clip": [np.repeat(frame, 12, axis=0)] * 5, "name": ["still"] * 5})
    still.commit()

    for _, clip in clips(still, *steps).values():
        assert clip.shape == (4, 24, 32, 3)
        assert (clip == clip[0]).all()  # of one picture all frames are the same
    crops = [clip[0].tobytes() for _, clip in clips(still, *steps).values()]
    assert len(set(crops)) == 5  # and each video is cropped in its own way
    whole = clips(videos, Clip(4, start=5), tl.decode.CenterCrop(20, 30))
    name, clip = whole[0]
    assert np.array_equal(clip, decoded_by_pyav(video_file(name))[5:9, 14:34, 17:47])


def test_numbers_are_mapped(videos):
    name, clip = clips(videos, Clip(3, start=0), tl.decode.ToFloat())[0]

    expected = decoded_by_pyav(video_file(name))[:3].astype(np.float32) / 255
    assert clip.dtype == np.float32
    assert np.allclose(clip, expected, atol=1e-6)


def test_place_of_a_clip_and_of_its_crop_are_independent():
    """A part step and the first geometric step draw from streams of their own."""
    seed, places = 5, range(64)
    spec = parse_steps("clip", [Clip(1), tl.decode.RandomResizedCrop(8, 8)])
    alone = parse_steps("clip", [tl.decode.RandomResizedCrop(8, 8)])

    crops = [
        [one.place(100, 100, seed=seed, epoch=0, place=at) for at in places]
        for one in (spec, alone)
    ]
    assert crops[0] != crops[1]


def test_an_epoch_is_the_same_whatever_reads_it(videos):
    steps = (Clip(8), tl.decode.RandomResizedCrop(16, 16))
    first = clips(videos, *steps)

    for options in ({"workers": 3}, {"batch_size": 7}, {"prefetch": "1MiB"}):
        again = clips(videos, *steps, **options)
        assert all(np.array_equal(first[row][1], again[row][1]) for row in first)
    other = clips(videos, *steps, seed=4)
    assert any(not np.array_equal(first[row][1], other[row][1]) for row in first)


def test_a_state_resumes_with_the_same_clips(videos):
    def loader():
        decode = {"clip": [Clip(6), tl.decode.Flip()]}
        return videos.loader(
            batch_size=4, columns=["clip"], shuffle=True, seed=8, repeat=2, decode=decode
        )

    running = loader()
    batches = iter(running)
    next(batches), next(batches)
    state = running.state_dict()
    rest = [batch["clip"] for batch in batches]
    resumed = loader()
    resumed.load_state_dict(state)

    again = [batch["clip"] for batch in resumed]
    assert len(rest) == len(again) == 2
    assert all(np.array_equal(a, b) for a, b in zip(rest, again, strict=True))


@pytest.mark.slow
def test_a_clip_reads_its_parts_alone():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"clip": tl.Video()})
    files = [encode(moving_picture(120, 240, 320, seed), *LONG) for seed in range(2)]
    ds.extend({"clip": files})
    ds.commit()
    wait_for_storage()
    ds = open_on(store)
    clip = ds["clip"][0]
    store.reset()

    window = clip[65:75]
    assert np.array_equal(window, decoded_by_pyav(files[0])[65:75])
    video = read_map(clip.head)
    span = int(video.offsets[74] + video.sizes[74] - video.offsets[60])
    assert span <= store.bytes_read < span + 2 * (20 << 10)  # at most a part at each end
    assert len(store.requests) == 1

    store.reset()
    next(iter(open_on(store).loader(batch_size=2, decode={"clip": Clip(10, start=65)})))
    assert store.bytes_read < 0.4 * sum(map(len, files))


def test_videos_of_several_sizes_need_one():
    ds = tl.create("memory://two-sizes", {"clip": tl.Video(fps=9), "name": "str"})
    frames = [moving_picture(8, 48, 64), moving_picture(8, 64, 48)]
    ds.extend({"clip": frames, "name": ["wide", "high"]})
    ds.commit()

    with pytest.raises(RaggedBatchError, match=r"Resize\(224, 224\)"):
        clips(ds, Clip(4))
    resized = clips(ds, Clip(4), tl.decode.Resize(20, 20))
    listed = clips(ds, Clip(4), collate={"clip": "list"})
    one_size = clips(ds[[1, 1]], Clip(4))

    assert {clip.shape for _, clip in resized.values()} == {(4, 20, 20, 3)}
    assert {clip.shape for _, clip in listed.values()} == {(4, 48, 64, 3), (4, 64, 48, 3)}
    assert {clip.shape for _, clip in one_size.values()} == {(4, 64, 48, 3)}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda _: Clip(0), "frames must be an integer from 1"),
        (lambda _: Clip(4, stride=1.5), "stride must be an integer"),
        (lambda _: Clip(4, start="middle"), "'random', 'center', 'all' or the number"),
        (lambda _: Clip(4, start=-1), "'random', 'center', 'all' or the number"),
        (lambda _: Clip(4, short="pad"), "'repeat_last' or 'error'"),
        (lambda ds: clips(ds, Clip(50, short="error")), "does not fit into a video of"),
        (lambda ds: clips(ds, tl.decode.Resize(8, 8)), "the first step chooses the part"),
        (lambda ds: clips(ds, tl.decode.ToFloat(), Clip(4)), "comes after"),
    ],
)
def test_wrong_steps_are_refused(videos, wrong, reason):
    with pytest.raises(InvalidInputError, match=reason):
        wrong(videos)


def test_other_types_have_no_clips():
    ds = tl.create("memory://no-clips", {"clip": tl.Array("uint8", (4, 8, 8, 3)), "name": "str"})
    ds.append({"clip": np.zeros((4, 8, 8, 3), np.uint8), "name": ""})
    ds.commit()

    with pytest.raises(InvalidInputError, match="clip"):
        clips(ds, Clip(2))


def test_steps_survive_json():
    for step in (Clip(4), Clip(8, 2, start="all", short="error"), Clip(8, start=7)):
        assert step_from_json(step_to_json(step)) == step
