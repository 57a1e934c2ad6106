"""The command of "Run it for a team of fifty" that traces, with a collector of OTLP over gRPC."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import tensorlake as tl
from tensorlake.testing.latency_server import latency_server

grpc = pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.instrumentation")
service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
messages = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "run-for-a-team.md"
STOP_S = 150
SECRET = "a text of a query"


@dataclass
class Collector(service.TraceServiceServicer):
    """What was exported, by the names that OTLP has for it."""

    spans: list[Any] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    came: threading.Event = field(default_factory=threading.Event)

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - OTLP's name
        del context
        for resource in request.resource_spans:
            self.services |= {
                one.value.string_value
                for one in resource.resource.attributes
                if one.key == "telemetry.sdk.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans
        if any("/selection" in one.name for one in self.spans):
            self.came.set()
        return messages.ExportTraceServiceResponse()


@contextmanager
def collecting() -> Iterator[tuple[Collector, str]]:
    server = grpc.server(ThreadPoolExecutor(2))
    collector = Collector()
    service.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait(STOP_S)


def test_a_server_that_is_started_as_the_page_has_it_exports_trees_of_spans(tmp_path: Path) -> None:
    found = re.search(r"^OTEL_EXPORTER_OTLP_ENDPOINT=.*$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    (tmp_path / "bucket").mkdir()
    with latency_server(tmp_path) as s3, collecting() as (collector, endpoint):
        with tl.create(
            "s3://bucket/lake/pets", {"x": "int64"}, storage_options=s3.storage_options
        ) as ds:
            ds.extend({"x": range(50)})
            ds.commit("fifty rows")
        server = subprocess.Popen(
            ["bash", "-c", found[0].replace("http://collector:4317", endpoint)],
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "AWS_ENDPOINT_URL": s3.storage_options["endpoint_url"],
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "TENSORLAKE_SERVE_PORT": "0",
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            },
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert server.stdout is not None
            link = urlsplit(server.stdout.readline().split()[2])
            token = link.fragment.removeprefix("token=")
            with tl.open(f"http://{link.netloc}/pets", token=token) as ds:
                assert len(ds.query("WHERE x > 9 AND $note = $note", note=SECRET)) == 40
            assert collector.came.wait(STOP_S), "no span of the query came"
        finally:
            os.killpg(server.pid, 15)
            server.wait(STOP_S)
            server.stdout.close()

    by_id = {one.span_id: one for one in collector.spans}
    (query,) = [one for one in collector.spans if one.name.endswith("/selection")]
    assert query.name == "POST /v1/datasets/{name}/selection"
    above = []
    for one in collector.spans:
        if one.name == "store get" and one.trace_id == query.trace_id:
            while one.parent_span_id in by_id:
                one = by_id[one.parent_span_id]  # noqa: PLW2901 - up the tree
            above.append(one.name)
    assert above, "the query read from the store"
    assert set(above) == {query.name}
    assert collector.services == {"opentelemetry"}
    assert SECRET not in str(collector.spans)
    assert "s3://bucket/lake" in str(collector.spans)
