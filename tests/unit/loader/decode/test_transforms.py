"""What a transform returns: torch's tensors, one size of many, new names, seeded draws (C2).

torchvision's transforms are torch functions over images as torch tensors (of a subclass), which
draw without a generator; it is not installed here, so the idiom is written with torch alone.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, ShapeMismatchError, UnsupportedFeatureError

torch = pytest.importorskip("torch")

ROWS = 24


class Image(torch.Tensor):
    """A tensor of a class of its own, as torchvision's images are."""


@pytest.fixture(scope="module")
def dataset():
    dataset = tl.create(
        "memory://loader-transforms",
        {
            "image": tl.Image("png"),
            "label": "int64",
            "boxes": tl.BBox(),
            "score": tl.Scalar("float32", nullable=True),
            "my col/x": tl.Array("uint8", (None,)),
        },
    )
    dataset.extend(
        {
            "image": [pixels(row) for row in range(ROWS)],
            "label": range(ROWS),
            "boxes": [[[0, 0, row, row]] * (row % 3) for row in range(ROWS)],
            "score": [None if row == 5 else row for row in range(ROWS)],
            "my col/x": [[row] * (row % 4) for row in range(ROWS)],
        }
    )
    dataset.commit()
    yield dataset
    dataset.close()


def pixels(row):
    """An image of varying size, each pixel of which says the row."""
    return np.full((20 + row % 5, 24 + row % 7, 3), row, np.uint8)


def random_crop(row):
    """As v2.ToImage, RandomCrop, RandomHorizontalFlip, ToDtype and GaussianNoise would do it."""
    image = torch.from_numpy(row["image"]).permute(2, 0, 1).as_subclass(Image)
    height, width = image.shape[-2:]
    top = int(torch.randint(0, height - 16 + 1, size=(1,)))
    left = int(torch.randint(0, width - 16 + 1, size=(1,)))
    image = image[:, top : top + 16, left : left + 16]
    if torch.rand(1) < 0.5:
        image = image.flip(-1)
    image = image.float() + 0.1 * torch.randn_like(image, dtype=torch.float32)
    return row | {"image": image, "place": torch.tensor([top, left])}


def test_images_of_any_size_are_cropped_and_stacked_as_torch_tensors(dataset):
    loader = dataset.torch(batch_size=8, columns=["image", "label"], transform=random_crop)

    batches = list(loader)

    assert [type(batch["image"]) for batch in batches] == [torch.Tensor] * 3
    assert [tuple(batch["image"].shape) for batch in batches] == [(8, 3, 16, 16)] * 3
    assert torch.equal(batches[1]["image"].mean((1, 2, 3)).round().long(), batches[1]["label"])
    assert len({tuple(one) for one in torch.cat([b["place"] for b in batches]).tolist()}) > 3


def test_draws_of_torch_follow_from_the_seed_and_leave_the_global_generator_alone(dataset):
    def drawn(seed, *, workers, skip=0):
        loader = dataset.torch(
            batch_size=8, columns=["image"], shuffle=True, seed=seed, workers=workers,
            transform=random_crop,
        )  # fmt: skip
        loader.skip(skip)
        return [batch["image"] for batch in loader]

    torch.manual_seed(11)
    before = torch.get_rng_state()

    first, again = drawn(3, workers=4), drawn(3, workers=1)
    resumed, other = drawn(3, workers=2, skip=1), drawn(4, workers=2)

    assert torch.equal(torch.cat(first), torch.cat(again))
    assert torch.equal(torch.cat(first[1:]), torch.cat(resumed))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(before, torch.get_rng_state())


