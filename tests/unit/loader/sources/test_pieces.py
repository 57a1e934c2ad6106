"""Pieces of a group: each row in one of them, those of a chunk together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.sources.batch_group import Group, Piece, expect_own
from tensorlake.loader.sources.chunk_cache import GroupRows

CHUNK_ROWS = 5
ROWS = st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True)


def group_of(physical: list[int], *, is_located: bool) -> Group:
    rows = np.array(physical, dtype=np.int64)
    chunk = rows // CHUNK_ROWS
    located = GroupRows(chunk, rows % CHUNK_ROWS, np.unique(chunk))
    return Group([], rows, rows, rows, {}, {"x": located} if is_located else {})


@given(ROWS, st.integers(1, 8), st.booleans())
def test_every_row_is_found_again_in_its_piece(physical, piece_rows, is_located):
    group = group_of(physical, is_located=is_located)

    pieces = expect_own(group, "x", piece_rows)

    placed = group.tensors["x"]
    for row in range(len(physical)):
        assert pieces[placed.chunk[row]].rows[placed.row_in_chunk[row]] == row
    assert sum(len(piece.rows) for piece in pieces) == len(physical)


@given(ROWS, st.integers(1, 8))
def test_no_chunk_is_divided_and_only_the_last_piece_is_small(physical, piece_rows):
    group = group_of(physical, is_located=True)

    pieces = expect_own(group, "x", piece_rows)

    chunks = [set((group.physical[piece.rows] // CHUNK_ROWS).tolist()) for piece in pieces]
    assert sum(map(len, chunks)) == len(set.union(*chunks))
    assert all(len(piece.rows) >= piece_rows for piece in pieces[:-1])


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_parts_of_a_piece_are_even_and_none_is_lost(count):
    piece = Piece("x", 2, np.arange(count))

    parts = piece.parts(3)

    lengths = [len(part.rows) for part in parts]
    assert np.concatenate([part.rows for part in parts]).tolist() == list(range(count))
    assert max(lengths) <= 3
    assert max(lengths) - min(lengths) <= 1
    assert {(part.tensor, part.number) for part in parts} == {("x", 2)}
