"""Whatever the OpenAPI document allows, and what lies just outside: nothing fails the server."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import schemathesis
import simplejpeg
from hypothesis import HealthCheck, Phase, given, settings

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

UNSUPPORTED = 501
TOKEN = "any-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
ENDLESS = "/v1/datasets/{name}/events"  # waits for commits, by default
FEW, MANY = 1, 40


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    lake = tmp_path_factory.mktemp("asked")
    ds = tl.create(
        str(lake / "pets"),
        {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"]), "score": "float32"},
        durability="none",
    )
    picture = simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8))
    ds.extend({"image": [picture] * 4, "label": [0, 1, 0, 1], "score": np.arange(4.0)})
    ds.commit("four")
    app = create_app(Settings(url=str(lake), token=TOKEN, write=True, max_requests_per_s=1e6))
    with listening(app) as url:
        yield url


def ask_everything(address: str, examples: int) -> dict[str, set[int]]:
    """Ask each operation so often; the statuses, by operation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schemathesis' own
        document = schemathesis.openapi.from_url(f"{address}/v1/openapi.json", headers=HEADERS)
        operations = [found.ok() for found in document.get_all_operations()]
    seen: dict[str, set[int]] = {}
    for operation in operations:
        if operation.path == ENDLESS:
            continue
        seen[f"{operation.method} {operation.path}"] = ask_one(address, operation, examples)
    return seen


def ask_one(address: str, operation: Any, examples: int) -> set[int]:
    statuses: set[int] = set()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        if "name" in case.path_parameters:
            case.path_parameters["name"] = "pets"
        answer = case.call(base_url=address, headers=HEADERS)
        statuses.add(answer.status_code)
        is_ours = answer.status_code >= 500 and answer.status_code != UNSUPPORTED
        assert not is_ours, f"{case.as_curl_command()}: {answer.status_code} {answer.text}"

    ask()
    return statuses


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_request_that_the_document_allows_fails_the_server(address: str) -> None:
    seen = ask_everything(address, FEW)

    assert len(seen) > 25


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_no_request_of_very_many_fails_the_server(address: str) -> None:
    seen = ask_everything(address, MANY)

    assert len(seen) > 25
