"""Names, plans and runs go on after rows are forgotten: with holes in the places of these."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.integration.runs.test_forget import found_in, pass_grace
from tests.support.serving import listening

ROWS = 30
GONE = (7, 20)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Forget two rows of a dataset with runs, names and values that changed since; collect."""
    ds = tl.create(
        tmp_path_factory.mktemp("holes") / "lake.tl",
        {"name": tl.Text(personal=True), "x": "int64"},
        grace="1min",
    )
    names = [f"person {row}" if row in GONE else f"thing {row}" for row in range(ROWS)]
    ds.extend({"name": names, "x": np.arange(ROWS) + 100})
    ds.commit("rows")
    ds.tag("v1")
    ds.query("WHERE x % 2 = 0 ORDER BY x DESC").save("even")
    seen: dict[str, list[dict[str, np.ndarray]]] = {}
    views = {
        "whole": ds,
        "query": ds.query("WHERE x > 105 AND name != 'person 7' ORDER BY x DESC"),
        "saved": ds.views["even"],
    }
    for run_name, view in views.items():
        seen[run_name] = []
        with ds.run(run_name, config={"who": "person 7"}) as run:
            loader = run.loader(view, batch_size=4, shuffle=True, seed=3)
            for _ in range(2):
                for batch in loader:
                    seen[run_name].append({key: np.array(one) for key, one in batch.items()})
    ds["x"][3] = 0
    ds.delete([0])
    ds.commit("changed since")
    report = ds.forget("name LIKE 'person %'")
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    return tl.open(ds.url), seen, report


def test_names_go_on_without_the_rows(lake):
    ds, _, report = lake

    assert report.renamed == {"v1": "v1.forgotten", "even": "even.forgotten"}
    assert "v1 (now v1.forgotten)" in str(report)
    kept = [row + 100 for row in range(ROWS) if row not in GONE]
    assert tl.open(ds.url, version="v1.forgotten")["x"][:].tolist() == kept
    even = [x for x in reversed(kept) if x % 2 == 0]
    assert ds.views["even.forgotten"]["x"][:].tolist() == even
    assert found_in(ds.url, b"person 7", b"person 20") == []
    assert [name for name in ds.branches if not name.startswith("forgotten-")] == ["main"]
    assert ds.check().is_clean if hasattr(ds.check(), "is_clean") else True


@pytest.mark.parametrize("run_name", ["whole", "query", "saved"])
def test_runs_are_replayed_with_holes(lake, run_name):
    ds, seen, _ = lake
    run = ds.runs[run_name]
    gone = [row + 100 for row in GONE]

    for step, was in enumerate(seen[run_name]):
        batch = run.batch(step)
        is_gone = np.isin(was["x"], gone)
        assert batch["_valid"].tolist() == (~is_gone).tolist()
        assert batch["x"].tolist() == np.where(is_gone, 0, was["x"]).tolist()
        names = np.where(is_gone, "", was["name"]).tolist()
        assert list(batch["name"]) == names
        assert (run.rows_at(step) < 0).tolist() == is_gone.tolist()
        assert (batch["_row"] < 0).tolist() == is_gone.tolist()
    rows = [x for was in seen[run_name] for x in was["x"].tolist() if x not in gone]
    first = tl.open(ds.url, version="v1.forgotten")
    numbers = {x: number for number, x in enumerate(first["x"][:].tolist())}
    some = sorted({numbers[x] for x in rows})[::5]
    found = run.steps_of(some)
    for number, steps in zip(some, found, strict=True):
        x = int(first["x"][number])
        assert steps == [step for step, was in enumerate(seen[run_name]) if x in was["x"]]


def test_a_model_trained_without_them_is_the_same(lake):
    ds, seen, _ = lake

    def train(batches):
        weight = 0.5
        for batch in batches:
            x, valid = np.asarray(batch["x"], np.float64) / 100, batch["_valid"]
            weight -= 0.01 * float(((weight * x - 1) * x)[valid].sum())
        return weight

    never = [
        {"x": was["x"], "_valid": ~np.isin(was["x"], [row + 100 for row in GONE])}
        for was in seen["whole"]
    ]
    again = [ds.runs["whole"].batch(step) for step in range(len(never))]
    assert train(again) == train(never)
    other = ds.runs["whole"].without(tl.open(ds.url, version="v1.forgotten")[[5]])
    assert sum(int((~batch["_valid"]).sum()) for batch in other.loader()) == 3


