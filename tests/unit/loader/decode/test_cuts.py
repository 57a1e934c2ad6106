"""Tensors declared of= another are read at the place of its part: volumes, arrays, videos."""

from dataclasses import replace

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.errors import (
    CorruptSampleError,
    IndependentDrawsWarning,
    InvalidInputError,
    ShapeMismatchError,
)
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tests.support.handles import create_on, open_on, wait_for_storage

nibabel = pytest.importorskip("nibabel")
PATCH = tl.decode.RandomPatch((8, 12, 10))
SCHEMA = {
    "ct": tl.Nifti("int16", tiles=(8, 8, 8)),
    "mask": tl.SegmentMask(["none", "liver", "tumour"], of="ct"),
    "dose": tl.Nifti("float32", of="ct"),
    "grid": tl.Array("uint8", (None, None, None, 2), tiles=(8, 8, 8, 2), of="mask"),
}


def volume(shape: tuple[int, ...], dtype: str = "int16") -> dict:
    """A volume of which a voxel is its own place."""
    return {"voxels": np.arange(np.prod(shape)).reshape(shape).astype(dtype), "affine": np.eye(4)}


def row(number: int) -> dict:
    ct = volume((20 + number, 24, 22))
    mask = np.zeros(ct["voxels"].shape, np.uint8)
    mask[2:5, 3:9, 4:7], mask[15:17, 20:22, 1:3] = 1, 2
    grid = np.stack([mask, ct["voxels"] % 251], axis=-1).astype(np.uint8)
    dose = {"voxels": ct["voxels"].astype("f4") / 2, "affine": np.eye(4)}
    return {"ct": ct, "mask": mask, "dose": dose, "grid": grid}


@pytest.fixture(scope="module")
def store() -> CountingStore:
    store = CountingStore(MemoryStore())
    ds = create_on(store, SCHEMA)
    for number in range(6):
        ds.append(row(number))
    ds.commit()
    wait_for_storage()
    return store


def assert_alike(batch: dict) -> None:
    for number, ct in enumerate(batch["ct"]):
        np.testing.assert_array_equal(batch["dose"][number] * 2, ct)
        np.testing.assert_array_equal(batch["grid"][number][..., 0], batch["mask"][number])
        np.testing.assert_array_equal(batch["grid"][number][..., 1], ct % 251)


def test_a_mask_of_a_volume_is_a_volume_in_tiles(store):
    ds = open_on(store)
    other = tl.create("memory://later", {"ct": tl.Nifti("int16")})

    other.add_tensor("mask", tl.SegmentMask(["a"], of="ct", nullable=True))

    assert (ds.schema["mask"].tiles, other.schema["mask"].tiles) == ((8,) * 3, (32,) * 3)
    np.testing.assert_array_equal(ds[1]["mask"], row(1)["mask"])
    np.testing.assert_array_equal(ds["mask"][1, 2:6, ..., 4], row(1)["mask"][2:6, ..., 4])
    assert len(ds.query("WHERE ANY(mask = 2) AND NOT ANY(mask = 7)")) == 6
    with pytest.raises(InvalidInputError, match="no class 9"):
        other.append({"ct": volume((4, 4, 4)), "mask": np.full((4, 4, 4), 9)})
    other.discard()


@pytest.mark.parametrize(
    "step", [PATCH, tl.decode.RandomPatch((8, 12), n=3), tl.decode.Slice(1), tl.decode.Slice(2)]
)
def test_what_is_of_a_volume_is_cut_with_it(store, step):
    ds = open_on(store)
    lists = dict.fromkeys(SCHEMA, "list")

    batches = list(
        ds.loader(batch_size=2, shuffle=True, seed=1, decode={"ct": step}, collate=lists)
    )

    for batch in batches:
        assert_alike(batch)


def test_any_number_of_ranks_and_a_resumed_run_have_the_same_parts(store):
    step = tl.decode.RandomPatch((8, 12, 10), n=2, center_on="mask", positive=0.7)
    arguments = {"shuffle": True, "seed": 3, "decode": {"ct": step}}
    names = [*SCHEMA, "_row"]

    def parts(loader):
        return {int(n): b["dose"][i] for b in loader for i, n in enumerate(b["_row"])}

    ds = open_on(store)
    whole = parts(ds.loader(batch_size=2, columns=names, **arguments))
    ranks = [
        parts(ds.loader(batch_size=1, columns=names, rank=rank, world_size=2, **arguments))
        for rank in (0, 1)
    ]
    begun = ds.loader(batch_size=2, columns=names, **arguments)
    next(iter(begun))
    resumed = ds.loader(batch_size=2, columns=names, **arguments)
    resumed.load_state_dict(begun.state_dict())

    for other in (*ranks, parts(resumed)):
        assert other
        for number, part in other.items():
            np.testing.assert_array_equal(part, whole[number])


