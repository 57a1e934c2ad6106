"""Rows of several pictures: decoded by steps to one size, alike within a row."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError, UnsupportedFeatureError
from tests.unit.loader.decode.test_pictures import jpeg, photograph

RESIZE = {"clip": tl.decode.Resize(12, 16)}
AUGMENT = {"clip": [tl.decode.RandomResizedCrop(12, 12), tl.decode.Flip(), tl.decode.ToFloat()]}
FRAMES = [0, 1, 3, 2]


def frames(row):
    """Frames of one size within a row, of others in other rows."""
    return [photograph(40 + 8 * row, 48, seed=10 * row + frame) for frame in range(FRAMES[row])]


@pytest.fixture(scope="module")
def clips():
    """Four rows of 0 to 3 frames, a NULL, and the same frames as single pictures."""
    encoded = [[jpeg(one) for one in frames(row)] for row in range(4)]
    ds = tl.create(
        "memory://loader-clips",
        {"clip": tl.Sequence(tl.Image("jpeg"), nullable=True), "n": "int64"},
    )
    ds.extend({"clip": [*encoded, None], "n": range(5)})
    ds.commit("clips")
    singles = tl.create("memory://loader-clips-singles", {"image": tl.Image("jpeg")})
    singles.extend({"image": [one for row in encoded for one in row]})
    singles.commit("their frames")
    return ds, singles


def test_frames_are_what_the_steps_make_of_single_images(clips):
    ds, singles = clips
    (one_by_one,) = singles.loader(batch_size=6, decode={"image": RESIZE["clip"]})

    (batch,) = ds[:4].loader(batch_size=4, decode=RESIZE)

    assert [clip.shape for clip in batch["clip"]] == [(n, 12, 16, 3) for n in FRAMES]
    assert np.array_equal(np.concatenate(batch["clip"]), one_by_one["image"])


def test_frames_of_a_row_are_cropped_and_mirrored_alike():
    ds = tl.create("memory://loader-clips-alike", {"clip": tl.Sequence(tl.Image("jpeg"))})
    picture = jpeg(photograph())
    ds.extend({"clip": [[picture] * 3] * 8})
    ds.commit("the same frame again and again")

    (batch,) = ds.loader(batch_size=8, decode=AUGMENT)

    for clip in batch["clip"]:
        assert clip.dtype == np.float32
        assert np.array_equal(clip[0], clip[1])
        assert np.array_equal(clip[0], clip[2])
    assert len({clip[0].tobytes() for clip in batch["clip"]}) == 8, "rows differ"


@pytest.mark.parametrize("workers", [1, 3])
def test_clips_of_an_epoch_are_the_same_with_any_threads_and_after_a_resume(clips, workers):
    ds, _ = clips
    arguments = {"batch_size": 1, "shuffle": True, "seed": 4, "decode": AUGMENT}
    expected = [one["clip"][0] for one in ds.loader(**arguments, workers=2)]

    first = ds.loader(**arguments, workers=workers)
    iterator = iter(first)
    taken = [next(iterator)["clip"][0] for _ in range(2)]
    rest = ds.loader(**arguments, workers=workers)
    rest.load_state_dict(first.state_dict())
    iterator.close()
    taken += [one["clip"][0] for one in rest]

    assert len(taken) == 5
    for one, other in zip(taken, expected, strict=True):
        assert np.array_equal(one, other)


def test_clips_are_padded_joined_and_shown_channels_first(clips):
    view = clips[0][:4]

    (padded,) = view.loader(batch_size=4, decode=RESIZE, collate={"clip": "pad"}, layout="NCHW")
    (joined,) = view.torch(batch_size=4, decode=RESIZE, collate={"clip": "concat"}, layout="NCHW")
    (listed,) = view.torch(batch_size=4, decode=RESIZE, layout="NCHW")

    assert padded["clip"].shape == (4, 3, 3, 12, 16)
    assert padded["clip_mask"].sum(axis=1).tolist() == FRAMES
    assert joined["clip"].shape == (6, 3, 12, 16)
    assert joined["clip_offsets"].tolist() == [0, 0, 1, 4, 6]
    assert [tuple(one.shape) for one in listed["clip"]] == [(n, 3, 12, 16) for n in FRAMES]


def test_transform_gets_the_frames_as_one_array(clips):
    def brightest(row):
        clip = row["clip"]
        return {"n": row["n"], "brightest": 0 if clip is None or not len(clip) else clip.max()}

    (batch,) = clips[0].loader(batch_size=5, decode=RESIZE, transform=brightest)

    assert (batch["brightest"][2:4] > 0).all()
    assert batch["brightest"][[0, 4]].tolist() == [0, 0]


def test_null_is_none_in_a_list_and_refused_in_an_array(clips):
    ds, _ = clips

    (batch,) = ds.loader(batch_size=5, decode=RESIZE)

    assert batch["clip"][4] is None
    with pytest.raises(InvalidInputError, match="'clip' is NULL in row 4"):
        ds.loader(batch_size=5, decode=RESIZE, collate={"clip": "concat"})
    (batch,) = ds.loader(batch_size=5, decode=RESIZE, null={"clip": []})
    assert batch["clip"][4].shape == (0, *batch["clip"][0].shape[1:])


def test_steps_that_leave_sizes_different_are_refused_before_any_read(clips):
    with pytest.raises(InvalidInputError, match=r"'clip' leaves its images.*\nadd a step"):
        clips[0].loader(batch_size=1, decode={"clip": tl.decode.Flip()})


def test_without_steps_clips_are_lists_as_they_are_stored(clips):
    (batch,) = clips[0][2:4].loader(batch_size=2)

    assert [one.shape for one in batch["clip"][0]] == [one.shape for one in frames(2)]


def test_boxes_on_a_clip_are_not_left_behind():
    ds = tl.create(
        "memory://loader-clips-boxes",
        {"clip": tl.Sequence(tl.Image("jpeg")), "boxes": tl.BBox(of="clip")},
    )
    ds.append({"clip": [photograph()], "boxes": [[0, 0, 5, 5]]})
    ds.commit("one clip")

    with pytest.raises(UnsupportedFeatureError, match=r"'boxes' .* cannot be moved with"):
        ds.loader(batch_size=1, decode=RESIZE)


@pytest.fixture(scope="module")
def damaged():
    """The second of three rows ends in the middle of its second frame."""
    ds = tl.create("memory://loader-clips-damaged", {"clip": tl.Sequence(tl.Image("jpeg"))})
    whole = jpeg(photograph())
    ds.extend({"clip": [[whole], [whole, whole[: len(whole) // 2] + b"\xff\xd9"], [whole]]})
    ds.commit("three clips")
    return ds


def test_damaged_frame_names_its_row(damaged):
    with pytest.raises(CorruptSampleError, match="row 1 of 'clip'"):
        list(damaged.loader(batch_size=3, decode=RESIZE))


@pytest.mark.parametrize("collate", ["list", "concat"])
def test_row_with_a_damaged_frame_is_left_out_when_told(damaged, collate):
    loader = damaged.loader(
        batch_size=3, decode=RESIZE, on_error="skip", collate={"clip": collate}, columns=["clip"]
    )

    (batch,) = loader

    assert len(batch["clip"]) == 2
    assert loader.stats().skipped == 1
