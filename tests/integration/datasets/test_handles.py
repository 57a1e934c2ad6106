"""Handles: closing, pickling, forking, reading only; on memory, a folder and S3."""

import gc
import os
import pickle
import select
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Generator

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import InvalidStateError, ReadOnlyError
from tensorlake.testing import S3Server, s3_server

FORK_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def s3() -> Generator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["memory", "local", "s3"])
def place(request, tmp_path, monkeypatch) -> tuple[str, dict[str, str]]:
    """URL and options of a new dataset."""
    match request.param:
        case "memory":
            return f"memory://{tmp_path.name}", {}
        case "local":
            return str(tmp_path / "lake"), {}
        case _:
            s3 = request.getfixturevalue("s3")
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.storage_options["key"])
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.storage_options["secret"])
            return s3.fresh_url(), s3.storage_options


@pytest.fixture
def dataset(place) -> Dataset:
    url, options = place
    dataset = tl.create(url, {"x": "int64", "text": "str"}, storage_options=options)
    dataset.extend({"x": np.arange(100), "text": [f"{row}" for row in range(100)]})
    dataset.commit("hundred")
    return dataset


def in_a_forked_child(check: Callable[[], object]) -> int:
    """Run `check` in a child made by os.fork alone; its exit status, 124 when it hung."""
    with warnings.catch_warnings():
        # of forking beside threads: Python's, and JAX's where another test of this process began it
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            check()
            status = 0
        finally:
            os._exit(status)
    descriptor = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], FORK_TIMEOUT_S)
        if not ready:
            os.kill(pid, 9)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status) if ready else 124
    finally:
        os.close(descriptor)


@pytest.fixture
def hurried() -> Generator[None]:
    """Threads change places a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


needs_fork = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="forks are Linux's here")


@needs_fork
def test_a_handle_opened_before_a_fork_reads_in_the_child(dataset):
    """What the parent read, and what it did not; rows, queries, other versions."""
    if dataset.url.startswith("s3"):
        pytest.skip("the threads of obstore do not survive a fork")
    dataset["x"][:10]

    def check() -> None:
        assert dataset["x"][:].tolist() == list(range(100))
        assert dataset["text"][7] == "7"
        assert len(dataset.query("WHERE x < 5")) == 5
        assert dataset.at("main@0").version == "main@0"
        assert len(dataset.refresh()) == 100

    assert in_a_forked_child(check) == 0
    assert dataset["text"][8] == "8"  # and the parent reads on


@needs_fork
def test_a_forked_child_of_a_process_that_used_s3_is_told_so_at_once(s3):
    """It would otherwise wait for threads that it does not have."""
    dataset = tl.create(s3.fresh_url(), {"x": "int64"}, storage_options=s3.storage_options)
    dataset.append({"x": 1})
    dataset.commit()

    def check() -> None:
        with pytest.raises(InvalidStateError, match="forkserver"):
            dataset["x"][:]

    assert in_a_forked_child(check) == 0
    assert dataset["x"][:].tolist() == [1]


FORKS = 12


@pytest.mark.slow
@needs_fork
def test_a_child_forked_while_threads_read_is_not_stuck(dataset, hurried):
    """Locks that a thread of the parent held at the fork are held by nobody in the child."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            dataset["x"][[1, 50]]
            len(dataset.where("x > 7"))

    dataset["x"][:], dataset["text"][:]
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        statuses = [
            in_a_forked_child(lambda: dataset["x"][:].tolist() == list(range(100)) or os._exit(3))
            for _ in range(FORKS)
        ]
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)

    assert statuses == [0] * FORKS


@needs_fork
def test_a_child_can_commit_where_the_parent_sees_it(place):
    url, options = place
    if not url.startswith("/"):
        pytest.skip("a child has a copy of the parent's memory, and no threads for S3")
    dataset = tl.create(url, {"x": "int64"}, storage_options=options)
    dataset.append({"x": 1})
    dataset.commit()

    def check() -> None:
        dataset.append({"x": 2})
        dataset.commit("in the child")

    assert in_a_forked_child(check) == 0
    assert dataset.refresh()["x"][:].tolist() == [1, 2]


def test_a_pickled_handle_is_at_the_same_version_and_holds_no_secret(dataset, place):
    pickled = pickle.dumps(dataset)
    dataset.append({"x": 100, "text": "100"})
    dataset.commit("later")

    again = pickle.loads(pickled)

    assert again.version == "main@1"
    assert again["x"][:].tolist() == list(range(100))
    secret = place[1].get("secret")
    assert secret is None or secret.encode() not in pickled.replace(b"bucket", b"")


