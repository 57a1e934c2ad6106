"""The examples of real jobs run as they are, on the data in the repository."""

import runpy
from pathlib import Path

import pytest

JOBS = sorted((Path(__file__).resolve().parents[2] / "examples" / "jobs").glob("[0-9]*.py"))
MAX_LINES = 60
"""Blank ones not counted. An example that is longer does more than its job."""


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_a_job_runs_and_says_what_it_did(job, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    runpy.run_path(str(job), run_name="__main__")

    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    lines = job.read_text(encoding="utf-8").splitlines()
    assert sum(bool(line) for line in lines) <= MAX_LINES
