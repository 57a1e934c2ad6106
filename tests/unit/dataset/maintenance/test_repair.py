"""``ds.repair()``: the call of ``check(repair=True)`` under the name that users look for."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.format import head_path
from tensorlake.storage import MemoryStore, runtime
from tests.support.damage import objects_of
from tests.support.handles import create_on, open_on, wait_for_storage


@pytest.fixture
def store():
    made = MemoryStore()
    ds = create_on(made, {"x": "int64"})
    ds.extend({"x": [1, 2, 3]})
    ds.commit("three")
    wait_for_storage()
    return made


@pytest.mark.parametrize("options", [{}, {"full": False}, {"decode": True, "progress": False}])
def test_repair_restores_a_damaged_hint_and_reports_it(store, options):
    runtime.run(store.put(head_path("main"), b"nonsense"))

    report = open_on(store).repair(**options)

    assert [one.object for one in report.repairs] == [head_path("main")]
    assert report.ok
    assert report.is_full is options.get("full", True)
    assert open_on(store).check().ok
    assert open_on(store)["x"].to_list() == [1, 2, 3]


def test_a_whole_dataset_is_verified_and_stays_as_it_is(store):
    ds = open_on(store)

    report = ds.repair()

    assert (report.ok, report.repairs, ds.version) == (True, (), "main@1")


def test_what_a_repair_could_not_recover_is_not_advised_to_be_repaired(store):
    whole = dict(objects_of(store))
    ds = open_on(store)
    ds.extend({"x": [4, 5]})
    ds.commit("two more")
    wait_for_storage()
    (pack,) = [path for path in {*objects_of(store)} - {*whole} if path.startswith("packs/")]
    data = objects_of(store)[pack]
    runtime.run(store.delete(pack))

    (before,) = open_on(store).check().findings
    (after,) = open_on(store).repair().findings

    assert before.object == after.object == pack
    assert before.advice == "run check(repair=True), or restore it from a copy"
    assert after.advice == (
        "the repair could not recover it: restore it from a copy, or go back to a whole version"
        " with ds.restore(version) and expire the others"
    )
    ds = open_on(store)
    ds.restore("main@1")
    assert ds["x"].to_list() == [1, 2, 3]
    ds.expire(keep_last=1)
    assert ds.check().ok
    runtime.run(store.put(pack, data))
    assert ds.check().ok


def test_a_handle_with_staged_changes_is_not_repaired(store):
    ds = open_on(store)
    ds.append({"x": 4})

    with pytest.raises(tl.UncommittedChangesError, match="commit or discard"):
        ds.repair()

    assert len(ds) == 4
    ds.discard()


def test_a_handle_that_only_reads_repairs_nothing(tmp_path):
    tl.create(tmp_path / "r.tl", {"x": "int64"}).close()

    with pytest.raises(tl.ReadOnlyError, match="open it without read_only"):
        tl.open(tmp_path / "r.tl", read_only=True).repair()


@pytest.mark.parametrize("name", ["full", "decode", "progress"])
def test_flags_are_booleans(store, name):
    wrong = {name: np.array([True, False])}
    with pytest.raises(tl.InvalidInputError, match=f"{name} is True or False"):
        open_on(store).repair(**wrong)


def test_a_view_has_no_repair(store):
    with pytest.raises(AttributeError, match="View has no 'repair'"):
        _ = open_on(store)[:].repair
