"""Checks and computed columns that name tensors and classes, when those are renamed or dropped."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.dataset.handles.open import create
from tensorlake.dataset.maintenance.constraints import unique_key
from tensorlake.dataset.maintenance.references import OF_OTHERS
from tensorlake.format import Constraint
from tests.support.handles import open_on, reopened

_numbers = itertools.count()


@pytest.fixture
def ds() -> Dataset:
    types = {
        "id": "int64",
        "x": "int32",
        "f": "float64",
        "label": tl.ClassLabel(["cat", "dog", "emu"]),
    }
    ds = create(f"memory://references-{next(_numbers)}", types)
    ds.extend({"id": [1, 2], "x": [5, 6], "f": [7.0, 8.0], "label": ["cat", "cat"]})
    ds.commit("rows")
    return ds


def row(**values: object) -> dict[str, object]:
    return {"id": 3, "x": 9, "f": 9.0, "label": "cat"} | values


def _swap(ds: Dataset) -> None:
    ds.rename_tensor("f", "old")
    ds.rename_tensor("id", "f")
    ds.rename_tensor("old", "id")


CHANGES: dict[str, Callable[[Dataset], None]] = {
    "rename a tensor": lambda ds: ds.rename_tensor("f", "g"),
    "drop a tensor": lambda ds: ds.drop_tensor("f"),
    "rename a class": lambda ds: ds["label"].rename("dog", "hound"),
    "drop a class": lambda ds: ds["label"].drop_names(["dog"]),
    "swap two names": _swap,
}
READERS: dict[str, Callable[[Dataset], None]] = {
    "check": lambda ds: ds.add_check("c", "id <= f AND label != 'dog'"),
    "expression": lambda ds: ds.add_tensor("e", "bool", compute="id <= f AND label != 'dog'"),
}
CASES = [(change, reader) for change in CHANGES for reader in READERS]


@pytest.mark.parametrize(("change", "reader"), CASES)
def test_what_is_read_is_neither_renamed_nor_dropped(ds: Dataset, change: str, reader: str) -> None:
    READERS[reader](ds)
    ds.commit("a reader")

    with pytest.raises(tl.SchemaError, match=r"'c'|'e'") as e:
        CHANGES[change](ds)

    assert str(e.value).rpartition("ds.")[2].startswith(("drop_check('c')", "drop_tensor('e')"))
    ds.discard()
    ds.append(row())
    assert ds.commit("a row").version == "main@3"


@pytest.mark.parametrize(("change", "reader"), CASES)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_later_of_two_writers_is_in_conflict(
    ds: Dataset, change: str, reader: str, *, is_first: bool
) -> None:
    other = open_on(ds.__session__.store)
    READERS[reader](ds if is_first else other)
    CHANGES[change](other if is_first else ds)
    ds.commit("first")

    for call in (
        lambda: other.commit("later"),
        lambda: other.refresh(keep_staged=True),
        lambda: other.refresh(keep_staged=True, on_conflict="ours"),
        lambda: other.refresh(keep_staged=True, on_conflict="theirs"),
    ):
        with pytest.raises(
            tl.ConflictError, match=r"(?s)does not fit the tensors .*ds\.discard\(\)"
        ):
            call()

    other.discard()
    other.refresh()
    assert other.validate().ok
    types = {name: one.describe() for name, one in other.schema.items()}
    values = {name: 9.5 if "float" in types[name] else 3 for name in types if name != "e"}
    other.append(values | {"label": "cat"})
    other.commit("any row")


@pytest.mark.parametrize(("change", "reader"), [one for one in CASES if "drop a class" not in one])
@pytest.mark.parametrize("is_ours", [True, False])
def test_branches_that_do_not_fit_are_not_merged(
    ds: Dataset, change: str, reader: str, *, is_ours: bool
) -> None:
    branch = ds.branch("branch")
    READERS[reader](ds if is_ours else branch)
    CHANGES[change](branch if is_ours else ds)
    ds.commit("here")
    branch.commit("there")

    assert ds.merge("branch", dry_run=True).is_refused
    for how in ("error", "ours", "theirs"):
        with pytest.raises(tl.ConflictError, match="does not fit the tensors of the other"):
            ds.merge("branch", on_conflict=how)  # pyright: ignore[reportArgumentType] - one of three

    assert reopened(ds).version == "main@2"


def test_a_class_that_one_branch_dropped_and_a_check_of_the_other_names_stays(ds: Dataset) -> None:
    branch = ds.branch("branch")
    CHANGES["drop a class"](branch)
    READERS["check"](ds)
    branch.commit("there")
    ds.commit("here")
    ds.merge("branch")

    assert "dog" in ds["label"].names
    ds.append(row())
    ds.commit("a row")


def _declare_key(ds: Dataset) -> None:
    with ds.__session__.lock:
        staged = ds.__session__.staging()
        staged.change_constraints(*unique_key(staged.schema, "f"))


@pytest.mark.parametrize(
    "declare",
    [
        _declare_key,
        lambda ds: ds.add_tensor("y", "float64", compute=lambda row: -row["f"], inputs=["f"]),
    ],
)
def test_keys_and_inputs_of_functions_are_not_dropped_by_another(
    ds: Dataset, declare: Callable[[Dataset], None]
) -> None:
    other, branch = open_on(ds.__session__.store), ds.branch("branch")
    declare(other)
    declare(branch)
    branch.commit("there")
    ds.drop_tensor("f")
    ds.commit("dropped")

    with pytest.raises(tl.ConflictError, match="a tensor that it reads was dropped"):
        other.commit("later")
    with pytest.raises(tl.ConflictError, match="a tensor that it reads was dropped"):
        ds.merge("branch")
    other.discard()


def test_a_merge_of_one_tensor_does_not_rename_what_a_check_reads(ds: Dataset) -> None:
    branch = ds.branch("branch")
    ds.add_check("c", "f > 0")
    ds.commit("a check")
    branch.rename_tensor("f", "g")
    branch.commit("renamed")

    with pytest.raises(tl.ConflictError, match="the check 'c'"):
        ds.merge("branch", tensors=["g"])


def test_both_may_rename_what_neither_reads(ds: Dataset) -> None:
    branch = ds.branch("branch")
    ds.add_check("c", "id > 0")
    ds.add_tensor("e", "bool", compute="label = 'dog'")
    ds.commit("a check")
    branch.rename_tensor("f", "g")
    branch["label"].rename("emu", "ostrich")
    branch.commit("renamed")
    ds.merge("branch")

    assert ds[0]["e"] is False or not ds[0]["e"]
    assert (ds["label"].names, "g" in ds.schema) == (("cat", "dog", "ostrich"), True)


def test_a_class_that_a_pattern_may_name_is_renamed_where_all_rows_still_meet_it(
    ds: Dataset,
) -> None:
    ds.add_check("c", "label LIKE 'c%' OR label LIKE 'x%'")
    ds.commit("a check")
    ds["label"].rename("dog", "fox")  # no row has it
    ds.commit("fine")
    ds["label"].rename("cat", "tom")

    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("bad")

    assert (e.value.check, e.value.rows) == ("c", (0, 1))
    ds.discard()
    branch = ds.branch("branch")
    branch.drop_check("c")
    branch["label"].rename("cat", "tom")
    branch.commit("without it")
    branch.add_check("c", "label LIKE 't%'")
    branch.commit("another")
    ds.merge("branch")
    assert ds.validate().ok


def test_a_type_that_an_expression_depends_on_is_not_changed(ds: Dataset) -> None:
    ds.add_tensor("double", "int32", compute="x")
    ds.add_tensor("same", tl.ClassLabel(["cat", "dog", "emu"]), compute="label")
    ds.commit("columns")

    with pytest.raises(tl.SchemaError, match=r"type of 'x' cannot be changed.*'double'.*int64"):
        ds.alter_tensor("x", dtype="int64")
    with pytest.raises(tl.SchemaError, match="'same' reads it, and its expression gives classes"):
        ds["label"].rename("emu", "ostrich")
    with pytest.raises(tl.SchemaError, match="'same' reads it, and its expression gives classes"):
        ds["label"].add_names(["gnu"])
    assert not ds.has_changes


def test_a_group_is_dropped_with_what_reads_it() -> None:
    ds = create(f"memory://references-{next(_numbers)}", {"g/x": "int64", "y": "int64"})
    ds.add_tensor("g/double", "int64", compute='2 * "g/x"')
    ds.commit("a column")

    ds.drop_tensor("g")

    assert list(ds.schema) == ["y"]


def test_a_commit_that_declares_or_drops_a_check_is_reverted(ds: Dataset) -> None:
    ds.add_check("c", "id > 0")
    declared = ds.commit("a check").version
    ds.revert(declared)
    dropped = ds.commit("reverted").version
    assert dict(ds.checks) == {}

    ds.revert(dropped)
    ds.commit("reverted again")

    assert ds.checks["c"].condition == "id > 0"
    ds.add_tensor("n", "int64", 1)
    ds.add_check("n", "n > 0")
    both = ds.commit("a tensor and its check").version
    ds.revert(both)
    ds.commit("reverted")
    assert (list(ds.checks), "n" in ds.schema) == (["c"], False)


def published_misfit(ds: Dataset) -> Dataset:
    """Publish what earlier versions could: a check and an expression of a column that is gone."""
    ds.add_check("c", "id <= f")
    ds.add_tensor("e", "float64", compute="2 * f")
    ds.commit("a check and a column")
    with ds.__session__.lock:
        staged = ds.__session__.staging()
        staged.change_spec(staged.schema.rename("f", "g")["g"], what="rename")
    ds.commit("as by an earlier version")
    return reopened(ds)


def test_what_earlier_versions_published_is_named_and_can_be_mended(ds: Dataset) -> None:
    ds = published_misfit(ds)

    for call in (lambda: ds[0], ds.to_arrow, lambda: ds.query("SELECT *").to_arrow()):
        with pytest.raises(tl.SchemaError, match=r"'e' is computed by '2 \* f'.*'f'"):
            call()
    assert ds[["id", "g"]].to_arrow().num_rows == 2
    with pytest.raises(
        tl.SchemaError, match=r"the check 'c' \(id <= f\).*\n.*ds.drop_check\('c'\)"
    ):
        ds.validate()
    found = [str(one) for one in ds.check().findings]
    assert any("the check 'c' (id <= f)" in one for one in found)
    assert any("the computed column 'e'" in one for one in found)
    ds.append({"id": 1, "x": 1, "g": 1.0, "label": "cat"})
    with pytest.raises(tl.SchemaError, match=r"ds.drop_check\('c'\)"):
        ds.commit("a row")
    ds.rename_tensor("x", "y")  # what nothing reads can still be changed
    ds.drop_check("c")
    ds.alter_tensor("e", compute="2 * g")
    ds.commit("mended")
    assert (ds[0]["e"], ds.check().ok) == (14.0, True)


def test_a_condition_on_other_rows_of_earlier_versions_is_held(ds: Dataset) -> None:
    ids = (ds.__session__.committed.spec("id").id,)
    with ds.__session__.lock:
        condition = Constraint("id = 1 OR id IN (SELECT x - 3 FROM this)", ids)
        ds.__session__.staging().change_constraints("refers", condition)
    ds.commit("as by an earlier version")
    ds.delete([0])

    with pytest.raises(tl.ConstraintError) as e:
        ds.commit("what another row refers to")

    assert (e.value.check, e.value.rows) == ("refers", (0,))


@pytest.mark.parametrize(
    "condition",
    [
        "id IN (SELECT x FROM this)",
        "id NOT IN (SELECT x FROM this)",
        "EXISTS (SELECT x FROM this) AND id > 0",
        "id < (SELECT MAX(x) FROM this)",
        "id > 0 AND FRESH(square)",
        "id > 0 AND STEP('run') IS NULL",
    ],
)
def test_conditions_on_other_cells_are_refused(ds: Dataset, condition: str) -> None:
    ds.add_tensor("square", "int64", compute=lambda row: row["x"] ** 2, inputs=["x"])
    ds.refresh_columns()
    ds.commit("a column")

    with pytest.raises(tl.InvalidInputError, match="without a query inside it"):
        ds.add_check("c", condition)
    assert not ds.has_changes


def test_the_functions_that_conditions_may_not_call_are_those_of_other_data(ds: Dataset) -> None:
    known = ds.__session__.functions(ds.__rowset__, reaches_out=False)

    assert {"FRESH", *known} == OF_OTHERS
