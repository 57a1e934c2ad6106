"""``_valid`` named among the columns: every batch says which of its rows count."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.unit.loader.conftest import RESIZE, ROWS, picture


@pytest.fixture(scope="module")
def damaged():
    """Pictures of which row 5 ends in the middle of its scan."""
    whole = [tl.Image("jpeg").convert([picture(row)], tensor="x") for row in range(12)]
    samples = [bytes(column.samples[0]) for column in whole]
    samples[5] = samples[5][:-100] + b"\xff\xd9"
    with tl.create("memory://valid-damaged", {"image": tl.Image("jpeg"), "n": "int64"}) as dataset:
        dataset.extend({"image": samples, "n": range(12)})
        dataset.commit("one of them is cut")
        yield dataset


@pytest.mark.parametrize("shuffle", [False, True])
def test_every_batch_has_it_and_where_all_rows_count_it_is_true(pets, shuffle):
    loader = pets.loader(batch_size=16, columns=["_valid", "label", "_row"], shuffle=shuffle)

    for _ in range(2):  # the second epoch is made of chunks at hand
        batches = list(loader)
        assert [batch["_valid"].tolist() for batch in batches] == [
            [True] * 16,
            [True] * 16,
            [True] * 16,
            [True] * (ROWS - 48),
        ]
        assert all(batch["_valid"].dtype == bool for batch in batches)


def test_a_skipped_sample_keeps_its_place_and_does_not_count(damaged):
    loader = damaged.loader(
        batch_size=4, decode=RESIZE, on_error="skip", columns=["image", "n", "_valid"]
    )

    batches = list(loader)

    assert [len(batch["image"]) for batch in batches] == [4, 4, 4]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(range(12))
    assert np.flatnonzero(~np.concatenate([one["_valid"] for one in batches])).tolist() == [5]
    assert loader.stats().skipped == 1


def test_torch_batches_have_it(damaged):
    torch = pytest.importorskip("torch")

    batches = list(
        damaged.torch(batch_size=6, decode=RESIZE, on_error="skip", columns=["image", "_valid"])
    )

    assert [batch["_valid"].dtype for batch in batches] == [torch.bool] * 2
    assert [len(batch["image"]) for batch in batches] == [6, 6]
    assert sum(int(batch["_valid"].sum()) for batch in batches) == 11


def test_a_mix_has_it(pets):
    loader = tl.mix({"a": (pets, 0.5), "b": (pets, 0.5)}).loader(
        batch_size=8, columns=["label", "_source", "_valid"]
    )

    assert all(batch["_valid"].tolist() == [True] * len(batch["label"]) for batch in loader)


def test_the_loader_shows_it_and_asks_for_a_column_beside_it(pets):
    loader = pets.loader(batch_size=16, columns=["label", "_valid"])

    assert "_valid" in repr(loader)
    assert "_valid" in loader.explain()
    with pytest.raises(InvalidInputError, match="no columns are read"):
        pets.loader(batch_size=16, columns=["_valid"])
