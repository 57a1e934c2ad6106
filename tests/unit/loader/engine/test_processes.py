"""engine="processes": the same batches as threads, errors with their row, and nothing left."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, InvalidStateError, UnsupportedFeatureError
from tensorlake.loader.runtime.worker_processes import WorkerProcesses, WorkerTraceback
from tests.support import transforms
from tests.unit.loader.conftest import ROWS, threads_left

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="memory is shared by descriptor on Linux"
)
ROOT = Path(__file__).resolve().parents[4]
LONG_S = 60
ALL = ["image", "tokens", "name", "score", "boxes", "_row"]


def processes(ds, transform, **arguments):
    given = {"columns": ["tokens", "_row"], "batch_size": 8, "workers": 2} | arguments
    return ds.loader(transform=transform, engine="processes", **given)


def digest(batches):
    """One hash of all values, types and names of batches."""
    found = hashlib.blake2b()
    for batch in batches:
        for name, values in batch.items():
            found.update(name.encode())
            for one in values if isinstance(values, list) else [values]:
                numbers = np.asarray(one.float() if hasattr(one, "float") else one)
                found.update(f"{type(one)}{numbers.dtype}{numbers.shape}".encode())
                found.update(numbers.tobytes())
    return found.hexdigest()


def children_of(task):
    try:
        return (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended since it was listed
        return []


def children():
    """The processes that this one has started, by number."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    tasks = Path("/proc/self/task").iterdir()
    return set(text.split()).union(*map(children_of, tasks))


