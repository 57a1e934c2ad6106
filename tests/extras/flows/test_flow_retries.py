"""Retries of flows: the step whose error ended a run is called again, and nothing before it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tensorlake import flows
from tensorlake.errors import InvalidStateError
from tests.extras.flows.waiting import asked, until

pytest.importorskip("dbos")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

calls: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _only_the_store_is_broken():
    calls.clear()
    broken.clear()
    broken.add("store")


@flows.step(retries=1, wait_s=0.01)
def note(text):
    calls.append(text)
    if text in broken:
        raise ValueError(f"no {text}\nat all")
    return text.upper()


@flows.step(retries=0)
def refuse(text):
    calls.append(text)
    if text in broken:
        raise InvalidStateError(f"no {text}")
    return text.upper()


@flows.flow
def catches():
    try:
        note("store")
    except ValueError as error:
        caught = str(error)
    else:
        caught = "none"
    note("work")
    first = flows.approval("publish?")
    try:
        note("publish")
    except ValueError:
        flows.approval("clean up?")
        note("clean")
        raise
    return caught, first, flows.approval("clean up?")


@flows.flow
def fails_itself():
    try:
        note("store")
    except ValueError:
        note("work")
    if "code" in broken:
        raise RuntimeError("of the code")
    return note("last")


@flows.flow
def explains():
    try:
        refuse("store")
    except InvalidStateError as error:
        note("clean")
        raise RuntimeError("of the code") from error
    return note("last")


@flows.flow
def says_the_same():
    with suppress(ValueError):
        note("store")
    note("work")
    if "code" in broken:
        raise ValueError("no store")
    return note("last")


@flows.flow
def falls_back():
    try:
        return refuse("store")
    except InvalidStateError:
        return note("other store")


def test_a_retry_repeats_the_step_that_ended_the_run_and_no_error_that_was_caught(database):
    broken.add("publish")
    try:
        run = flows.start(catches)
        asked(run.id, "publish?")
        flows.approve(run.id)
        asked(run.id, "clean up?")
        flows.approve(run.id)
        failed = until(run.id, "failed")
    finally:
        broken.remove("publish")
    assert failed.error == "ValueError: no publish"
    assert calls == ["store", "store", "work", "publish", "publish", "clean"]

    flows.retry(run.id)
    asked(run.id, "clean up?")  # the answer of the attempt that failed is none to this one
    flows.approve(run.id, decision=False)

    assert until(run.id, "done").result == ("no store\nat all", True, False)
    assert calls[6:] == ["publish"]


def test_a_retry_after_an_error_of_the_code_repeats_no_step(database):
    broken.add("code")
    try:
        failed = until(flows.start(fails_itself).id, "failed")
    finally:
        broken.remove("code")
    assert failed.error == "RuntimeError: of the code"

    flows.retry(failed.id)

    assert until(failed.id, "done").result == "LAST"
    assert calls == ["store", "store", "work", "last"]


def test_a_retry_of_an_error_that_was_raised_from_that_of_a_step_repeats_the_step(database):
    failed = until(flows.start(explains).id, "failed")
    assert failed.error == "RuntimeError: of the code"
    assert calls == ["store", "clean"]
    flows.retry(failed.id)
    until(failed.id, "failed")
    assert calls == ["store", "clean", "store", "clean"]
    broken.clear()

    flows.retry(failed.id)

    assert until(failed.id, "done").result == "LAST"
    assert calls[4:] == ["store", "last"]


def test_an_error_of_the_code_is_not_taken_for_that_of_a_step_with_its_words(database):
    broken.add("code")
    failed = until(flows.start(says_the_same).id, "failed")
    broken.remove("code")
    assert failed.error == "ValueError: no store"

    flows.retry(failed.id)

    assert until(failed.id, "done").result == "LAST"
    assert calls == ["store", "store", "work", "last"]


def test_a_retry_after_a_caught_error_and_another_one_repeats_the_other_only(database):
    broken.add("other store")
    failed = until(flows.start(falls_back).id, "failed")
    assert failed.error == "ValueError: no other store"
    broken.clear()

    flows.retry(failed.id)

    assert until(failed.id, "done").result == "OTHER STORE"
    assert calls == ["store", "other store", "other store", "other store"]
