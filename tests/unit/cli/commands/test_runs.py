"""tensorlake runs: list, show, compare and delete what training runs recorded."""

from __future__ import annotations

import json

import pytest

import tensorlake as tl


@pytest.fixture
def lake(tmp_path):
    ds = tl.create(tmp_path / "pets.tl", {"x": "int64"})
    ds.extend({"x": range(40)})
    ds.commit("rows")
    for name, rate in (("slow", 0.1), ("fast", 0.5)):
        with ds.run(name, config={"rate": rate, "seed": 1}) as run:
            for batch in run.loader(batch_size=10):
                run.log(loss=batch["x"].mean() * rate)
    return ds


def test_runs_are_listed(run, lake):
    said = run("runs", "ls", lake.url).out.splitlines()

    assert [line.split()[:3] for line in said] == [
        ["run", "steps", "version"],
        ["fast", "4", "main@1"],
        ["slow", "4", "main@1"],
    ]
    (fast, _) = json.loads(run("runs", "ls", lake.url, "--json").out)
    assert (fast["name"], fast["steps"], fast["config"]) == ("fast", 4, {"rate": 0.5, "seed": 1})
    assert fast["last"] == {"loss": 17.25}


def test_a_place_without_runs_lists_none(run, tmp_path):
    assert json.loads(run("runs", "ls", str(tmp_path), "--json").out) == []


def test_a_run_is_shown_and_written_as_csv(run, lake, tmp_path):
    said = run("runs", "show", lake.url, "slow").out

    assert "config rate  0.1" in said
    assert "last loss    3.45" in said
    assert "4" in said
    run("runs", "show", lake.url, "slow", "--csv", str(tmp_path / "steps.csv"))
    lines = (tmp_path / "steps.csv").read_text().splitlines()
    assert lines[0].split(",")[-1] == '"loss"'
    assert len(lines) == 5


def test_runs_are_compared_by_the_config_that_differs(run, lake):
    said = run("runs", "compare", lake.url, "slow", "fast").out

    assert "config rate" in said
    assert "config seed" not in said
    assert [line for line in said.splitlines() if line.startswith("last loss")]


def test_a_run_is_deleted_after_a_question(run, lake):
    refused = run("runs", "rm", lake.url, "slow")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert sorted(lake.runs) == ["fast", "slow"]

    run("runs", "rm", lake.url, "slow", "--yes")
    assert list(lake.runs) == ["fast"]


def test_an_unknown_run_is_an_error_that_names_those_there_are(run, lake):
    refused = run("runs", "show", lake.url, "slwo")

    assert refused.code == 1
    assert "no run 'slwo'; did you mean 'slow'?" in refused.err
    assert "its runs: fast, slow" in refused.err
