"""The page on federated training: its blocks run, and its apps learn what it says."""

from __future__ import annotations

import logging
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl

pytest.importorskip("flwr")
from tests.extras.flwr.grid import InProcessGrid, run

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "train-federated.md"


def blocks(kind):
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_apps_of_the_page_learn_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("flwr"), "level", logging.CRITICAL)
    data, app, *others = blocks("python")
    exec(compile(data, os.fspath(PAGE), "exec"), {})
    names = tomllib.loads(*blocks("toml"))["tool"]["flwr"]["app"]["components"]
    assert names == {"serverapp": "clinics.app:server", "clientapp": "clinics.app:client"}
    for _ in range(2):  # Flower imports the module more than once
        session = {}
        exec(compile(app, os.fspath(PAGE), "exec"), session)
    seen, strategy = [], session["strategy"]
    evaluate = strategy.evaluate_fn
    strategy.evaluate_fn = lambda *given: seen.append(evaluate(*given)) or seen[-1]

    grid = InProcessGrid(session["client"], len(session["CLINICS"]))
    for context in grid.contexts.values():
        context.run_config["lake"] = os.fspath(tmp_path)
    run(session["server"], grid)

    (printed,) = blocks("text")
    shown = [np.array(one.split(), float) for one in re.findall(r"'\[(.*?)\]'", printed)]
    found = [np.array(one["weights"].strip("[]").split(), float) for _, one in seen]
    assert np.allclose(found, shown, atol=0.011)  # rounded, and SecAgg+ rounds by chance
    assert seen[-1][0] < 0.001
    for block in others:
        exec(compile(block, os.fspath(PAGE), "exec"), {**session, "tl": tl})
