"""Server-sent events of new commits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tensorlake.errors import TensorlakeError
from tensorlake_server import Settings, create_app
from tensorlake_server.lake.lake import Lake
from tensorlake_server.request.stream_limits import Streams
from tensorlake_server.routes.events import Heads
from tests.unit.server.conftest import HOST, InProcess

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


def test_a_limit_of_streams_is_told_in_its_own_words(settings: Settings) -> None:
    app = create_app(replace(settings, max_streams=3, max_streams_each=2))
    sent = {"Authorization": f"Bearer {settings.token}"}
    client = httpx.Client(transport=InProcess(app), base_url=HOST, headers=sent)
    streams: Streams = app.state.streams

    for who in ("link", "link"):
        assert streams.enter(who)
    own = client.get(EVENTS)
    streams.leave("link")
    assert streams.enter("ana")
    assert streams.enter("ben")
    all_of_them = client.get(EVENTS)

    assert {own.status_code, all_of_them.status_code} == {429}
    assert "2 of yours are under way, the most for one token" in own.json()["detail"]
    assert "3 are under way on this server, its most" in all_of_them.json()["detail"]


@pytest.mark.slow
def test_all_who_follow_a_branch_share_one_poll_of_it(tmp_path: Path) -> None:
    dataset = tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none")
    dataset.append({"x": 1})
    dataset.commit("one")
    heads = Heads(Lake(Settings(url=str(tmp_path))))

    async def follow() -> bool:
        async with heads.follow("pets", "main@1") as head:
            followed.add(id(head))
            return await head.has_after("main@1", timeout_s=60)

    async def follow_all() -> list[bool]:
        waiting = [asyncio.create_task(follow()) for _ in range(20)]
        await asyncio.sleep(0)
        with tl.open(str(tmp_path / "pets"), durability="none") as writer:
            writer.append({"x": 2})
            writer.commit("two")
        return await asyncio.gather(*waiting)

    followed: set[int] = set()

    assert asyncio.run(follow_all()) == [True] * 20
    assert len(followed) == 1


@pytest.mark.slow
def test_who_follows_a_branch_that_is_removed_is_told(tmp_path: Path) -> None:
    tl.create(str(tmp_path / "pets"), {"x": "int64"}, durability="none").close()
    heads = Heads(Lake(Settings(url=str(tmp_path))))

    async def follow() -> None:
        async with heads.follow("pets", "main@0") as head:
            tl.delete(str(tmp_path / "pets"), confirm=str(tmp_path / "pets"))
            await head.has_after("main@0", timeout_s=60)

    with pytest.raises(TensorlakeError):
        asyncio.run(follow())


@pytest.mark.parametrize("no_branch", ["v1", "main@1"])
def test_what_never_gets_a_commit_is_not_followed(client: httpx.Client, no_branch: str) -> None:
    answer = client.get(EVENTS, params={"branch": no_branch, "wait": "false"})

    assert (answer.status_code, answer.json()["code"]) == (404, "version-not-found")
    assert "branch=main" in answer.json()["detail"]
