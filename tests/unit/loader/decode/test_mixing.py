"""MixUp, CutMix and Mosaic: a mixed row follows from its place alone."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.loader.decode import CutMix, MixUp, Mosaic, step_from_json, step_to_json

ROWS, SIDE = 21, 16
NAMES = [f"class {number}" for number in range(ROWS)]
STEPS = {
    "mixup": [MixUp("label", alpha=0.6)],
    "cutmix": [CutMix("label")],
    "either": [MixUp("label", probability=0.5), CutMix("label", probability=0.4)],
    "mosaic": [Mosaic()],
}


@pytest.fixture(scope="module")
def pictures():
    """Row n is an image of class n, noise around n · 10, with a square at a place of its own."""
    ds = tl.create(
        "memory://mixed",
        {
            "image": tl.Image("png"),
            "label": tl.ClassLabel(NAMES),
            "number": "int64",
            "vector": tl.Array("float32", (8,)),
        },
    )
    rng = np.random.default_rng(0)
    images = [np.full((SIDE, SIDE, 3), 10 * row) + rng.integers(0, 9, 3) for row in range(ROWS)]
    ds.extend(
        {
            "image": [image.astype(np.uint8) for image in images],
            "label": list(range(ROWS)),
            "number": list(range(ROWS)),
            "vector": rng.random((ROWS, 8), dtype=np.float32),
        }
    )
    ds.commit("pictures")
    return ds


def epoch_of(ds, steps, *, batch_size=20, **arguments):
    arguments = {"shuffle": True, "seed": 5, "columns": ["image", "label"], **arguments}
    decode = {"image": [tl.decode.ToFloat(), *steps]}
    return list(ds.loader(batch_size=batch_size, decode=decode, **arguments))


def joined(batches, name="image"):
    return np.concatenate([batch[name] for batch in batches])


@pytest.mark.parametrize("kind", STEPS)
def test_batches_of_any_size_ranks_and_workers_give_the_same_rows(pictures, kind):
    steps = STEPS[kind]
    whole = epoch_of(pictures, steps)

    for batch_size, workers in ((4, 1), (8, 2)):
        other = epoch_of(pictures, steps, batch_size=batch_size, workers=workers)
        assert (joined(other) == joined(whole)).all()
        assert (joined(other, "label") == joined(whole, "label")).all()
    ranks = [
        epoch_of(pictures, steps, batch_size=4, rank=rank, world_size=2, drop_last=True)
        for rank in range(2)
    ]
    shared = [batch["image"] for pair in zip(*ranks, strict=True) for batch in pair]
    assert (np.concatenate(shared) == joined(whole)[: 4 * len(shared)]).all()


@pytest.mark.parametrize("kind", STEPS)
def test_the_rest_of_an_epoch_is_the_same_after_a_resume(pictures, kind):
    arguments = {
        "columns": ["image", "label"],
        "decode": {"image": STEPS[kind]},
        "batch_size": 4,
        "shuffle": True,
        "seed": 5,
    }
    loader = pictures.loader(**arguments)
    batches, states = [], []
    for batch in loader:
        batches.append(batch)
        states.append(loader.state_dict())
    resumed = pictures.loader(**arguments)
    resumed.load_state_dict(states[1])

    assert (joined(list(resumed)) == joined(batches[2:])).all()


def test_epochs_differ(pictures):
    loader = pictures.loader(
        columns=["image", "label"], decode={"image": STEPS["mixup"]}, batch_size=20, shuffle=False
    )

    assert (joined(list(loader), "label") != joined(list(loader), "label")).any()


@pytest.mark.parametrize("kind", ["mixup", "cutmix", "either"])
def test_labels_have_the_shares_of_the_pixels_of_neighbours(pictures, kind):
    plain = epoch_of(pictures, [])
    mixed = epoch_of(pictures, STEPS[kind])
    images, numbers = joined(plain), joined(plain, "label")
    labels = joined(mixed, "label")

    assert labels.dtype == np.float32
    assert np.allclose(labels.sum(axis=1), 1)
    shares = []
    for place, (image, label) in enumerate(zip(joined(mixed), labels, strict=True)):
        partner = place ^ 1 if place < ROWS - 1 else place
        own = label[numbers[place]]
        assert np.flatnonzero(label).tolist() == sorted({numbers[place], numbers[partner]}) or (
            own in (0, 1)
        )
        shares.append(own)
        blended = own * images[place] + (1 - own) * images[partner]
        is_sum = np.allclose(image, blended, atol=1e-5)
        kept = (image == images[place]).all(axis=-1)
        is_cut = (
            np.isclose(kept.mean(), own, atol=1e-6)
            and (image[~kept] == images[partner][~kept]).all()
        )
        assert {"mixup": is_sum, "cutmix": is_cut, "either": is_sum or is_cut}[kind]
    assert shares[-1] == 1  # without a partner
    assert len(set(shares)) > 10
    if kind == "either":
        assert shares.count(1) > 1


def test_a_uint8_mixture_is_rounded(pictures):
    steps = {"image": MixUp("label")}
    plain, mixed = (
        next(
            iter(
                pictures.loader(
                    columns=["image", "label"],
                    decode=decode,
                    batch_size=2,
                    shuffle=False,
                    collate=collate,
                )
            )
        )
        for decode, collate in ((None, {"image": "list"}), (steps, None))
    )
    share = mixed["label"][0, 0]
    exact = share * plain["image"][0].astype(float) + (1 - share) * plain["image"][1]

    assert mixed["image"].dtype == np.uint8
    assert np.abs(mixed["image"][0] - exact).max() <= 0.5 + 1e-4


def test_arrays_integers_and_vectors_are_mixed(pictures):
    loader = pictures.loader(
        columns=["vector", "number"],
        decode={"vector": MixUp("number", classes=ROWS)},
        batch_size=20,
        shuffle=False,
    )
    batch = next(iter(loader))
    vectors = pictures["vector"][:]

    assert batch["number"].shape == (20, ROWS)
    assert np.allclose(batch["vector"], batch["number"] @ vectors, atol=1e-6)
    again = pictures.loader(
        columns=["image", "vector"],
        decode={"image": MixUp("vector")},
        batch_size=2,
        shuffle=False,
    )
    assert next(iter(again))["vector"].shape == (2, 8)


def test_a_label_beyond_the_classes_is_refused(pictures):
    loader = pictures.loader(
        columns=["vector", "number"], decode={"vector": MixUp("number", classes=3)}, batch_size=20
    )

    with pytest.raises(InvalidInputError, match="'number' has the label"):
        list(loader)


@pytest.fixture(scope="module")
def scenes():
    ds = tl.create(
        "memory://mosaics",
        {
            "image": tl.Image("png"),
            "mask": tl.BinaryMask(of="image"),
            "boxes": tl.BBox(of="image"),
            "label": tl.ClassLabel(["a", "b"], per="boxes"),
            "objects": tl.InstanceMask(of="image", per="boxes"),
            "outline": tl.Polygon(of="image", nullable=True),
            "row": "int64",
        },
    )
    for row in range(8):
        mask = np.zeros((SIDE, SIDE), np.bool_)
        y, x = row, 9 - row
        mask[y : y + 6, x : x + 5] = True
        corners = [x, y, x + 5, y, x + 5, y + 6, x, y + 6]
        ds.append(
            {
                "image": np.repeat((mask * 200).astype(np.uint8)[..., None], 3, axis=2),
                "mask": mask,
                "boxes": [[x, y, x + 5, y + 6]],
                "label": [row % 2],
                "objects": mask[None],
                "outline": [corners] if row != 5 else None,
                "row": row,
            }
        )
    ds.commit("squares")
    return ds


def test_a_mosaic_joins_images_masks_boxes_and_their_labels(scenes):
    columns = ["image", "mask", "boxes", "label", "objects", "row"]
    (batch,) = scenes.loader(
        batch_size=8, shuffle=False, columns=columns, decode={"image": Mosaic((0.4, 0.6))}
    )

    assert batch["row"].tolist() == list(range(8))
    assert max(map(len, batch["boxes"])) > 1
    for row in range(8):
        mask, objects = batch["mask"][row], batch["objects"][row]
        assert ((batch["image"][row][..., 0] == 200) == mask).all()
        assert (objects.any(axis=0) == mask).all()
        assert len(batch["label"][row]) == len(batch["boxes"][row]) == len(objects)
        for box, one in zip(batch["boxes"][row], objects, strict=True):
            ys, xs = np.nonzero(one)
            assert box.tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
    labels = {label for row in batch["label"][:4] for label in row}
    assert labels == {0, 1}


def test_a_row_without_annotations_to_join_leaves_its_group_as_it_was(scenes):
    columns = ["image", "boxes", "outline"]
    (batch,) = scenes.loader(
        batch_size=8, shuffle=False, columns=columns, decode={"image": Mosaic()}
    )

    assert batch["outline"][5] is None
    assert [len(one) for one in batch["boxes"][4:]] == [1] * 4
    assert max(map(len, batch["outline"][:4])) > 1


def test_steps_survive_json():
    for step in (MixUp("label", 0.2, classes=5), CutMix("label"), Mosaic((0.3, 0.5))):
        assert step_from_json(step_to_json(step)) == step


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MixUp(3), "labels is the name of the column"),
        (lambda: MixUp("label", alpha=0), "alpha is a positive number"),
        (lambda: CutMix("label", alpha=float("nan")), "alpha is a positive number"),
        (lambda: MixUp("label", classes=0), "MixUp: classes"),
        (lambda: CutMix("label", probability=-1), "probability is from 0 to 1"),
        (lambda: Mosaic((0.9, 0.1)), "centre is two numbers"),
        (lambda: Mosaic(0.5), "centre is two numbers"),
    ],
)
def test_arguments_out_of_range_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decode": {"image": [MixUp("label"), tl.decode.Flip()]}}, "mix rows of a batch last"),
        ({"decode": {"image": [MixUp("label"), CutMix("label")]}}, "more than 1 together"),
        ({"decode": {"image": MixUp("lable")}}, "did you mean 'label'"),
        ({"decode": {"image": MixUp("number")}}, "give classes= for integers"),
        ({"decode": {"vector": CutMix("label")}}, "takes images"),
        ({"decode": {"image": MixUp("label")}, "collate": {"image": "list"}}, "of one shape"),
        ({"decode": {"image": MixUp("label")}, "transform": dict}, "leave transform= out"),
        (
            {"decode": {"image": MixUp("label"), "vector": MixUp("label")}},
            "one column of labels to each",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_loader_is_made(pictures, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        pictures.loader(batch_size=4, **arguments)


def test_boxes_do_not_fit_a_mixture(scenes):
    columns = ["image", "boxes", "row"]

    with pytest.raises(UnsupportedFeatureError, match=r"leave 'boxes' out.*Mosaic"):
        scenes.loader(batch_size=4, columns=columns, decode={"image": MixUp("row", classes=8)})


def test_groups_that_are_divided_between_batches_stay_as_they_are(pictures):
    columns = ["image", "number"]
    plain, mixed = (
        joined(
            list(
                pictures.loader(
                    columns=columns, decode={"image": steps}, batch_size=6, shuffle=False
                )
            )
        )
        for steps in ([tl.decode.Resize(SIDE, SIDE)], [tl.decode.Resize(SIDE, SIDE), Mosaic()])
    )

    is_same = (plain == mixed).all(axis=(1, 2, 3))
    assert is_same.tolist() == [4 <= row < 8 or row in {16, 17, 18, 19, 20} for row in range(ROWS)]


def test_a_skipped_row_leaves_its_partners_as_they_were():
    ds = tl.create(
        "memory://skipped", {"image": tl.Image("png"), "mask": tl.BinaryMask(of="image")}
    )
    images = [np.full((SIDE, SIDE, 3), 20 * row, np.uint8) for row in range(8)]
    files = [bytes(one) for one in tl.Image("png").convert(images, tensor="image").samples]
    start = files[2].index(b"IDAT") + 4
    stop = start + int.from_bytes(files[2][start - 8 : start - 4])
    zeros = bytes(stop - start)  # whole, with its checksum, and not what zlib writes
    checksum = zlib.crc32(b"IDAT" + zeros).to_bytes(4)
    files[2] = files[2][:start] + zeros + checksum + files[2][stop + 4 :]
    ds.extend({"image": files, "mask": np.ones((8, SIDE, SIDE), np.bool_)})
    ds.commit("rows")

    for columns in (["image", "mask"], ["image", "mask", "_valid"]):
        (batch,) = ds.loader(
            batch_size=8,
            columns=columns,
            shuffle=False,
            decode={"image": Mosaic()},
            on_error="skip",
        )
        numbers = [np.unique(image // 20).tolist() for image in batch["image"]]
        kept = numbers if "_valid" not in columns else numbers[:2] + numbers[3:]
        assert kept[:3] == [[0], [1], [3]]
        assert all(len(one) > 1 for one in kept[3:])
