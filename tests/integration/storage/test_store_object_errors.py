"""An object store over the wire when things go wrong: refusals, lost answers, short bodies."""

import asyncio
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tensorlake.errors import (
    AccessError,
    CorruptionError,
    StorageError,
    StorageTimeoutError,
    UnsupportedStoreError,
)
from tensorlake.storage import (
    MissingObjectError,
    ObjectExistsError,
    ObjectStore,
    RetryPolicy,
    UnknownOutcomeError,
    run,
)
from tensorlake.storage.stores import object_store as module

SECRET = "SuperSecretKey0123"


@dataclass
class Script:
    """What the server answers, one entry a request; the last one repeats."""

    answers: deque = field(default_factory=deque)
    seen: list = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def say(self, *answers) -> None:
        self.answers.extend(answers)


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def endpoint(script):
    class Scripted(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.seen.append((self.command, self.path))
            script.arrived.set()
            answers = script.answers
            answer = answers.popleft() if len(answers) > 1 else answers[0]
            if answer == "hang":
                script.released.wait(timeout=60)
                self.close_connection = True
            elif answer == "drop":
                self.close_connection = True
            elif answer == "cut":
                self.send_response(206)
                self.send_header("Content-Length", "10")
                self.end_headers()
                self.wfile.write(b"01234")
                self.close_connection = True
            else:
                self.reply(answer)

        def reply(self, answer) -> None:
            status, body = (answer, b"<Error/>") if isinstance(answer, int) else (206, answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
            if status == 206:
                self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_DELETE = answer  # noqa: N815 - the names http.server looks for

        def log_message(self, *_args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    script.released.set()
    server.shutdown()
    thread.join(timeout=60)
    server.server_close()


@pytest.fixture
def store(endpoint) -> ObjectStore:
    options = {"key": "AKIA", "secret": SECRET, "endpoint_url": endpoint}
    policy = RetryPolicy(attempts=4, first_delay_s=0.001)
    return ObjectStore("s3://bucket/lake", options, policy=policy)


def test_read_is_repeated_after_trouble_of_the_server(store, script):
    script.say(503, 500, 429, b"0123456789")

    assert bytes(run(store.get_range("a", 0, 10))) == b"0123456789"
    assert len(script.seen) == 4


def test_read_gives_up_in_the_end(store, script):
    script.say(503)

    with pytest.raises(StorageError, match="could not read object 'a' of 's3://bucket/lake'"):
        run(store.get_range("a", 0, 10))
    assert len(script.seen) == 4


def test_body_cut_by_the_connection_is_read_again(store, script):
    script.say("cut", "drop", b"0123456789")

    assert bytes(run(store.get_range("a", 0, 10))) == b"0123456789"


def test_short_answer_is_corruption(store, script):
    script.say(b"01234")

    with pytest.raises(CorruptionError, match="5 of 10 came") as caught:
        run(store.get_range("a", 0, 10))
    assert caught.value.object == "a"


def test_refusal_is_not_repeated(store, script):
    script.say(403)

    for request in (
        store.get("a"),
        store.get_range("a", 0, 10),
        store.head("a"),
        store.put_if_absent("a", b"1"),
        store.put("a", b"1"),
        store.delete("a"),
    ):
        with pytest.raises(AccessError, match="'s3://bucket/lake'"):
            run(request)
    assert len(script.seen) == 6


@pytest.mark.parametrize("answer", [500, 502, 503, 409, 429, "drop"])
def test_write_of_unknown_outcome_is_not_repeated(store, script, answer):
    script.say(answer)

    with pytest.raises(UnknownOutcomeError, match="may or may not have been written"):
        run(store.put_if_absent("branches/main/1", b"entry"))
    assert len(script.seen) == 1


def test_write_that_found_another_says_so(store, script):
    script.say(412)

    with pytest.raises(ObjectExistsError):
        run(store.put_if_absent("branches/main/1", b"entry"))


@pytest.mark.parametrize("answer", [400, 404])
def test_definite_refusal_of_a_write_is_a_storage_error(store, script, answer):
    script.say(answer)

    with pytest.raises(StorageError) as caught:
        run(store.put_if_absent("branches/main/1", b"entry"))
    assert not isinstance(caught.value, (UnknownOutcomeError, MissingObjectError))


def test_overwrite_is_repeated(store, script):
    script.say(503, 200)

    run(store.put("HEAD", b"hint"))

    assert len(script.seen) == 2


def test_large_write_is_one_request(store, script):
    script.say(200)

    run(store.put_if_absent("pack", bytes(9 << 20)))

    assert script.seen == [("PUT", "/bucket/lake/pack")]


def test_silent_store_times_out(store, script, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.05)
    script.say("hang")

    with pytest.raises(UnknownOutcomeError):
        run(store.put_if_absent("a", b"1"))
    with pytest.raises(StorageTimeoutError, match="in time"):
        run(store.get("a"))


def test_unreachable_store_landed_nothing():
    options = {"key": "AKIA", "secret": SECRET, "endpoint_url": "http://127.0.0.1:1"}
    store = ObjectStore("s3://bucket/lake", options, policy=RetryPolicy(attempts=1))

    with pytest.raises(StorageError, match="could not reach the store") as caught:
        run(store.put_if_absent("a", b"1"))
    assert not isinstance(caught.value, UnknownOutcomeError)


def test_secret_appears_in_no_part_of_an_error(store, script):
    script.say(403)

    with pytest.raises(AccessError) as caught:
        run(store.get("a"))

    chain, error = [], caught.value
    while error is not None:
        chain.append(f"{error!r} {error} {error.__dict__}")
        error = error.__cause__ or error.__context__
    assert SECRET not in "".join(chain)
    assert SECRET not in repr(store)


def test_http_is_read_only(endpoint, script):
    store = ObjectStore(f"{endpoint}/lake")
    script.say(b"0123456789")

    assert bytes(run(store.get_range("a", 0, 10))) == b"0123456789"
    for request in (store.put_if_absent("a", b"1"), store.put("a", b"1"), store.delete("a")):
        with pytest.raises(UnsupportedStoreError, match="read only"):
            run(request)
    with pytest.raises(UnsupportedStoreError, match="cannot be listed"):
        run(anext(store.list("")))
    assert len(script.seen) == 1


def test_cancelled_read_frees_its_place(store, script):
    script.say("hang")

    async def scenario() -> int:
        reading = asyncio.ensure_future(store.get_range("a", 0, 10))
        await asyncio.to_thread(script.arrived.wait, 60)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        script.answers.clear()
        script.say(b"0123456789")
        return len(await store.get_range("a", 0, 10))

    assert asyncio.run(scenario()) == 10
