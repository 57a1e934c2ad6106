"""Laws of merging and of differences, whatever the edits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore
from tests.support.examples import examples
from tests.support.handles import create_on, rows_of

ROWS = 12
NAMES = ["cat", "dog", "emu", "owl", "yak", "zebra"]
FEW = examples(6)

Rows = dict[int, dict[str, object]]


@dataclass(frozen=True)
class Edits:
    """What a branch does: cells by (uid, tensor), rows deleted, rows appended, class names."""

    cells: dict[tuple[int, str], int]
    deleted: frozenset[int]
    appended: tuple[int, ...]
    names: tuple[str, ...]


def edits_on(uids: frozenset[int], *, names: list[str]) -> st.SearchStrategy[Edits]:
    """Edits of some of the rows only."""
    cells = st.tuples(st.sampled_from(sorted(uids) or [0]), st.sampled_from(["x", "t", "label"]))
    return st.builds(
        Edits,
        st.dictionaries(cells, st.integers(0, 5), max_size=6 if uids else 0),
        st.frozensets(st.sampled_from(sorted(uids) or [0]), max_size=3 if uids else 0),
        st.lists(st.integers(0, 5), max_size=3).map(tuple),
        st.permutations(names).map(lambda some: tuple(some[:2])),
    )


@st.composite
def disjoint_edits(draw: st.DrawFn) -> tuple[Edits, Edits]:
    mine = draw(st.frozensets(st.integers(0, ROWS - 1)))
    theirs = frozenset(range(ROWS)) - mine
    # Names of classes may well be the same: added by both, they are one class.
    return draw(edits_on(mine, names=NAMES[2:])), draw(edits_on(theirs, names=NAMES[2:]))


def begun() -> Dataset:
    ds = create_on(
        MemoryStore(),
        {"uid": "int64", "x": "int64", "t": "str", "label": tl.ClassLabel(NAMES[:2])},
    )
    ds.extend(
        {
            "uid": range(ROWS),
            "x": range(ROWS),
            "t": list(map(str, range(ROWS))),
            "label": [NAMES[row % 2] for row in range(ROWS)],
        }
    )
    ds.commit("rows")
    return ds


def apply(edits: Edits, ds: Dataset, first_uid: int) -> None:
    known = [*ds["label"].names]
    ds["label"].add_names([name for name in edits.names if name not in known])
    names = ds["label"].names
    rows = {uid: row for row, uid in enumerate(ds["uid"][:].tolist())}
    for (uid, tensor), value in edits.cells.items():
        ds[tensor][rows[uid]] = value_of(tensor, value, names)
    ds.delete([rows[uid] for uid in edits.deleted])
    for number, value in enumerate(edits.appended):
        cells = {tensor: value_of(tensor, value, names) for tensor in ("x", "t", "label")}
        ds.append({"uid": first_uid + number, **cells})
    ds.commit("edits")


def value_of(tensor: str, value: int, names: tuple[str, ...]) -> object:
    match tensor:
        case "x":
            return 100 + value
        case "t":
            return f"new {value}"
        case _:
            return names[value % len(names)]


def content(ds: Dataset) -> Rows:
    """What a dataset says, by row, classes by name."""
    names = ds["label"].names
    rows = rows_of(ds)
    return {row["uid"]: {**row, "label": names[row["label"]]} for row in rows}


@pytest.mark.slow
@FEW
@given(disjoint_edits())
def test_merging_disjoint_edits_commutes(pair):
    """format.md 25."""
    one, other = pair
    main = begun()
    left, right = main.branch("left"), main.branch("right")
    apply(one, left, 100)
    apply(other, right, 200)
    again = main.branch("again")

    main.merge("left")
    main.merge("right")
    again.merge("right")
    again.merge("left")

    assert content(main) == content(again)
    left.merge("right")
    assert content(left) == content(main)
    assert not main.diff("again").updated
    assert not len(main.diff("again").added)


@FEW
@given(disjoint_edits())
def test_a_difference_applied_to_the_older_version_is_the_newer_one(pair):
    """format.md 26: across branches, by row numbers of both sides."""
    one, other = pair
    main = begun()
    left = main.branch("left")
    apply(one, main, 100)
    apply(other, left, 200)

    difference = main.diff("main", "left")

    after = content(left)
    fork = main.branch("fork", at="main")
    names = [name for name in left["label"].names if name not in fork["label"].names]
    fork["label"].add_names(names)
    for name, updated in difference.updated.items():
        values = [
            cells[name] for cells in map(after.__getitem__, updated.view_after["uid"][:].tolist())
        ]
        fork[name][updated.rows_before] = values
        assert left["uid"][updated.rows_after].tolist() == fork["uid"][updated.rows_before].tolist()
    fork.delete(difference.removed.rows)
    for uid in difference.added["uid"][:].tolist():
        fork.append(after[uid])
    fork.commit("applied")
    assert content(fork) == after


@FEW
@given(edits_on(frozenset(range(ROWS)), names=NAMES[2:]))
def test_reverting_an_edit_brings_the_content_back(edits):
    main = begun()
    before = content(main)
    apply(edits, main, 100)

    main.revert(main.version)
    if main.has_changes:
        main.commit("undo")

    assert content(main) == before
