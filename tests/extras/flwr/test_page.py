"""The page on federated training: its blocks run, and its apps learn what it says."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

pytest.importorskip("flwr")
from tests.extras.flwr.grid import InProcessGrid, run

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "train-federated.md"


def test_the_apps_of_the_page_learn_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("flwr"), "level", logging.CRITICAL)
    text = PAGE.read_text(encoding="utf-8")
    first, *others = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    session = {"tl": tl}

    exec(compile(first, os.fspath(PAGE), "exec"), session)
    run(session["server"], InProcessGrid(session["client"], len(session["CLINICS"])))

    assert np.allclose(session["seen"][-1], [1.0, 2.0, 3.0], atol=0.01)
    assert len(session["seen"]) == 101
    for block in others:
        exec(compile(block, os.fspath(PAGE), "exec"), session)
