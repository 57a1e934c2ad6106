"""Which pieces of an index move together: the plan of optimize, without a store."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tensorlake.versions.maintenance.plan import Piece, moves

WALL = Piece("wall", 0, 0)
SMALL = Piece("chunk", 0, 4, windows=((0, 4),), nbytes=8, is_whole=True)
UNSURE = replace(SMALL, is_whole=None)
DEAD = Piece("dead", 0, 4, nbytes=8, must_move=True)
HOLE = Piece("hole", 0, 4)
FILL = Piece("fill", 0, 4)

pieces = st.lists(st.sampled_from([WALL, SMALL, UNSURE, DEAD, HOLE, FILL]), max_size=12)


def stretches(*found: Piece, is_partial: bool = False) -> list[list[str]]:
    """The kinds of the pieces that move, a list for each stretch."""
    moved: list[list[str]] = [[]]
    for piece in moves(found, lambda _: is_partial):
        if piece is None:
            moved.append([])
        else:
            moved[-1].append(piece.what)
    assert moved[-1] == []
    return moved[:-1]


def test_a_good_chunk_is_never_moved():
    assert stretches(WALL, WALL, WALL) == []


def test_one_small_chunk_alone_stays_where_it_is():
    assert stretches(WALL, SMALL, WALL) == []
    assert stretches(SMALL) == []


def test_small_chunks_between_two_walls_move_together():
    assert stretches(WALL, SMALL, SMALL, WALL, SMALL) == [["chunk", "chunk"]]


def test_small_chunks_move_across_holes_but_holes_alone_do_not():
    assert stretches(SMALL, HOLE, SMALL) == [["chunk", "hole", "chunk"]]
    assert stretches(HOLE, HOLE, WALL) == []


def test_rows_with_a_fill_are_not_made_into_chunks_without_need():
    assert stretches(FILL, FILL) == []
    assert stretches(FILL, SMALL) == [["fill", "chunk"]]


def test_what_is_dead_moves_even_alone():
    assert stretches(WALL, DEAD, WALL) == [["dead"]]


def test_part_of_a_chunk_moves_even_alone():
    assert stretches(WALL, UNSURE, WALL, is_partial=True) == [["chunk"]]
    assert stretches(WALL, UNSURE, WALL, is_partial=False) == []


@given(pieces)
def test_pieces_that_move_keep_their_order_and_walls_never_do(found):
    moved = [piece for piece in moves(found, lambda _: True) if piece is not None]

    at = iter(found)
    assert all(any(piece is one for one in at) for piece in moved)
    assert all(piece.what != "wall" for piece in moved)
    assert sum(piece.must_move for piece in moved) == sum(piece.must_move for piece in found)
