"""A small OpenID issuer, as a process: it signs what it is asked to, and serves its public keys.

    GET  /.well-known/openid-configuration, /jwks
    POST /token  {"claims": …, "header": …, "key": "a"}  ──►  the JWT, signed with that key
    POST /keys   {"listed": ["a", "b"]}                  ──►  the keys that /jwks lists from now on
    GET  /asked                                          ──►  the paths that were asked for

Its keys: ``a`` and ``b`` (RSA), ``ec`` (P-256), ``ed`` (Ed25519), ``weak`` (RSA of 1,024 bits),
``enc`` (RSA, for encryption), ``secret`` (symmetric).
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

STOP_S = 60
ALGORITHM = {"ec": "ES256", "ed": "EdDSA", "secret": "HS256"}
EXTRA = {"enc": {"use": "enc"}, "secret": {"alg": "HS256"}}
SECRET = b"a secret that the issuer should not have listed"


def make_keys() -> dict[str, Any]:
    return {
        "a": rsa.generate_private_key(65537, 2048),
        "b": rsa.generate_private_key(65537, 2048),
        "weak": rsa.generate_private_key(65537, 1024),
        "enc": rsa.generate_private_key(65537, 2048),
        "ec": ec.generate_private_key(ec.SECP256R1()),
        "ed": ed25519.Ed25519PrivateKey.generate(),
        "secret": SECRET,
    }


def public_jwk(name: str, private: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"kid": name, "use": "sig", **EXTRA.get(name, {})}
    if isinstance(private, bytes):
        return {"kty": "oct", "k": base64.urlsafe_b64encode(private).decode(), **found}
    kind = jwt.get_algorithm_by_name(ALGORITHM.get(name, "RS256"))
    return {**kind.to_jwk(private.public_key(), as_dict=True), **found}


def serve() -> None:
    keys, listed, asked = make_keys(), ["a", "ec", "ed", "weak", "enc", "secret"], []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/asked":
                self.answer(asked)
                return
            asked.append(self.path)
            if self.path == "/jwks":
                self.answer({"keys": [public_jwk(one, keys[one]) for one in listed]})
            else:
                self.answer({"issuer": url, "jwks_uri": f"{url}/jwks"})

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/keys":
                listed[:] = given["listed"]
                self.answer(listed)
                return
            name = given["key"]
            header = {"kid": name, **given["header"]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about the weak key, which is the point
                self.answer(
                    jwt.api_jws.encode(
                        given["claims"].encode(),
                        keys[name],
                        algorithm=given["algorithm"] or ALGORITHM.get(name, "RS256"),
                        headers=header,
                    )
                )

        def answer(self, found: Any) -> None:
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    url = f"http://127.0.0.1:{server.server_port}"
    print(url, flush=True)  # noqa: T201 - how its starter learns the port
    server.serve_forever()


@dataclass
class IssuerProcess:
    """The process, for tests."""

    url: str
    http: httpx.Client = field(repr=False)

    def token(
        self,
        claims: dict[str, Any] | str,
        *,
        key: str = "a",
        algorithm: str | None = None,
        **header: Any,
    ) -> str:
        text = claims if isinstance(claims, str) else json.dumps(claims)
        asked = {"claims": text, "key": key, "algorithm": algorithm, "header": header}
        return self.http.post("/token", json=asked).json()

    def list_keys(self, *names: str) -> None:
        self.http.post("/keys", json={"listed": names})

    def jwks(self) -> list[dict[str, Any]]:
        return self.http.get("/jwks").json()["keys"]

    def asked(self) -> list[str]:
        return self.http.get("/asked").json()


@contextmanager
def issuing() -> Iterator[IssuerProcess]:
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"http://\S+", process.stdout.readline().strip())
        assert found is not None, "the issuer did not start"
        with httpx.Client(base_url=found[0], timeout=STOP_S) as http:
            yield IssuerProcess(found[0], http)
    finally:
        process.kill()
        process.wait(STOP_S)
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    serve()
