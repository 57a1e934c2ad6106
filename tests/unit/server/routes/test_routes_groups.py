"""Small appends of clients that come together share a commit; each is answered on its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import tensorlake as tl
from tensorlake.dataset import Dataset, Member, WorkKey, commit_members
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

WRITERS = 16
KEY = WorkKey("k", "digest")
APPEND = "/v1/datasets/pets/transactions"


def member(values: list[Any], **about: Any) -> Member:
    def stage(dataset: Dataset) -> None:
        dataset.extend({"x": values})

    return Member(stage, **about)


@pytest.fixture
def pets(tmp_path: Path) -> str:
    url = str(tmp_path / "lake/pets")
    tl.create(url, {"x": "int64"}, durability="none").close()
    return url


@pytest.fixture
def served(pets: str) -> Iterator[Callable[..., httpx.Response]]:
    """Sends an append; the server waits long for a group, so that few commits are needed."""
    lake = str(Path(pets).parent)
    app = create_app(Settings(url=lake, write=True, token="t", group_wait_s=0.2))
    with listening(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        client.headers["Authorization"] = "Bearer t"

        def append(*values: Any, **about: Any) -> httpx.Response:
            operations = [{"op": "append", "columns": {"x": list(values)}}]
            return client.post(APPEND, json={"operations": operations, **about})

        yield append


def values(url: str) -> list[int]:
    with tl.open(url, read_only=True) as ds:
        return ds["x"][:].tolist()


def at_once(calls: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    start = threading.Barrier(len(calls))

    def call(one: Callable[[], httpx.Response]) -> httpx.Response:
        start.wait()
        return one()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, calls))


def test_appends_that_come_together_are_one_commit(
    pets: str, served: Callable[..., httpx.Response]
) -> None:
    served(0)

    answers = at_once([partial(served, n, message=f"row {n}") for n in range(1, WRITERS)])

    versions = {one.json()["version"] for one in answers}
    assert {one.status_code for one in answers} == {200}
    assert sorted(values(pets)) == list(range(WRITERS))
    assert len(versions) < WRITERS / 2


def test_an_append_that_is_refused_fails_alone(
    pets: str, served: Callable[..., httpx.Response]
) -> None:
    answers = at_once([partial(served, 1), partial(served, "one"), partial(served, 2)])

    assert [one.status_code for one in answers] == [200, 400, 200]
    assert sorted(values(pets)) == [1, 2]


def test_a_key_that_was_sent_twice_at_once_is_committed_once(
    pets: str, served: Callable[..., httpx.Response]
) -> None:
    answers = at_once([partial(served, 7, key="job") for _ in range(4)])

    assert values(pets) == [7]
    assert {one.json()["version"] for one in answers} == {"main@1"}
    assert sum(not one.json()["is_repeated"] for one in answers) == 1
    assert served(7, key="job").json()["is_repeated"] is True


def test_a_key_of_other_rows_is_refused_and_none_is_dropped_silently(
    pets: str, served: Callable[..., httpx.Response]
) -> None:
    answers = at_once([partial(served, n, key="job") for n in (7, 7, 8, 9)])

    (kept,) = values(pets)
    applied = [one.status_code == 200 for one in answers]
    assert applied == [n == kept for n in (7, 7, 8, 9)]
    refused = next(one for one in answers if one.status_code != 200)
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid-state")
    assert "the key 'job' is that of main@1" in refused.json()["detail"]
    assert served(100, key="job").status_code == 409
    assert served(kept, key="job", message="lost").json()["is_repeated"] is True


def test_a_key_whose_first_rows_were_refused_is_free(pets: str) -> None:
    with tl.open(pets) as ds:
        wrong = member(["one"], key=KEY)
        found = commit_members(ds, [wrong, member([2], key=WorkKey("k", "another digest"))])

    assert [one.error is None for one in found] == [False, True]
    assert values(pets) == [2]


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_a_key_that_is_no_text_is_refused(key: str) -> None:
    with pytest.raises(tl.InvalidInputError, match="the key"):
        WorkKey(key, "digest")


def test_a_group_goes_on_after_its_dataset_was_created_again(
    pets: str, served: Callable[..., httpx.Response]
) -> None:
    assert served(1).status_code == 200
    tl.delete(pets, confirm=pets)
    gone = served(2)
    tl.create(pets, {"x": "int64"}, durability="none").close()

    assert gone.status_code == 404
    assert served(3).status_code == 200
    assert values(pets) == [3]


def test_a_branch_that_is_missing_is_not_found(served: Callable[..., httpx.Response]) -> None:
    assert served(1, branch="nothing").status_code == 404


def test_a_group_has_the_keys_authors_and_messages_of_its_members(pets: str) -> None:
    with tl.open(pets) as ds:
        found = commit_members(
            ds,
            [
                member([1, 2], author="ana", message="two", key=WorkKey("a", "1")),
                member([3], author="bob", message="one", key=WorkKey("b", "1")),
            ],
        )
        (commit,) = ds.log(1)

    assert [one.commit and one.commit.version for one in found] == ["main@1", "main@1"]
    assert commit.meta["members"] == [
        {"author": "ana", "message": "two", "rows": 2},
        {"author": "bob", "message": "one", "rows": 1},
    ]
    assert commit.author == "ana, bob"


def test_members_that_break_a_constraint_together_are_published_alone(pets: str) -> None:
    with tl.open(pets) as ds:
        ds.add_check("small", "x < 10")
        ds.commit("a check")
        found = commit_members(ds, [member([1]), member([99]), member([2])])

    assert [one.error is None for one in found] == [True, False, True]
    assert isinstance(found[1].error, tl.ConstraintError)
    assert values(pets) == [1, 2]


def test_a_member_that_another_server_published_is_not_published_again(pets: str) -> None:
    with tl.open(pets) as ours, tl.open(pets) as theirs:

        def stage(dataset: Dataset) -> None:
            dataset.extend({"x": [1]})
            if len(theirs) == 0:  # between our look for the key and our commit
                commit_members(theirs, [member([1], key=KEY, message="theirs")])

        found = commit_members(ours, [Member(stage, key=KEY), member([2])])

    assert sorted(values(pets)) == [1, 2]
    assert [one.commit and one.commit.version for one in found] == ["main@1", "main@2"]


@pytest.mark.parametrize("theirs_first", [True, False])
def test_a_key_that_another_server_took_for_other_rows_is_refused(
    pets: str, *, theirs_first: bool
) -> None:
    other = WorkKey("k", "another digest")
    with tl.open(pets) as ours, tl.open(pets) as theirs:

        def publish() -> None:
            if len(theirs) == 0:
                commit_members(theirs, [member([1], key=other)])

        def stage(dataset: Dataset) -> None:
            dataset.extend({"x": [7]})
            publish()  # between our look for the key and our commit

        if theirs_first:
            publish()
        found = commit_members(ours, [Member(stage, key=KEY), member([2])])

    assert sorted(values(pets)) == [1, 2]
    assert isinstance(found[0].error, tl.InvalidStateError)
    assert found[1].commit is not None


def test_a_member_without_rows_is_answered_by_the_newest_version(pets: str) -> None:
    with tl.open(pets) as ds:
        (found,) = commit_members(ds, [member([])])

    assert found.commit is not None
    assert found.commit.version == "main@0"
