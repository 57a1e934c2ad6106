"""The application: routes under ``/v1``, health, and the viewer's page for everything else.

The page holds no data and is served to anybody; it asks ``/v1`` like every other client. Its policy
lets it load from its own host alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import BaseRoute

import tensorlake_query as tql
from tensorlake.errors import TensorlakeError
from tensorlake.loader import SharedStreams
from tensorlake_server.app.reference_page import REFERENCE_POLICY, reference_page
from tensorlake_server.app.viewer_files import ViewerFiles
from tensorlake_server.bodies.json import BodyRoute
from tensorlake_server.bodies.put_rules import FormatRules
from tensorlake_server.bodies.thumbnails import Thumbnails
from tensorlake_server.http.openapi import add_components, component, operation_id
from tensorlake_server.http.parameters import CHECKED
from tensorlake_server.http.problems import PROBLEM_TYPE, Problem, add_problem_answers
from tensorlake_server.lake.exports import Exports
from tensorlake_server.lake.group_commits import GroupCommits
from tensorlake_server.lake.lake import Lake
from tensorlake_server.lake.places import without_places
from tensorlake_server.messages.changes import TransactionRequest
from tensorlake_server.messages.messages import ProblemInfo, SessionRequest
from tensorlake_server.request.access import Access, cookie_name
from tensorlake_server.request.audit import AuditLog
from tensorlake_server.request.context import settings_of
from tensorlake_server.request.jobs import ServedJobs
from tensorlake_server.request.metrics import METRICS_TYPE, Metrics
from tensorlake_server.request.middleware import Guard, UnderWay
from tensorlake_server.request.stream_limits import Streams
from tensorlake_server.routes import (
    datasets,
    events,
    objects,
    projection,
    query,
    refs,
    rows,
    runs,
    search,
    statistics,
    stream,
    views,
    writing,
)
from tensorlake_server.routes.events import Heads
from tensorlake_server.routes.jobs import exports, flows, jobs
from tensorlake_server.routes.media import players, samples
from tensorlake_server.routes.projection import KEPT_NBYTES, Projections
from tensorlake_server.routes.runs import KEPT_INFOS, RunInfos

if TYPE_CHECKING:
    from tensorlake_server.settings.settings import Settings

__all__ = ["create_app"]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob:; media-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)  # inline styles: the editor brings its rules in a <style> of its own
NOTEBOOKS = " http://localhost:* http://127.0.0.1:*"  # what may frame the page of a ds.show()
PAGE, ICON = "index.html", "favicon.svg"
HASHED = "public, max-age=31536000, immutable"  # names of assets hold a hash of their content

OLD_PERIOD_S = 600.0
"""How long the copy of a view that is gone may stay, and an answer after its hour."""

log = logging.getLogger("tensorlake.server")

BODY_THREADS = 4  # that parse bodies: each holds the interpreter, or a processor

OWN_SPANS: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""`Guard` traces requests: also those that it refuses, and never a query string."""

