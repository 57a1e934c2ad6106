"""``from tensorlake import flows``: work over datasets that ends, whatever stops (extra ``flows``).

    @flows.step(retries=3)
    def ingest(prefix):
        return tl.ingest.images(prefix, "pets.tl").version

    @flows.flow(on=flows.watch("incoming/"))
    def arrive(prefix):
        version = ingest(prefix)
        if flows.approval("publish"):
            publish(version)

A flow is a function of steps. DBOS writes the result of each step to a database, SQLite or
PostgreSQL, before the next one begins; a process that starts after a kill continues every flow at
its first step without a result. So a step may be called twice; its effect comes once if it is a
sync (``tl.ingest``, ``ds.map(to=)``) or a commit under ``flows.key()``.
"""

from tensorlake.workloads.flows.database import connect
from tensorlake.workloads.flows.definition import (
    Flow,
    Watch,
    approval,
    flow,
    key,
    step,
    watch,
)
from tensorlake.workloads.flows.executors import Interrupted
from tensorlake.workloads.flows.jobs import Job, Jobs
from tensorlake.workloads.flows.runs import (
    FlowRun,
    StepRun,
    approve,
    cancel,
    inspect,
    list_runs,
    retry,
    start,
)
from tensorlake.workloads.flows.service import run

list = list_runs  # noqa: A001 - as `tl.list`

__all__ = [
    "Flow",
    "FlowRun",
    "Interrupted",
    "Job",
    "Jobs",
    "StepRun",
    "Watch",
    "approval",
    "approve",
    "cancel",
    "connect",
    "flow",
    "inspect",
    "key",
    "list",
    "list_runs",
    "retry",
    "run",
    "start",
    "step",
    "watch",
]
