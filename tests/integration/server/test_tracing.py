"""Spans of requests, queries and store calls, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tensorlake as tl
from tensorlake.errors import StorageError
from tensorlake.storage import ObjectStore, RetryPolicy, runtime
from tensorlake.testing import S3Server, s3_server
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

SECRET = "a text of a query"


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """What the program's SDK exports; the API takes one provider a process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def lake(s3: S3Server) -> str:
    url = s3.fresh_url()
    schema = {"x": "int64", "note": "str"}
    with tl.create(f"{url}/pets", schema, storage_options=s3.storage_options) as ds:
        ds.extend({"x": range(50), "note": ["n"] * 50})
        ds.commit("fifty rows")
    return url


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in exporter.get_finished_spans() if one.name == name]


def ancestors(exporter: InMemorySpanExporter, span: ReadableSpan) -> list[str]:
    by_id = {one.context.span_id: one for one in exporter.get_finished_spans()}
    found = []
    while span.parent is not None and (above := by_id.get(span.parent.span_id)) is not None:
        found.append(above.name)
        span = above
    return found


def test_a_request_of_the_server_is_a_tree_from_its_client_to_the_store(
    exporter: InMemorySpanExporter, s3: S3Server, lake: str
) -> None:
    app = create_app(Settings(url=lake, storage_options=s3.storage_options, public_read=True))
    tracer = trace.get_tracer("client")
    with listening(app) as address:
        exporter.clear()
        with tracer.start_as_current_span("the program"), tl.open(f"{address}/pets") as ds:
            assert len(ds.query(f"WHERE x > $least AND note != '{SECRET}'", least=9)) == 40

    query = "POST /v1/datasets/{name}/selection"
    (request,) = named(exporter, query)
    assert request.attributes is not None
    assert request.kind is trace.SpanKind.SERVER
    assert request.attributes["http.response.status_code"] == 200
    assert ancestors(exporter, request)[0] == "HTTP POST"
    assert ancestors(exporter, request)[-1] == "the program"
    reads = [one for one in named(exporter, "store get") if query in ancestors(exporter, one)]
    assert reads, "the query read from the store"
    assert {ancestors(exporter, one)[0] for one in reads} <= {"query", query}
    assert any("query" in ancestors(exporter, one) for one in reads)
    shown = str([dict(one.attributes or {}) for one in exporter.get_finished_spans()])
    assert SECRET not in shown


def test_what_is_not_there_is_an_answer_and_no_error(
    exporter: InMemorySpanExporter, s3: S3Server, lake: str
) -> None:
    app = create_app(Settings(url=lake, storage_options=s3.storage_options, public_read=True))
    exporter.clear()
    with listening(app) as address:
        assert httpx.get(f"{address}/v1/datasets/none").status_code == 404
    found = exporter.get_finished_spans()

    assert [one.name for one in found if one.kind is trace.SpanKind.SERVER] == [
        "GET /v1/datasets/{name}"
    ]
    assert any(one.name == "store list" for one in found)
    assert {one.status.status_code for one in found} == {trace.StatusCode.UNSET}


def test_a_store_that_does_not_answer_is_an_error_without_its_message(
    exporter: InMemorySpanExporter, s3: S3Server
) -> None:
    options = {**s3.storage_options, "endpoint_url": "http://127.0.0.1:9"}
    store = ObjectStore("s3://none/pets", options, policy=RetryPolicy(attempts=2, first_delay_s=0))
    exporter.clear()
    with pytest.raises(StorageError):
        runtime.run(store.get("tensorlake.json"))
    found = exporter.get_finished_spans()

    assert [one.name for one in found] == ["store get", "store get"]  # each attempt is one
    for one in found:
        assert one.status.status_code is trace.StatusCode.ERROR
        assert (one.attributes or {})["error.type"] == "UNREACHABLE"
        assert one.status.description is None
        assert list(one.events) == []


def test_nothing_is_imported_by_who_does_not_trace() -> None:
    program = (
        "import sys, tensorlake as tl\n"
        "ds = tl.create('memory://untraced', {'x': 'int64'}); ds.extend({'x': [1]})\n"
        "ds.commit('one')\n"
        "assert len(ds.query('WHERE x = 1')) == 1\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "False"
