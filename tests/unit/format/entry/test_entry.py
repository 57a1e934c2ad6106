import json

import numpy as np
import pytest

from tensorlake.errors import CorruptionError, InvalidInputError, UnsupportedFeatureError
from tensorlake.format import (
    MAX_ENTRY_NBYTES,
    Changes,
    ChunkKind,
    Descriptor,
    Entry,
    Extents,
    Features,
    Fence,
    PackId,
    PackTotals,
    Parent,
    Root,
    RowIdRuns,
    RowSegments,
    changed_rows,
    new_txid,
    seal,
    tree,
    unite_rows,
)
from tests.support.memory_pages import MemoryPages, wait

TXID = "0123456789abcdef" * 2
# Every member that version 1 reserves; a later version may add, never take away.
MEMBERS = {
    "kind", "seq", "prev", "txid", "parents", "merged", "time", "author", "message", "meta",
    "keys", "fence", "features", "schema", "roots", "rows", "row_ids", "indexes", "physical",
    "changes", "packs", "statistics", "of", "digest",
}  # fmt: skip


def one_extent(at=0, rows=3):
    return Extents.chunk(
        rows=rows,
        kind=ChunkKind.UNIFORM,
        pack=PackId(TXID, at),
        offset=64,
        nbytes=100_000,
        header_nbytes=64,
        checksum=2**64 - 1 - at,
    )


def commit(**members):
    return Entry(**{
        "kind": "commit",
        "seq": 3,
        "txid": TXID,
        "time": 1_700_000_000_000_000,
        "prev": "ab" * 20,
        "parents": (Parent("main", 2, "ab" * 20), Parent("café", 9, "cd" * 20)),
        "merged": {"café": 9},
        "author": "Ada",
        "message": "two more",
        "meta": {"run": 7, "lr": 0.1},
        "keys": ("job-1",),
        "fence": Fence(5, 1),
        "features": Features((), ("later",)),
        "schema": {"tensors": [{"id": "0a0b0c0d0e", "name": "x"}]},
        "roots": {"0a0b0c0d0e": Root.of(one_extent())},
        "rows": Root.of(RowSegments.range(0, 3)),
        "row_ids": Root.of(RowIdRuns.run(3, TXID)),
        "indexes": {"by_x": {"kind": "bitmap"}},
        "physical": 3,
        "changes": Changes(3, {"0a0b0c0d0e": ((0, 2),)}, "many", ({"op": "add"},), rewrite=True),
        "packs": PackTotals(4, 1000),
        "statistics": {"rows": 3},
        **members,
    })  # fmt: skip


def test_an_entry_survives_its_bytes():
    entry = commit()

    data, sealed = entry.sealed()
    read = Entry.from_bytes(data, where="main@3")

    assert read.to_bytes() == data
    assert read.digest == sealed.digest == json.loads(data)["digest"]
    for name in ("kind", "parents", "merged", "meta", "keys", "fence", "features", "changes"):
        assert getattr(read, name) == getattr(entry, name)
    assert read.num_rows == 3


def test_every_member_of_version_1_is_there():
    begin = Entry(kind="begin", seq=0, txid=TXID, time=0)

    assert set(json.loads(begin.to_bytes())) == MEMBERS
    assert set(json.loads(commit().to_bytes())) == MEMBERS


def test_an_entry_without_a_body_says_so():
    begin = Entry.from_bytes(Entry(kind="begin", seq=0, txid=TXID, time=0).to_bytes(), where="x")

    assert (begin.has_body, begin.num_rows, begin.rows) == (False, 0, None)
    assert commit().has_body


def test_unknown_members_are_kept():
    """format.md's test 21."""
    value = {**commit().to_json(), "later": {"x": [1]}}

    read = Entry.from_bytes(seal(value), where="x")

    assert read.unknown == {"later": {"x": [1]}}
    assert json.loads(read.to_bytes())["later"] == {"x": [1]}


def test_an_unknown_reader_feature_is_refused_by_name():
    """format.md's test 21."""
    data = commit(features=Features(("time-travel",), ())).to_bytes()

    with pytest.raises(UnsupportedFeatureError, match="'time-travel'") as caught:
        Entry.from_bytes(data, where="main@3")
    assert caught.value.feature == "time-travel"


