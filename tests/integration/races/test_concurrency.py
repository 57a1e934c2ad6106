"""Many writers and readers at once: what combines, what conflicts, what is ever seen."""

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import ConflictError, InvalidStateError, TensorlakeError
from tensorlake.storage import MemoryStore
from tensorlake.testing import FaultyStore
from tests.support.handles import create_on, open_on, rows_of
from tests.support.writers import append_rows, fork_server

PROCESSES, THREADS, COMMITS = 4, 6, 12


def filled_store() -> MemoryStore:
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64", "y": "int64", "label": tl.ClassLabel(["cat", "dog"])})
    dataset.extend({"x": np.arange(10), "y": np.arange(10), "label": [0] * 10})
    dataset.commit()
    return store


@pytest.fixture
def store() -> MemoryStore:
    return filled_store()


@pytest.fixture
def hurried() -> Generator[None]:
    """Threads change places a thousand times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def check_rows_of_writers(dataset: Dataset, writers: int) -> None:
    """Test 7: each row once, each writer's rows in order."""
    writer, n = dataset["writer"][:], dataset["n"][:]
    assert len(n) == writers * COMMITS
    for one in range(writers):
        assert n[writer == one].tolist() == list(range(COMMITS))


@pytest.mark.slow
def test_rows_of_writing_processes_are_there_once_and_in_order(tmp_path):
    """Test 7, with real processes on a folder."""
    url = str(tmp_path / "lake")
    tl.create(url, {"writer": "int64", "n": "int64"}).close()
    context = fork_server()
    processes = [
        context.Process(target=append_rows, args=(url, {}, writer, COMMITS))
        for writer in range(PROCESSES)
    ]

    for process in processes:
        process.start()
    for process in processes:
        process.join(120)

    assert [process.exitcode for process in processes] == [0] * PROCESSES
    dataset = tl.open(url)
    assert dataset.version == f"main@{PROCESSES * COMMITS}"
    check_rows_of_writers(dataset, PROCESSES)


@pytest.mark.slow
def test_rows_of_writing_threads_are_there_once_and_in_order(hurried):
    """Test 7, with threads of one process, each with its own handle."""
    store = MemoryStore()
    create_on(store, {"writer": "int64", "n": "int64"})

    def write(writer: int) -> None:
        dataset = open_on(store)
        for n in range(COMMITS):
            dataset.append({"writer": writer, "n": n})
            dataset.commit()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(THREADS)))

    check_rows_of_writers(open_on(store), THREADS)


def test_of_two_updates_of_one_cell_exactly_one_conflicts(store):
    """Test 8; what it had staged is kept, for another try."""
    mine, theirs = open_on(store), open_on(store)
    mine["x"][3] = 30
    mine.append({"x": 10, "y": 10, "label": "dog"})
    theirs["x"][[3, 4]] = [31, 41]
    theirs.commit("theirs")

    with pytest.raises(ConflictError, match=r"main@1.*main@2.*'x'.*1 row") as caught:
        mine.commit("mine")

    assert "theirs" in str(caught.value)
    assert mine["x"][:].tolist() == [0, 1, 2, 30, *range(4, 11)]
    assert mine.has_changes
    with pytest.raises(ConflictError):
        mine.commit("mine again")
    mine.discard()
    mine.refresh()
    mine["x"][3] = 30
    mine.commit("mine, at last")
    assert open_on(store)["x"][:].tolist() == [0, 1, 2, 30, 41, *range(5, 10)]


def append(ds: Dataset) -> None:
    ds.append({"x": 10, "y": 10, "label": "dog"})


def append_two(ds: Dataset) -> None:
    ds.extend({"x": [20, 21], "y": [20, 21], "label": ["cat", "dog"]})


def update_x(ds: Dataset) -> None:
    ds["x"][2:4] = [200, 300]


def update_x_otherwise(ds: Dataset) -> None:
    ds["x"][[3, 4]] = [-3, -4]


def update_x_below(ds: Dataset) -> None:
    ds["x"][[1, 4]] = [100, 400]


def update_y(ds: Dataset) -> None:
    ds["y"][2:4] = [-2, -3]


def delete_head(ds: Dataset) -> None:
    ds.delete([0, 1])


def delete_tail(ds: Dataset) -> None:
    ds.delete([1, 9])


def update_label(ds: Dataset) -> None:
    ds["label"][5] = "dog"


def add_tensor(ds: Dataset) -> None:
    ds.add_tensor("z", "float32", fill=0.5)


def rename(ds: Dataset) -> None:
    ds.rename_tensor("y", "why")


def add_name(ds: Dataset) -> None:
    ds["label"].add_names(["bird"])


def use_new_name(ds: Dataset) -> None:
    ds["label"].add_names(["bird"])
    ds["label"][7] = "bird"
    ds.append({"x": 11, "y": 11, "label": "bird"})


