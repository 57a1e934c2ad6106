"""format.md's test 19 for metadata whose checksums are right but whose content is not.

Whatever stands in a root, an entry or a page, a reader answers with CorruptionError (or a newer
version's refusal), or reads it: never another exception, a hang, or much memory.
"""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError, UnsupportedError
from tensorlake.format import (
    Changes,
    Descriptor,
    Entry,
    Extents,
    Fence,
    PackId,
    PageKind,
    PageRef,
    Parent,
    PhysicalBounds,
    Root,
    RowIdRuns,
    RowSegments,
    Statistics,
    StatisticsTable,
    Summaries,
    decode_page,
    encode_page,
    seal,
    select_rows,
)
from tensorlake.format.trees.nodes import read_inner, write_inner
from tests.support.examples import examples
from tests.support.memory_pages import MemoryPages

TXID = "0123456789abcdef" * 2
WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([2**31, 2**32, 2**63 - 1, 2**64, -(2**63), 10**30, 0.5, 1e300]),
    st.sampled_from(["", "x", TXID, f"{TXID}-0", "many", "0" * 16, "|O", "<i8", "nan"]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-1, 5), max_size=3),
)


def extents():
    bounds = StatisticsTable.of([Statistics(domain="int64", minimum=1, maximum=3, labels=(1, 3))])
    return Extents.concat([
        Extents.chunk(
            rows=3, kind=1, pack=PackId(TXID, 0), offset=64, nbytes=9, header_nbytes=64,
            checksum=5, statistics=bounds,
        ),
        Extents.without_bytes(5, 4),
    ])  # fmt: skip


BOUNDS = StatisticsTable.of([Statistics(domain="float64", minimum=-1.0, maximum=0.5)])
PHYSICAL = PhysicalBounds(np.array([3], np.uint64), np.array([9], np.uint64))


def child(rows, summary=BOUNDS, stored_nbytes=None):
    return PageRef(PackId(TXID, 1), 64, 10, 7, rows, 2, 0, 2, stored_nbytes, Summaries.of(summary))


SEGMENTS = select_rows(np.concatenate([np.arange(0, 9, 2), np.arange(20, 0, -1), np.arange(99)]))
HOLES = RowSegments.holes(5, np.arange(20) % 3 > 0)
PACKED = RowSegments.packed(np.arange(9))
RUNS = RowIdRuns.concat([RowIdRuns.run(3, TXID, 1), RowIdRuns.run(2, "1" * 32)])
ROOTS = [
    (Extents, Root.of(extents(), children=(child(5, stored_nbytes=90), child(6)))),
    (
        RowSegments,
        Root.of(RowSegments.concat([SEGMENTS, HOLES, PACKED]), children=(child(3, PHYSICAL),)),
    ),
    (RowIdRuns, Root.of(RUNS)),
]  # fmt: skip
ENTRY = Entry(
    kind="commit",
    seq=1,
    txid=TXID,
    time=5,
    parents=(Parent("main", 0, "ab"),),
    merged={"b": 3},
    fence=Fence(1, 0),
    schema={"tensors": []},
    roots={"0123456789": ROOTS[0][1]},
    rows=ROOTS[1][1],
    row_ids=ROOTS[2][1],
    physical=18,
    changes=Changes(3, {"0123456789": ((1, 2),)}, "many"),
)


@st.composite
def altered(draw, value):
    """The value with one part of it replaced, removed or doubled."""
    value = copy.deepcopy(value)
    places = []

    def walk(node):
        keys = range(len(node)) if isinstance(node, list) else list(node)
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(value)
    for _ in range(draw(st.integers(1, 2))):
        node, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "replace", "remove", "double"]))
        if isinstance(node, list) and not key < len(node):
            continue
        if isinstance(node, dict) and key not in node:
            continue
        if change == "replace":
            node[key] = draw(WRONG)
        elif change == "remove":
            del node[key]
        elif isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
    return value


@pytest.mark.parametrize(("table", "root"), ROOTS, ids=lambda item: getattr(item, "__name__", ""))
@given(data=st.data())
@examples(100)
def test_a_forged_root_is_read_or_reported(table, root, data):
    value = data.draw(altered(root.to_json()))

    try:
        read = Root.from_json(value, table, where="main@1")
    except CorruptionError:
        return
    assert read.rows == value["rows"]
    read.tail.slice_rows(1, 3)


@given(altered(ENTRY.to_json()))
@examples(100)
def test_a_forged_entry_is_read_or_reported(value):
    try:
        read = Entry.from_bytes(seal(value), where="main@1")
    except (CorruptionError, UnsupportedError):
        return
    assert read.kind in {"begin", "commit", "fence", "end"}


@given(altered({"format": "tensorlake", "version": 1, "id": TXID, "created": 1, "grace": 99}))
def test_a_forged_descriptor_is_read_or_reported(value):
    try:
        read = Descriptor.from_bytes(seal(value))
    except (CorruptionError, UnsupportedError):
        return
    assert read.grace_s >= 60


@pytest.mark.parametrize(
    "table",
    [extents(), ROOTS[1][1].tail, ROOTS[2][1].tail],
    ids=["extents", "row segments", "row ids"],
)
@given(data=st.data())
@examples(80)
def test_a_forged_page_is_read_or_reported(table, data):
    columns = dict(table.to_columns())
    name = data.draw(st.sampled_from(sorted(columns)))
    change = data.draw(st.sampled_from(["items", "dtype", "length", "width", "remove"]))
    column = columns[name]
    if change == "items":
        seed = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        columns[name] = np.frombuffer(seed.bytes(column.nbytes), column.dtype).reshape(column.shape)
    elif change == "dtype":
        columns[name] = column.astype(data.draw(st.sampled_from(["<f8", "<i2", "<u8", "<u1"])))
    elif change == "length":
        columns[name] = column[:-1]
    elif change == "width":
        columns[name] = column.reshape(-1)[:, None].repeat(2, axis=1)
    else:
        del columns[name]
    rows = int(table.rows.sum())
    data = encode_page(table.PAGE_KIND, columns, entries=len(table), rows=rows)

    try:
        read = type(table).from_page(decode_page(data, where="x"), where="x")
    except CorruptionError:
        return
    assert len(read) == len(table)
    read.summary()


@given(data=st.data())
@examples(80)
def test_a_forged_inner_page_is_read_or_reported(data):
    pages = MemoryPages()
    ref = write_inner([child(5), child(6), child(7)], pages)
    page = decode_page(pages.pages[ref.pack, ref.offset], where="x")
    columns = dict(page.columns)
    name = data.draw(st.sampled_from(sorted(columns)))
    seed = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    column = columns[name]
    columns[name] = np.frombuffer(seed.bytes(column.nbytes), column.dtype).reshape(column.shape)
    forged = encode_page(PageKind.INNER, columns, entries=3, rows=18)

    try:
        inner = read_inner(forged, Extents, where="x")
    except CorruptionError:
        return
    assert len(inner.refs()) == 3
