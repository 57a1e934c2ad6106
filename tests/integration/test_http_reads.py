"""Reads of objects over HTTP, against servers that say whatever a test has them say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.storage import LakeStore, RetryPolicy, run
from tensorlake.storage.http_reads import AttemptError, HttpReads

PATIENCE_S = 60.0
QUICK = RetryPolicy(attempts=3, first_delay_s=0.001, max_delay_s=0.001)


@dataclass
class Script:
    """Answers each request with the next of its answers, piece by piece, and notes what it saw."""

    answers: list[list[bytes]]
    requests: list[str] = field(default_factory=list[str])
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
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
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
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


def answer(body: bytes, *headers: str, status: str = "206 Partial Content") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def served(script: Script, **options: Any) -> AsyncGenerator[str]:
    """Serve on a port of its own; yields ``host:port``."""
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, **options)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def reads_of(netloc: str, *, limit: int = 4, timeout_s: float = PATIENCE_S) -> HttpReads:
    return HttpReads(
        f"http://{netloc}",
        headers={"authorization": "Bearer t"},
        limit=limit,
        timeout_s=timeout_s,
        connect_timeout_s=PATIENCE_S,
    )


def with_reads(
    answers: list[list[bytes]], work: Callable[[HttpReads, Script], Awaitable[Any]], **options: Any
) -> Any:
    async def main() -> Any:
        script = Script(answers)
        async with served(script) as netloc:
            reads = reads_of(netloc, **options)
            try:
                return await work(reads, script)
            finally:
                reads.close()

    return asyncio.run(main())


def test_a_body_that_comes_in_pieces_is_whole() -> None:
    body = bytes(range(256)) * 4096
    whole = answer(body, "X-What: pack")
    pieces = [whole[:7], whole[7:40], whole[40:90], whole[90:300_000], whole[300_000:]]

    async def work(reads: HttpReads, script: Script) -> None:
        found = await reads.read("GET", "/packs/a", {"range": "bytes=0-9"}, nbytes=len(body))
        assert found is not None
        assert (found.status_code, found.reason_phrase) == (206, "Partial Content")
        assert found.headers["x-what"] == "pack"
        assert found.content == body
        assert script.requests[0].startswith("GET /packs/a HTTP/1.1\r\nhost: 127.0.0.1:")
        assert "\r\nauthorization: Bearer t\r\nrange: bytes=0-9\r\n" in script.requests[0]

    with_reads([pieces], work)


def test_a_connection_is_kept_for_the_next_request_unless_the_server_ends_it() -> None:
    answers = [[answer(b"1")], [answer(b"2", "Connection: close")], [answer(b"")]]

    async def work(reads: HttpReads, script: Script) -> list[bytes]:
        found = [await reads.read("GET", "/a", {}) for _ in range(3)]
        assert script.num_connections == 2
        return [bytes(one.content) for one in found if one is not None]

    assert with_reads(answers, work) == [b"1", b"2", b""]


def test_what_is_known_of_an_object_has_a_length_and_no_body() -> None:
    async def work(reads: HttpReads, _: Script) -> None:
        found = [await reads.read("HEAD", "/a", {}) for _ in range(2)]
        assert [one and (one.headers["content-length"], bytes(one.content)) for one in found] == [
            ("70", b""),
            ("70", b""),
        ]

    head = b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"
    with_reads([[head], [head]], work)


@pytest.mark.parametrize(
    "unusual",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the connection ends",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxxx and more",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 17_000,
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_plain_is_left_to_another_client(unusual: bytes) -> None:
    async def work(reads: HttpReads, script: Script) -> None:
        assert await reads.read("GET", "/a", {}) is None
        again = await reads.read("GET", "/a", {})
        assert again is not None
        assert again.content == b"plain"
        assert script.num_connections == 2

    with_reads([[unusual, SILENCE], [answer(b"plain")]], work)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nCont", answer(b"0123456789")[:-1]])
def test_an_answer_that_breaks_off_is_a_failed_attempt(begun: bytes) -> None:
    async def work(reads: HttpReads, _: Script) -> None:
        with pytest.raises(AttemptError) as caught:
            await reads.read("GET", "/a", {})
        assert caught.value.was_sent

    with_reads([[begun, END]], work)


def test_nobody_there_means_that_nothing_was_sent() -> None:
    async def main() -> None:
        with pytest.raises(AttemptError) as caught:
            await reads_of("127.0.0.1:1").read("GET", "/a", {})
        assert not caught.value.was_sent

    asyncio.run(main())


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200", answer(b"0123456789")[:-1]])
def test_a_server_that_says_no_more_is_given_up(begun: bytes) -> None:
    async def work(reads: HttpReads, _: Script) -> None:
        with pytest.raises(AttemptError) as caught:
            await reads.read("GET", "/a", {})
        assert caught.value.status == 408

    with_reads([[begun, SILENCE]], work, timeout_s=0.05)


def test_a_cancelled_read_leaves_its_answer_to_nobody() -> None:
    async def work(reads: HttpReads, script: Script) -> None:
        late = asyncio.ensure_future(reads.read("GET", "/late", {}))
        async with asyncio.timeout(PATIENCE_S):
            await script.was_asked.wait()
        late.cancel()
        await asyncio.wait([late])

        found = await reads.read("GET", "/next", {})

        assert late.cancelled()
        assert found is not None
        assert found.content == b"next"

    with_reads([[answer(b"late")[:-1], SILENCE], [answer(b"next")]], work)


def test_no_more_connections_are_open_than_the_limit() -> None:
    async def work(reads: HttpReads, script: Script) -> None:
        found = await asyncio.gather(*(reads.read("GET", f"/{n}", {}) for n in range(20)))
        assert {one and bytes(one.content) for one in found} == {b"x"}
        assert script.most_open <= 3

    with_reads([[answer(b"x")] for _ in range(20)], work, limit=3)


def test_bytes_come_through_tls(tmp_path: Path) -> None:
    body = bytes(range(256)) * 8192
    certificate, key = certify(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(certificate, key)

    async def main() -> None:
        script = Script([[answer(body)], [answer(b"again")]])
        async with served(script, ssl=ours) as netloc:
            trusting = ssl.create_default_context(cafile=str(certificate))
            for context in (trusting, ssl.create_default_context()):
                reads = HttpReads(
                    f"https://{netloc}",
                    headers={},
                    limit=2,
                    timeout_s=PATIENCE_S,
                    connect_timeout_s=PATIENCE_S,
                    context=context,
                )
                if context is trusting:
                    found = await reads.read("GET", "/a", {}, nbytes=len(body))
                    again = await reads.read("GET", "/a", {})
                    assert found is not None
                    assert found.content == body
                    assert again is not None
                    assert again.content == b"again"
                else:
                    with pytest.raises(AttemptError, match="SSLCertVerificationError"):
                        await reads.read("GET", "/a", {})
                reads.close()

    asyncio.run(main())


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
