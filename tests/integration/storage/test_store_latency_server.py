"""The latency server does what benchmarks take it for."""

import socket
import time
from urllib.parse import urlsplit

import pytest

from tensorlake.errors import CorruptionError, StorageError
from tensorlake.storage import (
    MissingObjectError,
    ObjectStore,
    RetryPolicy,
    gather_bounded,
    open_store,
    run,
)
from tensorlake.testing import Conditions, latency_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "bucket" / "lake").mkdir(parents=True)
    (folder / "bucket" / "lake" / "pack").write_bytes(bytes(range(256)) * 8192)
    return folder


@pytest.fixture(scope="module")
def running(folder):
    with latency_server(folder) as server:
        yield server


@pytest.fixture
def server(running):
    running.set_conditions(Conditions())
    running.reset()
    return running


@pytest.fixture
def store(server):
    return open_store(server.s3_url("bucket/lake"), storage_options=server.storage_options)


def test_every_request_waits_its_latency_but_not_for_the_others(server, store):
    server.set_conditions(Conditions(latency_ms=200))

    begin = time.perf_counter()
    run(gather_bounded([lambda: store.get_range("pack", 0, 100)] * 20, limit=20))

    assert time.perf_counter() - begin >= 0.2
    assert server.counters().max_in_flight > 1


def test_requests_and_bytes_are_counted(server, store):
    run(store.put_if_absent("counted", b"0123456789"))
    run(store.get_range("pack", 0, 1000))
    run(store.head("pack"))
    run(store.delete("counted"))

    counters = server.counters()

    assert (counters.requests, counters.put, counters.get) == (4, 1, 1)
    assert (counters.head, counters.delete, counters.list) == (1, 1, 0)
    assert (counters.bytes_received, counters.bytes_sent) == (10, 1000)
    server.reset()
    assert server.counters().requests == 0


def test_errors_come_at_their_rate_and_do_nothing(server):
    server.set_conditions(Conditions(error_rate=1.0))
    url = server.s3_url("bucket/lake")
    store = ObjectStore(url, server.storage_options, policy=RetryPolicy(attempts=1))

    with pytest.raises(StorageError, match="503"):
        run(store.put("never", b"1"))

    server.set_conditions(Conditions())
    assert run(store.get("never")) is None
    assert server.counters().errors == 1


SCATTERED = [(start, start + 300) for start in range(0, 2_000_000, 100_000)]


def test_scattered_ranges_are_a_request_each(server, store):
    found = run(store.get_ranges("pack", SCATTERED))

    assert server.counters().get == len(SCATTERED)
    whole = run(store.get("pack"))
    assert [bytes(one) for one in found] == [whole[start:stop] for start, stop in SCATTERED]


def test_scattered_ranges_come_though_the_store_fails_some(server):
    store = ObjectStore(
        server.s3_url("bucket/lake"),
        server.storage_options,
        policy=RetryPolicy(attempts=50, first_delay_s=0.001),
    )
    whole = run(store.get("pack"))
    server.set_conditions(Conditions(error_rate=0.3))

    found = run(store.get_ranges("pack", SCATTERED))

    assert [bytes(one) for one in found] == [whole[start:stop] for start, stop in SCATTERED]
    assert server.counters().errors > 0


def test_one_scattered_range_past_the_end_is_named(store):
    behind = 256 * 8192

    with pytest.raises(CorruptionError, match=f"{behind - 100}"):
        run(store.get_ranges("pack", [*SCATTERED, (behind - 100, behind + 100)]))
    with pytest.raises(CorruptionError, match=f"{behind + 100_000}"):
        run(store.get_ranges("pack", [*SCATTERED, (behind + 100_000, behind + 100_001)]))


def test_scattered_ranges_of_what_is_not_there_say_so(store):
    with pytest.raises(MissingObjectError, match="absent"):
        run(store.get_ranges("absent", SCATTERED))


def test_bandwidth_is_bounded_for_each_connection(server, store):
    server.set_conditions(Conditions(mb_per_s=10))

    begin = time.perf_counter()
    run(store.get_range("pack", 0, 2_000_000))

    assert time.perf_counter() - begin >= 0.15


def test_plain_http_reads_the_same_folder(server, store):
    plain = open_store(server.http_url("bucket/lake"))

    assert run(plain.get("pack")) == run(store.get("pack"))
    assert bytes(run(plain.get_range("pack", 7, 9))) == b"\x07\x08"
    assert run(plain.get("absent")) is None


def test_listing_goes_on_over_pages(server, folder):
    names = [f"{number:05d}" for number in range(2500)]
    (folder / "paged").mkdir()
    for name in names:
        (folder / "paged" / name).touch()
    store = open_store(server.s3_url("paged"), storage_options=server.storage_options)

    async def listed() -> list[str]:
        return [meta.path async for meta in store.list("")]

    assert run(listed()) == names
    assert server.counters().list == 3


def test_listing_goes_on_where_a_page_failed(server, folder):
    names = [f"{number:05d}" for number in range(5000)]
    (folder / "troubled").mkdir()
    for name in names:
        (folder / "troubled" / name).touch()
    store = ObjectStore(
        server.s3_url("troubled"),
        server.storage_options,
        policy=RetryPolicy(attempts=50, first_delay_s=0.001),
    )
    server.set_conditions(Conditions(error_rate=0.5))

    async def listed() -> list[str]:
        return [meta.path async for meta in store.list("")]

    for _ in range(20):  # half of five requests fail, each by itself: one time in 32 none does
        assert run(listed()) == names
        if server.counters().errors > 0:
            return
    pytest.fail("none of a hundred requests failed, of which half should")


def test_path_out_of_the_folder_is_refused(server):
    from urllib.error import HTTPError
    from urllib.request import urlopen

    with pytest.raises(HTTPError, match="400"):
        urlopen(f"{server.endpoint}/bucket/%2e%2e/%2e%2e/etc/passwd", timeout=60)


def test_requests_that_come_together_or_in_pieces_are_answered_in_order(server):
    address = urlsplit(server.endpoint)
    body = b"x" * 3000
    put = b"PUT /bucket/lake/pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\n" + body
    get = b"GET /bucket/lake/pieces HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n"
    server.set_conditions(Conditions(latency_ms=1))
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(put[:10])
        connection.sendall(put[10:1000])
        connection.sendall(put[1000:] + get + get)
        received = b""
        while received.count(b"x" * 10) < 2:
            more = connection.recv(65536)
            assert more, "the server closed the connection"
            received += more

    assert received.count(b"HTTP/1.1 200") == 1
    assert received.count(b"HTTP/1.1 206") == 2
    assert received.index(b"HTTP/1.1 200") == 0
    seen = server.counters()
    assert (seen.put, seen.get, seen.bytes_received, seen.bytes_sent) == (1, 2, 3000, 20)
    assert (seen.connections, seen.max_in_flight) == (1, 1)


@pytest.mark.slow
def test_a_body_that_is_held_back_until_it_may_come_is_asked_for(server):
    address = urlsplit(server.endpoint)
    put = b"PUT /bucket/lake/held HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        for _ in range(2):  # of each request anew
            connection.sendall(put)
            assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"bytes")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")

    assert server.counters().bytes_received == 10
