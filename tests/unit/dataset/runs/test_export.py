"""Steps of a run in files of other tools, read by these tools."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from typer.testing import CliRunner

import tensorlake as tl
from tensorlake.cli.program import app


@pytest.fixture
def run(tmp_path):
    """Two ranks; a loss that is missing once, and once not a number."""
    ds = tl.create(tmp_path / "numbers.tl", {"x": "int64"})
    ds.extend({"x": range(12)})
    ds.commit("twelve")
    for rank in range(2):
        with ds.run("two", config={"lr": 0.1, "layers": [3, 4]}) as run:
            loader = run.loader(batch_size=2, rank=rank, world_size=2)
            for number, _ in enumerate(loader):
                if number != 1:
                    run.log(loss=math.nan if number == 2 else 0.25 + rank)
    return ds.runs["two"]


def test_csv_has_an_empty_cell_for_what_was_not_logged_and_nan_for_nan(run, tmp_path):
    run.to_csv(tmp_path / "steps.csv")

    read = pd.read_csv(tmp_path / "steps.csv", keep_default_na=False)
    assert read["loss"].tolist() == ["0.25", "1.25", "", "", "nan", "nan"]
    assert read["step"].tolist() == run.steps.column("step").to_pylist()


def test_a_missing_folder_is_named(run, tmp_path):
    missing = tmp_path / "missing" / "steps.csv"

    with pytest.raises(tl.errors.InvalidInputError, match="missing' not found"):
        run.to_csv(missing)
    asked = ["runs", "show", run.dataset, "two", "--csv", str(missing)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code != 0
    assert "missing' not found" in done.output


def test_the_rank_that_waited_longest_is_named(run):
    shown = CliRunner().invoke(app, ["runs", "show", run.dataset, "two"]).output

    waits = run.steps.group_by("rank").aggregate([("wait_s", "sum")]).to_pydict()
    slowest = max(zip(waits["wait_s_sum"], waits["rank"], strict=True))[1]
    assert f"slowest rank {slowest} of 2: waited " in " ".join(shown.split())


def test_tensorboard_reads_what_was_logged(run, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run.to_tensorboard(tmp_path)

    run.to_tensorboard(tmp_path)  # replaces the first

    steps = run.steps.to_pylist()
    for rank in range(2):
        found = accumulator.EventAccumulator(str(tmp_path / "two" / f"rank-{rank}"))
        found.Reload()
        own = [one for one in steps if one["rank"] == rank]
        assert found.Tags()["scalars"] == ["epoch", "wait_s", "compute_s", "loss"]
        waits = [(one.step, one.value) for one in found.Scalars("wait_s")]
        assert waits == [(one["step"], pytest.approx(one["wait_s"])) for one in own]
        assert [one.wall_time for one in found.Scalars("epoch")] == [one["time"] for one in own]
        losses = [(one.step, one.value) for one in found.Scalars("loss")]
        assert losses == [(0, 0.25 + rank), (2, pytest.approx(math.nan, nan_ok=True))]


def test_without_tensorboard_the_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.compat.proto", None)

    with pytest.raises(tl.errors.MissingExtraError, match="tensorboard"):
        run.to_tensorboard(tmp_path)