def test_tiles_of_the_parts_alone_are_read(store):
    rng = np.random.default_rng(0)
    own = CountingStore(MemoryStore())
    ds = create_on(own, {"ct": tl.Nifti("int16", tiles=(8, 8, 8)), "mask": SCHEMA["mask"]})
    mask = np.zeros((64, 64, 64), np.uint8)
    mask[30:34, 30:34, 30:34] = 1
    noise = rng.integers(0, 30_000, mask.shape).astype("i2")
    ds.append({"ct": {"voxels": noise, "affine": np.eye(4)}, "mask": mask})
    ds.commit()
    wait_for_storage()
    ds = open_on(own)
    own.reset()

    step = tl.decode.RandomPatch((8, 8, 8), center_on="mask", positive=1)
    (batch,) = ds.loader(batch_size=1, decode={"ct": step})

    assert batch["mask"].any()
    assert own.bytes_read < 27 * 8**3 * 2 + 40_000  # of 524,288 of voxels


def test_patches_are_centred_as_by_hand():
    """Against the distribution of MONAI's RandCropByPosNegLabeld, worked out for every voxel."""
    size, positive, n = np.array((4, 3, 6)), 0.3, 1_200
    shape = (12, 11, 9)
    mask = np.zeros(shape, np.uint8)
    mask[0:2, 0:5, 3:7], mask[9:12, 4:6, 8], mask[5, 5, 5] = 1, 2, 255
    kind = tl.SegmentMask(["a", "b", "c"], of="ct", ignore=255, tiles=(8, 8, 8))
    ds = tl.create("memory://centres", {"ct": tl.Nifti("int16"), "mask": kind})
    ds.append({"ct": volume(shape), "mask": mask})
    ds.commit()

    step = tl.decode.RandomPatch(tuple(size), n=n, center_on="mask", positive=positive)
    (batch,) = ds.loader(batch_size=1, seed=4, decode={"ct": step}, columns=["ct", "mask"])

    starts = np.unravel_index(batch["ct"][0][:, 0, 0, 0], shape)
    drawn, expected = np.zeros(shape), np.zeros(shape)
    np.add.at(drawn, starts, 1)
    for voxels, share in ((mask % 255 > 0, positive), (mask == 0, 1 - positive)):
        at = np.clip(np.argwhere(voxels) - size // 2, 0, shape - size)
        np.add.at(expected, tuple(at.T), share * n / len(at))
    assert not drawn[expected == 0].any()
    cells = expected > 0
    squares = ((drawn - expected)[cells] ** 2 / expected[cells]).sum()
    freedom = cells.sum() - 1
    assert abs(squares - freedom) < 4 * np.sqrt(2 * freedom)


def test_a_mask_of_one_kind_or_null_leaves_patches_at_random():
    kind = tl.SegmentMask(["a", "b"], of="ct", nullable=True)
    ds = tl.create("memory://kinds", {"ct": tl.Nifti("int16"), "mask": kind})
    for mask in (np.zeros((9, 9, 9)), np.ones((9, 9, 9)), None):
        ds.append({"ct": volume((9, 9, 9)), "mask": None if mask is None else mask.astype("u1")})
    ds.commit()
    step = tl.decode.RandomPatch((4, 4, 4), n=30, center_on="mask", positive=0.5)

    null = {"mask": np.zeros((9, 9, 9), np.uint8)}
    (batch,) = ds.loader(batch_size=3, decode={"ct": step}, null=null, columns=["ct", "mask"])

    assert [len(np.unique(one[:, 0, 0, 0])) > 15 for one in batch["ct"]] == [True] * 3
    assert [one.mean() for one in batch["mask"]] == [0, 1, 0]


def test_another_shape_than_the_volumes_is_an_error_that_names_both():
    ds = tl.create("memory://shapes", {"ct": tl.Nifti("int16"), "mask": tl.Nifti("uint8", of="ct")})
    other = {"voxels": np.ones((9, 9, 8), np.uint8), "affine": np.eye(4)}
    mask = {"voxels": np.ones((9, 9, 9), np.uint8), "affine": np.eye(4)}
    named = r"'mask' .*\(9, 9, 8\).*'ct'.*\(9, 9, 9\)"
    with pytest.raises(ShapeMismatchError, match=f"row 0 of append.*{named}"):
        ds.append({"ct": volume((9, 9, 9)), "mask": other})
    for _ in range(2):
        ds.append({"ct": volume((9, 9, 9)), "mask": mask})
    with pytest.raises(ShapeMismatchError, match=f"row 1 of.*{named}"):
        ds["mask"][1] = other
    masks = session_of(ds).staging().schema["mask"]
    ds["ct"][1] = volume((9, 9, 7))
    with pytest.raises(ShapeMismatchError, match=r"row 1 of commit\(\): 'mask' has the shape"):
        ds.commit()
    session_of(ds).staging().change_spec(
        replace(masks, type=replace(masks.type, of=None)), what="type"
    )
    ds.commit()  # as older writers could
    session_of(ds).staging().change_spec(masks, what="type")
    ds.commit()
    arguments = {"batch_size": 2, "decode": {"ct": tl.decode.RandomPatch((4, 4, 4))}}

    with pytest.raises(CorruptSampleError, match=r"row 1: 'mask' .*\(9, 9, 9\).*'ct'.*\(9, 9, 7\)"):
        list(ds.loader(**arguments))
    (batch,) = ds.loader(**arguments, on_error="skip")
    assert len(batch["ct"]) == 1


def test_short_samples_are_padded_with_their_masks():
    ds = tl.create("memory://short", {"ct": tl.Nifti("int16"), "mask": SCHEMA["mask"]})
    ct = volume((5, 9, 9))
    ds.append({"ct": ct, "mask": (ct["voxels"] > 200).astype("u1")})
    ds.commit()
    step = tl.decode.RandomPatch((8, 4, 4), n=6, center_on="mask", short="pad")

    (batch,) = ds.loader(batch_size=1, decode={"ct": step})

    assert not batch["ct"][0, :, 5:].any()
    np.testing.assert_array_equal(batch["mask"], batch["ct"] > 200)
    with pytest.raises(InvalidInputError, match="short='pad'"):
        list(ds.loader(batch_size=1, decode={"ct": tl.decode.RandomPatch((8, 4, 4))}))


def test_cuts_that_cannot_be_made_are_refused(store):
    ds = open_on(store)
    other = tl.decode.RandomPatch((4, 4, 4))
    centred = tl.decode.RandomPatch((4, 4, 4), center_on="mask")
    for decode, columns, message in (
        ({"ct": PATCH, "mask": other}, None, r"'mask': RandomPatch.* not the part of 'ct'"),
        ({"ct": centred}, ["ct"], "'mask' is not among the tensors that are read"),
        ({"dose": centred}, None, "not declared of='dose'"),
        ({"ct": tl.decode.RandomPatch((4,), center_on="masc")}, None, "did you mean 'mask'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ds.loader(batch_size=1, decode=decode, columns=columns)
    assert ds.loader(batch_size=1, decode={"ct": PATCH, "mask": PATCH})
    for given in (
        {"positive": 0.5},
        {"center_on": 1},
        {"center_on": "m", "positive": 2},
        {"n": 9**9},
    ):
        with pytest.raises(InvalidInputError, match="RandomPatch"):
            tl.decode.RandomPatch((4,), **given)
    for given in ({"n": 9**9}, {"short": "crop"}):
        with pytest.raises(InvalidInputError, match="RandomPatch"):
            tl.decode.RandomPatch((4,), **given)
    for size in (4, 10**400, "44", (), np.array(4), [4, [4]], None):
        with pytest.raises(InvalidInputError, match=r"RandomPatch\(.*a length for each axis"):
            tl.decode.RandomPatch(size)
    for kind in (lambda: tl.Array("uint8", (3,), of="x"), lambda: tl.Video(of=3)):
        with pytest.raises(tl.SchemaError, match="of="):
            kind()
    for of, message in (("a", "itself"), ("ctt", "did you mean 'ct'"), ("y", "not in parts")):
        schema = {"ct": tl.Nifti(), "y": "int64", "a": tl.Nifti(of=of)}
        with pytest.raises(tl.SchemaError, match=message):
            tl.create("memory://of", schema)
    for step, message in (
        (tl.decode.RandomPatch((999,) * 3, n=9), r"at most 1\.07 GB"),
        ([PATCH, tl.decode.Flip()], "Flip.* names an axis of images"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            ds.loader(batch_size=1, decode={"ct": step})


def test_unrelated_tensors_of_equal_shapes_are_warned_of():
    schema = dict.fromkeys("ab", tl.Array("uint8", (9, 9), tiles=(4, 4)))
    ds = tl.create("memory://unrelated", schema)
    ds.append(dict.fromkeys("ab", np.zeros((9, 9), np.uint8)))
    ds.commit()
    step = tl.decode.RandomPatch((4, 4))

    with pytest.warns(IndependentDrawsWarning, match=r"'a' and 'b'.*of='a'"):
        ds.loader(batch_size=1, decode={"a": step, "b": step})


def test_two_cameras_give_the_same_frames():
    pytest.importorskip("av")
    kind = tl.Video("ffv1", fps=10)
    schema = {"left": kind, "right": tl.Video("ffv1", fps=10, of="left")}
    depth = tl.Array("uint8", (None,), tiles=(5,), of="left")
    ds = tl.create("memory://cameras", {**schema, "depth": depth})
    for count in (12, 20):
        frames = np.zeros((count, 16, 32, 3), np.uint8)
        frames[..., :] = (10 * np.arange(count))[:, None, None, None]
        frames[:, :, :, 1] = np.arange(32) * 8
        number = (10 * np.arange(count)).astype(np.uint8)
        ds.append({"left": frames, "right": frames, "depth": number})
    ds.commit()
    steps = [tl.decode.Clip(4, stride=2), tl.decode.RandomResizedCrop(8, 8)]

    with pytest.raises(InvalidInputError, match=r"'depth'.*cannot be moved"):
        ds.loader(batch_size=2, decode={"left": steps})
    (both,) = ds.loader(batch_size=2, seed=1, decode={"left": steps}, columns=["left", "right"])
    (three,) = ds.loader(batch_size=2, seed=1, decode={"left": steps[0]})

    np.testing.assert_array_equal(both["left"], both["right"])
    np.testing.assert_array_equal(three["left"], three["right"])
    np.testing.assert_array_equal(three["left"][..., 0, 0, 0], three["depth"])


def test_a_linked_video_leads_and_is_cut_into_windows(tmp_path):
    pytest.importorskip("av")
    kind = tl.Video("ffv1", fps=10)
    made = tl.create("memory://linked-file", {"clip": kind})
    frames = np.zeros((20, 16, 16, 3), np.uint8)
    frames[:] = (10 * np.arange(20))[:, None, None, None]
    made.append({"clip": frames})
    (tmp_path / "a.mkv").write_bytes(made[0]["clip"].content)
    made.discard()
    schema = {"far": tl.Link(tl.Video()), "near": tl.Video("ffv1", fps=10, of="far")}
    ds = tl.create("memory://linked", schema)
    ds.append({"far": tmp_path / "a.mkv", "near": frames})
    ds.commit()

    (clip,) = ds.loader(batch_size=1, decode={"far": tl.decode.Clip(4)})
    (windows,) = ds.windows(["far", "near"], size=4, step=8).loader(batch_size=9)

    np.testing.assert_array_equal(clip["far"], clip["near"])
    np.testing.assert_array_equal(windows["far"], windows["near"])
    assert windows["far"][:, 0, 0, 0, 0].tolist() == [0, 80, 160]


@pytest.mark.parametrize("step", [PATCH, tl.decode.Slice(0)])
def test_a_part_of_a_mask_beside_its_whole_picture_is_refused(store, step):
    ds = open_on(store)

    with pytest.raises(InvalidInputError, match="'ct', which it is declared of=, is read whole"):
        ds.loader(batch_size=1, columns=["ct", "mask"], decode={"mask": step})
    with pytest.raises(InvalidInputError, match="leave 'mask' out of columns="):
        ds.loader(batch_size=1, columns=["mask", "grid"], decode={"grid": step})
    batch = next(iter(ds.loader(batch_size=1, columns=["mask"], decode={"mask": PATCH})))
    assert batch["mask"].shape == (1, 8, 12, 10)


def test_labels_of_boxes_that_a_patch_may_lose_are_refused():
    schema = {
        "image": tl.Array("uint8", (None, None), tiles=(8, 8)),
        "boxes": tl.BBox(of="image"),
        "label": tl.ClassLabel(["a"], per="boxes"),
    }
    ds = tl.create("memory://labels-of-patches", schema)
    ds.append({"image": np.zeros((20, 20), np.uint8), "boxes": [[0, 0, 1, 1]], "label": [0]})
    ds.commit()

    patch = tl.decode.RandomPatch((8, 8))
    for columns, message in [
        (["image", "label"], "crops"),
        (["image", "boxes"], "cannot be moved"),
    ]:
        with pytest.raises(tl.UnsupportedFeatureError, match=message):
            ds.loader(batch_size=1, columns=columns, decode={"image": patch})
