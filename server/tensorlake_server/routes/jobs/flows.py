"""``/v1/flows``: the runs of flows in the database of jobs.

Flows are of the lake and not of one dataset: ``read`` of all datasets shows them, ``write`` of all
changes them, on a server that runs with ``--write``. They are started by programs, never from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from fastapi import APIRouter, Path, Query, Request

from tensorlake_server.auth.scopes import EVERY, Action
from tensorlake_server.http.problems import Problem
from tensorlake_server.messages.flows import ApprovalRequest, FlowInfo, FlowList, FlowStep
from tensorlake_server.request.context import note_change, note_intent, settings_of

if TYPE_CHECKING:
    from tensorlake.workloads import flows
    from tensorlake_server.auth.principal import Principal

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["flows"])

FlowId = Annotated[str, Path(max_length=256)]
SHOWN = 200  # characters of a result


@router.get("/flows", response_model=FlowList)
def list_flows(
    request: Request,
    flow: Annotated[str | None, Query(max_length=256, description="its name")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FlowList:
    """List runs of flows, the newest first."""
    _check(request, Action.READ)
    from tensorlake.workloads import flows

    return FlowList(flows=[_info(one) for one in flows.list_runs(flow=flow, limit=limit)])


@router.get("/flows/{flow}", response_model=FlowInfo)
def inspect_flow(request: Request, flow: FlowId) -> FlowInfo:
    """Return a run with its steps."""
    _check(request, Action.READ)
    from tensorlake.workloads import flows

    return _info(flows.inspect(flow))


@router.post("/flows/{flow}/retry", response_model=FlowInfo)
def retry_flow(request: Request, flow: FlowId) -> FlowInfo:
    """Continue a run that failed or was cancelled, at the step that has no result."""
    _check(request, Action.WRITE)
    from tensorlake.workloads import flows

    return _info(flows.retry(flow))


@router.post("/flows/{flow}/cancel", response_model=FlowInfo)
def cancel_flow(request: Request, flow: FlowId) -> FlowInfo:
    """Cancel a run: it ends before its next step."""
    _check(request, Action.WRITE)
    from tensorlake.workloads import flows

    return _info(flows.cancel(flow))


@router.post("/flows/{flow}/approve", response_model=FlowInfo)
def approve_flow(request: Request, flow: FlowId, asked: ApprovalRequest) -> FlowInfo:
    """Answer the approval that a run waits for; the first answer counts."""
    _check(request, Action.WRITE)
    from tensorlake.workloads import flows

    found = _info(flows.approve(flow, decision=asked.decision))
    note_change(request, f"{flow}: {asked.decision}")
    return found


def _check(request: Request, action: Action) -> None:
    """Check that the server has flows, and that who asks may do this.

    Raises:
        Problem: 501, it has none; 403, they may not.
    """
    settings = settings_of(request)
    if settings.flows is None:
        raise Problem(
            501,
            "no-flows",
            "this server has no database of flows\nstart it with --flows DATABASE",
        )
    principal = cast("Principal", request.state.principal)
    is_allowed = action is Action.READ or settings.write
    if not is_allowed or not principal.may(action, EVERY, EVERY):
        wanted = action.name.lower()
        raise Problem(
            403,
            "access",
            f"{principal.name!r} may not do this: it needs the scope {wanted!r} of all datasets"
            + ("" if is_allowed else ", and a server with --write"),
        )
    if action is Action.WRITE:
        note_intent(request)


def _info(run: flows.FlowRun) -> FlowInfo:
    return FlowInfo(
        id=run.id,
        flow=run.flow,
        state=run.state,
        waits_for=run.waits_for,
        arguments=run.arguments,
        result=_text(run.result),
        error=run.error,
        started=run.started.isoformat(),
        steps=[
            FlowStep(name=one.name, result=_text(one.result), error=one.error) for one in run.steps
        ],
    )


def _text(result: object) -> str | None:
    return None if result is None else repr(result)[:SHOWN]