def test_what_is_left_can_be_forgotten_too(lake):
    ds, seen, _ = lake

    report = ds.forget("x = 110")

    assert report.renamed == {
        "v1.forgotten": "v1.forgotten-2",
        "even.forgotten": "even.forgotten-2",
        "main-1.forgotten": "main-1.forgotten-2",
    }
    gone = [110, *(row + 100 for row in GONE)]
    for run_name, was in seen.items():
        run = ds.runs[run_name]
        for step, batch in enumerate(was):
            expected = np.where(np.isin(batch["x"], gone), 0, batch["x"])
            assert run.batch(step)["x"].tolist() == expected.tolist()


def test_versions_of_deleted_branches_are_forgotten_too(tmp_path):
    url = tmp_path / "lake.tl"
    ds = tl.create(url, {"name": tl.Text(personal=True), "x": "int64"}, grace="1min")
    ds.extend({"name": ["Ana", "Cem"], "x": [1, 3]})
    ds.commit("two")
    for branch, name in (("tagged", "Zebulon"), ("gone", "Zacharias")):
        there = ds.branch(branch)
        there.append({"name": name, "x": 8})
        there.commit("one more")
        if branch == "tagged":
            there.tag("kept")
        there.close()
        ds.delete_branch(branch)
    updated = ds.branch("updated")
    updated["name"][0] = "Zoe Zimmermann"
    updated.commit("wrong")
    updated["name"][0] = "Ana"
    updated.commit("right again")

    first = ds.forget("name = 'Zebulon'")
    second = ds.forget("name = 'Zacharias'")
    third = ds.forget("name = 'Zoe Zimmermann'")

    assert (first.deleted, first.renamed) == (("kept",), {})
    assert [str(one) for one in second.held.versions] == ["gone@2"]
    assert [len(one.rows) for one in (first, second, third)] == [1, 1, 1]
    for version in ("kept", "tagged@2", "gone@2", "updated@2"):
        with pytest.raises(tl.TensorlakeError):
            tl.open(url, version=version)
    with pytest.raises(tl.SnapshotExpiredError, match="branch 'gone' has ended"):
        tl.open(url, version="gone@2")
    pass_grace(ds.url)
    assert ds.forget(finish=True).is_finished
    assert found_in(ds.url, b"Zebulon", b"Zacharias", b"Zimmermann") == []
    assert tl.open(url)["name"].to_list() == ["Cem"]


def test_no_other_way_leads_to_a_forgotten_version(tmp_path):
    ds = tl.create(tmp_path / "lake.tl", {"name": "str"})
    ds.extend({"name": ["Ana", "Zebulon"]})
    ds.commit("two")
    held = tl.open(ds.url, version="main@1")
    held.run("early").close()
    pickled = pickle.dumps(held), pickle.dumps(held.query("WHERE name = 'Ana'"))
    ds.forget("name = 'Zebulon'")

    for one in pickled:
        with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
            pickle.loads(one)
    with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
        held.run("late")
    settings = Settings(url=str(tmp_path), public_read=True)
    with listening(create_app(settings)) as server:
        url = f"{server}/lake.tl"
        assert tl.open(url)["name"].to_list() == ["Ana"]
        with pytest.raises(tl.SnapshotExpiredError, match="rows were forgotten"):
            tl.open(url, version="main@1")
        runs = tl.open(url).runs
        assert list(runs) == ["early"]
        assert "Run 'early', whose record is not served" in repr(runs)
        with pytest.raises(tl.RunNotFoundError, match="record of run 'early' is not served"):
            runs["early"]
        with pytest.raises(tl.RunNotFoundError, match="did you mean 'early'"):
            runs["earli"]
