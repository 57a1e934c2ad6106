"""Flows on DBOS: each step once, whatever stops; runs are listed, retried, cancelled, approved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake import flows
from tensorlake.errors import StorageError
from tests.extras.flows.waiting import WAIT_S, until

pytest.importorskip("dbos")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

calls: list[str] = []
broken = {"store"}
kept: dict[str, str] = {}


@flows.step(retries=1, wait_s=0.01)
def note(text):
    calls.append(text)
    kept[text] = flows.key()
    if text in broken:
        raise ValueError(f"no {text}\nat all")
    return text.upper()


@flows.flow
def notes(*texts):
    return [note(text) for text in texts]


@flows.flow
def asks(what):
    note("before")
    return flows.approval(what), note("after")


@flows.flow
def asks_briefly():
    return flows.approval("soon", timeout_s=0.1)


@flows.flow
def repeats():
    refusals = 0
    while not flows.approval("is it right?"):
        refusals += 1
    return refusals


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


def test_a_flow_is_started_by_name_and_its_steps_are_kept(database):
    started = flows.start("notes", "one", "two")
    assert started.state in ("queued", "running", "done")

    done = until(started.id, "done")

    assert done.result == ["ONE", "TWO"]
    assert [(one.name, one.result, one.error) for one in done.steps] == [
        ("note", "ONE", None),
        ("note", "TWO", None),
    ]
    assert (done.flow, done.arguments) == ("notes", "'one', 'two'")
    assert [one.id for one in flows.list(flow="notes")] == [done.id]
    assert flows.list(flow="none") == []
    assert kept["one"] == f"flow/{done.id}/1"
    assert kept["two"] == f"flow/{done.id}/2"


def test_a_call_of_a_flow_runs_it_here(database):
    assert notes("here") == ["HERE"]
    assert note.__name__ == "note"


def test_a_step_that_fails_is_called_again_and_its_run_is_continued_there(database):
    failed = until(flows.start(notes, "first", "store", "last").id, "failed")

    assert calls == ["first", "store", "store"]
    assert failed.error == failed.steps[1].error == "ValueError: no store"
    broken.clear()
    try:
        flows.retry(failed.id)
        done = until(failed.id, "done")
    finally:
        broken.add("store")
    assert done.result == ["FIRST", "STORE", "LAST"]
    assert calls == ["first", "store", "store", "store", "last"]  # the first one is not repeated
    with pytest.raises(tl.errors.InvalidStateError, match="is done"):
        flows.retry(failed.id)


@pytest.mark.parametrize("decision", [True, False])
def test_an_approval_waits_for_a_person_whose_first_answer_counts(database, decision):
    waiting = until(flows.start(asks, "publish").id, "waiting")

    assert waiting.waits_for == "publish"
    assert "waiting for 'publish'" in str(waiting)
    flows.approve(waiting.id, decision=decision)
    done = until(waiting.id, "done")

    assert done.result == (decision, "AFTER")
    answer = "approved" if decision else "refused"
    with pytest.raises(
        tl.errors.InvalidStateError,
        match=f"waits for no approval: it is done; 'publish' was {answer}",
    ):
        flows.approve(waiting.id)


def test_a_second_answer_names_the_first_also_while_no_process_runs_the_flow(tmp_path):
    flows.connect(tmp_path / "flows.sqlite")
    waiting = flows.start(asks, "publish")
    flows.run(until=lambda: flows.inspect(waiting.id).state == "waiting")

    flows.approve(waiting.id, decision=False)

    with pytest.raises(tl.errors.InvalidStateError, match="not read yet: 'publish' was refused"):
        flows.approve(waiting.id)
    flows.run(until=lambda: flows.inspect(waiting.id).state == "done")
    assert flows.inspect(waiting.id).result == (False, "AFTER")


def test_a_question_that_is_asked_again_is_numbered_also_in_another_process(tmp_path):
    flows.connect(tmp_path / "flows.sqlite")
    run = flows.start(repeats)
    for what, decision in [
        ("is it right?", False),
        ("is it right? (2)", False),
        ("is it right? (3)", True),
    ]:
        flows.run(until=lambda what=what: flows.inspect(run.id).waits_for == what)
        flows.approve(run.id, decision=decision)
    flows.run(until=lambda: flows.inspect(run.id).state == "done")

    done = flows.inspect(run.id)
    assert done.result == 2
    assert done.answers == {
        "is it right?": False,
        "is it right? (2)": False,
        "is it right? (3)": True,
    }


def answered(id_, decision, together):
    """Answer when the others do; return the decision, and the error if there is one."""
    together.wait(WAIT_S)
    try:
        flows.approve(id_, decision=decision)
    except tl.errors.InvalidStateError as error:
        return decision, str(error)
    return decision, None


def test_of_several_who_answer_at_once_one_wins_and_the_others_are_told(database):
    for _ in range(5):
        waiting = until(flows.start(asks, "publish").id, "waiting")
        together = threading.Barrier(6)

        with ThreadPoolExecutor(6) as pool:
            asked = [pool.submit(answered, waiting.id, one % 2 == 0, together) for one in range(6)]
            answers = [one.result() for one in asked]

        (first,) = [decision for decision, error in answers if error is None]
        said = f"'publish' was {'approved' if first else 'refused'}"
        assert all(said in error for _, error in answers if error is not None)
        done = until(waiting.id, "done")
        assert done.result == (first, "AFTER")
        assert done.answers == {"publish": first}


def test_an_approval_may_end_by_itself(database):
    assert until(flows.start(asks_briefly).id, "done").result is False


def test_a_run_that_is_cancelled_ends_and_can_be_continued(database):
    waiting = until(flows.start(asks, "cancelled").id, "waiting")

    assert flows.cancel(waiting.id).state == "cancelled"
    with pytest.raises(tl.errors.InvalidStateError, match="has ended: it is cancelled"):
        flows.cancel(waiting.id)

    flows.retry(waiting.id)
    until(waiting.id, "waiting")
    flows.approve(waiting.id)
    assert until(waiting.id, "done").result == (True, "AFTER")
    assert calls.count("before") == 1


def test_what_does_not_exist_or_runs_nowhere_is_refused(database):
    for call in (flows.inspect, flows.retry, flows.cancel, flows.approve):
        with pytest.raises(tl.errors.NotFoundError, match="there is no flow 'gone'"):
            call("gone")
    with pytest.raises(tl.errors.InvalidStateError, match="none runs here"):
        flows.key()
    with pytest.raises(tl.errors.InvalidStateError, match="none runs here"):
        flows.approval("publish")
    with pytest.raises(tl.errors.InvalidStateError, match="there is a flow 'notes' already"):
        flows.flow(name="notes")(lambda: None)


WATCHED = """
import sys
from tensorlake import flows
folder, out = sys.argv[1:]

