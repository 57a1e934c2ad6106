"""The service of flows: a process that continues them, and starts those that are watched for."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from tensorlake.errors import TensorlakeError
from tensorlake.workloads.flows.database import QUEUE, clients, launch, stop_engine
from tensorlake.workloads.flows.definition import Flow, flows

__all__ = ["run"]

LOOK_S = 0.2
logger = logging.getLogger(__name__)


def run(*, until: Callable[[], bool] | None = None) -> None:
    """Run flows in this process: those that were interrupted, started, or are watched for.

    Args:
        until: Asked a few times a second; `run` returns when it is true; None: never.
    """
    launch(has_code=flows().__contains__)
    ended = threading.Event()
    watching = [
        threading.Thread(target=_watch, args=(one, ended), daemon=True)
        for one in flows().values()
        if one.on is not None
    ]
    try:
        for thread in watching:
            thread.start()
        while until is None or not until():
            ended.wait(LOOK_S)
    finally:
        ended.set()
        for thread in watching:
            thread.join()
        stop_engine()


def _watch(flow: Flow[..., Any], ended: threading.Event) -> None:
    """Start a flow for each listing of its files that differs from the one before."""
    assert flow.on is not None, "it is watched"
    while not ended.is_set():
        try:
            digest = flow.on.digest()
            if digest is not None:
                _start_once(flow, digest)
        except TensorlakeError as error:  # a store that does not answer: the next listing may
            logger.warning("flow %r: %s cannot be listed: %s", flow.name, flow.on.prefix, error)
        ended.wait(flow.on.every_s)


def _start_once(flow: Flow[..., Any], digest: str) -> None:
    """Start a run named by the one before and the listing: two processes name the same one."""
    assert flow.on is not None, "it is watched"
    place = hashlib.blake2b(flow.on.prefix.encode(), digest_size=4).hexdigest()
    prefix = f"{flow.name}-{place}-"
    with clients() as client:
        last = client.list_workflows(workflow_id_prefix=prefix, limit=1, sort_desc=True)
        before = last[0].workflow_id if last else ""
        if before.endswith(digest):
            return
        link = hashlib.blake2b(before.encode(), digest_size=4).hexdigest()
        client.enqueue(
            {
                "queue_name": QUEUE,
                "workflow_name": flow.name,
                "workflow_id": f"{prefix}{link}-{digest}",
            },
            flow.on.prefix,
        )
