"""Training scripts that are killed between two checkpoints, and started again.

    first run     steps 1 … 7, each noted with its rows; a checkpoint after 3 and 6; SIGKILL
    second run    continues from the checkpoint of step 6, to the end

A script takes the URL of a dataset and a folder, makes a `Steps` of the folder, and notes the rows
of each step. In `CHECKPOINTED` steps of the first run and all of the second, each row of each epoch
comes once, in the order of an uninterrupted run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS, BATCH, EPOCHS = 40, 8, 3
EVERY, CHECKPOINTED, KILLED = 3, 6, 7
READ = {"global_batch_size": BATCH, "shuffle": True, "seed": 5, "columns": ["x", "_row"]}


class Steps:
    """The steps of one run of one rank, noted as they are done."""

    def __init__(self, folder: str, rank: int = 0) -> None:
        self.is_first = "KILLED" in os.environ
        name = f"{'first' if self.is_first else 'second'}-{rank}.jsonl"
        self._file = Path(folder, name).open("a", encoding="utf-8")  # noqa: SIM115 - till the end
        self._count = 0

    def note(self, rows: list[int]) -> None:
        """Note the rows of a step, and end like a machine that fails if it is the last."""
        self._file.write(json.dumps(rows) + "\n")
        self._file.flush()
        self._count += 1
        if self.is_first and self._count == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)


def run(script: Path, *arguments: str, killed: bool, launcher: tuple[str, ...] = ()) -> None:
    """Run a script in processes of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **({"KILLED": "1"} if killed else {}),
    }
    done = subprocess.run(
        [sys.executable, *launcher, str(script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode != 0) == killed, done.stderr[-4000:]
    assert not killed or launcher or done.returncode == -signal.SIGKILL, done.stderr[-4000:]


def steps_of(folder: Path, name: str) -> list[list[int]]:
    """The rows of each step of a run, of all ranks side by side."""
    ranks = [
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(folder.glob(f"{name}-*.jsonl"))
    ]
    assert ranks, sorted(folder.iterdir())
    return [[*chain(*parts)] for parts in zip(*ranks, strict=False)]  # one may be a step ahead


def killed_and_resumed(script, url, folder, *arguments, launchers=((), ())):
    """Kill a script, start it again; return the rows of its steps as a run has them."""
    first, second = launchers
    run(script, url, str(folder), *arguments, killed=True, launcher=first)
    before = steps_of(folder, "first")
    assert len(before) in (KILLED - 1, KILLED)  # torchrun ends the others when one is killed
    run(script, url, str(folder), *arguments, killed=False, launcher=second)
    return before[:CHECKPOINTED] + steps_of(folder, "second")


def whole_run(dataset):
    """The rows of each step of a run that nothing interrupts."""
    loader = dataset.loader(**READ, rank=0, world_size=1)
    return [batch["_row"].tolist() for _ in range(EPOCHS) for batch in loader]


def torchrun(processes: int) -> tuple[str, ...]:
    """The launcher of several processes, as users call it."""
    name = f"--nproc-per-node={processes}"
    return ("-m", "torch.distributed.run", "--standalone", name)
