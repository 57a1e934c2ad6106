"""Buffers that lie end to end in one block are taken as one, and no others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.types import OwnedBlock, join_adjoining


def block_of(content: bytes) -> OwnedBlock:
    return np.frombuffer(bytearray(content), np.uint8).view(OwnedBlock)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_joined_buffers_hold_the_same_bytes_in_the_same_order(cuts: list[tuple[int, int, int]]):
    blocks = [block_of(b"abcdefghi"), block_of(b"ABCDEFGHI")]
    buffers = [blocks[which].data[min(a, b) : max(a, b)] for which, a, b in cuts]

    joined = join_adjoining(buffers)

    assert b"".join(joined) == b"".join(buffers)
    assert len(joined) <= len(buffers)


def test_neighbours_of_a_block_become_one_buffer():
    block = block_of(b"abcdefghi")

    joined = join_adjoining([block.data[0:2], block.data[2:5].toreadonly(), block.data[5:9]])

    assert [bytes(one) for one in joined] == [b"abcdefghi"]


def test_what_is_apart_of_others_or_of_no_block_stays_alone():
    block, other = block_of(b"abcdefghi"), block_of(b"ABC")
    caller = bytearray(b"xyz")

    buffers = [block.data[0:2], block.data[3:5], other.data, memoryview(caller)[:1], b"yz"]

    assert [bytes(one) for one in join_adjoining(buffers)] == [bytes(one) for one in buffers]
