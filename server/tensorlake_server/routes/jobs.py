"""``/v1/jobs/{id}``: the answer of a request that was sent with ``Prefer: respond-async``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Request, Response

from tensorlake_server.messages.messages import JobInfo
from tensorlake_server.request.context import caller_of

if TYPE_CHECKING:
    from tensorlake_server.request.jobs import Jobs

__all__ = ["router"]

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[str, Path(max_length=64)]
RETRY_AFTER = {"Retry-After": "1", "Cache-Control": "no-store"}


@router.get("/{job}", response_class=Response, responses={202: {"model": JobInfo}})
async def read_job(request: Request, job: JobId) -> Response:
    """Return the answer of the request, or 202 while it is worked on."""
    jobs: Jobs = request.app.state.jobs
    found = jobs.find(job, caller_of(request))
    if found.error is not None:
        raise found.error
    if found.answer is not None:
        return found.answer
    started = datetime.fromtimestamp(found.started, UTC).isoformat()
    info = JobInfo(id=found.id, status="running", started=started)
    return Response(info.model_dump_json(), 202, RETRY_AFTER, "application/json")


@router.delete("/{job}", status_code=204)
async def cancel_job(request: Request, job: JobId) -> Response:
    """Cancel a request that is worked on, or delete its answer."""
    jobs: Jobs = request.app.state.jobs
    jobs.forget(jobs.find(job, caller_of(request)))
    return Response(status_code=204)