def test_a_pickled_handle_of_a_branch_stays_writable(dataset, place):
    if place[0].startswith("memory"):
        dataset = tl.open(place[0])

    again = pickle.loads(pickle.dumps(dataset))
    again.append({"x": 100, "text": "100"})

    assert again.commit("by the copy").version == "main@2"


def test_a_pickled_read_only_handle_stays_read_only(dataset, place):
    url, options = place
    reader = tl.open(url, read_only=True, storage_options=options)

    again = pickle.loads(pickle.dumps(reader))

    with pytest.raises(ReadOnlyError):
        again.append({"x": 1, "text": ""})


def test_a_pickled_view_shows_the_same_rows(dataset):
    view = dataset[[5, 1, 5]]

    again = pickle.loads(pickle.dumps(view))
    dataset.delete([1])
    dataset.commit()

    assert again["x"][:].tolist() == [5, 1, 5]
    assert again.version == "main@1"
    assert rowset_of(again).selection.digest == rowset_of(view).selection.digest


def test_staged_changes_are_not_pickled(dataset):
    dataset.append({"x": 1, "text": ""})

    with pytest.raises(InvalidStateError, match="commit or discard"):
        pickle.dumps(dataset)
    with pytest.raises(InvalidStateError, match="commit or discard"):
        pickle.dumps(dataset[[100]])

    dataset.discard()


@pytest.mark.slow
def test_another_process_opens_what_was_pickled(dataset, place):
    if place[0].startswith("memory"):
        pytest.skip("another process has another memory")
    code = "import pickle, sys; ds = pickle.load(sys.stdin.buffer); print(int(ds['x'][:].sum()))"

    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(dataset),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        check=False,
    )

    assert done.stdout.decode().strip() == "4950", done.stderr.decode()


# Closing


@pytest.fixture
def folder(tmp_path) -> str:
    with tl.create(str(tmp_path), {"x": "int64"}, durability="none") as dataset:
        dataset.append({"x": 1})
        dataset.commit()
    return str(tmp_path)


def test_leaving_with_staged_changes_warns_and_drops_them(folder):
    with pytest.warns(tl.UncommittedChangesWarning, match="commit"), tl.open(folder) as dataset:
        dataset.append({"x": 2})

    assert len(tl.open(folder)) == 1


def test_leaving_without_staged_changes_is_silent(folder):
    with tl.open(folder) as dataset:
        dataset.append({"x": 2})
        dataset.commit()
    with tl.open(folder) as dataset:
        dataset["x"][0] = 3
        dataset.discard()
    dataset.close()  # again: nothing


def test_a_closed_handle_stages_nothing(folder):
    dataset = tl.open(folder)
    dataset.close()

    for write in (
        lambda: dataset.append({"x": 1}),
        lambda: dataset.delete(0),
        dataset.commit,
    ):
        with pytest.raises(InvalidStateError, match="closed"):
            write()


def test_handles_leave_nothing_open(folder):
    for _ in range(3):
        with tl.open(folder) as dataset:
            dataset["x"][:]
    del dataset
    gc.collect()  # a ResourceWarning here would be an error


# Read only


@pytest.mark.parametrize("version", ["main@1", "v1", "read_only"])
def test_versions_tags_and_read_only_handles_refuse_every_write(folder, version):
    tl.open(folder).tag("v1")
    dataset = (
        tl.open(folder, read_only=True) if version == "read_only" else tl.open(folder, version)
    )

    for write in (
        lambda: dataset.append({"x": 1}),
        lambda: dataset.extend({"x": [1]}),
        lambda: dataset.delete(0),
        lambda: dataset["x"].__setitem__(0, 1),
        lambda: dataset["x"].__setitem__(0, 1),
        lambda: dataset.add_tensor("y", "int64", fill=0),
        lambda: dataset.drop_tensor("x"),
        lambda: dataset.rename_tensor("x", "y"),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            write()
        assert "ds.branch(" in str(caught.value)
    assert dataset["x"][:].tolist() == [1]
    assert not dataset.has_changes


@pytest.mark.slow
def test_a_view_refuses_writes_and_names_its_dataset(folder):
    view = tl.open(folder)[:]

    with pytest.raises(ReadOnlyError, match=r"ds\['x'\]"):
        view["x"][0] = 1


@pytest.mark.slow
def test_a_branch_is_writable_and_leaves_main_alone(folder):
    dataset = tl.open(folder, "main@1")

    fix = dataset.branch("fix")
    fix.append({"x": 2})
    fix.commit("on fix")

    assert fix.version == "fix@2"
    assert tl.open(folder, "fix")["x"][:].tolist() == [1, 2]
    assert tl.open(folder)["x"][:].tolist() == [1]
    assert dataset.version == "main@1"
    assert [commit.version for commit in fix.log()][:2] == ["fix@2", "fix@1"]
    assert fix.log()[-1].version == "main@0"
