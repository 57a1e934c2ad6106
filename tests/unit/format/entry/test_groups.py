"""Column groups of an entry: their JSON, and every way in which it can be wrong."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError, InvalidInputError, UnsupportedFeatureError
from tensorlake.format import (
    MAX_PARAMETERS_NBYTES,
    ChunkKind,
    ColumnGroup,
    Entry,
    Extents,
    PackId,
    Root,
    Schema,
    check_group_name,
    column_groups,
    encode_json_page,
    group_roots,
    seal,
)
from tests.support.memory_pages import MemoryPages, wait

TXID = "0123456789abcdef" * 2
Json = dict[str, Any]


def extents(rows: int, offset: int = 64) -> Extents:
    return Extents.chunk(
        rows=rows,
        kind=ChunkKind.UNIFORM,
        pack=PackId(TXID, 0),
        offset=offset,
        nbytes=1000,
        header_nbytes=64,
        checksum=7,
    )


def group(rows: int = 3) -> ColumnGroup:
    empty = ColumnGroup.empty("ledger", Schema.new({"item": "str", "size": "int64"}), {"v": 1})
    return empty.with_roots({part: Root.of(extents(rows)) for part in empty.roots}, rows)


def entry_with(indexes: dict[str, Any]) -> Entry:
    return Entry(kind="begin", seq=0, txid=TXID, time=0, indexes=indexes)


def test_a_group_survives_its_json():
    written = json.loads(json.dumps(group().to_json()))

    read = ColumnGroup.from_json(written, where="x")

    assert read.to_json() == written
    assert (read.kind, read.rows, read.parameters) == ("ledger", 3, {"v": 1})
    assert [spec.name for spec in read.parts().tensors] == ["item", "size"]
    assert read.continues(group().with_roots(read.roots, 3))
    assert not read.continues(group())
    assert not read.continues(None)


def test_members_of_later_versions_are_kept_and_their_packs_never_guessed():
    written = group().to_json() | {"bases": {"state": {}}}

    read = ColumnGroup.from_json(written, where="x")

    assert read.to_json() == written
    with pytest.raises(UnsupportedFeatureError, match="'bases'"):
        group_roots({"by-label": read})


def test_roots_of_groups_are_named_by_group_and_part():
    one = group()

    roots = group_roots({"a": one, "b": group()})

    assert len(roots) == 4
    assert all(roots[f"a/{part}"] is root for part, root in one.roots.items())


def without(name: str) -> Any:
    return lambda value: value.pop(name)


def put(**members: Any) -> Any:
    return lambda value: value.update(members)


MALFORMED: dict[str, Callable[[Json], Any]] = {
    **{f"no {name}": without(name) for name in ("kind", "rows", "schema", "roots", "parameters")},
    "kind a number": put(kind=1),
    "rows negative": put(rows=-1),
    "rows of huge": put(rows=10**30),
    "rows a fraction": put(rows=0.5),
    "rows true": put(rows=True),
    "other rows": put(rows=4),
    "parameters a number": put(parameters=3),
    "schema a list": put(schema=[]),
    "no parts": put(schema={"tensors": []}, roots={}),
    "a part of numbers": put(schema={"tensors": [1]}),
    "an id a list": lambda value: value["schema"]["tensors"][0].update(id=[]),
    "a name a number": lambda value: value["schema"]["tensors"][0].update(name=1),
    "two parts of one name": lambda value: value["schema"]["tensors"][0].update(name="size"),
    "a part twice": lambda value: value["schema"]["tensors"].append(value["schema"]["tensors"][0]),
    "a part without a root": lambda value: value["roots"].popitem(),
    "a root of no part": lambda value: value["roots"].update({"00" * 5: {"rows": 0, "height": 0}}),
    "roots a list": put(roots=[]),
    "a root a number": lambda value: value["roots"].update({next(iter(value["roots"])): 3}),
    "a root shorter": lambda value: value["roots"].update(
        {next(iter(value["roots"])): Root.of(extents(2)).to_json()}
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_group_is_damage_that_names_it(case: str):
    value = group().to_json()
    MALFORMED[case](value)

    with pytest.raises(CorruptionError, match="column group 'ledger of b'"):
        column_groups({"a": group().to_json(), "ledger of b": value}, where="entry 3")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        found += [one for key in value for one in places(value[key], (*path, key))]
    if isinstance(value, list):
        found += [one for at in range(len(value)) for one in places(value[at], (*path, at))]
    return found


SAMPLE = json.loads(json.dumps(group().to_json()))
PLACES = places(SAMPLE)


@given(st.sampled_from(PLACES), junk)
def test_any_value_anywhere_is_a_group_or_damage(path: tuple[Any, ...], value: Any):
    forged: Any = {"": copy.deepcopy(SAMPLE)}
    at, last = forged, ""
    for key in path:
        at, last = at[last], key
    at[last] = value

    try:
        read = ColumnGroup.from_json(forged[""], where="x")
    except CorruptionError:
        return

    assert all(root.rows == read.rows for root in read.roots.values())
    assert ColumnGroup.from_json(read.to_json(), where="x").to_json() == read.to_json()


def test_large_indexes_are_a_page_and_read_from_it():
    """The limit is 16 KiB."""
    pages = MemoryPages()
    small = entry_with({"a": group().to_json()})
    many = entry_with({f"group {number}": group().to_json() for number in range(20)})

    assert not small.spill(pages).spilled
    spilled = many.spill(pages)
    data = spilled.to_bytes()
    read = Entry.from_bytes(data, where="x")

    assert list(spilled.spilled) == ["indexes"]
    assert list(json.loads(data)["indexes"]) == ["page"]
    assert (read.indexes, read.to_bytes()) == ({}, data)
    assert wait(read.load(pages, where="x")).indexes == many.indexes


def test_a_page_of_indexes_that_is_no_object_is_damage():
    pages = MemoryPages()
    lists = entry_with({}).changed(spilled={"indexes": _page_of([{"a": 1}], pages)})

    with pytest.raises(CorruptionError, match="not an object"):
        wait(lists.load(pages, where="x"))


def _page_of(value: Any, pages: MemoryPages) -> Any:
    return pages.add(encode_json_page(value), rows=0, entries=1, height=0)


def test_indexes_of_another_form_are_no_entry():
    value = entry_with({}).to_json() | {"indexes": None}

    with pytest.raises(CorruptionError, match="not a log entry"):
        Entry.from_bytes(seal(value), where="x")


@pytest.mark.parametrize("name", ["", "page", "x" * 201, "\ud800", 3])
def test_a_name_that_no_group_may_have_is_refused(name: Any):
    with pytest.raises(InvalidInputError, match="name of a column group"):
        check_group_name(name)


def test_parameters_are_small():
    parts = Schema.new({"x": "int64"})

    with pytest.raises(InvalidInputError, match="parameters"):
        ColumnGroup.empty("ledger", parts, {"a": "x" * MAX_PARAMETERS_NBYTES})