def drop_y(ds: Dataset) -> None:
    ds.drop_tensor("y")


COMBINING = [
    (append, append_two),
    (append, update_x),
    (update_x, append),
    (update_x, update_y),
    (update_x, update_x),  # the same values
    (update_x, update_x_below),
    (delete_head, delete_tail),
    (delete_head, append),
    (append, delete_tail),
    (update_x, delete_tail),
    (delete_tail, update_x),
    (add_tensor, append),
    (append, add_tensor),
    (add_tensor, update_x),
    (update_x, add_tensor),
    (add_tensor, delete_head),
    (delete_head, add_tensor),
    (rename, append),
    (append, rename),
    (rename, update_y),
    (update_y, rename),
    (add_name, update_label),
    (update_label, add_name),
    (use_new_name, append_two),
    (append_two, use_new_name),
    (add_tensor, rename),
    (rename, add_tensor),
    (add_name, rename),
    (add_tensor, add_name),
    (rename, rename),  # to the same name
    (rename, use_new_name),
]


@pytest.mark.parametrize(
    ("mine", "theirs"), COMBINING, ids=[f"{a.__name__}-{b.__name__}" for a, b in COMBINING]
)
def test_changes_that_touch_different_cells_combine(store, mine, theirs):
    """What a lost race gives is what doing one after the other gives; test 25."""
    slow, fast = open_on(store), open_on(store)
    mine(slow)
    theirs(fast)
    fast.commit("fast")

    slow.commit("slow")

    combined = rows_of(open_on(store))
    assert sorted_rows(rows_of(slow)) == sorted_rows(combined)
    assert sorted_rows(combined) == sorted_rows(one_after_the_other(theirs, mine))


def sorted_rows(rows: list[dict[str, object]]) -> list[list[tuple[str, object]]]:
    return sorted(sorted(row.items()) for row in rows)


def one_after_the_other(*changes: Callable[[Dataset], None]) -> list[dict[str, object]]:
    """What the changes make together, each seen from the version all stand on, row by row."""
    store = filled_store()
    base = dict(zip(open_on(store).row_ids, rows_of(open_on(store)), strict=True))
    result = dict(base)
    filled: dict[str, object] = {}
    y_is_called = "y"
    for change in changes:
        handle = open_on(store)
        change(handle)
        if "why" in handle.schema:
            y_is_called = "why"
        if "z" in handle.schema:
            filled["z"] = 0.5
        seen = dict(zip(handle.row_ids, rows_of(handle), strict=True))
        for id_ in base.keys() - seen.keys():
            result.pop(id_, None)
        for id_, row in seen.items():
            named = {"y" if name == "why" else name: value for name, value in row.items()}
            old = base.get(id_, {})
            cells = {name: value for name, value in named.items() if old.get(name) != value}
            if id_ in result or id_ not in base:
                result[id_] = {**result.get(id_, {}), **cells}
        handle.discard()
    return [
        {y_is_called if name == "y" else name: value for name, value in {**filled, **row}.items()}
        for row in result.values()
    ]


CONFLICTING = [
    (update_x, update_x_otherwise),
    (update_x, lambda ds: ds["x"].__setitem__(slice(None), 1)),
    (update_x, lambda ds: ds.delete(2)),
    (lambda ds: ds.delete(3), update_x),
    (add_tensor, add_tensor),
    (rename, lambda ds: ds.rename_tensor("y", "z")),
    (rename, lambda ds: ds.rename_tensor("x", "why")),
    (rename, drop_y),
    (drop_y, append),
    (append, drop_y),
    (drop_y, update_y),
    (update_y, drop_y),
]


@pytest.mark.parametrize("pair", CONFLICTING, ids=map(str, range(len(CONFLICTING))))
def test_changes_of_one_thing_conflict_and_stay_staged(store, pair):
    mine, theirs = pair
    slow, fast = open_on(store), open_on(store)
    mine(slow)
    staged = rows_of(slow)
    theirs(fast)
    fast.commit("fast")
    published = rows_of(fast)

    with pytest.raises(ConflictError):
        slow.commit("slow")

    assert rows_of(slow) == staged
    assert rows_of(open_on(store)) == published


def test_a_lost_race_in_the_last_moment_combines():
    """Another commits between the pack and the entry, again and again."""
    objects = MemoryStore()
    create_on(objects, {"x": "int64"})
    store = FaultyStore(objects)

    def other(x: int) -> Callable[[], None]:
        def add() -> None:
            dataset = open_on(objects)
            dataset.append({"x": x})
            dataset.commit()

        return add

    mine = open_on(store)
    mine.append({"x": 0})
    for number in (1, 2, 3):
        store.before("put_if_absent", other(number), path=f"branches/main/{number:010}")

    assert mine.commit().version == "main@4"
    assert open_on(objects)["x"][:].tolist() == [1, 2, 3, 0]


