"""Flows without their engine: the database, the files that are watched, arguments."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake import flows
from tensorlake.errors import InvalidInputError


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TENSORLAKE_FLOWS", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tensorlake.workloads.flows.database._chosen", {})


def test_the_database_is_a_file_here_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert flows.connect() == f"sqlite:///{tmp_path}/tensorlake-flows.sqlite"

    monkeypatch.setenv("TENSORLAKE_FLOWS", "postgresql://me@host/flows")
    assert flows.connect() == "postgresql://me@host/flows"

    assert flows.connect(tmp_path / "other.sqlite") == f"sqlite:///{tmp_path}/other.sqlite"
    assert flows.connect() == f"sqlite:///{tmp_path}/other.sqlite"


@pytest.mark.parametrize("given", ["", "s3://bucket/flows", "mysql://host/x", "a\0b", 5, True])
def test_a_database_of_another_kind_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="postgresql://user@host/name"):
        flows.connect(given)


def test_a_watch_sees_files_that_are_new_changed_or_gone(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    watched = flows.watch(folder)
    assert watched.digest() is None

    (folder / "a.txt").write_text("a")
    first = watched.digest()
    assert first is not None
    assert watched.digest() == first
    (folder / "a.txt").write_text("other")
    changed = watched.digest()
    (folder / "b.txt").write_text("b")
    assert len({first, changed, watched.digest()}) == 3
    (folder / "a.txt").unlink()
    (folder / "b.txt").unlink()
    assert watched.digest() is None


def test_arguments_are_checked_before_the_engine_is_needed() -> None:
    for call, words in [
        (lambda: flows.watch("in", every_s=0), "give seconds, more than 0"),
        (lambda: flows.watch("in", every_s=float("nan")), "give seconds, more than 0"),
        (lambda: flows.step(retries=-1), "must be an integer >= 0"),
        (lambda: flows.step(wait_s=-1.0), "wait_s=-1.0: give a finite number of at least 0"),
        (lambda: flows.step(wait_s=float("inf")), "wait_s=inf: give a finite number"),
        (lambda: flows.step(backoff=True), "backoff=True: give a finite number"),
        (lambda: flows.flow(name=3), "name=3: give a name, as text"),  # pyright: ignore[reportCallIssue, reportArgumentType] - wrong on purpose
        (lambda: flows.start("f", lambda: 1), "an argument of flow 'f' cannot be pickled"),
        (lambda: flows.flow(on="in/"), "give flows.watch"),  # pyright: ignore[reportCallIssue, reportArgumentType] - wrong on purpose
        (lambda: flows.start(""), "give a flow or its name"),
        (lambda: flows.list(limit=0), "must be an integer >= 1"),
        (lambda: flows.approve("x", decision=1), "give True or False"),  # pyright: ignore[reportArgumentType] - likewise
    ]:
        with pytest.raises(InvalidInputError, match=words):
            call()


async def _awaits() -> None: ...


def _yields() -> Iterator[int]:
    yield 1


async def _yields_later() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [_awaits, _yields, _yields_later])
@pytest.mark.parametrize(
    ("decorate", "kind"),
    [(flows.step, "step"), (flows.flow, "flow"), (flows.flow(name="x"), "flow")],
)
def test_what_a_call_only_prepares_is_no_step_and_no_flow(
    decorate: Any, kind: str, function: Any
) -> None:
    with pytest.raises(InvalidInputError, match=f"a {kind} is a plain function, and _.* is async"):
        decorate(function)


def test_the_names_of_flows_are_found_on_tensorlake() -> None:
    assert tl.flows is flows
    assert {*flows.__all__} >= {"flow", "step", "watch", "start", "list", "inspect", "retry"}
    assert {*flows.__all__} >= {"cancel", "approve", "approval", "key", "run", "connect"}
