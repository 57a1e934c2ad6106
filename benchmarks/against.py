"""``tensorlake bench --against``: how much do its rates differ from repetition to repetition?

    torch, webdataset, mds, litdata, lance     one contest each: 1,000 JPEGs, several epochs, as the
                                               command runs them

``CV`` is the standard deviation over the mean of the rates of epochs; the first epoch, which starts
the workers, does not count. An opponent that is not installed in this environment has a line that
notes it. On a machine without other programs, in about four minutes:

    python -m benchmarks bench-against --rounds 1
"""

from __future__ import annotations

import statistics
from functools import partial
from importlib.util import find_spec

from benchmarks.harness.data import Workspace
from benchmarks.harness.runs import Benchmark, Contender, Limit, Measurement
from benchmarks.loading import IMAGE_BATCH, SIDE, image_dataset

__all__ = ["BENCHMARKS"]

MODULES = {
    "torch": "torch",
    "webdataset": "webdataset",
    "mds": "streaming",
    "litdata": "litdata",
    "lance": "lance",
}
EPOCHS, WORKERS = 9, 2
OWN_CV, PEER_CV, RATIO = "tensorlake's CV %", "CV %", "tensorlake ÷ it"


def hold(workspace: Workspace, *, opponent: str) -> Measurement:
    """Hold a contest, and compare the rates of its epochs."""
    from tensorlake.cli.bench.against import hold_contest
    from tensorlake.cli.bench.run import BenchRun

    if find_spec(MODULES[opponent]) is None:
        return Measurement(0, 0, note="is not installed")
    url = str(image_dataset(workspace))
    run = BenchRun(url, batch_size=IMAGE_BATCH, side=SIDE, epochs=EPOCHS, workers=WORKERS)
    contest = hold_contest(run, opponent)
    own, peer = (
        [epoch.rows_per_s for epoch in one.epochs[1:]] for one in (contest.ours, contest.theirs)
    )
    facts = {
        RATIO: statistics.median(own) / statistics.median(peer),
        OWN_CV: variation(own),
        PEER_CV: variation(peer),
    }
    return Measurement(1.0, statistics.median(peer), facts=facts)


def variation(rates: list[float]) -> float:
    """Return the coefficient of variation, in percent."""
    return 100 * statistics.stdev(rates) / statistics.mean(rates)


BENCHMARKS = (
    Benchmark(
        name="bench-against",
        question="bench --against, epoch after epoch: how much do its rates vary?",
        unit="img/s",
        contenders=tuple(Contender(name, partial(hold, opponent=name)) for name in MODULES),
        limits=tuple(
            Limit(name, fact, at_most=10) for name in MODULES for fact in (OWN_CV, PEER_CV)
        ),
        prepare=image_dataset,
    ),
)