@flows.step
def record(prefix):
    with open(out, "a") as file:
        file.write(flows.key() + "\\n")

@flows.flow(on=flows.watch(folder, every_s=0.05))
def arrive(prefix):
    assert prefix == folder
    record(prefix)

flows.run(until=lambda: sum(one.state == "done" for one in flows.list()) == 2)
"""


def test_two_processes_that_watch_start_one_run_for_each_change(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    database = flows.connect(tmp_path / "flows.sqlite")
    flows.list()  # makes the database, which two processes would do at once
    environment = {**os.environ, "TENSORLAKE_FLOWS": database, "PYTHONPATH": ":".join(sys.path)}
    services = [
        subprocess.Popen([sys.executable, "-c", WATCHED, str(folder), str(out)], env=environment)
        for _ in range(2)
    ]
    turn = threading.Event()
    for _ in range(WAIT_S * 20):
        if [one.state for one in flows.list()] == ["done"]:
            break
        turn.wait(0.05)
    (folder / "b.txt").write_text("b")

    assert [one.wait(timeout=WAIT_S) for one in services] == [0, 0]
    assert len({*out.read_text().split()}) == len(out.read_text().split()) == 2


ELSEWHERE = """
import sys, threading
from tensorlake import flows

out, has_code = sys.argv[1:]
flows.list()
if has_code:
    @flows.step
    def work():
        with open(out, "a") as file:
            file.write("begun\\n")
        if sum(1 for _ in open(out)) == 1:
            threading.Event().wait()
        return "ended"

    @flows.flow
    def long():
        return work()