NO_REQUEST = {"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []}

PROBLEM: dict[str, Any] = {
    "description": "what went wrong, as RFC 9457 problem JSON",
    "content": {PROBLEM_TYPE: {"schema": component(ProblemInfo)}},
}
PROBLEMS: dict[int | str, dict[str, Any]] = {"4XX": PROBLEM, "5XX": PROBLEM}


def create_app(settings: Settings) -> FastAPI:
    """Build the application for one lake."""
    access = Access(settings)
    audit = None
    if settings.audit_log is not None:
        audit = AuditLog(
            settings.audit_log, most_nbytes=settings.audit_nbytes, files=settings.audit_files
        )
    under_way = UnderWay()
    streams = Streams(settings.max_streams, most_each=settings.max_streams_each)
    batch_streams = Streams(settings.max_batch_streams, most_each=settings.max_batch_streams_each)
    shared_streams = SharedStreams()
    metrics = Metrics(
        streams=lambda: streams.count + batch_streams.count,
        decoded=lambda: shared_streams.made,
        sent=lambda: shared_streams.sent,
    )
    app = FastAPI(
        title="tensorlake",
        description="Datasets of one lake. Reference: docs/reference/rest.md.",
        openapi_url=None,  # FastAPI's own route would take any parameter
        docs_url=None,  # FastAPI's page loads its scripts from another host
        redoc_url=None,
        middleware=[
            Middleware(
                Guard,
                settings=settings,
                access=access,
                audit=audit,
                metrics=metrics,
                under_way=under_way,
            )
        ],
        responses=PROBLEMS,
        lifespan=_served,
        telemetry=OWN_SPANS,  # of releases that have it; earlier ones take any argument
    )
    tql.parse("WHERE true")  # builds the parser now, not in the first query
    app.state.settings = settings
    app.state.access = access
    app.state.under_way = under_way
    app.state.lake = Lake(settings)
    app.state.heads = Heads(app.state.lake)
    app.state.groups = GroupCommits(app.state.lake, settings.group_wait_s)
    app.state.readiness = Readiness(app.state.lake)
    app.state.streams = streams
    app.state.jobs = None  # until it is served
    app.state.exports = None
    if settings.exports is not None:
        app.state.exports = Exports(settings.exports, settings.exports_nbytes)
    app.state.queries = Streams(settings.max_queries, most_each=settings.max_queries_each)
    app.state.batch_streams = batch_streams
    app.state.shared_streams = shared_streams
    app.state.batch_threads = CapacityLimiter(settings.max_batch_streams)
    app.state.body_threads = CapacityLimiter(BODY_THREADS)
    app.router.route_class = BodyRoute
    app.state.metrics = metrics
    app.state.object_rules = FormatRules()
    app.state.projections = Projections(KEPT_NBYTES)
    app.state.run_infos = RunInfos(KEPT_INFOS)
    app.state.thumbnails = Thumbnails(settings.thumbnails_nbytes)
    lake: Lake = app.state.lake
    app.state.shown = partial(without_places, lake=lake, settings=settings)
    add_problem_answers(app, shown=app.state.shown)
    app.router.routes.extend(prepared_routes())
    add_components(
        app,
        [TransactionRequest, ProblemInfo],
        cookie=cookie_name(settings),
        issuer=settings.oidc,
        is_open=settings.public_read,
    )
    _add_viewer(app, settings)
    return app


@asynccontextmanager
async def _served(app: FastAPI) -> AsyncGenerator[None]:
    """Remove old copies of views, and have jobs, if there is a database, while it is served."""
    settings: Settings = app.state.settings
    removal = asyncio.create_task(_remove_old(app))
    try:
        if settings.flows is None:
            yield
            return
        loop = asyncio.get_running_loop()
        served = await to_thread.run_sync(ServedJobs, app, settings, settings.flows, loop)
        app.state.jobs = served
        try:
            yield
        finally:
            app.state.jobs = None
            served.stop()
            await to_thread.run_sync(served.close)
    finally:
        removal.cancel()


async def _remove_old(app: FastAPI) -> None:
    """Delete copies of views that are gone, and old answers and exports, every few minutes."""
    lake: Lake = app.state.lake
    while True:
        try:
            await to_thread.run_sync(lake.remove_old_copies, abandon_on_cancel=True)
        except TensorlakeError as error:
            log.warning("copies of saved views were not looked through: %s", error)
        await asyncio.sleep(OLD_PERIOD_S)
        served: ServedJobs | None = app.state.jobs
        if served is not None:
            await to_thread.run_sync(served.forget_old, abandon_on_cancel=True)
        written: Exports | None = app.state.exports
        if written is not None:
            await to_thread.run_sync(written.remove_old, abandon_on_cancel=True)


@cache
def prepared_routes() -> tuple[BaseRoute, ...]:
    """Return the routes of the API, which every application of the process shares.

    They hold nothing of one lake: they find it in the state of the application that is asked.
    FastAPI takes longer to prepare them than an application takes for everything else.
    """
    router = APIRouter(route_class=BodyRoute, responses=PROBLEMS)
    # Routes are tried in this order, and an epoch asks for a thousand objects: they come first.
    asking = (
        objects,
        datasets,
        rows,
        query,
        search,
        views,
        players,
        samples,
        statistics,
        projection,
        runs,
        stream,
    )
    for module in (*asking, writing, refs, events, exports, jobs, flows):
        router.include_router(
            module.router, dependencies=CHECKED, generate_unique_id_function=operation_id
        )
    router.add_api_route(
        "/v1/session",
        open_session,
        methods=["POST"],
        status_code=204,
        dependencies=CHECKED,
        operation_id="open_session",
    )
    described = {"/v1/openapi.json": read_openapi, "/v1/docs": read_reference}
    for route, answer in described.items():
        router.add_api_route(route, answer, include_in_schema=False, dependencies=CHECKED)
    operation = {"/healthz": healthz, "/readyz": readyz, "/metrics": read_metrics}
    for route, answer in operation.items():
        router.add_api_route(route, answer, methods=["GET", "HEAD"], include_in_schema=False)
    for route in router.routes:  # FastAPI prepares one when it first looks: now, not in a request
        route.matches(NO_REQUEST)
    return tuple(router.routes)


def open_session(request: Request, asked: SessionRequest) -> Response:
    """Exchange a token for a cookie that no script can read."""
    access: Access = request.app.state.access
    response = Response(status_code=204)
    response.set_cookie(
        cookie_name(settings_of(request)),
        access.cookie(asked.token),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )
    return response


def read_openapi(request: Request) -> Response:
    """Describe the routes under ``/v1``."""
    app: FastAPI = request.app
    return JSONResponse(app.openapi())


def read_reference(request: Request) -> Response:
    """Show the routes under ``/v1`` as a page, which loads nothing else."""
    app: FastAPI = request.app
    headers = {"Content-Security-Policy": REFERENCE_POLICY, "Cache-Control": "no-cache"}
    return HTMLResponse(reference_page(app.openapi()), headers=headers)


async def healthz() -> Response:
    """Report that the process answers: on its loop, however busy its threads are."""
    return Response("ok\n", media_type="text/plain")


class Readiness:
    """Whether the lake can be read: one look at a time, shared by all who ask meanwhile.

    It has a thread of its own: those of the routes may all be busy.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._thread = CapacityLimiter(1)
        self._looking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Look.

        Raises:
            TensorlakeError: It cannot be read.
        """
        if self._looking is None or self._looking.done():
            look = to_thread.run_sync(self._lake.check, limiter=self._thread)
            self._looking = asyncio.ensure_future(look)
        await asyncio.shield(self._looking)


async def readyz(request: Request) -> Response:
    """Return whether the lake can be read; if not, why, and that another replica be asked."""
    readiness: Readiness = request.app.state.readiness
    try:
        await readiness.check()
    except TensorlakeError as error:
        raise Problem(503, "lake-unreadable", str(error), {"Retry-After": "5"}) from error
    return Response("ok\n", media_type="text/plain")


def read_metrics(request: Request) -> Response:
    """Count requests, seconds and bytes by route, for Prometheus."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(), headers={"Content-Type": METRICS_TYPE})


def _add_viewer(app: FastAPI, settings: Settings) -> None:
    files = ViewerFiles(settings.static)
    policy = PAGE_POLICY + (NOTEBOOKS if settings.is_framed else "")

    def viewer_page(request: Request) -> Response:
        if PAGE not in files:
            raise Problem(
                503, "viewer-not-built", "this server was installed without its viewer\nmake viewer"
            )
        headers = {"Cache-Control": "no-cache", "Content-Security-Policy": policy}
        return files.answer(request, PAGE, headers)

    def asset(request: Request, path: str) -> Response:
        return files.answer(request, f"assets/{path}", {"Cache-Control": HASHED})

    def icon(request: Request) -> Response:
        return files.answer(request, ICON, {"Cache-Control": "no-cache"})

    pages = {"/assets/{path:path}": asset, f"/{ICON}": icon, "/": viewer_page}
    for route, answer in {**pages, "/{dataset}": viewer_page}.items():
        app.add_api_route(route, answer, methods=["GET", "HEAD"], include_in_schema=False)
