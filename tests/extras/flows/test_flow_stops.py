"""Processes that stop to run flows: they end like any program, and their runs go on in the next."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from tensorlake import flows
from tests.extras.flows.served import postgres
from tests.extras.flows.waiting import WAIT_S, asked, found, until

pytest.importorskip("dbos")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

calls: list[str] = []
begun, left = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def _nothing_happened():
    calls.clear()
    begun.clear()
    left.clear()


@flows.step
def record(text):
    calls.append(text)
    return text


@flows.step
def work_until_another_run_is_interrupted():
    begun.set()
    assert left.wait(WAIT_S)
    calls.append("work")


@flows.flow
def asks_and_leaves():
    try:
        record("before")
        return flows.approval("go on?"), record("after")
    finally:
        left.set()
        record("at the end")


@flows.flow
def works():
    work_until_another_run_is_interrupted()
    record("then")


@flows.flow
def asks_within():
    return record("outer"), asks_and_leaves(), record("last")


@flows.step
def awaits():
    return asyncio.run(asyncio.sleep(0, "awaited"))


@flows.flow
def runs_a_loop():
    return awaits()


@flows.step(retries=0)
def fails_once():
    calls.append("once")
    if calls.count("once") == 1:
        raise PermissionError("not yet")
    return "allowed"


@flows.flow
def fails_inside():
    return fails_once()


@flows.flow
def fails_within():
    return fails_inside(), record("then")


PROGRAM = """
import sys, threading
from tensorlake import flows

how = sys.argv[1]

@flows.step
def note(text):
    return text.upper()

@flows.flow
def notes(text):
    return note(text)

@flows.flow
def asks():
    return flows.approval("go on?"), note("after")

@flows.flow
def asks_within():
    return asks()

def is_waiting():
    return any(one.state == "waiting" for one in flows.list())

if how == "call":
    assert notes("here") == "HERE"
elif how == "run":
    flows.run(until=is_waiting)
elif how == "call while another waits":
    notes("here")
    turn = threading.Event()
    while not is_waiting():
        turn.wait(0.05)
elif how == "until interrupted":
    try:
        flows.run()
    except KeyboardInterrupt:
        print("interrupted")
elif how == "finish":
    flows.run(until=lambda: all(one.state == "done" for one in flows.list()))
"""


def program(database, how):
    environment = {**os.environ, "TENSORLAKE_FLOWS": database, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, how]
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)


def ends(database, how):
    """Run the program; it ends by itself, and without a word."""
    process = program(database, how)
    try:
        _, said = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert (process.returncode, said) == (0, "")


def test_a_program_that_calls_a_flow_ends(tmp_path):
    database = flows.connect(tmp_path / "flows.sqlite")

    ends(database, "call")

    assert [one.state for one in flows.list()] == ["done"]


@pytest.mark.parametrize("how", ["run", "call while another waits"])
@pytest.mark.parametrize("flow", ["asks", "asks_within"])
def test_a_program_ends_while_a_run_waits_and_the_next_one_continues_it(tmp_path, how, flow):
    database = flows.connect(tmp_path / "flows.sqlite")
    run = flows.start(flow)

    for _ in range(2):
        ends(database, how)
        (waiting,) = [one for one in flows.list() if one.state == "waiting"]
        assert waiting.waits_for == "go on?"
    flows.approve(waiting.id)
    ends(database, "finish")

    assert flows.inspect(run.id).result == (True, "AFTER")


def test_a_run_that_waits_is_answered_also_while_it_is_queued_again(tmp_path):
    place = tmp_path / "flows.sqlite"
    flows.connect(place)
    run = flows.start(asks_and_leaves)
    flows.run(until=lambda: flows.inspect(run.id).state == "waiting")
    with sqlite3.connect(place) as database:  # as by a process that is stopped in that moment
        database.execute("UPDATE workflow_status SET status = 'ENQUEUED'")

    waiting = flows.inspect(run.id)
    assert (waiting.state, waiting.waits_for) == ("waiting", "go on?")
    flows.approve(run.id)

    flows.run(until=lambda: flows.inspect(run.id).state == "done")
    assert flows.inspect(run.id).result == (True, "after")


def test_a_program_ends_by_ctrl_c_while_a_run_waits(tmp_path):
    database = flows.connect(tmp_path / "flows.sqlite")
    run = flows.start("asks")
    process = program(database, "until interrupted")
    try:
        until(run.id, "waiting")
        process.send_signal(signal.SIGINT)

        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()
    assert flows.inspect(run.id).state == "waiting"


def test_programs_on_postgresql_end_and_continue_likewise():
    with postgres() as url:
        flows.connect(url)
        run = flows.start("asks")
        ends(url, "run")
        assert flows.inspect(run.id).state == "waiting"
        flows.approve(run.id)

        ends(url, "finish")

        assert flows.inspect(run.id).result == (True, "AFTER")


def test_a_run_that_is_interrupted_calls_no_steps_and_a_step_under_way_is_kept(tmp_path):
    flows.connect(tmp_path / "flows.sqlite")
    waiting, working = flows.start(asks_and_leaves), flows.start(works)

    flows.run(until=lambda: begun.is_set() and flows.inspect(waiting.id).state == "waiting")

    assert calls == ["before", "work"]
    assert not [one for one in threading.enumerate() if "tensorlake-executors" in one.name]
    flows.approve(waiting.id)
    flows.run(until=lambda: all(one.state == "done" for one in flows.list()))
    assert sorted(calls) == ["after", "at the end", "before", "then", "work"]
    assert flows.inspect(working.id).state == "done"


def test_a_flow_in_a_flow_is_a_run_of_its_own(database):
    run = flows.start(asks_within)
    found(run.id, lambda _: bool(flows.list(flow="asks_and_leaves")))
    (inner,) = flows.list(flow="asks_and_leaves")
    asked(inner.id, "go on?")
    flows.approve(inner.id)

    assert until(run.id, "done").result == ("outer", (True, "after"), "last")
    assert calls == ["outer", "before", "after", "at the end", "last"]


def test_a_retry_takes_the_result_of_an_inner_flow_that_was_retried(database):
    run = flows.start(fails_within)
    assert until(run.id, "failed").error == "PermissionError: not yet"
    (inner,) = flows.list(flow="fails_inside")
    flows.retry(inner.id)
    until(inner.id, "done")

    flows.retry(run.id)

    assert until(run.id, "done").result == ("allowed", "then")
    assert calls == ["once", "once", "then"]


def test_a_run_may_wait_through_any_number_of_processes(tmp_path):
    place = tmp_path / "flows.sqlite"
    flows.connect(place)
    run = flows.start(asks_and_leaves)
    flows.run(until=lambda: flows.inspect(run.id).state == "waiting")
    with sqlite3.connect(place) as database:
        database.execute("UPDATE workflow_status SET recovery_attempts = 10000")

    flows.approve(run.id)
    flows.run(until=lambda: flows.inspect(run.id).state in ("done", "failed"))

    assert flows.inspect(run.id).result == (True, "after")


def test_a_step_may_run_what_is_async(database):
    assert runs_a_loop() == "awaited"
