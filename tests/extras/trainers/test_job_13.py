"""Job 13, "HF datasets / Lightning / Trainer", as written, with a tiny model and two processes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tests.extras import killed

for name in ("torch", "lightning", "transformers", "accelerate"):
    pytest.importorskip(name)
pytestmark = pytest.mark.extras

SCRIPT = Path(__file__).with_name("job_13_script.py")
ROWS, EPOCHS = 40, 2


@pytest.fixture
def food(tmp_path):
    schema = {"image": tl.Image("jpeg"), "label": tl.ClassLabel([*"abcde"])}
    with tl.create(str(tmp_path / "food.tl"), schema) as ds:
        image = np.full((16, 16, 3), 90, np.uint8)
        ds.extend({"image": [image] * ROWS, "label": [row % 5 for row in range(ROWS)]})
        ds.commit("dishes")
        yield ds


@pytest.mark.parametrize(("job", "launcher"), [("trainer", killed.torchrun(2)), ("lightning", ())])
def test_job_13_trains_on_each_row_once_an_epoch_in_two_processes(food, tmp_path, job, launcher):
    killed.run(SCRIPT, food.url, str(tmp_path), job, killed=False, launcher=launcher)

    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    batches = [*chain(*ranks)]
    assert Counter(chain(*batches)) == dict.fromkeys(range(5), ROWS // 5 * EPOCHS)
    assert len(ranks[0]) == len(ranks[1]) == ROWS // 8 * EPOCHS