def test_epochs_and_rows_draw_anew(dataset):
    loader = dataset.torch(
        batch_size=ROWS, columns=["label"], transform=lambda row: row | {"drawn": torch.rand(2)}
    )

    (first,), (second,) = loader, loader

    assert len(torch.unique(torch.cat([first["drawn"], second["drawn"]]), dim=0)) == 2 * ROWS


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.rand(2),
        lambda: torch.rand((2,), dtype=torch.float64),
        lambda: torch.randn(2),
        lambda: torch.randint(9, (2,)),
        lambda: torch.randint(low=3, high=2**40, size=(2,)),
        lambda: torch.randperm(9),
        lambda: torch.normal(0.0, 1.0, size=(2,)),
        lambda: torch.normal(torch.zeros(2), 1.0),
        lambda: torch.normal(mean=torch.zeros(2), std=torch.ones(2)),
        lambda: torch.bernoulli(torch.full((40,), 0.5)),
        lambda: torch.multinomial(torch.ones(40), 5),
        lambda: torch.poisson(torch.full((40,), 5.0)),
        lambda: torch.rand_like(torch.zeros(2)),
        lambda: torch.randn_like(torch.zeros(2, dtype=torch.float64)),
        lambda: torch.randint_like(torch.zeros(9), 5),
        lambda: torch.randint_like(torch.zeros(9), 2, 5),
        lambda: torch.randint_like(torch.zeros(9), low=2, high=5, dtype=torch.int64),
        lambda: torch.empty(2).uniform_(),
        lambda: torch.empty(2).uniform_(-1, 1),
        lambda: torch.empty(2).normal_(),
        lambda: torch.empty(9).random_(5),
        lambda: torch.empty(2).exponential_(),
        lambda: torch.empty(2).cauchy_(),
        lambda: torch.empty(2).log_normal_(),
        lambda: torch.empty(20).geometric_(0.2),
        lambda: torch.empty(40).bernoulli_(0.5),
        lambda: torch.distributions.Normal(torch.zeros(2), torch.ones(2)).sample(),
    ],
)
def test_every_random_function_of_torch_is_the_rows_own(dataset, draw):
    state = torch.get_rng_state()

    def drawn(workers):
        loader = dataset.torch(
            batch_size=6, columns=["label"], workers=workers,
            transform=lambda row: {"drawn": draw()},
        )  # fmt: skip
        return torch.cat([batch["drawn"] for batch in loader])

    first, again = drawn(1), drawn(3)

    assert torch.equal(first, again)
    assert len(torch.unique(first, dim=0)) > 3
    assert first.dtype == draw().dtype
    torch.set_rng_state(state)


def test_a_draw_from_a_generator_of_ones_own_is_left_alone(dataset):
    def own(row):
        generator = torch.Generator().manual_seed(int(row["label"]))
        return {"drawn": torch.rand(1, generator=generator)}

    (batch,) = dataset.torch(batch_size=ROWS, columns=["label"], transform=own)

    expected = [torch.rand(1, generator=torch.Generator().manual_seed(n)) for n in range(ROWS)]
    assert torch.equal(batch["drawn"], torch.stack(expected))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.nn.functional.dropout(torch.ones(3)),
        lambda: torch.nn.init.kaiming_uniform_(torch.empty(3, 3)),
    ],
)
def test_what_cannot_be_given_a_generator_is_refused(dataset, draw):
    loader = dataset.torch(batch_size=6, columns=["label"], transform=lambda row: {"x": draw()})

    with pytest.raises(InvalidInputError, match="draws from torch"):
        list(loader)