@pytest.mark.slow
def test_readers_see_only_whole_commits(hurried, store):
    """Test 9: every version keeps x == y in all rows and an even number of rows."""
    stop = threading.Event()

    def write() -> None:
        dataset = open_on(store)
        for number in range(15):
            dataset.extend({"x": [number, number], "y": [number, number], "label": [0, 1]})
            dataset["x"][:] = number
            dataset["y"][:] = number
            if number % 3 == 2:
                dataset.delete([0, 1])
            dataset.commit()

    def read() -> int:
        reader, seen = open_on(store), 0
        while not (stop.is_set() and seen):
            reader.refresh()
            frozen = reader[:]
            x, y = frozen["x"][:], frozen["y"][:]
            assert len(x) == len(y) == len(frozen)
            assert np.array_equal(x, y)
            assert len(x) % 2 == 0
            assert len(x) == 10 or len(set(x.tolist())) == 1
            seen += 1
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            write()
        finally:
            stop.set()
        assert all(reader.result(60) for reader in readers)


def test_one_handle_is_read_by_threads_while_it_stages_and_commits(hurried, store):
    """Reads from any thread; each sees a whole state: x and y are staged together as pairs."""
    dataset = open_on(store)
    stop = threading.Event()

    def read() -> int:
        seen = 0
        while not (stop.is_set() and seen):
            x = dataset["x"][:]
            assert np.array_equal(x, np.arange(len(x)))
            assert len(dataset["label"][:]) >= 10
            seen += 1
        return seen

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for number in range(10, 40):
                dataset.append({"x": number, "y": 0, "label": 0})
                if number % 3 == 0:
                    dataset.commit()
        finally:
            stop.set()
        assert all(reader.result(60) for reader in readers)

    dataset.commit()
    assert open_on(store)["x"][:].tolist() == list(range(40))


def test_threads_that_stage_on_one_handle_lose_nothing(hurried, store):
    dataset = open_on(store)

    def stage(thread: int) -> None:
        for number in range(20):
            dataset.append({"x": 1000 * (thread + 1) + number, "y": 0, "label": 0})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(stage, range(4)))
    dataset.commit()

    x = open_on(store)["x"][10:]
    assert len(x) == 80
    for thread in range(4):
        mine = x[x // 1000 == thread + 1]
        assert (mine % 1000).tolist() == list(range(20))


def test_a_second_commit_of_one_handle_at_once_raises():
    objects = MemoryStore()
    create_on(objects, {"x": "int64"})
    store = FaultyStore(objects)
    dataset = open_on(store)
    dataset.append({"x": 1})
    raised: list[TensorlakeError] = []

    def again() -> None:
        with pytest.raises(InvalidStateError, match="another thread") as caught:
            dataset.commit()
        raised.append(caught.value)

    store.before("put_if_absent", again, path="branches/")

    dataset.commit()

    assert len(raised) == 1
    assert open_on(objects)["x"][:].tolist() == [1]


@pytest.mark.slow
def test_a_read_sees_one_version_while_the_handle_moves_to_another(hurried, store):
    """Test 9, for one call on one handle: rows, chunks and schema of the same version."""
    handle, writer = open_on(store), open_on(store)
    stop = threading.Event()

    def read() -> int:
        seen = 0
        while not (stop.is_set() and seen):
            x = handle["x"][:]
            assert len(set(x.tolist())) <= 1 or x.tolist() == list(range(10))
            assert len(handle.where("x >= 0")["y"][:]) > 0
            assert handle[-1]["x"] is not None
            seen += 1
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for number in range(25):
                if number % 2:
                    writer.delete(slice(2, None))
                else:
                    writer.extend({"x": [1] * 30, "y": [1] * 30, "label": [0] * 30})
                writer["x"][:] = number
                writer.commit()
                handle.refresh()
        finally:
            stop.set()
        assert all(reader.result(60) for reader in readers)


class Moving:
    """Rows whose naming moves the handle: the worst moment for it, made certain."""

    def __init__(self, handle: Dataset) -> None:
        self._handle = handle

    def __array__(self, *arguments: object, **keywords: object) -> np.ndarray:
        self._handle.refresh()
        return np.array([0, 9])


def test_a_read_that_the_handle_moves_in_the_middle_of_is_of_the_version_it_began_with(store):
    handle, writer = open_on(store), open_on(store)
    writer["x"][:] = 7
    writer.delete(slice(2, None))
    writer.commit()

    assert handle["x"][Moving(handle)].tolist() == [0, 9]
    assert handle.version == "main@2"
    assert handle["x"][:].tolist() == [7, 7]
