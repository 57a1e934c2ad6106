"""Bodies of ``/v1/flows``."""

from __future__ import annotations

from tensorlake_server.messages.messages import Asked, Message

__all__ = ["ApprovalRequest", "FlowInfo", "FlowList", "FlowStep"]


class FlowStep(Message):
    """A step of a run that has ended; ``error`` where it failed."""

    name: str
    result: str | None
    error: str | None


class FlowInfo(Message):
    """A run of a flow; ``waits_for`` is the question of its approval, ``steps`` those that ended.

    Its state is queued, running, waiting, waiting for code, done, failed or cancelled.
    """

    id: str
    flow: str
    state: str
    waits_for: str | None
    arguments: str
    result: str | None
    error: str | None
    started: str
    steps: list[FlowStep]


class FlowList(Message):
    """Runs of flows, the newest first, without their steps."""

    flows: list[FlowInfo]


class ApprovalRequest(Asked):
    """The answer to the approval that a run waits for; False refuses."""

    decision: bool