def wait_until_ended(*pids):
    """Wait for the end of processes, which may be another's children."""
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                ready, _, _ = select.select([descriptor], [], [], LONG_S)
            finally:
                os.close(descriptor)
            assert ready, f"process {pid} goes on"


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test: no process, no thread, no slab, mapped or open."""
    before = children()
    yield
    gc.collect()
    assert threads_left() == []
    assert children() - before == set()
    links = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [one for one in links if "tensorlake-slab" in str(one.readlink())] == []
    assert "tensorlake-slab" not in Path("/proc/self/maps").read_text()


# ---- the same batches


@pytest.mark.parametrize("shuffle", [False, "full"])
def test_batches_equal_those_of_threads(pets, shuffle):
    arguments = {
        "columns": ALL,
        "transform": transforms.augment,
        "shuffle": shuffle,
        "seed": 3,
        "collate": {"boxes": "pad"},
        "batch_size": 7,
    }

    threads = list(pets.loader(**arguments))
    made = list(pets.loader(**arguments, engine="processes", workers=3))

    assert len(made) == len(threads)
    assert digest(made) == digest(threads)


@pytest.mark.slow
def test_torch_draws_and_tensors_equal_those_of_threads(pets):
    pytest.importorskip("torch")
    arguments = {"batch_size": 16, "columns": ["_row"], "transform": transforms.torch_draws}

    threads = list(pets.torch(**arguments))
    made = list(pets.torch(**arguments, engine="processes", workers=2))

    assert digest(made) == digest(threads)
    assert made[0]["half"].dtype == threads[0]["half"].dtype


@pytest.mark.slow
def test_process_wide_generators_draw_the_rows_own_numbers(pets):
    """Threads refuse them, since they share one; each process has its own."""
    first = digest(processes(pets, transforms.process_draws, shuffle="full", workers=1))
    again = digest(processes(pets, transforms.process_draws, shuffle="full", workers=3))
    other = digest(processes(pets, transforms.process_draws, shuffle="full", seed=1))

    assert first == again != other


@pytest.mark.slow
def test_a_state_resumes_with_the_same_rows_and_numbers(pets):
    loader = processes(pets, transforms.process_draws, shuffle="full")
    whole = list(loader)
    loader = processes(pets, transforms.process_draws, shuffle="full")
    batches = iter(loader)
    begun = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    del batches

    resumed = processes(pets, transforms.process_draws, shuffle="full", workers=1)
    resumed.load_state_dict(state)

    assert digest([*begun, *resumed]) == digest(whole)


@pytest.mark.slow
def test_every_epoch_has_its_own_processes(pets):
    loader = processes(pets, transforms.with_pid, batch_size=ROWS)

    pids = [set(next(iter(loader))["pid"].tolist()) for _ in range(2)]

    assert all(os.getpid() not in one for one in pids)
    assert pids[0].isdisjoint(pids[1])


@pytest.mark.slow
def test_transforms_with_state_are_sent_with_it(pets):
    (batch,) = processes(pets[:4], transforms.Scale(3))

    assert batch["tokens"][:, 0].tolist() == [0, 3, 6, 9]


@pytest.mark.slow
def test_without_a_transform_there_are_no_processes(pets):
    loader = pets.loader(batch_size=8, columns=["tokens"], engine="processes")
    before = children()  # servers of other tests

    batches = iter(loader)
    next(batches)

    assert children() == before
    assert "processes" not in loader.explain()
    batches.close()


@pytest.mark.slow
def test_explain_says_where_a_transform_runs(pets):
    assert "transform= in 2 processes" in processes(pets, transforms.plain).explain()


# ---- errors


@pytest.mark.slow
def test_an_error_has_the_row_the_transform_and_the_workers_traceback(pets):
    with pytest.raises(KeyError, match="height") as caught:
        list(processes(pets, transforms.fails))

    assert caught.value.__notes__ == ["in transform= (fails) of row 7"]
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert 'raise KeyError("height")' in str(caught.value.__cause__)


@pytest.mark.slow
def test_an_error_that_cannot_be_unpickled_keeps_its_words(pets):
    with pytest.raises(RuntimeError, match="LocalError: of its own kind") as caught:
        list(processes(pets, transforms.fails_locally))

    assert caught.value.__notes__ == ["in transform= (fails_locally) of row 7"]


@pytest.mark.slow
def test_an_exit_of_a_transform_reaches_the_loop(pets):
    with pytest.raises(SystemExit, match="enough"):
        list(processes(pets, transforms.exits))


@pytest.mark.slow
def test_a_transform_that_returns_no_row_is_refused(pets):
    with pytest.raises(InvalidInputError, match="returned NoneType for row 7"):
        list(processes(pets, transforms.returns_none))


@pytest.mark.slow
def test_a_result_that_cannot_be_sent_is_named_with_its_row(pets):
    with pytest.raises(
        InvalidInputError, match=r"of row 7: returns_generator returned row\['made'\] \(generator\)"
    ) as caught:
        list(processes(pets, transforms.returns_generator))

    assert caught.value.row == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transform", "words"),
    [(transforms.is_killed, "killed by SIGKILL"), (transforms.ends_itself, "exited with status 3")],
)
def test_a_process_that_ends_ends_the_pass_and_says_how(pets, transform, words):
    with pytest.raises(InvalidStateError, match=f"ended in a call: .*{words}"):
        list(processes(pets, transform))


@pytest.mark.slow
def test_a_killed_fork_server_ends_its_workers_and_the_pass(pets):
    with pytest.raises(InvalidStateError, match="its fork server ended"):
        list(processes(pets, transforms.kills_its_server))


@pytest.mark.slow
def test_a_frozen_fork_server_is_killed_with_its_workers():
    own = WorkerProcesses(1, pickle.dumps(os.getpid), what="transform=")
    own.start()
    server = own._server
    os.kill(server.pid, signal.SIGSTOP)

    own.stop()
    own.join(LONG_S)

    assert server.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: lambda row: row, r"transform \(function\)"),
        (lambda: partial(transforms.plain, more=threading.Lock()), r"transform.keywords\['more'\]"),
        (
            lambda: transforms.Scale({"a": [1, threading.Lock()]}),
            r"transform.factor\['a'\]\[1\] \(lock",
        ),
    ],
)
def test_what_cannot_be_pickled_is_named_when_the_loader_is_made(pets, make, path):
    with pytest.raises(InvalidInputError, match=path) as caught:
        processes(pets, make())

    assert caught.value.argument == "transform"


@pytest.mark.slow
def test_other_systems_are_refused(pets, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")

    with pytest.raises(UnsupportedFeatureError, match="needs Linux"):
        processes(pets, transforms.plain)


# ---- nothing left


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["break", "close", "error", "collected"])
def test_leaving_the_loop_ends_the_processes(pets, leave):
    loader = processes(pets, transforms.with_pid, batch_size=4)
    batches = iter(loader)
    pids = next(batches)["pid"].tolist()

    match leave:
        case "break":
            for _ in batches:
                break
            del batches
        case "close":
            loader.close()
        case "error":
            with suppress(ZeroDivisionError):
                for _ in batches:
                    raise ZeroDivisionError
            del batches
        case _:
            del batches, loader
            gc.collect()

    assert threads_left() == []
    wait_until_ended(*pids)


@pytest.mark.slow
def test_leaving_the_loop_ends_a_process_whose_transform_does_not_return():
    ds = tl.create("memory://loader-processes-busy", {"x": tl.Array("uint8", (1 << 20,))})
    ds.extend({"x": np.zeros((16, 1 << 20), np.uint8)})
    ds.commit("groups of four rows")

    loader = processes(ds, transforms.stops_at_row_12, columns=["x", "_row"], batch_size=2)
    batches = iter(loader)
    pids = next(batches)["pid"].tolist()
    batches.close()

    wait_until_ended(*pids)


@pytest.mark.slow
def test_a_batch_outlives_its_processes(pets):
    loader = processes(pets, transforms.augment, columns=ALL, collate={"wide": "list"})
    batches = iter(loader)
    batch = next(batches)
    batches.close()
    gc.collect()

    assert all((one == row).all() for one, row in zip(batch["wide"], batch["row"], strict=True))


SCRIPT = """
import sys
import tensorlake as tl
from tests.support import transforms

