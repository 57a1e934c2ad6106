"""Four processes of torchrun: each global batch is shared, the models stay equal, meshes agree."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from tests.extras import killed

pytest.importorskip("torch")
pytest.importorskip("torchdata")  # as the rest of the group
pytestmark = pytest.mark.extras

RANKS = 4


def test_ranks_of_torchrun_share_each_batch_and_agree_on_the_model(samples, tmp_path):
    script = Path(__file__).with_name("ranks_script.py")

    killed.run(script, samples.url, str(tmp_path), killed=False, launcher=killed.torchrun(RANKS))

    found = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(RANKS)]
    read = {"batch_size": 10, "shuffle": True, "seed": 2, "columns": ["_row"]}
    alone = samples.torch(**read, rank=0, world_size=1)
    assert [[*chain(*parts)] for parts in zip(*(seen for seen, _, _ in found), strict=True)] == [
        batch["_row"].tolist() for batch in alone
    ]
    assert len({str(weight) for _, weight, _ in found}) == 1
    # stages of a pipeline (the first axis) read the same rows, shards of the data their own
    first, second = [*range(5)], [*range(5, 10)]
    assert [meshes for _, _, meshes in found] == [[first] * 4, [second] * 4] * 2
