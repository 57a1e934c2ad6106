"""What views stream beside stored tensors, and loaders in other processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.loader import SelectedRows, make_loader
from tests.unit.loader.conftest import PLAIN, RESIZE, ROWS, rows_of

# ---- columns that a query computed


def test_computed_columns_are_streamed_with_the_rows_they_are_of(pets):
    view = pets.query(
        "SELECT tokens, tokens[0] * 2 AS twice, UPPER(name) AS loud WHERE label = 'dog'"
    )

    (batch,) = view.loader(batch_size=64, shuffle=True, seed=3)

    assert set(batch) == {"tokens", "twice", "loud"}
    assert np.array_equal(batch["twice"], 2 * batch["tokens"][:, 0])
    assert batch["loud"] == [f"PET {row}" for row in batch["tokens"][:, 0]]


def test_computed_columns_can_be_chosen_and_left_out(pets):
    view = pets.query("SELECT tokens, tokens[0] * 2 AS twice")

    (batch,) = view.loader(batch_size=64, columns=["twice", "_row"])

    assert set(batch) == {"twice", "_row"}
    assert np.array_equal(batch["twice"], 2 * batch["_row"])


def test_computed_ragged_values_are_collated(pets):
    view = pets.query("SELECT label, boxes[:, 2:] AS corners")

    first = next(iter(view.loader(batch_size=6, collate={"corners": "concat"})))

    assert first["corners"].shape == (6, 2)
    assert first["corners_offsets"].tolist() == [0, 0, 1, 3, 3, 4, 6]


def test_computed_nulls_need_a_list(pets):
    view = pets.query("SELECT label, score + 1 AS more")

    with pytest.raises(InvalidInputError, match="'more' is NULL"):
        list(view.loader(batch_size=8))
    (batch,) = view.loader(batch_size=ROWS, collate={"more": "list"})

    assert [row for row, value in enumerate(batch["more"]) if value is None] == [
        3,
        13,
        23,
        33,
        43,
        53,
    ]


def test_computed_columns_reach_a_transform(pets):
    view = pets.query("SELECT tokens, tokens[0] * 2 AS twice")

    (batch,) = view.loader(batch_size=64, transform=lambda row: {"sum": row["twice"] + 1})

    assert batch["sum"].tolist() == [2 * row + 1 for row in range(ROWS)]


def test_a_computed_column_takes_no_decode(pets):
    with pytest.raises(InvalidInputError, match="'twice', which is computed"):
        pets.query("SELECT tokens, tokens[0] * 2 AS twice").loader(
            batch_size=8, decode={"twice": tl.decode.ToFloat()}
        )


def test_an_aggregate_has_no_rows_to_stream(pets):
    with pytest.raises(InvalidInputError, match="aggregate"):
        pets.query("SELECT label, COUNT(*) AS n GROUP BY label").loader(batch_size=2)


# ---- pickling


def test_a_pickled_loader_goes_on_where_it_stood(pets):
    loader = pets.loader(batch_size=16, shuffle=True, seed=7, columns=PLAIN, rank=1, world_size=2)
    iterator = iter(loader)
    next(iterator)

    copy = pickle.loads(pickle.dumps(loader))

    assert rows_of(copy) == [batch["_row"].tolist() for batch in iterator]


def test_a_pickled_loader_keeps_what_it_was_told(pets):
    loader = pets.loader(
        batch_size=60, decode=RESIZE, collate={"score": "list"}, columns=["image", "score"]
    )

    (batch,), (copied,) = loader, pickle.loads(pickle.dumps(loader))

    assert np.array_equal(batch["image"], copied["image"])
    assert batch["score"] == copied["score"]


def test_a_loader_of_no_dataset_is_not_pickled(pets):
    loader = make_loader(
        SelectedRows(rowset_of(pets).selection, rowset_of(pets).reader()),
        "numpy",
        batch_size=4,
        columns=["_row"],
    )

    with pytest.raises(InvalidStateError, match=r"ds\.torch"):
        pickle.dumps(loader)
