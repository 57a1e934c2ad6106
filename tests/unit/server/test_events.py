"""Server-sent events of new commits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from tensorlake_server import Settings

EVENTS = "/v1/datasets/pets/events"


def ids(answer: httpx.Response) -> list[str]:
    lines = answer.text.splitlines()
    return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


def test_events_are_the_commits_after_a_version(client: httpx.Client) -> None:
    answer = client.get(EVENTS, params={"after": "main@1", "wait": "false"})

    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert ids(answer) == ["main@2", "main@3"]
    data = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert json.loads(data[0].removeprefix("data: "))["message"] == "fix scores"


def test_a_client_that_comes_back_goes_on_where_it_was(client: httpx.Client) -> None:
    answer = client.get(
        EVENTS, params={"after": "main@1", "wait": "false"}, headers={"Last-Event-ID": "main@2"}
    )

    assert ids(answer) == ["main@3"]


def test_without_a_start_only_what_comes_is_sent(client: httpx.Client) -> None:
    assert ids(client.get(EVENTS, params={"wait": "false"})) == []


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"after": "v1"}, 400),
        ({"after": "fix-labels@1"}, 400),
        ({"after": "main@99"}, 404),
        ({"branch": "none"}, 404),
    ],
)
def test_what_is_no_commit_of_the_branch_is_refused(
    client: httpx.Client, params: dict[str, str], status: int
) -> None:
    assert client.get(EVENTS, params={**params, "wait": "false"}).status_code == status


def test_streams_are_bounded_and_give_their_place_back(
    settings: Settings, connect: Callable[..., httpx.Client]
) -> None:
    full = connect(replace(settings, max_streams=0), token=settings.token)
    one = connect(replace(settings, max_streams=1), token=settings.token)

    refused = full.get(EVENTS, params={"wait": "false"})
    served = [one.get(EVENTS, params={"wait": "false"}).status_code for _ in range(3)]

    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
    assert refused.headers["Retry-After"] == "5"
    assert served == [200, 200, 200]


@pytest.mark.parametrize("no_branch", ["v1", "main@1"])
def test_what_never_gets_a_commit_is_not_followed(client: httpx.Client, no_branch: str) -> None:
    answer = client.get(EVENTS, params={"branch": no_branch, "wait": "false"})

    assert (answer.status_code, answer.json()["code"]) == (404, "version-not-found")
    assert "branch=main" in answer.json()["detail"]
