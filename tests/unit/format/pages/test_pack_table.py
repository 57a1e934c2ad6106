"""Packs that a page names: looked at one by one, equal by content."""

import numpy as np

from tensorlake.format import PackId
from tensorlake.format.pages.pack_table import PackTable, pack_column

PACKS = tuple(PackId(f"{number:032x}", number * 1000) for number in range(300))


def test_a_table_gives_back_the_packs_that_were_written():
    table = PackTable(pack_column(PACKS))

    assert tuple(table) == PACKS
    assert (table[0], table[-1], table[7:9]) == (PACKS[0], PACKS[-1], PACKS[7:9])
    assert len(table) == 300
    assert PACKS[5] in table


def test_tables_are_equal_to_the_same_packs_and_to_no_others():
    table = PackTable(pack_column(PACKS))

    assert table == PackTable(np.array(pack_column(PACKS)))
    assert table == PACKS
    assert table != PACKS[:-1]
    assert table != PackTable(pack_column(PACKS[::-1]))
    assert table != 3


def test_tables_and_tuples_are_joined_in_order():
    joined = PackTable.concat([PACKS[:2], PackTable(pack_column(PACKS[2:5])), (), PACKS[5:]])

    assert joined == PACKS


def test_neighbours_in_one_pack_share_its_name_and_others_have_their_own():
    table = PackTable(pack_column(PACKS))

    first, again, other, back = (table[at] for at in (0, 0, 1, 0))

    assert again is first
    assert [other, back] == [PACKS[1], PACKS[0]]
