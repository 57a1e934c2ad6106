"""Images that all have one size are stacked, though the schema leaves their size open (C1)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import RaggedBatchError
from tensorlake.loader import NewerVersionWarning
from tensorlake.loader.sources.shapes import shape_of_rows
from tensorlake.storage import MemoryStore
from tensorlake.testing import CountingStore
from tensorlake.types import Ragged
from tests.support.handles import create_on, open_on

NAMES = itertools.count()


def pixels(number, size=(32, 32)):
    return np.full((*size, 3), number % 256, np.uint8)


def images(count=10, size=(32, 32), codec="png", **schema):
    """A dataset as CIFAR's or MNIST's: its type leaves open what all its images have in common."""
    url = f"memory://one-size-{next(NAMES)}"
    dataset = tl.create(url, {"image": tl.Image(codec), "n": "int64", **schema})
    dataset.extend({"image": [pixels(n, size) for n in range(count)], "n": range(count)})
    dataset.commit()
    return dataset


@pytest.mark.parametrize("size", [(32, 32), (1, 1), (48, 20), (20, 48)])
@pytest.mark.parametrize("codec", ["png", "jpeg"])
def test_images_of_one_size_are_one_array(size, codec):
    dataset = images(size=size, codec=codec)

    batches = list(dataset.loader(batch_size=4))

    assert [batch["image"].shape for batch in batches] == [(count, *size, 3) for count in (4, 4, 2)]
    assert batches[1]["image"][:, 0, 0, 0].tolist() == [4, 5, 6, 7]
    assert isinstance(dataset["image"][:], Ragged)  # what brackets give follows from the schema


def test_channels_come_first_where_that_is_asked_for():
    (batch,) = images(size=(4, 6)).loader(batch_size=10, layout="NCHW")

    assert batch["image"].shape == (10, 3, 4, 6)


def test_steps_that_keep_or_derive_a_size_are_stacked():
    dataset = images(size=(40, 20))
    steps = {
        (40, 20): [tl.decode.Flip(), tl.decode.ToFloat()],
        (20, 10): tl.decode.Resize(10),  # the short side
    }

    made = [
        next(iter(dataset.loader(batch_size=4, decode={"image": one}))) for one in steps.values()
    ]

    assert [batch["image"].shape[1:3] for batch in made] == [*steps]


def test_one_image_of_another_size_is_refused_when_the_loader_is_made():
    dataset = images()
    dataset.append({"image": pixels(0, (32, 33)), "n": 10})
    dataset.commit()

    with pytest.raises(RaggedBatchError, match=r"from \(32, 32, 3\) to \(32, 33, 3\)"):
        dataset.loader(batch_size=4)

    assert len(dataset.loader(batch_size=4, collate={"image": "list"})) == 3
    assert next(iter(dataset.at("main@1").loader(batch_size=4)))["image"].shape == (4, 32, 32, 3)


@pytest.mark.parametrize(
    "choose",
    [
        lambda dataset: dataset[:10],
        lambda dataset: dataset[[3, 3, 1]],
        lambda dataset: dataset.query("WHERE SHAPE(image)[1] = 32 ORDER BY n DESC"),
        lambda dataset: dataset.query("WHERE n = 10"),
    ],
)
def test_a_view_of_one_size_is_stacked_whatever_other_rows_have(choose):
    dataset = images()
    dataset.append({"image": pixels(0, (32, 33)), "n": 10})
    dataset.commit()
    view = choose(dataset)

    batch = next(iter(view.loader(batch_size=4)))

    assert batch["image"].shape[:1] == (min(4, len(view)),)


def test_rows_that_were_deleted_or_replaced_do_not_count():
    dataset = images()
    dataset.extend({"image": [pixels(7, (9, 9)), pixels(8, (9, 9))], "n": [10, 11]})
    dataset.commit()
    dataset.delete([10])
    dataset["image"][10] = pixels(9)  # the row that was the twelfth

    staged = next(iter(dataset.loader(batch_size=11)))
    dataset.commit()
    committed = next(iter(dataset.loader(batch_size=11)))

    for batch in (staged, committed):
        assert batch["image"].shape == (11, 32, 32, 3)
        assert batch["n"].tolist() == [*range(10), 11]


def test_staged_images_count():
    dataset = images()
    dataset.append({"image": pixels(0), "n": 10})
    same = dataset.loader(batch_size=11)
    dataset.append({"image": pixels(0, (5, 5)), "n": 11})

    assert next(iter(same))["image"].shape == (11, 32, 32, 3)
    with pytest.raises(RaggedBatchError):
        dataset.loader(batch_size=4)
    dataset.discard()


def test_null_has_no_shape():
    dataset = tl.create(
        f"memory://one-size-{next(NAMES)}", {"image": tl.Image("png", nullable=True), "n": "int64"}
    )
    dataset.extend({"image": [pixels(0), None, pixels(2)], "n": range(3)})
    dataset.commit()

    (batch,) = dataset.query("WHERE image IS NOT NULL").loader(batch_size=3)

    assert batch["image"].shape == (2, 32, 32, 3)


def test_a_version_without_statistics_of_shapes_is_looked_up_in_headers():
    dataset = images(count=300)
    reader = rowset_of(dataset).reader()

    class WithoutStatistics:
        asked = 0

        def index(self, _tensor):
            return type("Index", (), {"bounds": None})

        def shapes(self, tensor, physical):
            WithoutStatistics.asked += len(physical)
            return reader.shapes(tensor, physical)

    found = shape_of_rows(rowset_of(dataset).selection, WithoutStatistics(), "image")

    assert (found, WithoutStatistics.asked) == ((32, 32, 3), 300)
    dataset["image"][1] = pixels(1, (4, 4))
    reader = rowset_of(dataset).reader()
    assert shape_of_rows(rowset_of(dataset).selection, WithoutStatistics(), "image") is None
    assert WithoutStatistics.asked == 300 + 64  # it stops where two differ
    dataset.discard()


def test_nothing_is_read_to_learn_that_a_version_has_one_size():
    memory = MemoryStore()
    with create_on(memory, {"image": tl.Image("png")}) as dataset:
        dataset.extend({"image": [pixels(n) for n in range(50)]})
        dataset.commit()
    store = CountingStore(memory)
    dataset = open_on(store)
    before = len(store.requests)

    dataset.loader(batch_size=4)

    assert len(store.requests) == before


def test_a_mix_is_stacked_where_all_sources_have_one_size():
    small, other, large = images(), images(), images(size=(40, 40))
    same = tl.mix({"a": (small, 0.5), "b": (other, 0.5)}).loader(batch_size=4)

    assert next(iter(same))["image"].shape == (4, 32, 32, 3)
    with pytest.raises(RaggedBatchError):
        tl.mix({"a": (small, 0.5), "b": (large, 0.5)}).loader(batch_size=4)


def test_a_state_of_an_older_version_decides_by_that_version():
    dataset = images()
    loader = dataset.loader(batch_size=4)
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    dataset["n"][0] = 99
    dataset.commit()
    resumed = dataset.loader(batch_size=4)

    with pytest.warns(NewerVersionWarning):
        resumed.load_state_dict(state)

    assert next(iter(resumed))["image"].shape == (4, 32, 32, 3)
