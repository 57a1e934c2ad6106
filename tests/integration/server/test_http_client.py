"""Requests over HTTP, and a store's reads, against servers that answer as a test says."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.storage import LakeStore, RetryPolicy, run
from tensorlake.storage.http.client import HttpClient
from tensorlake.storage.http.types import Answer, AttemptError

PATIENCE_S = 60.0
QUICK = RetryPolicy(attempts=3, first_delay_s=0.001, max_delay_s=0.001)


@dataclass
class Script:
    """Answers each request with the next of its answers, piece by piece, and notes what it saw."""

    answers: list[list[bytes]]
    requests: list[str] = field(default_factory=list[str])
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    was_left: asyncio.Event = field(default_factory=asyncio.Event)
    num_connections: int = 0
    num_open: int = 0
    most_open: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            self.num_open -= 1
            self.was_left.set()
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", request)
            await reader.readexactly(0 if length is None else int(length[1]))
            self.requests.append(request.decode())
            self.was_asked.set()
            for piece in self.answers.pop(0):
                if piece in (SILENCE, END):
                    if piece == SILENCE:
                        await reader.read()  # until the client goes
                    return
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)


SILENCE = b"(nothing more)"
END = b"(the connection ends)"
ENDS = b"Connection: close\r\n"


def answer(body: bytes, *headers: str, status: str = "206 Partial Content") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def served(script: Script, **options: Any) -> AsyncGenerator[str]:
    """Serve on a port of its own; yields ``host:port``."""
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, **options)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Asker:
    """A client of one server."""

    def __init__(self, origin: str, **options: Any) -> None:
        self.origin = origin
        self.client = HttpClient(**options)

    async def __call__(self, method: str, path: str, **request: Any) -> Answer:
        return await self.client.ask(method, f"{self.origin}{path}", **request)


def with_client(
    answers: list[list[bytes]], work: Callable[[Asker, Script], Awaitable[Any]], **options: Any
) -> Any:
    async def main() -> Any:
        script = Script(answers)
        async with served(script) as netloc:
            ask = Asker(f"http://{netloc}", **options)
            try:
                return await work(ask, script)
            finally:
                await ask.client.close()

    return asyncio.run(main())


def test_a_body_that_comes_in_pieces_is_whole() -> None:
    body = bytes(range(256)) * 4096
    whole = answer(body, "X-What: pack")
    pieces = [whole[:7], whole[7:40], whole[40:90], whole[90:300_000], whole[300_000:]]

    async def work(ask: Asker, script: Script) -> None:
        found = await ask("GET", "/packs/a%2Fb", headers={"Range": "bytes=0-9"})
        assert (found.status_code, found.reason_phrase) == (206, "Partial Content")
        assert found.headers["x-what"] == "pack"
        assert found.content == body
        assert script.requests[0].startswith("GET /packs/a%2Fb HTTP/1.1\r\nHost: 127.0.0.1:")
        assert "\r\nRange: bytes=0-9\r\n" in script.requests[0]

    with_client([pieces], work)


def test_a_connection_is_kept_for_the_next_request_unless_the_server_ends_it() -> None:
    answers = [[answer(b"1")], [answer(b"2", "Connection: close")], [answer(b"")]]

    async def work(ask: Asker, script: Script) -> list[bytes]:
        found = [await ask("GET", "/a") for _ in range(3)]
        assert script.num_connections == 2
        return [bytes(one.content) for one in found]

    assert with_client(answers, work) == [b"1", b"2", b""]


def test_a_connection_that_nobody_uses_is_ended() -> None:
    async def work(ask: Asker, script: Script) -> None:
        await ask("GET", "/a")
        async with asyncio.timeout(PATIENCE_S):
            await script.was_left.wait()
        assert (await ask("GET", "/b")).content == b"2"
        assert script.num_connections == 2

    with_client([[answer(b"1")], [answer(b"2")]], work, kept_s=0.001)


def test_what_is_known_of_an_object_has_a_length_and_no_body() -> None:
    async def work(ask: Asker, _: Script) -> None:
        for _time in range(2):
            found = await ask("HEAD", "/a", most_nbytes=0)
            assert (found.headers["content-length"], found.content) == ("99999999999", b"")

    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    with_client([[head], [head]], work)


@pytest.mark.parametrize(
    "unusual",
    [
        b"HTTP/1.1 200 OK\r\n" + ENDS + b"Transfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nxx",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n" + ENDS + b"Content-Length: 2\r\n\r\nxx",
    ],
)
def test_servers_may_answer_in_other_ways(unusual: bytes) -> None:
    async def work(ask: Asker, script: Script) -> None:
        assert (await ask("GET", "/a")).content == b"xx"
        assert (await ask("GET", "/b")).content == b"xx"
        asked = [request.split()[1] for request in script.requests]
        assert asked == ["/a", "/a", "/b"], "another client asks again, and from then on alone"

    with_client([[unusual, END]] * 3, work)


@pytest.mark.parametrize(
    "wrong",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 17_000,
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    ],
)
def test_what_is_no_answer_to_a_read_is_a_failed_attempt(wrong: bytes) -> None:
    async def work(ask: Asker, script: Script) -> None:
        with pytest.raises(AttemptError) as caught:
            await ask("GET", "/a", most_nbytes=5)
        assert caught.value.was_sent
        assert (await ask("GET", "/a")).content == b"plain"
        assert script.num_connections == 3, "neither client goes on where it stands"

    with_client([[wrong, SILENCE], [wrong, SILENCE], [answer(b"plain")]], work)


def test_a_body_longer_than_was_asked_for_is_refused_and_its_connection_ended() -> None:
    async def work(ask: Asker, script: Script) -> None:
        with pytest.raises(AttemptError, match="received 99999999999 bytes where 5 were requested"):
            await ask("GET", "/a", most_nbytes=5)
        assert (await ask("GET", "/a")).content == b"plain"
        assert script.num_connections == 2

    long = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    with_client([[long, SILENCE], [answer(b"plain")]], work)


def test_what_follows_a_body_is_not_taken_for_the_next_answer() -> None:
    async def work(ask: Asker, script: Script) -> None:
        assert (await ask("GET", "/a")).content == b"mine"
        assert (await ask("GET", "/b")).content == b"next"
        assert script.num_connections > 1

    mine, next_one = (answer(one, "Connection: close") for one in (b"mine", b"next"))
    with_client([[mine + answer(b"evil"), END], [mine, END], [next_one, END]], work)


def test_bytes_of_an_answer_cannot_be_changed_by_who_is_given_them() -> None:
    async def work(ask: Asker, _: Script) -> None:
        found = memoryview((await ask("GET", "/a")).content)
        with pytest.raises(TypeError, match="read-only"):
            found[0] = 1

    with_client([[answer(b"abc")]], work)


@pytest.mark.parametrize("link", ["/a b", "/a\r\nX-Evil: 1", "/a\n\nGET /evil", "/ä#"])
def test_an_address_that_is_no_address_adds_nothing_to_a_request(link: str) -> None:
    async def work(ask: Asker, script: Script) -> None:
        with suppress(AttemptError, ValueError):
            await ask("GET", link)
        lines = [line for one in script.requests for line in one.splitlines()]
        assert not any(line.startswith(("X-Evil", "GET /evil")) for line in lines)

    with_client([[answer(b"x")]], work)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nCont", answer(b"0123456789")[:-1]])
def test_an_answer_that_breaks_off_is_a_failed_attempt(begun: bytes) -> None:
    async def work(ask: Asker, _: Script) -> None:
        with pytest.raises(AttemptError) as caught:
            await ask("GET", "/a")
        assert caught.value.was_sent

    with_client([[begun, END]], work)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_request_goes_out_once_whatever_becomes_of_it(method: str) -> None:
    async def work(ask: Asker, script: Script) -> None:
        await ask("GET", "/first")
        with pytest.raises(AttemptError):
            await ask(method, "/a", data=b"body")
        await ask("GET", "/last")
        asked = [request.split()[1] for request in script.requests]
        assert asked == ["/first", "/a", "/last"]

    with_client([[answer(b"")], [END], [answer(b"")]], work)


def test_no_redirect_is_followed() -> None:
    moved = answer(b"", "Location: http://127.0.0.1:1/elsewhere", status="307 Temporary Redirect")

    async def work(ask: Asker, _: Script) -> None:
        assert (await ask("GET", "/a")).status_code == 307

    with_client([[moved]], work)


def test_nobody_there_means_that_nothing_was_sent() -> None:
    async def main() -> None:
        ask = Asker("http://127.0.0.1:1")
        with pytest.raises(AttemptError) as caught:
            await ask("GET", "/a")
        assert not caught.value.was_sent
        await ask.client.close()

    asyncio.run(main())


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200", answer(b"0123456789")[:-1]])
def test_a_server_that_says_no_more_is_given_up(begun: bytes) -> None:
    async def work(ask: Asker, _: Script) -> None:
        with pytest.raises(AttemptError) as caught:
            await ask("GET", "/a")
        assert caught.value.status == 408

    with_client([[begun, SILENCE]], work, timeout_s=0.05)


def test_a_cancelled_read_leaves_its_answer_to_nobody() -> None:
    async def work(ask: Asker, script: Script) -> None:
        late = asyncio.ensure_future(ask("GET", "/late"))
        async with asyncio.timeout(PATIENCE_S):
            await script.was_asked.wait()
        late.cancel()
        await asyncio.wait([late])

        found = await ask("GET", "/next")

        assert late.cancelled()
        assert found.content == b"next"

    with_client([[answer(b"late")[:-1], SILENCE], [answer(b"next")]], work)


def test_no_more_connections_are_open_than_the_limit() -> None:
    async def work(ask: Asker, script: Script) -> None:
        found = await asyncio.gather(*(ask("GET", f"/{n}") for n in range(20)))
        assert {bytes(one.content) for one in found} == {b"x"}
        assert script.most_open <= 3

    with_client([[answer(b"x")] for _ in range(20)], work, limit=3)


def test_bytes_come_through_tls(tmp_path: Path) -> None:
    body = bytes(range(256)) * 8192
    certificate, key = certify(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate, key)

    async def main() -> None:
        script = Script([[answer(body)], [answer(b"again")]])
        async with served(script, ssl=ours) as netloc:
            trusting = Asker(
                f"https://{netloc}", context=ssl.create_default_context(cafile=str(certificate))
            )
            assert (await trusting("GET", "/a", most_nbytes=len(body))).content == body
            assert (await trusting("GET", "/a")).content == b"again"
            await trusting.client.close()

            other = Asker(f"https://{netloc}")
            with pytest.raises(AttemptError, match="SSLCertVerificationError") as caught:
                await other("GET", "/a")
            assert not caught.value.was_sent
            await other.client.close()

    asyncio.run(main())


WITH_A_CHILD = """
import os
import sys
import threading

