"""``windows()`` of samples in parts: boxes of volumes and clips of videos, against slices."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

nibabel = pytest.importorskip("nibabel")
SHAPES = ((9, 11, 10), (8, 8, 13), (20, 5, 9))
SIZE, STEP = (4, 5, 6), (3, 5, 4)


def volume(shape: tuple[int, ...], number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(1, 30_000, shape).astype(np.int16)


@pytest.fixture(scope="module")
def scans() -> tl.Dataset:
    mask = tl.SegmentMask(["low", "high"], of="ct", nullable=True)
    ct = tl.Nifti("int16", tiles=(4, 4, 4), nullable=True)
    ds = tl.create("memory://volumes-in-windows", {"ct": ct, "mask": mask, "name": "str"})
    for number, shape in enumerate(SHAPES):
        voxels = volume(shape, number)
        ct = {"voxels": voxels, "affine": np.eye(4)}
        ds.append({"ct": ct, "mask": (voxels > 15_000).astype("u1"), "name": f"s{number}"})
    ds.append({"ct": None, "mask": None, "name": "none"})
    ds.commit()
    return ds


def starts_along(length: int, size: int, step: int, tail: str) -> list[int]:
    """Where windows begin, by their definition."""
    if tail in ("pad", "keep"):
        return list(range(0, length, step))
    starts = list(range(0, length - size + 1, step))
    if tail == "shift" and starts[-1] + size < length:
        starts.append(length - size)
    return starts


@pytest.mark.parametrize("tail", ["drop", "pad", "keep", "shift"])
def test_boxes_of_a_grid_are_those_of_the_volumes(scans, tail):
    windows = scans.windows(["ct", "mask", "name"], size=SIZE, step=STEP, tail=tail)
    expected = {
        (row, z, y, x)
        for row, shape in enumerate(SHAPES)
        for z in starts_along(shape[0], SIZE[0], STEP[0], tail)
        for y in starts_along(shape[1], SIZE[1], STEP[1], tail)
        for x in starts_along(shape[2], SIZE[2], STEP[2], tail)
    }

    found = []
    for batch in windows.loader(batch_size=16, shuffle=True, seed=1):
        for at, (row, start) in enumerate(zip(batch["_row"], batch["_start"], strict=True)):
            found.append((int(row), *start.tolist()))
            box = tuple(slice(a, a + size) for a, size in zip(start, SIZE, strict=True))
            part = volume(SHAPES[row], row)[box]
            if tail == "pad":
                missing = [(0, a - b) for a, b in zip(SIZE, part.shape, strict=True)]
                assert batch["_mask"][at][tuple(map(slice, part.shape))].sum() == part.size
                assert batch["_mask"][at].sum() == part.size
                part = np.pad(part, missing, mode="edge")
            np.testing.assert_array_equal(batch["ct"][at], part)
            np.testing.assert_array_equal(batch["mask"][at], part > 15_000)
            assert batch["name"][at] == f"s{row}"

    assert sorted(found) == sorted(expected)
    assert len(windows) == len(expected)


def test_what_is_predicted_of_boxes_is_put_together(scans):
    """By default windows cover all of a volume, as TorchIO's GridSampler does."""
    windows = scans.windows("ct", size=SIZE, step=STEP)

    sums, counts = [[np.zeros(shape) for shape in SHAPES] for _ in range(2)]
    for batch in windows.loader(batch_size=8):
        for row, start, part in zip(batch["_row"], batch["_start"], batch["ct"], strict=True):
            box = tuple(slice(a, a + size) for a, size in zip(start, SIZE, strict=True))
            sums[row][box] += part
            counts[row][box] += 1

    for number, shape in enumerate(SHAPES):
        np.testing.assert_array_equal(sums[number] / counts[number], volume(shape, number))


def test_ranks_and_a_resumed_run_have_each_box_once(scans):
    windows = scans.windows("ct", size=SIZE, step=STEP, tail="drop")

    def keys(loader):
        return [
            (int(row), *start.tolist())
            for batch in loader
            for row, start in zip(batch["_row"], batch["_start"], strict=True)
        ]

    arguments = {"shuffle": True, "seed": 7}
    whole = keys(windows.loader(batch_size=4, **arguments))
    count = len(windows) // 4 * 2  # batches that two ranks have whole
    begun = windows.loader(batch_size=4, **arguments)
    next(iter(begun))
    rest = windows.loader(batch_size=4, **arguments)
    rest.load_state_dict(begun.state_dict())
    ranks = [
        keys(windows.loader(batch_size=2, rank=rank, world_size=2, drop_last=True, **arguments))
        for rank in (0, 1)
    ]

    assert len(set(whole)) == len(whole) == len(windows)
    assert keys(rest) == whole[4:]
    assert len(ranks[0]) == len(ranks[1]) == count
    assert set(ranks[0]) | set(ranks[1]) == set(whole[: 2 * count])
    assert begun.plan.rows_at([0])[0].tolist() == [whole[0][0]]