flows.run()
"""


@contextmanager
def elsewhere(database, out, *, has_code):
    """Another process that runs flows; killed at the end."""
    environment = {**os.environ, "TENSORLAKE_FLOWS": database, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", ELSEWHERE, str(out), "yes" if has_code else ""]
    process = subprocess.Popen(command, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)


def file_appears(path):
    turn = threading.Event()
    for _ in range(WAIT_S * 20):
        if path.exists():
            return
        turn.wait(0.05)
    raise AssertionError(path)


def test_a_living_process_takes_over_the_flow_of_one_that_was_killed(tmp_path):
    database, out = flows.connect(tmp_path / "flows.sqlite"), tmp_path / "out"
    run = flows.start("long")
    with elsewhere(database, out, has_code=True) as first:
        file_appears(out)
        with elsewhere(database, out, has_code=True):
            until(run.id, "running")
            os.kill(first.pid, signal.SIGKILL)

            assert until(run.id, "done").result == "ended"

    assert out.read_text().split() == ["begun", "begun"]


def test_a_process_that_starts_leaves_the_flows_of_another_alone(tmp_path):
    database, out = flows.connect(tmp_path / "flows.sqlite"), tmp_path / "out"
    slow, quick = flows.start("long"), flows.start(notes, "quick")
    with elsewhere(database, out, has_code=True):
        file_appears(out)

        flows.run(until=lambda: flows.inspect(quick.id).state == "done")

        assert flows.inspect(slow.id).state == "running"
        assert out.read_text().split() == ["begun"]


def test_a_flow_that_a_process_without_its_code_took_waits_for_one_with_it(tmp_path):
    database, out = flows.connect(tmp_path / "flows.sqlite"), tmp_path / "out"
    out.write_text("begun before\n")
    run = flows.start("long")
    with elsewhere(database, out, has_code=False):
        waiting = until(run.id, "waiting for code")

        with elsewhere(database, out, has_code=True):
            assert until(run.id, "done").result == "ended"

    assert "long() waiting for code" in str(waiting)


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_a_database_of_an_earlier_release_becomes_its_owners_alone(tmp_path):
    place = tmp_path / "flows.sqlite"
    flows.connect(place)
    flows.start(notes, "a")
    place.chmod(0o644)
    flows.connect(tmp_path / "other.sqlite")
    flows.list()
    program = "from tensorlake import flows; flows.list()"
    environment = {**os.environ, "TENSORLAKE_FLOWS": str(place), "PYTHONPATH": ":".join(sys.path)}

    subprocess.run([sys.executable, "-c", program], env=environment, check=True)

    assert {one.stat().st_mode & 0o777 for one in tmp_path.glob("flows.sqlite*")} == {0o600}


def test_a_flow_killed_at_twelve_points_has_one_content_and_no_duplicates(tmp_path):
    script = Path(__file__).with_name("kill_points.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended = json.loads((tmp_path / "ended.json").read_text())

    whole = ended.pop("0")
    assert whole[:2] == [0, 0]
    assert whole[2] == [["corrected", "tx", "txx", "txxx", "txxxx"], [1, 2, 3, 4, 5], 3]
    assert {at: one[:2] for at, one in ended.items()} == {
        str(at): [-signal.SIGKILL, 0] for at in range(1, 13)
    }
    assert {at: one[2] for at, one in ended.items()} == dict.fromkeys(ended, whole[2])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("none/flows.sqlite", "/none/flows.sqlite' cannot be opened: unable to open database file"),
        ("text.sqlite", "/text.sqlite' cannot be opened: file is not a database"),
        ("postgresql://ana:secret@127.0.0.1:1/x", "'postgresql://127.0.0.1:1/x' cannot be opened"),
        ("postgresql://ana:secret@127.0.0.1:p/x", "'postgresql://127.0.0.1:p/x' cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named_in_one_error(
    tmp_path, monkeypatch, given, named
):
    monkeypatch.chdir(tmp_path)
    Path("text.sqlite").write_text("This is no database.\n" * 100)
    flows.connect(given)

    for call in (flows.list, lambda: flows.run(until=lambda: True), lambda: notes("a")):
        with pytest.raises(StorageError) as caught:
            call()
        reason, advice = str(caught.value).split("\n")
        assert named in reason
        assert "secret" not in reason
        assert advice.startswith("give an SQLite file in a folder")

    flows.connect(tmp_path / "flows.sqlite")  # and nothing of it is left
    assert notes("a") == ["A"]
    flows.connect(tmp_path / "other.sqlite")
