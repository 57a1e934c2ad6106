"""``/v1/jobs/{id}``: the answer of a request that was sent with ``Prefer: respond-async``.

It is for its client alone, as is the list of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from tensorlake_server.messages.messages import JobInfo, JobList, JobSummary
from tensorlake_server.request.context import caller_of, lake_of
from tensorlake_server.request.deadline import jobs_of
from tensorlake_server.request.jobs import dataset_asked, read_answer

if TYPE_CHECKING:
    from tensorlake.workloads import flows

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["jobs"])

JobId = Annotated[str, Path(max_length=64)]
RETRY_AFTER = {"Retry-After": "1", "Cache-Control": "no-store"}


@router.get("/jobs", response_model=JobList)
def list_jobs(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> JobList:
    """List the jobs of this token, the newest first."""
    return JobList(jobs=[_summary(one) for one in jobs_of(request).list(caller_of(request), limit)])


@router.get("/jobs/{job}", response_class=Response, responses={202: {"model": JobInfo}})
def read_job(request: Request, job: JobId) -> Response:
    """Return the answer of the request, or 202 while it is worked on."""
    found = jobs_of(request).find(job, caller_of(request))
    if found.answer is not None:
        assert found.request is not None, "it is read with the answer"
        dataset = dataset_asked(found.request)
        if dataset is not None:  # its rows are hidden with it, or with the view
            lake_of(request).check_there(dataset)
        status, headers, body = read_answer(found.answer)
        return Response(body, status, headers)
    info = JobInfo(id=found.id, status="running", started=found.started.isoformat())
    return Response(info.model_dump_json(), 202, RETRY_AFTER, "application/json")


@router.delete("/jobs/{job}", status_code=204)
def cancel_job(request: Request, job: JobId) -> Response:
    """Cancel a request that is worked on, or delete its answer."""
    jobs = jobs_of(request)
    jobs.forget(jobs.find(job, caller_of(request)))
    return Response(status_code=204)


def _summary(job: flows.Job) -> JobSummary:
    return JobSummary(
        id=job.id,
        request=job.what,
        status=job.state,
        started=job.started.isoformat(),
    )
