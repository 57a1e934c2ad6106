from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    NO_TXID,
    ROW_ID,
    Root,
    RowIdRuns,
    TreeLimits,
    find_rows,
    row_ids,
    tree,
    txid_of,
)
from tests.support.memory_pages import MemoryPages, wait

SMALL = TreeLimits(leaf_entries=8, fan_out=4, root_children=5, tail_entries=3, merge_width=2)
TXIDS = [f"{at:012x}{'0123456789abcdef' * 2}"[:32] for at in range(1, 9)]


@st.composite
def run_lists(draw):
    """Runs of a few transactions, each id at most once."""
    pieces = []
    for txid in TXIDS:
        borders = sorted(draw(st.sets(st.integers(0, 50), min_size=2, max_size=6)))
        pieces += [(txid, low, high) for low, high in pairwise(borders)]
    return draw(st.permutations(pieces))


def grown(runs, pages):
    root = Root.of(RowIdRuns.empty())
    for txid, low, high in runs:
        run = RowIdRuns.run(high - low, txid, low)
        root = wait(tree.append(root, run, pages, pages, limits=SMALL))
    return root, [(txid, at) for txid, low, high in runs for at in range(low, high)]


@given(run_lists(), st.randoms())
@settings(max_examples=20)
def test_ids_and_physical_rows_are_inverse(runs, random):
    pages = MemoryPages()
    root, model = grown(runs, pages)
    physical = np.array([random.randrange(len(model)) for _ in range(30)])

    ids = wait(row_ids(root, physical, pages))

    assert [(txid_of(one), int(one["offset"])) for one in ids] == [model[at] for at in physical]
    assert wait(find_rows(root, ids, pages)).tolist() == physical.tolist()


def test_a_bulk_append_is_one_run():
    root = Root.of(RowIdRuns.run(10**9, TXIDS[0]))

    assert root.to_json()["tail"] == {"rows": [10**9], "txids": [TXIDS[0]]}


def test_runs_that_go_on_become_one():
    runs = RowIdRuns.concat([RowIdRuns.run(5, TXIDS[0]), RowIdRuns.run(3, TXIDS[0], 5)]).united()

    assert (runs.rows.tolist(), runs.offset.tolist()) == ([8], [0])


def test_runs_of_another_transaction_or_offset_stay_apart():
    runs = RowIdRuns.concat(
        [
            RowIdRuns.run(5, TXIDS[0]),
            RowIdRuns.run(3, TXIDS[0], 6),
            RowIdRuns.run(3, TXIDS[1], 9),
        ]
    )

    assert len(runs.united()) == 3


def test_an_id_that_nobody_has_is_not_found():
    root = Root.of(RowIdRuns.run(5, TXIDS[0], 10))
    ids = np.zeros(3, ROW_ID)
    ids["txid_high"], ids["txid_low"] = int(TXIDS[0][:16], 16), int(TXIDS[0][16:], 16)
    ids["offset"] = [9, 15, 12]
    ids[2]["txid_low"] += 1

    assert wait(find_rows(root, ids, MemoryPages())).tolist() == [-1, -1, -1]


def test_dead_rows_of_any_offset_become_one_run():
    dead = RowIdRuns.concat([RowIdRuns.run(5, NO_TXID), RowIdRuns.run(5, NO_TXID)])

    assert dead.united().rows.tolist() == [10]


def test_arrays_of_ids_become_runs():
    runs = RowIdRuns.concat([RowIdRuns.run(5, TXIDS[0]), RowIdRuns.run(3, TXIDS[1], 2)])
    ids = runs.ids_at(np.repeat([0, 1], [5, 3]), np.array([0, 1, 2, 3, 4, 0, 1, 2]))

    again = RowIdRuns.of_ids(ids)

    assert again.to_json() == runs.to_json()


def test_runs_survive_their_json():
    runs = RowIdRuns.concat([
        RowIdRuns.run(5, TXIDS[0], 3), RowIdRuns.run(3, TXIDS[1]), RowIdRuns.run(1, TXIDS[0])
    ])  # fmt: skip

    read = RowIdRuns.from_json(runs.to_json(), where="x")

    assert read.to_json() == runs.to_json()
    assert read.slice_rows(6, 9).to_json() == runs.slice_rows(6, 9).to_json()


def test_a_slice_starts_at_its_offset():
    part = RowIdRuns.run(10, TXIDS[0], 100).slice_rows(3, 5)

    assert (part.rows.tolist(), part.offset.tolist()) == ([2], [103])


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"rows": [1], "txids": ["x"]},
        {"rows": [1, 2], "txids": [NO_TXID], "txid": [0]},
        {"rows": [1], "txids": []},
        {"rows": [-1], "txids": [NO_TXID]},
        {"rows": [[1]], "txids": [NO_TXID]},
    ],
)
def test_a_tail_that_is_none_is_reported(value):
    with pytest.raises(CorruptionError):
        RowIdRuns.from_json(value, where="main@3")