from tensorlake.storage import LakeStore, run

store = LakeStore(sys.argv[1])


def ask():
    assert run(store.get("a")) == b"x"
    assert run(store.ask("query", {}, accept="*/*")) == b"x"


ask()
child = os.fork()
if child == 0:
    ask()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
ask()
"""


@pytest.mark.slow
def test_processes_that_used_a_server_end_in_silence_a_forked_one_too() -> None:
    async def main() -> tuple[bytes, bytes]:
        script = Script([[answer(b"x", status="200 OK")] for _ in range(6)])
        async with served(script) as netloc:
            process = await asyncio.create_subprocess_exec(
                # Not -X dev: asyncio would say of every step that a busy machine made it slow.
                *(sys.executable, "-W", "default", "-c", WITH_A_CHILD, f"http://{netloc}/pets"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(PATIENCE_S):
                said = await process.communicate()
            assert process.returncode == 0, said
            return said

    assert asyncio.run(main()) == (b"", b"")


def certify(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1, and its key."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def test_a_store_reads_what_is_not_plain_too() -> None:
    chunked = b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    found = run(_with_store([[chunked + chunks]] * 2, lambda store: store.get_range("a", 0, 5)))

    assert bytes(found) == b"abcde"


def test_a_store_tries_again_where_the_server_is_busy_or_breaks_off() -> None:
    busy, broken = answer(b"", status="503 Service Unavailable"), answer(b"abcde")[:-2]
    answers = [[busy], [broken, END], [answer(b"abcde")]]

    found = run(_with_store(answers, lambda store: store.get_range("a", 0, 5)))

    assert bytes(found) == b"abcde"


def test_a_token_that_no_header_can_hold_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInputError, match="token") as caught:
        LakeStore("http://127.0.0.1:1/pets", "s3cret\r\nX-Evil: 1")

    assert "s3cret" not in str(caught.value)


def _with_store(
    answers: list[list[bytes]], work: Callable[[LakeStore], Coroutine[Any, Any, Any]]
) -> Coroutine[Any, Any, Any]:
    async def main() -> Any:
        script = Script([*answers])
        async with served(script) as netloc:
            return await work(LakeStore(f"http://{netloc}/pets", "t", policy=QUICK))

    return main()