def own(row):
    return {"row": row["x"] + 1}

if __name__ == "__main__":
    ds = tl.create("memory://x", {"x": "int64"})
    ds.extend({"x": range(8)})
    ds.commit("rows")
    name = sys.argv[1]
    transform = own if name == "own" else getattr(transforms, name)
    for batch in ds.loader(batch_size=4, transform=transform, engine="processes", workers=2):
        print(batch["row"].tolist())
"""


def script(path, *, guarded=True):
    text = SCRIPT if guarded else SCRIPT.replace('if __name__ == "__main__":', "if True:")
    path.write_text(text)
    return path


def run(path, name):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "query")])}
    return subprocess.Popen(
        [sys.executable, path, name],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_program_leaves_no_process(tmp_path):
    program = run(script(tmp_path / "train.py"), "never_returns")
    pids = [int(one) for _ in range(2) for one in program.stdout.readline().split()]

    program.kill()
    program.communicate(timeout=LONG_S)

    wait_until_ended(*pids)


@pytest.mark.slow
def test_a_function_of_the_program_itself_is_found(tmp_path):
    with run(script(tmp_path / "train.py"), "own") as program:
        shown, errors = program.communicate(timeout=LONG_S)

    assert errors == ""
    assert shown.split("\n") == ["[1, 2, 3, 4]", "[5, 6, 7, 8]", ""]


@pytest.mark.slow
def test_a_function_under_the_guard_is_refused_when_the_loader_is_made(tmp_path):
    text = SCRIPT.replace("def own(row):\n    return", "def other(row):\n    return")
    guard = 'if __name__ == "__main__":'
    inside = f"{guard}\n    def own(row):\n        return row"
    program = tmp_path / "train.py"
    program.write_text(text.replace(guard, inside))
    with run(program, "own") as ended:
        _, errors = ended.communicate(timeout=LONG_S)

    assert "InvalidInputError: engine='processes': transform= needs 'own', which is" in errors
    assert "define it above that line" in errors


@pytest.mark.slow
def test_a_program_without_a_guard_is_told_of_it(tmp_path):
    with run(script(tmp_path / "train.py", guarded=False), "own") as program:
        _, errors = program.communicate(timeout=LONG_S)

    assert "put what it does under if __name__ == '__main__'" in errors
    assert "the processes of transform= could not begin" in errors


@pytest.mark.slow
def test_an_unfinished_pass_of_a_forked_child_does_not_keep_the_processes(pets):
    """A child has copies of the connections, and closes them."""
    loader = processes(pets, transforms.with_pid, batch_size=4)
    batches = iter(loader)
    pids = next(batches)["pid"].tolist()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writes)
        os.read(reads, 1)
        os._exit(0)

    batches.close()
    wait_until_ended(*pids)

    os.close(writes)
    os.close(reads)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_one_program_may_run_many_loaders(pets):
    loaders = [processes(pets, transforms.plain, workers=1) for _ in range(3)]

    rows = [[batch["_row"].tolist() for batch in group] for group in zip(*loaders, strict=True)]

    assert len(rows) == len(loaders[0])
    assert all(group[0] == group[1] == group[2] for group in rows)


@pytest.mark.slow
def test_it_is_an_argument_of_every_framework(pets):
    pytest.importorskip("torch")

    (batch,) = pets[:4].torch(
        batch_size=4, columns=["tokens"], transform=transforms.plain, engine="processes"
    )

    assert batch["tokens"].shape == (4, 300)


@pytest.mark.slow
def test_a_pickled_loader_keeps_its_engine(pets):
    import pickle

    (batch,) = pickle.loads(pickle.dumps(processes(pets[:4], transforms.with_pid)))

    assert os.getpid() not in batch["pid"].tolist()


@pytest.mark.slow
def test_slabs_grow_with_their_rows():
    ds = tl.create("memory://loader-processes-sizes", {"x": tl.Array("uint8", (None,))})
    lengths = [3, 5_000, 2_000_000, 10, 300_000]
    ds.extend({"x": [np.full(one, one % 251, np.uint8) for one in lengths]})
    ds.commit("rows")

    made = [
        b["x"][0]
        for b in ds.loader(batch_size=1, transform=transforms.plain, engine="processes", workers=1)
    ]

    assert [len(one) for one in made] == lengths
    assert all((one == len(one) % 251).all() for one in made)
