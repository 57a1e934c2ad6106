"""A client that openapi-python-client makes of the server's document logs in, reads and writes."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

pytest.importorskip("openapi_python_client")

from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tensorlake_server.http.examples import BODIES
from tests.support.serving import listening

pytestmark = pytest.mark.extras

PACKAGE = "lake_client"
BINARY = (
    "application/x-npz",
    "application/vnd.apache.arrow.stream",
    "application/vnd.tensorlake.frames",
)
MAKE_S = 300


@dataclass
class Made:
    address: str
    tokens: dict[str, str]
    said: str

    def module(self, path: str) -> ModuleType:
        return importlib.import_module(f"{PACKAGE}.{path}")

    def client(self, token: str) -> Any:
        return self.module("client").AuthenticatedClient(base_url=self.address, token=token)

    def call(self, name: str, scope: str, *args: Any, body: dict[str, Any] | None = None) -> Any:
        """The answer of an operation, its body made by the class that the client has for it."""
        root = Path(self.module("api").__path__[0])
        (found,) = root.glob(f"*/{name}.py")
        operation = self.module(f"api.{found.parent.name}.{name}").sync_detailed
        keywords = {}
        if body is not None:
            kind = get_type_hints(operation)["body"]
            kinds = [one for one in get_args(kind) or (kind,) if hasattr(one, "from_dict")]
            keywords["body"] = kinds[0].from_dict(body)
        with self.client(self.tokens[scope]) as client:
            return operation(*args, client=client, **keywords)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    root = tmp_path_factory.mktemp("generated")
    auth, now = root / "tokens.json", datetime.now(UTC)
    scopes = ("admin", "read:pets", "read:cars")
    tokens = {
        one: create_token(auth, name="gen", scopes=[one], expires=None, now=now)[0]
        for one in scopes
    }
    app = create_app(Settings(url=str(root / "lake"), auth=auth, write=True))
    (root / "api.json").write_text(json.dumps(app.openapi()))
    overrides = dict.fromkeys(BINARY, "application/octet-stream")
    config = {"content_type_overrides": overrides, "post_hooks": []}
    (root / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", "api.json", "--config", "config.json", "--output-path", PACKAGE]
    run = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=MAKE_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    sys.path.insert(0, str(root))
    with listening(app) as address:
        yield Made(address, tokens, run.stdout + run.stderr)
    sys.path.remove(str(root))


def test_the_generator_leaves_nothing_out(made: Made) -> None:
    assert "WARNING" not in made.said, made.said
    operations = {path.stem for path in Path(made.module("api").__path__[0]).glob("*/*.py")}
    known = (Path(__file__).parents[3] / "tests/unit/server/http/operations.txt").read_text()
    assert set(known.split()) <= operations


def test_the_client_logs_in_writes_and_reads(made: Made) -> None:
    create = made.call("create_dataset", "admin", body=BODIES["create_dataset"])
    write = made.call("commit_transaction", "admin", "pets", body=BODIES["commit_transaction"])
    found = made.call("run_query", "read:pets", "pets", body=BODIES["run_query"])

    assert write.status_code == 200, write.content
    assert (create.status_code, found.status_code) == (201, 200)
    assert write.parsed.version == "main@1"
    assert found.parsed.rows == 1
    assert found.parsed.page.rows[0].additional_properties["label"] == 1  # dog
    assert made.call("describe_dataset", "read:pets", "pets").parsed.rows == 2


def test_a_refusal_is_the_problem_that_the_document_describes(made: Made) -> None:
    with made.client("tl_wrong") as wrong:
        listing = made.module("api.datasets.list_datasets").sync_detailed(client=wrong)
    hidden = made.call("describe_dataset", "read:cars", "pets")
    forbidden = made.call("create_tag", "read:pets", "pets", body=BODIES["create_tag"])

    assert listing.status_code == 401
    assert (hidden.status_code, json.loads(hidden.content)["code"]) == (404, "dataset-not-found")
    assert forbidden.status_code == 403