def test_an_unknown_writer_feature_can_be_read():
    """format.md's test 21."""
    read = Entry.from_bytes(commit().to_bytes(), where="x")

    assert read.features.unknown_write == ("later",)


def test_every_flipped_byte_is_noticed():
    """format.md's test 45, for entries."""
    data = commit().to_bytes()

    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 0x11
        with pytest.raises(CorruptionError):
            Entry.from_bytes(bytes(flipped), where="x")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "squash"},
        {"seq": -1},
        {"seq": True},
        {"txid": "x"},
        {"parents": [{}]},
        {"rows": {"rows": 3}},
        {"merged": {"a": "b"}},
        {"changes": {}},
        {"schema": {"page": []}},
        {"fence": 3},
        {"packs": None},
        {"changes": {"append": 1, "update": {}, "delete": [[5, 3]], "schema": [], "rewrite": 0}},
    ],
)
def test_a_sealed_object_that_is_no_entry_is_reported(change):
    with pytest.raises(CorruptionError, match="main@3"):
        Entry.from_bytes(seal({**commit().to_json(), **change}), where="main@3")


@pytest.mark.parametrize("name", sorted(MEMBERS - {"digest"}))
def test_an_entry_that_lacks_a_member_is_reported(name):
    value = commit().to_json()
    del value[name]

    with pytest.raises(CorruptionError):
        Entry.from_bytes(seal(value), where="x")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"message": "ü" * 2049}, "the message takes 4098 bytes, the format allows 4096"),
        ({"meta": {"a": "x" * 16384}}, "meta takes 16392 bytes, the format allows 16384"),
        ({"author": "x" * 262144}, "entry 3 takes 26.* bytes, the format allows 262144"),
    ],
)
def test_what_is_too_large_is_refused_with_its_size(members, message):
    with pytest.raises(InvalidInputError, match=message):
        commit(**members).to_bytes()


def test_a_message_of_exactly_4_kib_is_taken():
    assert Entry.from_bytes(commit(message="x" * 4096).to_bytes(), where="x").message == "x" * 4096


def test_small_members_stay_in_the_entry():
    pages = MemoryPages()

    assert commit().spill(pages).spilled == {}
    assert pages.written == []


def test_large_members_lie_in_pages_side_by_side():
    pages = MemoryPages()
    entry = commit(
        schema={"tensors": ["x" * 100 + str(at) for at in range(1000)]},
        merged={f"branch-{at}": at for at in range(10_000)},
        roots={f"{at:010x}": Root.of(one_extent()) for at in range(1000)},
    )

    data = entry.spill(pages).to_bytes()
    read = Entry.from_bytes(data, where="x")
    loaded = wait(read.load(pages, where="x"))

    assert len(data) < 4096
    assert list(read.spilled) == ["schema", "roots", "merged"]
    first, second, third = pages.written
    assert second.offset - first.offset - first.nbytes < 64
    assert third.offset - second.offset - second.nbytes < 64
    assert pages.most_at_once == 3
    assert (loaded.schema, loaded.merged) == (entry.schema, entry.merged)
    assert loaded.roots["0000000007"].to_json() == entry.roots["0000000007"].to_json()
    assert loaded.to_bytes() == data


def test_a_version_vector_of_ten_thousand_branches_is_read_again():
    """format.md's test 50, for entries."""
    pages = MemoryPages()
    merged = {f"experiment/{at:05d}": at for at in range(10_000)}

    read = Entry.from_bytes(commit(merged=merged).spill(pages).to_bytes(), where="x")

    assert wait(read.load(pages, where="x")).merged == merged


def test_a_changed_member_lets_its_page_go():
    pages = MemoryPages()
    entry = commit(schema={"x": "y" * 40_000}).spill(pages)

    changed = entry.changed(schema={"x": 1})

    assert changed.spilled == {}
    assert entry.changed(message="m").spilled == entry.spilled


