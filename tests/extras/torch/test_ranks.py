"""Two processes of torchrun: each global batch is shared, and the models stay equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchdata")  # as the rest of the group
pytestmark = pytest.mark.extras

ROOT = Path(__file__).parents[3]


def test_ranks_of_torchrun_share_each_batch_and_agree_on_the_model(samples, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    script = Path(__file__).with_name("ranks_script.py")
    path = os.pathsep.join([str(ROOT), str(ROOT / "query"), str(ROOT / "server")])

    run = subprocess.run(
        [*command, str(script), samples.url, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    (first, weight), (second, same) = (
        json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)
    )
    read = {"batch_size": 10, "shuffle": True, "seed": 2, "columns": ["_row"]}
    alone = samples.torch(**read, rank=0, world_size=1)
    assert [sorted(one + other) for one, other in zip(first, second, strict=True)] == [
        sorted(batch["_row"].tolist()) for batch in alone
    ]
    assert weight == same