def test_tiles_of_the_boxes_alone_are_read():
    store = CountingStore(MemoryStore())
    ds = create_on(store, {"ct": tl.Nifti("int16", tiles=(8, 8, 8))})
    ds.append({"ct": {"voxels": volume((64, 64, 64), 1), "affine": np.eye(4)}})
    ds.commit()
    wait_for_storage()
    windows = open_on(store).windows("ct", size=(8, 8, 8), step=(8, 400, 400), tail="drop")
    store.reset()

    (batch,) = windows.loader(batch_size=1, limit=1)

    assert batch["_start"].tolist() == [[0, 0, 0]]
    assert store.bytes_read < 80_000  # of 524,288 of voxels; reads are joined over 64 KiB


def test_clips_of_videos_follow_one_another():
    pytest.importorskip("av")
    kinds = {"video": tl.Video("ffv1", fps=10), "state": tl.Array("int64", (None, 2))}
    ds = tl.create("memory://clips", {**kinds, "label": "int64"})
    for count in (23, 12):
        frames = np.zeros((count, 16, 16, 3), np.uint8)
        frames[:] = (10 * np.arange(count))[:, None, None, None]
        state = np.stack([np.arange(count), np.zeros(count)], axis=1).astype(np.int64)
        ds.append({"video": frames, "label": count, "state": state})
    ds.commit()

    def clips(tail: str) -> list:
        windows = ds.windows(["video", "state"], size=4, stride=2, step=10, tail=tail)
        batches = [*windows.loader(batch_size=2)]
        for batch in batches:
            for clip, state in zip(batch["video"], batch["state"], strict=True):
                assert (clip[..., 0, 0, 0] // 10).tolist() == state[:, 0].tolist()
        pairs = [pair for b in batches for pair in zip(b["_row"], b["video"], strict=True)]
        return [(int(row), (clip[..., 0, 0, 0] // 10).tolist()) for row, clip in pairs]

    windows = ds.windows(["video", "label", "state"], size=4, stride=2, step=10, tail="pad")
    (padded,) = windows.loader(batch_size=9, decode={"video": tl.decode.Resize(8, 8)})

    first, other = [(0, [0, 2, 4, 6]), (0, [10, 12, 14, 16])], (1, [0, 2, 4, 6])
    assert clips("drop") == [*first, other]
    assert clips("keep") == [*first, (0, [20, 22]), other, (1, [10])]
    assert clips("shift") == [*first, (0, [16, 18, 20, 22]), other, (1, [5, 7, 9, 11])]
    assert padded["video"].shape == (5, 4, 8, 8, 3)
    assert padded["state"][2, :, 0].tolist() == [20, 22, 22, 22]
    assert padded["_mask"].tolist()[2] == [True, True, False, False]
    assert padded["_start"].tolist() == [0, 10, 20, 0, 10]
    assert padded["label"].tolist() == [23, 23, 23, 12, 12]


def test_windows_that_cannot_be_cut_are_refused(scans):
    for arguments, message in (
        ({"size": (4, 4, 4, 4)}, "has 3"),
        ({"size": (4, 4), "step": (1, 2, 3)}, "one for each axis"),
        ({"size": ()}, "one at least"),
        ({"size": (4, 4), "tail": "wrap"}, "'shift'"),
        ({"size": (4, 4), "by": "name"}, "leave by= out"),
        ({"size": (0, 4)}, "size"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            scans.windows(["ct", "name"], **arguments)
    with pytest.raises(InvalidInputError, match="in parts of as many axes"):
        scans.windows("name", size=(4, 4))
    with pytest.raises(InvalidInputError, match="chooses a part"):
        scans.windows("ct", size=(4, 4)).loader(
            batch_size=1, decode={"ct": tl.decode.RandomPatch((2, 2))}
        )
    with pytest.raises(InvalidInputError, match="do not fit"):
        len(scans.windows("ct", size=(6, 6, 6)))
    huge = scans.windows("ct", size=(2000,) * 3, tail="pad")
    with pytest.raises(InvalidInputError, match=r"at most 1\.07 GB"):
        huge.loader(batch_size=1)
    ds = tl.create("memory://unequal", {"a": tl.Nifti("uint8"), "b": tl.Nifti("uint8")})
    for other in ((4, 4, 4), (4, 4, 5)):
        voxels = [np.zeros(one, np.uint8) for one in ((4, 4, 4), other)]
        a, b = ({"voxels": one, "affine": np.eye(4)} for one in voxels)
        ds.append({"a": a, "b": b})
    ds.commit()
    with pytest.raises(InvalidInputError, match=r"row 1: 'a' has the lengths"):
        len(ds.windows(["a", "b"], size=(2, 2, 2)))
