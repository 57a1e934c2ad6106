"""Jobs that train on one plan at once, as a sweep does: each decodes, or one server does for all.

Jobs are processes that read an epoch and do nothing with it, so that the difference is the loader's
alone: with d and s the processor time a row of decoding and of receiving, three jobs that share a
decode take at best (d + 3s) / 3(d + s) of the time of three that do not. All resize with Pillow.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import urllib.request
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Literal

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Goal, Measurement, stopwatch
from benchmarks.loading import IMAGES, SEED, SIDE, image_dataset
from benchmarks.server import served

__all__ = ["BENCHMARKS"]

JOBS = 3
ALONE, APART, SHARED = "one job", "three jobs", "three jobs, decode_on='server'"
DecodeOn = Literal["client", "server"]
START_TIMEOUT_S = 120
EPOCH_TIMEOUT_S = 600


def job(url: str, decode_on: DecodeOn, ready: Barrier, done: Barrier) -> None:
    """Read an epoch, once all others have read a batch of the one before."""
    import tensorlake as tl

    with (
        tl.open(url, read_only=True) as ds,
        ds.loader(
            batch_size=64,
            shuffle=True,
            seed=SEED,
            columns=["image", "label"],
            decode={"image": tl.decode.Resize(SIDE, SIDE)},
            decode_on=decode_on,
        ) as loader,
    ):
        next(iter(loader))  # imports what it needs
        ready.wait(START_TIMEOUT_S)
        rows = sum(len(batch["image"]) for batch in loader)
        done.wait(EPOCH_TIMEOUT_S)
        assert rows == len(ds), "an epoch has each row once"
        assert "torch" not in sys.modules, "the server would resize by another library"


def jobs(url: str, rows: int, *, count: int, decode_on: DecodeOn) -> Measurement:
    """Run jobs until the last one has ended; rows per second of each."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(count + 1), context.Barrier(count + 1)
    given = url, decode_on, ready, done
    processes = [context.Process(target=job, args=given) for _ in range(count)]
    for one in processes:
        one.start()
    ready.wait(START_TIMEOUT_S)
    with stopwatch() as watch:
        done.wait(EPOCH_TIMEOUT_S)
    for one in processes:
        one.join()
    if any(one.exitcode for one in processes):
        raise SystemExit("a job has failed")
    return Measurement(watch.seconds, rows, watch.cpu_seconds)


def apart(workspace: Workspace, *, count: int) -> Measurement:
    return jobs(str(image_dataset(workspace)), _rows(workspace), count=count, decode_on="client")


def shared(workspace: Workspace) -> Measurement:
    with served(workspace.lake) as (netloc, _):
        url = f"http://{netloc}/{IMAGES}"
        found = jobs(url, _rows(workspace), count=JOBS, decode_on="server")
        with urllib.request.urlopen(f"http://{netloc}/metrics") as answer:
            text = answer.read().decode()
    facts = {
        what: float(re.findall(rf"^tensorlake_batches_{what} (\S+)", text, re.MULTILINE)[0])
        for what in ("decoded", "sent")
    }
    return Measurement(found.seconds, found.amount, found.cpu_seconds, facts)


def _rows(workspace: Workspace) -> int:
    import tensorlake as tl

    with tl.open(str(image_dataset(workspace)), read_only=True) as ds:
        return len(ds)


def _prepare(workspace: Workspace) -> None:
    image_dataset(workspace)


BENCHMARKS = (
    Benchmark(
        name="shared-stream",
        question="three jobs on the same JPEGs in the same order, at once",
        unit="img/s",
        contenders=(
            Contender(SHARED, shared),
            Contender(APART, partial(apart, count=JOBS)),
            Contender(ALONE, partial(apart, count=1)),
        ),
        goals=(
            Goal(SHARED, APART, at_least=2.3),
            Goal(SHARED, APART, at_least=2.5, per="CPU second"),
        ),
        prepare=_prepare,
    ),
)
