"""``python -m tensorlake.cli.bench``: one run in its own process, JSON from stdin to stdout."""

import sys

import msgspec
import typer

from tensorlake.cli.bench.run import OURS, BenchRun, measure_ours
from tensorlake.cli.exits import exits_cleanly


@exits_cleanly
def measure() -> None:
    """Measure the run that stdin describes, and write the result to stdout."""
    run = msgspec.json.decode(sys.stdin.buffer.read(), type=BenchRun)
    if run.contender == OURS:
        measured = measure_ours(run)
    else:
        from tensorlake.cli.bench.torch import measure_torch

        measured = measure_torch(run)
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    try:
        measure()
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
