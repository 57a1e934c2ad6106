import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import (
    PageReader,
    Root,
    RowSegments,
    SegmentKind,
    delete_rows,
    physical_rows,
    rows_of,
    select_rows,
    tree,
)
from tests.support.memory_pages import MemoryPages, wait

BILLION = 10**9


def kinds(segments):
    return [SegmentKind(kind).name for kind in segments.kind.tolist()]


def test_fresh_rows_are_one_segment_whatever_their_number():
    pages = MemoryPages()
    root = Root.of(RowSegments.range(0, BILLION))

    root = wait(tree.append(root, RowSegments.range(BILLION, BILLION + 5), pages, pages))

    assert (len(root.tail), root.rows) == (1, BILLION + 5)
    assert root.to_json() == {
        "height": 0,
        "rows": BILLION + 5,
        "tail": {"base": [0], "rows": [BILLION + 5]},
    }


def test_deleting_a_few_rows_of_a_billion_leaves_ranges():
    root = Root.of(RowSegments.range(0, BILLION))
    pages = MemoryPages()

    root = wait(delete_rows(root, np.array([0, 5, 6, BILLION - 1]), pages, pages))

    assert root.tail.base.tolist() == [1, 7]
    assert root.rows == BILLION - 4
    assert pages.written == []


def test_one_percent_of_random_deletions_takes_at_most_20_megabytes_a_billion_rows():
    pages = MemoryPages()
    rows = 10**7
    deleted = np.flatnonzero(np.random.default_rng(0).random(rows) < 0.01)

    root = wait(delete_rows(Root.of(RowSegments.range(0, rows)), deleted, pages, pages))

    assert root.rows == rows - len(deleted)
    assert sum(ref.nbytes for ref in pages.written) <= 20e6 * rows / BILLION


def test_deletions_of_a_later_commit_rewrite_only_the_leaves_they_touch():
    pages = MemoryPages()
    deleted = np.flatnonzero(np.random.default_rng(0).random(5 * 10**6) < 0.01)
    root = wait(delete_rows(Root.of(RowSegments.range(0, 5 * 10**6)), deleted, pages, pages))
    pages.written.clear()

    wait(delete_rows(root, np.array([12345, 12400]), pages, pages))

    assert len(pages.written) == 1


@pytest.mark.parametrize(
    ("physical", "expected"),
    [
        (np.arange(5, 10_000), {"RANGE"}),
        (np.flatnonzero(np.arange(50_000) % 10), {"HOLES"}),
        (np.random.default_rng(0).permutation(20_000), {"PACKED"}),
        (np.repeat(np.arange(1000), 3), {"PACKED"}),
        (np.arange(0, 10**8, 10**4), {"PACKED"}),
    ],
)
def test_rows_are_stored_by_what_they_look_like(physical, expected):
    assert set(kinds(select_rows(physical))) == expected


def test_a_permutation_takes_its_bits_and_little_more():
    rows = 1 << 20

    segments = select_rows(np.random.default_rng(0).permutation(rows))

    assert segments.payload.nbytes <= rows * 20 / 8 * 1.01


def test_physical_rows_come_in_the_order_asked():
    root = Root.of(select_rows(np.array([7, 3, 9, 9, 100])))

    assert wait(physical_rows(root, np.array([4, 0, 0, 2]), MemoryPages())).tolist() == [
        100, 7, 7, 9
    ]  # fmt: skip


def test_rows_of_what_is_not_shown_are_minus_one():
    root = Root.of(select_rows(np.array([7, 3, 9, 9, 100])))

    found = wait(rows_of(root, np.array([9, 8, 7, 10**12]), MemoryPages()))

    assert found.tolist() == [2, -1, 0, -1]


def test_the_inverse_look_up_reads_only_leaves_that_may_hold_the_row():
    pages = MemoryPages()
    deleted = np.flatnonzero(np.random.default_rng(0).random(8 * 10**6) < 0.01)
    root = wait(delete_rows(Root.of(RowSegments.range(0, 8 * 10**6)), deleted, pages, pages))
    assert len(root.children) > 4

    wait(rows_of(root, np.array([123]), pages))

    assert len(pages.reads) == 1


def test_segments_survive_pages_of_every_kind():
    pages = MemoryPages()
    physical = np.concatenate(
        [
            np.arange(10**6, 2 * 10**6),
            np.flatnonzero(np.arange(10**6) % 7),
            np.random.default_rng(0).permutation(10**5),
        ]
    )

    root = wait(tree.append(Root.of(RowSegments.empty()), select_rows(physical), pages, pages))
    found = wait(physical_rows(root, np.arange(len(physical)), PageReader(pages)))

    assert root.children
    assert (found == physical).all()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"rows": [3]},
        {"rows": [3], "base": [1, 2]},
        {"rows": [3], "base": [1], "kind": [9]},
        {"rows": [3], "base": [1], "kind": [2], "span": [8], "payload_nbytes": [1], "payload": ""},
        {"rows": [3], "base": [1], "kind": [2], "span": [8], "payload_nbytes": [1],
         "payload": "/w=="},
        {"rows": [2**60], "base": [0], "kind": [3], "span": [9], "bits": [60],
         "payload_nbytes": [0]},
        {"rows": [2**63], "base": [0]},
        {"rows": [1], "base": [0], "payload": "*"},
    ],
)  # fmt: skip
def test_a_tail_that_is_none_is_reported(value):
    with pytest.raises(CorruptionError):
        RowSegments.from_json(value, where="main@3")
