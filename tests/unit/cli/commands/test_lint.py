"""``tensorlake lint``: what it prints, and its exit status."""

import json
import math
from itertools import count

import pytest

import tensorlake as tl

_numbers = count()


@pytest.fixture
def readings() -> str:
    """URL of a dataset with a NaN in row 2."""
    url = f"memory://cli-lint-{next(_numbers)}/readings"
    with tl.create(url, {"x": "float32", "y": "float32"}) as ds:
        ds.extend({"x": [0.0, 1.0, math.nan, 3.0], "y": [0.0, 1.0, 2.0, 3.0]})
        ds.commit("four")
    return url


def test_findings_are_printed_with_their_query_and_exit_with_1(run, readings):
    ended = run("lint", readings)

    assert ended.code == 1
    assert ended.lines[0] == f"{readings} main@1: 1 finding · 4 rows · 10 rules"
    assert ended.lines[1] == "  error not-finite: 'x' has NaN or infinity, row 2"
    assert ended.lines[2].strip() == "WHERE x - x != 0"


def test_without_findings_it_exits_with_0(run, readings):
    assert run("lint", readings, "--rule", "constant").code == 0
    assert run("lint", readings, "-c", "y").code == 0
    assert run("lint", readings, "--at", "main@0").code == 0
    assert run("lint", readings, "--sample", "100").code == 1


def test_json_has_rows_and_queries(run, readings):
    ended = run("lint", readings, "--json")
    report = json.loads(ended.out)

    (finding,) = report["findings"]
    assert (report["ok"], ended.code, report["num_rows"]) == (False, 1, 4)
    assert (finding["rows"], finding["column"], finding["severity"]) == ([2], "x", "error")


def test_limits_and_unknown_rules_are_errors(run, readings):
    assert run("lint", readings, "--max-bytes", "1B").code == 1
    assert "ds.sample(1).lint()" in run("lint", readings, "--max-bytes", "1B").err
    assert "did you mean 'constant'" in run("lint", readings, "--rule", "constan").err