def test_a_numpy_loader_gets_the_arrays_that_tensors_hold(dataset):
    loader = dataset.loader(
        batch_size=6,
        columns=["label"],
        transform=lambda row: {
            "x": torch.full((2,), float(row["label"])),
            "narrow": torch.full((2,), float(row["label"]), dtype=torch.bfloat16),
            "y": torch.arange(int(row["label"]) % 3),
        },
        collate={"y": "list"},
    )

    batch = next(iter(loader))

    assert isinstance(batch["x"], np.ndarray)
    assert batch["x"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert batch["narrow"].dtype.name == "bfloat16"
    assert batch["narrow"][:, 1].astype("float32").tolist() == [0, 1, 2, 3, 4, 5]
    assert [one.tolist() for one in batch["y"]] == [[], [0], [0, 1]] * 2


@pytest.mark.parametrize("make", [torch.arange, np.arange])
@pytest.mark.parametrize("framework", ["torch", "loader"])
def test_a_name_that_a_transform_makes_is_collated_as_it_is_told(dataset, make, framework):
    def batch_of(how):
        loader = getattr(dataset, framework)(
            batch_size=4,
            columns=["label"],
            transform=lambda row: row | {"z": make(int(row["label"]) % 3)},
            collate={"z": how},
        )
        return next(iter(loader))

    listed, padded, joined = batch_of("list"), batch_of("pad"), batch_of("concat")
    filled, counted = batch_of(tl.collate.Pad(-1, multiple_of=4)), batch_of(len)

    assert [one.tolist() for one in listed["z"]] == [[], [0], [0, 1], []]
    assert padded["z"].tolist() == [[0, 0], [0, 0], [0, 1], [0, 0]]
    assert padded["z_mask"].tolist() == [[False] * 2, [True, False], [True] * 2, [False] * 2]
    assert joined["z"].tolist() == [0, 0, 1]
    assert joined["z_offsets"].tolist() == [0, 0, 1, 3, 3]
    assert filled["z"].tolist()[1] == [0, -1, -1, -1]
    assert counted["z"] == 4
    kind = torch.Tensor if framework == "torch" else np.ndarray
    assert {type(one) for one in (padded["z"], joined["z"], listed["z"][1])} == {kind}


def test_nested_tensors_of_a_new_name(dataset):
    loader = dataset.torch(
        batch_size=4,
        columns=["label"],
        transform=lambda row: {"z": torch.arange(1 + int(row["label"]))},
        collate={"z": "nested"},
    )

    assert [one.tolist() for one in next(iter(loader))["z"].unbind()][2] == [0, 1, 2]


def test_a_column_is_collated_as_what_the_transform_makes_of_it(dataset):
    loader = dataset.loader(
        batch_size=4,
        columns=["label", "boxes"],
        transform=lambda row: {"label": np.arange(row["label"]), "boxes": row["boxes"][:, :2]},
        collate={"label": "pad", "boxes": tl.collate.Pad(-1)},
    )

    batch = next(iter(loader))

    assert batch["label"].shape == (4, 3)
    assert (batch["boxes"].shape, batch["boxes_mask"].shape) == ((4, 2, 2), (4, 2))


def test_a_transform_gets_null_as_none_and_may_give_it_a_value(dataset):
    loader = dataset.loader(
        batch_size=ROWS,
        columns=["score"],
        transform=lambda row: {"score": -1.0 if row["score"] is None else row["score"]},
    )

    (batch,) = loader

    assert batch["score"].tolist()[4:7] == [4.0, -1.0, 6.0]


KINDS = {
    "int and str": (1, "s"),
    "str and int": ("s", 1),
    "int and object": (1, object()),
    "int and None": (1, None),
    "None and ndarray": (None, np.zeros(2)),
    "Tensor and list": (torch.zeros(2), [0, 0]),
}


@pytest.mark.parametrize("batch_size", [8, 20, ROWS], ids=["batches", "both", "one batch"])
@pytest.mark.parametrize("framework", ["loader", "torch"])
@pytest.mark.parametrize("kinds", KINDS)
def test_values_that_are_listed_in_some_rows_and_stacked_in_others_are_refused(
    dataset, kinds, framework, batch_size
):
    most, other = KINDS[kinds]
    read = {
        "batch_size": batch_size,
        "columns": ["label"],
        "transform": lambda row: {"y": other if row["label"] >= 16 else most},
    }

    with pytest.raises(InvalidInputError, match=r"as 'y' of row \d+") as refused:
        list(getattr(dataset, framework)(workers=1, **read))
    assert kinds in (
        f"{refused.value.expected} and {refused.value.actual}",
        f"{refused.value.actual} and {refused.value.expected}",
    )
    assert (refused.value.row >= 16) == (
        refused.value.actual == ("None" if other is None else type(other).__name__)
    )

    listed = list(getattr(dataset, framework)(collate={"y": "list"}, **read))
    assert all(isinstance(batch["y"], list) for batch in listed)


def test_texts_none_and_objects_are_listed_together(dataset):
    values = ["s", None, {"z": 1}, np.str_("t")] * 6
    loader = dataset.torch(
        batch_size=5, columns=["label"], transform=lambda row: {"y": values[row["label"]]}
    )

    assert [one for batch in loader for one in batch["y"]] == values


# ---- an advice works


def advised(make, **arguments):
    """Take one batch, which is refused; return what the message advises."""
    with pytest.raises((InvalidInputError, ShapeMismatchError, UnsupportedFeatureError)) as refused:
        list(make(**arguments))
    return str(refused.value).partition("\n")[2]


def scalars(row):
    return {"z": row["label"]}


def odd_rows(row):
    return {"z": np.arange(row["label"])}


@pytest.mark.parametrize(
    ("arguments", "words", "mended"),
    [
        (
            {"columns": ["image"]},
            "tl.decode.Resize(224, 224)",
            {"decode": {"image": tl.decode.Resize(224, 224)}},
        ),
        ({"columns": ["image"]}, "collate={'image': 'list'}", {"collate": {"image": "list"}}),
        (
            {"columns": ["image"], "collate": {"image": "concat"}},
            "collate={'image': 'pad'}",
            {"collate": {"image": "pad"}},
        ),
        (
            {"columns": ["image"], "collate": {"image": tl.collate.Pad(-1)}},
            "tl.decode.Cast('int32')",
            {"decode": {"image": [tl.decode.Cast("int32")]}},
        ),
        (
            {"columns": ["my col/x"], "collate": {"my col/x": tl.collate.Pad(-1)}},
            "tl.decode.Cast('int32')",
            {"decode": {"my col/x": [tl.decode.Cast("int32")]}},
        ),
        (
            {"columns": ["boxes"], "collate": {"boxes": "nested"}},
            "use 'concat'",
            {"collate": {"boxes": "concat"}},
        ),
        ({"columns": ["label"], "collate": {"label": "pad"}}, "leave 'label' out", {"collate": {}}),
        (
            {"columns": ["label"], "decode": {"label": tl.decode.Resize(4, 4)}},
            "do it in transform=",
            {"decode": None, "transform": lambda row: row},
        ),
        (
            {"columns": ["boxes"], "decode": {"boxes": tl.decode.Cast("int64")}},
            "convert it yourself: transform=",
            {"decode": None, "transform": lambda row: {"boxes": row["boxes"].astype("int64")}},
        ),
        (
            {"columns": ["label"], "decode": {"image": tl.decode.Resize(8, 8)}},
            "add it to columns=",
            {"columns": ["label", "image"]},
        ),
        (
            {"columns": ["label"], "collate": {"boxes": "pad"}},
            "add it to columns=",
            {"columns": ["label", "boxes"]},
        ),
        ({"columns": ["score"]}, "collate={'score': 'list'}", {"collate": {"score": "list"}}),
        (
            {"columns": ["label"], "transform": odd_rows},
            "collate={'z': 'list'}",
            {"collate": {"z": "list"}},
        ),
        (
            {"columns": ["label"], "transform": scalars, "collate": {"z": "pad"}},
            "collate={'z': 'list'}",
            {"collate": {"z": "list"}},
        ),
        (
            {"columns": ["label"], "transform": odd_rows, "collate": {"q": "list"}},
            "leave 'q' out of collate",
            {"collate": {"z": "list"}},
        ),
        (
            {"columns": ["score"], "transform": lambda row: {"z": row["score"] and np.ones(2)}},
            "collate={'z': 'list'}",
            {"collate": {"z": "list"}},
        ),
        (
            {"columns": ["score"], "transform": dict},
            "collate={'score': 'list'}",
            {"collate": {"score": "list"}},
        ),
        (
            {"columns": ["label"], "transform": odd_rows, "collate": {"z": tl.collate.Pad(to=3)}},
            "return shorter ones",
            {"transform": lambda row: {"z": np.arange(3)}},
        ),
    ],
)  # fmt: skip
def test_what_a_message_advises_works(dataset, arguments, words, mended):
    assert words in advised(dataset.loader, batch_size=8, **arguments)

    batches = list(dataset.loader(**{"batch_size": 8} | arguments | mended))

    assert len(batches) == 3


@pytest.mark.parametrize(
    ("column", "arguments"),
    [("my col/x", {"collate": {"my col/x": tl.collate.Pad(to=2)}}), ("score", {})],
)
def test_the_query_that_a_message_advises_works(dataset, column, arguments):
    advice = advised(dataset.loader, batch_size=8, columns=[column], **arguments)
    text = advice.partition("ds.query('")[2].partition("')")[0]

    view = dataset.query(text)

    assert 0 < len(view) < ROWS
    assert len(list(view.loader(batch_size=ROWS, columns=[column], **arguments))) == 1
