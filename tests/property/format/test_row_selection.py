"""Row selections are arrays of physical rows, stored in less."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.format import (
    PageReader,
    Root,
    RowSegments,
    TreeLimits,
    delete_rows,
    physical_rows,
    rows_of,
    select_ranges,
    select_rows,
    tree,
)
from tests.support.examples import examples
from tests.support.memory_pages import MemoryPages, wait

SMALL = TreeLimits(leaf_entries=8, fan_out=4, root_children=5, tail_entries=3, merge_width=2)


@st.composite
def selections(draw):
    """Stretches of every form: long and short runs, dense and sparse ascents, any order."""
    seed = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts, low = [], 0
    for form in draw(st.lists(st.sampled_from("rsdxpb"), min_size=1, max_size=6)):
        size = draw(st.integers(1, 3000))
        if form == "r":
            part = np.arange(low, low + size)
        elif form == "s":
            part = low + np.flatnonzero(seed.random(size) < 0.02)
        elif form == "d":
            part = low + np.flatnonzero(seed.random(size) < 0.9)
        elif form == "x":
            part = low + seed.integers(0, 1 << draw(st.integers(1, 50)), size)
        elif form == "p":
            part = low + seed.permutation(size)
        else:
            part = np.arange(max(low - size, 0), low)
        parts.append(part)
        low += draw(st.integers(0, 5000))
    return np.concatenate(parts).astype(np.int64)


def flattened(segments):
    return np.concatenate(
        [np.zeros(0, np.int64), *(segments.expand(at) for at in range(len(segments)))]
    )


@given(selections())
def test_segments_list_exactly_the_rows_they_were_made_of(physical):
    segments = select_rows(physical)

    assert (flattened(segments) == physical).all()
    assert len(physical) == segments.rows.sum()
    assert (select_ranges(*segments.to_ranges()).rows.sum()) == len(physical)


@given(selections())
def test_segments_survive_their_json(physical):
    segments = select_rows(physical)

    read = RowSegments.from_json(segments.to_json(), where="test")

    assert (flattened(read) == physical).all()


@given(selections(), st.floats(0, 1), st.floats(0, 1))
def test_a_slice_of_segments_is_the_slice_of_rows(physical, first, second):
    start, stop = sorted((int(first * len(physical)), int(second * len(physical))))

    part = select_rows(physical).slice_rows(start, stop)

    assert (flattened(part) == physical[start:stop]).all()


@given(selections(), st.integers(0, 2**32))
def test_rows_and_physical_rows_are_inverse(physical, seed):
    pages = MemoryPages()
    root = wait(
        tree.append(Root.of(RowSegments.empty()), select_rows(physical), pages, pages, limits=SMALL)
    )
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, max(len(physical), 1), 200)[: 200 if len(physical) else 0]

    found = wait(physical_rows(root, rows, pages))
    asked = np.concatenate([physical, physical + 1, [10**15]])
    back = wait(rows_of(root, asked, pages))

    assert (found == physical[rows]).all()
    unique, first = np.unique(physical, return_index=True)
    model = dict(zip(unique.tolist(), first.tolist(), strict=True))
    assert back.tolist() == [model.get(row, -1) for row in asked.tolist()]


@given(selections(), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2**32)), max_size=4))
@examples(25)
def test_deleting_rows_leaves_the_others_in_order(physical, deletions):
    pages = MemoryPages()
    reader = PageReader(pages)
    root = wait(
        tree.append(Root.of(RowSegments.empty()), select_rows(physical), pages, pages, limits=SMALL)
    )

    for share, seed in deletions:
        rng = np.random.default_rng(seed)
        rows = np.flatnonzero(rng.random(len(physical)) < share**3)
        root = wait(delete_rows(root, rows, reader, pages, limits=SMALL))
        physical = np.delete(physical, rows)

    everything = wait(physical_rows(root, np.arange(root.rows), reader))
    assert (everything == physical).all()
