"""Other libraries: what is here needs them, and is collected only where extras are asked for.

``make test-extras GROUP=…`` makes a group's environment and names the group in EXTRAS_GROUP: there
a test that is skipped, for want of a library, fails the run. Without a group what is installed is
tested, and the rest is skipped with its reason.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import tensorlake as tl

ROWS = 40
skipped = []


@pytest.fixture
def samples(tmp_path):
    """Forty rows of three numbers and their sum, as a dataset that is open."""
    x = np.random.default_rng(3).random((ROWS, 3), dtype="float32")
    schema = {"x": tl.Array("float32", (3,)), "total": "float32"}
    with tl.create(str(tmp_path / "samples.tl"), schema) as dataset:
        dataset.extend({"x": x, "total": x.sum(axis=1)})
        dataset.commit("forty rows")
        yield dataset


def pytest_ignore_collect(config):
    asked = re.search(r"(?<!not )\bextras\b", config.option.markexpr)
    return None if asked else True


def pytest_collectreport(report):
    if report.skipped:
        skipped.append(report)


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        skipped.append(report)


def pytest_sessionfinish(session):
    if skipped and "EXTRAS_GROUP" in os.environ and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    group = os.environ.get("EXTRAS_GROUP")
    if skipped and group is not None:
        names = ", ".join(sorted({report.nodeid for report in skipped}))
        terminalreporter.write_line(
            f"group {group!r} was not tested whole, so it has failed: skipped {names}", red=True
        )
