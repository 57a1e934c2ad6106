"""Whatever fails, and wherever a pass is dropped: who waits is told, and nobody is blocked."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidStateError, StorageTimeoutError
from tensorlake.loader import SelectedRows, make_loader
from tensorlake.loader.runtime.threads import WorkerThreads
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import Fault, FaultyStore
from tests.support.collector import collect_in_the_storage_loop, no_collection
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.unit.loader.conftest import loader_threads, threads_left

ROWS, COMMITS = 60, 3
SCHEMA = {"x": tl.Array("uint8", shape=(6000,)), "n": "int64"}
LONG_S = 60  # until a test gives up; what works takes milliseconds


def fill(dataset):
    """Rows worth a request each, in a few chunks."""
    random = np.random.default_rng(0)
    for start in range(0, ROWS, ROWS // COMMITS):
        rows = range(start, start + ROWS // COMMITS)
        dataset.extend({"x": random.integers(0, 255, (len(rows), 6000), np.uint8), "n": rows})
        dataset.commit("more")
    return dataset


class GatedStore(MemoryStore):
    """A store whose ranges wait, once it is shut, until it is opened."""

    def __init__(self):
        super().__init__()
        self.is_awaited = threading.Event()
        self._gate = asyncio.Event()
        self._gate.set()

    def shut(self):
        self._gate.clear()

    def open(self):
        asyncio.run_coroutine_threadsafe(self._open(), runtime._loop_thread().loop)

    async def _open(self):
        self._gate.set()

    async def get_range(self, path, start, stop):
        if not self._gate.is_set():
            self.is_awaited.set()
            await self._gate.wait()
        return await super().get_range(path, start, stop)


@pytest.fixture
def gated():
    store = GatedStore()
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    yield store
    store.open()
    assert threads_left() == []


@pytest.fixture(scope="module", params=["remote", "local"])
def dataset(request, tmp_path_factory):
    local = tmp_path_factory.mktemp("hangs") / "d.tl"
    return fill(
        tl.create("memory://loader-hangs" if request.param == "remote" else str(local), SCHEMA)
    )


class FailingReader:
    """A reader of which one method fails from some call on."""

    def __init__(self, reader, method, error, calls):
        self._reader, self._method, self._error, self._calls = reader, method, error, calls

    def through(self, near, hedge):
        return self

    def __getattr__(self, name):
        found = getattr(self._reader, name)
        return found if name != self._method else self._failing(found)

    def _failing(self, method):
        def call(*args, **kwargs):
            self._calls -= 1
            if self._calls < 0:
                raise self._error
            return method(*args, **kwargs)

        return call


def failing_loader(dataset, method, error, *, calls=0, **arguments):
    reader = FailingReader(rowset_of(dataset).reader(), method, error, calls)
    given = {"batch_size": 4, "shuffle": True, "cache": 0, "timeout": LONG_S} | arguments
    return make_loader(SelectedRows(rowset_of(dataset).selection, reader), "numpy", **given)


# ---- every error arrives


@pytest.mark.parametrize(
    "error", [LookupError("mine"), SystemExit(3), TimeoutError("mine")], ids=repr
)
@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("method", ["locate", "map_chunk", "decode_chunk", "fetch"])
@pytest.mark.parametrize("cache", [0, "1GB"])
def test_what_a_reader_raises_reaches_the_loop(dataset, method, error, calls, cache):
    if method == "fetch" and rowset_of(dataset).reader().store.is_local:
        pytest.skip("a local dataset is read by chunks alone")
    if method == "fetch" and cache and calls:
        pytest.skip("only rows of the first batch are read by themselves, all at once")
    loader = failing_loader(dataset, method, error, calls=calls, cache=cache)

    with pytest.raises(type(error)) as raised:
        list(loader)

    assert raised.value is error
    assert threads_left() == []


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("cache", [0, "1GB"])
def test_what_a_store_raises_reaches_the_loop_as_it_is(skip, cache):
    store = FaultyStore(MemoryStore())
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    dataset = open_on(store)
    loader = dataset.loader(batch_size=4, shuffle=True, cache=cache, timeout=LONG_S)
    store.inject(Fault.TIMED_OUT, call="get_range", path="packs/", skip=skip, times=-1)

    with pytest.raises(StorageTimeoutError) as raised:
        list(loader)

    assert "no batch of" not in str(raised.value)
    assert threads_left() == []


def test_batches_before_a_failed_chunk_are_still_delivered():
    store = FaultyStore(MemoryStore())
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    loader = open_on(store).loader(batch_size=4, columns=["n"], timeout=LONG_S)
    store.inject(Fault.TIMED_OUT, call="get_range", path="packs/", skip=1, times=-1)
    seen = []

    with pytest.raises(StorageTimeoutError):
        seen.extend(batch["n"] for batch in loader)

    rows = np.concatenate(seen).tolist()
    assert rows == list(range(len(rows)))
    assert len(rows) < ROWS


def test_what_nobody_expects_of_a_thread_ends_the_pass(gated):
    gated.shut()
    iterator = iter(open_on(gated).loader(batch_size=4, columns=["n"], timeout=LONG_S))

    def crash():
        raise MemoryError("mine")

    iterator._pipeline.workers.submit(crash)

    with pytest.raises(MemoryError, match="mine"):
        next(iterator)


# ---- requests that others end


@pytest.mark.parametrize("columns", [["n"], ["x"]], ids=["of chunks", "of rows"])
def test_requests_that_others_cancel_are_an_error(gated, columns):
    dataset = open_on(gated)
    rowset_of(dataset).reader().locate(columns[0], np.arange(ROWS))
    gated.shut()
    loader = dataset.loader(batch_size=4, columns=columns, shuffle=True, cache=0, timeout=LONG_S)
    iterator = iter(loader)
    assert gated.is_awaited.wait(LONG_S)

    async def cancel_all():
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    runtime.run(cancel_all())

    with pytest.raises(InvalidStateError, match="storage was stopped"):
        next(iterator)


class CancellingStore(GatedStore):
    """A store that, once shut, cancels whatever else is under way when it is first asked."""

    async def get_range(self, path, start, stop):
        if not self._gate.is_set() and not self.is_awaited.is_set():
            self.is_awaited.set()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        return await super().get_range(path, start, stop)


@pytest.mark.parametrize("attempt", range(8))  # which of two threads is told first is open
def test_a_pass_that_is_cancelled_while_it_asks_for_rows_says_that_storage_stopped(attempt):
    store = CancellingStore()
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    dataset = open_on(store)
    rowset_of(dataset).reader().locate("x", np.arange(ROWS))
    store.shut()

    with pytest.raises(InvalidStateError, match="storage was stopped"):
        next(iter(dataset.loader(batch_size=4, columns=["x"], shuffle=True, cache=0)))

    store.open()


# ---- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_that_goes_on_with_its_parents_iterator_is_told_at_once(gated):
    loader = open_on(gated).loader(batch_size=4, columns=["n"], timeout=LONG_S)
    iterator = iter(loader)
    next(iterator)
    read, write = os.pipe()

    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)

    with os.fdopen(read, encoding="utf-8") as told:
        message = told.read()
    os.waitpid(child, 0)
    assert message.startswith(f"InvalidStateError: an iterator created in process {os.getpid()} ")
    assert f"in forked process {child}\n" in message
    assert len(list(iterator)) == ROWS // 4 - 1


# ---- a store that never answers


class SilentReader(FailingReader):
    """A reader of which one method asks a store that never answers."""

    def __init__(self, reader, method):
        super().__init__(reader, method, None, 0)
        self.is_awaited = threading.Event()

    def _failing(self, method):
        def call(*args, **kwargs):
            self.is_awaited.set()
            silence = forever()
            return silence if inspect.iscoroutinefunction(method) else runtime.run(silence)

        return call


async def forever():
    await asyncio.get_running_loop().create_future()


def close_loader(loader, iterator):
    loader.close()


def forget(loader, iterator):
    iterator._pipeline.abandon()  # as its __del__ does


@pytest.mark.parametrize("end", [close_loader, forget], ids=["closed", "forgotten"])
@pytest.mark.parametrize("columns", [["n"], ["x"]], ids=["chunks", "rows"])
def test_a_pass_ends_though_its_store_never_answers(gated, columns, end):
    dataset = open_on(gated)
    rowset_of(dataset).reader().locate(columns[0], np.arange(ROWS))
    gated.shut()
    loader = dataset.loader(batch_size=4, columns=columns, shuffle=True, cache=0, timeout=LONG_S)
    iterator = iter(loader)
    assert gated.is_awaited.wait(LONG_S)

    end(loader, iterator)

    assert threads_left() == []
    wait_for_storage()  # nothing waits at the gate, which is still shut


@pytest.mark.parametrize("method", ["locate", "fetch"])
@pytest.mark.parametrize("end", [close_loader, forget], ids=["closed", "forgotten"])
def test_a_pass_ends_though_what_it_plans_or_reads_is_never_answered(gated, method, end):
    dataset = open_on(gated)
    reader = SilentReader(rowset_of(dataset).reader(), method)
    loader = make_loader(
        SelectedRows(rowset_of(dataset).selection, reader),
        "numpy",
        batch_size=4,
        shuffle=True,
        cache=0,
        timeout=LONG_S,
    )
    iterator = iter(loader)
    assert reader.is_awaited.wait(LONG_S)

    end(loader, iterator)

    assert threads_left() == []
    wait_for_storage()


# ---- ends that somebody else brings about


@pytest.mark.parametrize("is_planned", [True, False])
def test_closing_from_another_thread_ends_the_wait(gated, is_planned):
    loader = open_on(gated).loader(batch_size=4, columns=["n"], timeout=LONG_S)
    gated.shut()
    iterator = iter(loader)
    if is_planned:
        assert gated.is_awaited.wait(LONG_S)
    threading.Thread(target=iterator.close).start()

    with pytest.raises(InvalidStateError, match="was closed"):
        next(iterator)


def test_a_closed_iterator_does_not_look_as_if_it_had_come_to_its_end(gated):
    loader = open_on(gated).loader(batch_size=4, columns=["n"], timeout=LONG_S)
    iterator = iter(loader)
    next(iterator)

    loader.close()

    with pytest.raises(InvalidStateError, match="was closed"):
        next(iterator)
    assert len(list(loader)) == ROWS // 4


def test_an_iterator_collected_by_the_storage_loop_does_not_block_it(gated, monkeypatch):
    """As it happens: a circle holds the iterator, and whoever allocates next collects it."""
    monkeypatch.setattr("tensorlake.loader.engine.pipeline.JOIN_TIMEOUT_S", 10 * LONG_S)
    dataset = open_on(gated)
    loader = dataset.loader(batch_size=4, shuffle=True, cache=0, timeout=LONG_S)
    for tensor in SCHEMA:
        rowset_of(dataset).reader().locate(
            tensor, np.arange(ROWS)
        )  # the plan is no longer at the gate
    gated.shut()
    circle = [iter(loader)]
    circle.append(circle)
    assert gated.is_awaited.wait(LONG_S)

    with no_collection():
        del circle
        collect_in_the_storage_loop()

    assert threads_left() == []  # they were told to end, and what they read was cancelled


def test_an_iterator_is_dropped_under_any_lock_of_its_own(gated):
    iterator = iter(open_on(gated).loader(batch_size=4, timeout=LONG_S))
    next(iterator)
    pipeline = iterator._pipeline
    fetcher, rows, setup = pipeline._fetcher, pipeline._rows, pipeline._setup

    with (
        pipeline._budget._lock,
        fetcher._lock,
        rows._lock,
        setup.cache._lock,
        setup.counters._lock,
        setup.limit._lock,
    ):
        del iterator

    assert threads_left() == []


def test_a_pass_that_is_left_ends_before_the_next_begins(gated):
    loader = open_on(gated).loader(batch_size=4, columns=["n"], shuffle=True, timeout=LONG_S)
    for _ in loader:
        break

    rest = np.concatenate([batch["n"] for batch in loader])

    assert sorted(rest.tolist()) == list(range(ROWS))
    assert threads_left() == []


def test_a_transform_that_closes_its_loader_does_not_wait_for_itself(dataset):
    loader = failing_loader(
        dataset, "nothing", None, transform=lambda row: (loader.close(), row)[1]
    )

    with pytest.raises(InvalidStateError, match="was closed"):
        list(loader)

    assert threads_left() == []


def test_threads_that_come_back_late_end_all_the_same():
    workers = WorkerThreads(2, name="tensorlake-loader-late")
    has_begun, go_on = threading.Event(), threading.Event()
    workers.start(on_crash=lambda error: None)
    workers.submit(lambda: (has_begun.set(), go_on.wait(LONG_S)))
    assert has_begun.wait(LONG_S)

    workers.stop()
    workers.join(0.0)
    assert len(loader_threads()) >= 1
    go_on.set()

    assert threads_left() == []