def test_members_that_lie_in_pages_are_not_written_again():
    pages = MemoryPages()
    entry = commit(schema={"x": "y" * 40_000}).spill(pages)
    read = Entry.from_bytes(entry.to_bytes(), where="x")

    again = wait(read.load(pages, where="x")).changed(seq=4).spill(pages)

    assert len(pages.written) == 1
    assert again.spilled == entry.spilled


def test_a_damaged_page_of_a_member_is_reported():
    pages = MemoryPages()
    entry = commit(schema={"x": "y" * 40_000}).spill(pages)
    (ref,) = pages.written
    pages.pages[ref.pack, ref.offset] = b"\0" + pages.pages[ref.pack, ref.offset][1:]

    with pytest.raises(CorruptionError):
        wait(Entry.from_bytes(entry.to_bytes(), where="x").load(pages, where="x"))


def full_root(pages, *, first):
    """A root with children, and a tail filled by rebases."""
    root = Root.of(Extents.empty())
    for at in range(64):
        mine = Root.of(one_extent(first + at))
        root = wait(tree.concat(root, mine, pages, pages))
    return root


def test_an_entry_with_thousands_of_tensors_and_full_tails_stays_within_its_limit():
    """format.md's test 48: 10^5 packs, 10^3 tensors, full tails, 64 rebases in a row."""
    pages = MemoryPages()
    root = full_root(pages, first=0)
    entry = commit(
        roots={f"{at:010x}": root for at in range(1000)}, packs=PackTotals(10**5, 64 * 10**11)
    )

    data = entry.spill(pages).to_bytes()

    assert len(data) <= MAX_ENTRY_NBYTES
    assert len(wait(Entry.from_bytes(data, where="x").load(pages, where="x")).roots) == 1000


def test_a_row_appended_to_ten_tensors_takes_at_most_40_kib_of_metadata():
    pages = MemoryPages()
    root = wait(tree.append(full_root(pages, first=0), one_extent(999), pages, pages))
    while len(root.to_json().get("tail", {}).get("rows", ())) < 20:
        root = wait(tree.append(root, one_extent(len(root.tail)), pages, pages))
    entry = commit(roots={f"{at:010x}": root for at in range(10)})

    assert len(entry.to_bytes()) <= 40 * 1024


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [([], ()), ([4], ((4, 5),)), ([5, 4, 9, 5], ((4, 6), (9, 10))), (range(0, 130, 2), "many")],
)
def test_changed_rows_are_ranges_or_many(rows, ranges):
    assert changed_rows(np.array(rows, np.int64)) == ranges


def test_exactly_64_ranges_are_still_told():
    assert len(changed_rows(np.arange(0, 128, 2))) == 64


def test_changed_rows_of_two_commits_unite():
    assert unite_rows(((0, 3), (9, 10)), ((2, 5), (10, 12))) == ((0, 5), (9, 12))
    assert unite_rows("many", ((1, 2),)) == "many"


def test_only_appends_are_append_only():
    assert Changes(append=3).is_append_only
    assert not Changes(append=3, delete=((1, 2),)).is_append_only
    assert not Changes(rewrite=True).is_append_only


def test_a_descriptor_survives_its_bytes():
    descriptor = Descriptor(new_txid(), 5, 3600, "s3://a/b", {"later": 1})

    assert Descriptor.from_bytes(descriptor.to_bytes()) == descriptor


def test_a_grace_below_a_minute_is_refused():
    with pytest.raises(InvalidInputError, match="59 s, less than 60 s"):
        Descriptor(TXID, 0, 59).to_bytes()


def test_a_later_format_is_refused_by_number():
    """format.md's test 21."""
    value = json.loads(Descriptor(TXID, 0).to_bytes()) | {"version": 2}

    with pytest.raises(UnsupportedFeatureError, match="format version 2"):
        Descriptor.from_bytes(seal(value))


@pytest.mark.parametrize("change", [{"format": "other"}, {"id": 3}, {"grace": 1}, {"created": ""}])
def test_what_is_no_descriptor_is_reported(change):
    value = json.loads(Descriptor(TXID, 0).to_bytes()) | change

    with pytest.raises(CorruptionError):
        Descriptor.from_bytes(seal(value))
