"""The bridge between the synchronous SDK and the loop thread."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from functools import partial

import pytest

from tensorlake.errors import InvalidStateError, StorageTimeoutError
from tensorlake.storage import MemoryStore, SingleFlight, gather_bounded, run, runtime
from tensorlake.storage.concurrency.runtime import stop
from tests.support.handles import wait_for_storage
from tests.support.interrupts import interrupted_at


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_run_returns_the_result():
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert run(answer()) == 42


def test_run_raises_the_error_as_it_is():
    async def fail() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        run(fail())


def test_one_loop_serves_all_threads():
    loops = []

    def work() -> None:
        async def note() -> None:
            loops.append(asyncio.get_running_loop())

        run(note())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(loops) == 8
    assert len({id(loop) for loop in loops}) == 1


def test_run_on_the_loop_itself_is_refused():
    async def nested() -> None:
        run(forever())

    with pytest.raises(InvalidStateError, match="wait for itself"):
        run(nested())


def test_timeout_cancels_and_says_so():
    running: set[str] = set()

    async def slow() -> None:
        running.add("slow")
        try:
            await forever()
        finally:
            running.discard("slow")

    with pytest.raises(StorageTimeoutError, match=r"0\.01 s"):
        run(slow(), timeout_s=0.01)

    wait_for_storage()  # whatever else runs, which an uncancelled wait would be
    assert not running


def test_timeout_error_of_the_coroutine_is_its_own():
    async def fail() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        run(fail(), timeout_s=30)


def test_an_interrupt_at_any_step_leaves_nothing_running():
    """Also in the middle of the handing over, when there is no answer to wait for yet."""
    began: list[int] = []
    running: set[int] = set()

    async def work(step: int) -> None:
        began.append(step)
        running.add(step)
        try:
            await asyncio.sleep(0.02)
        finally:
            await asyncio.sleep(0)  # ending takes its time too
            running.discard(step)

    step = 1
    ours = frozenset({runtime.__file__, asyncio.base_events.__file__})
    while interrupted_at(step, partial(run, coroutine := work(step)), within=ours):
        run(asyncio.sleep(0))  # what was handed over has begun by now
        assert not running, f"interrupted at step {step}"
        coroutine.close()  # where it never began
        step += 1

    assert 0 < len(began) < step


async def this_thread() -> threading.Thread:
    return threading.current_thread()


def test_run_here_stays_in_the_callers_thread():
    async def both() -> tuple[threading.Thread, bool]:
        return await this_thread(), runtime.runs_here()

    assert runtime.run_here(both()) == (threading.current_thread(), True)
    assert not runtime.runs_here()


@pytest.mark.parametrize("waits", [False, True])
def test_run_here_raises_the_error_as_it_is(waits):
    async def fail() -> None:
        if waits:
            await runtime.to_loop()
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        runtime.run_here(fail())
    assert not runtime.runs_here()


def test_what_has_to_wait_goes_on_on_the_loop():
    async def work() -> list[threading.Thread]:
        threads = [await this_thread()]
        threads += await gather_bounded([this_thread, this_thread], limit=2)
        await asyncio.sleep(0.001)
        await runtime.to_loop()  # where it is already
        assert not runtime.runs_here()
        return [*threads, await this_thread()]

    here, *there = runtime.run_here(work())

    assert here is threading.current_thread()
    assert [thread.name for thread in there] == ["tensorlake-loop"] * 3


def test_reads_that_others_may_join_are_on_the_loop():
    flights = SingleFlight[str, threading.Thread]()

    reader = runtime.run_here(flights.read("a", this_thread))

    assert reader.name == "tensorlake-loop"


def test_run_here_on_the_loop_itself_is_refused():
    async def nested() -> None:
        runtime.run_here(forever())

    with pytest.raises(InvalidStateError, match="wait for itself"):
        run(nested())


def test_a_call_within_what_runs_here_leaves_it_here():
    """As of an object that is collected meanwhile, and closes what it holds."""

    async def work() -> tuple[threading.Thread, bool]:
        runtime.run_here(this_thread())
        return run(this_thread()), runtime.runs_here()

    thread, is_here = runtime.run_here(work())

    assert (thread.name, is_here) == ("tensorlake-loop", True)


class Call(threading.Thread):
    """A call that is never answered, in a thread of its own."""

    def __init__(self, scope: runtime.Scope) -> None:
        super().__init__(daemon=True)
        self.scope = scope
        self.began, self.ended = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.scope.entered():
                run(self.wait())
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    async def wait(self) -> None:
        self.began.set()
        try:
            await forever()
        finally:
            self.ended.set()


def test_a_cancelled_scope_ends_its_calls_in_all_threads_and_no_others():
    scope, other = runtime.Scope(), runtime.Scope()
    calls, spared = [Call(scope), Call(scope)], Call(other)
    for call in (*calls, spared):
        call.start()
        assert call.began.wait(timeout=60)

    scope.cancel()
    for call in calls:
        call.join(timeout=60)

    assert [type(call.error) for call in calls] == [CancelledError, CancelledError]
    assert all(call.ended.is_set() for call in calls)
    assert not spared.ended.is_set()
    other.cancel()
    spared.join(timeout=60)
    assert spared.ended.is_set()


@pytest.mark.parametrize("call", [run, runtime.run_here])
def test_a_call_that_comes_after_its_scope_was_cancelled_does_not_begin(call):
    scope = runtime.Scope()
    began: list[int] = []

    async def begin() -> None:
        began.append(1)

    scope.cancel()
    with scope.entered(), pytest.raises(CancelledError):
        call(begin())
    assert began == []
    call(begin())

    assert len(began) == 1


def test_a_scope_that_is_cancelled_twice_or_after_its_calls_does_nothing():
    scope = runtime.Scope()

    with scope.entered():
        run(asyncio.sleep(0))
    scope.cancel()
    scope.cancel()

    assert run(gather_bounded([], limit=1)) == []


def test_stop_cancels_what_runs_and_a_later_run_starts_again():
    cancelled, started = threading.Event(), threading.Event()

    async def slow() -> None:
        started.set()
        try:
            await forever()
        finally:
            cancelled.set()

    async def leave_behind() -> None:
        background.add(asyncio.ensure_future(slow()))

    background: set[asyncio.Future] = set()
    run(leave_behind())
    assert started.wait(timeout=60)

    stop()

    assert cancelled.is_set()
    assert run(gather_bounded([], limit=1)) == []


def test_forked_child_has_a_loop_of_its_own():
    script = """
import os, signal
from tensorlake.storage import LocalStore, MemoryStore, run
store = MemoryStore()
run(store.put_if_absent("a", b"1"))
child = os.fork()
if child == 0:
    signal.alarm(100)
    assert run(store.get("a")) == b"1"
    run(store.put_if_absent("b", b"2"))
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert run(store.get("b")) is None
"""

    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)

    assert done.returncode == 0


def test_importing_starts_no_thread():
    script = "import threading, tensorlake.storage; assert threading.active_count() == 1"

    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)

    assert done.returncode == 0


def test_gather_keeps_order_and_bound():
    running = 0
    most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    factories = [lambda number=number: work(number) for number in range(50)]

    assert run(gather_bounded(factories, limit=4)) == list(range(50))
    assert most == 4


def test_gather_of_nothing_is_nothing():
    assert run(gather_bounded([], limit=4)) == []


def test_gather_of_one_runs_in_the_task_that_waits_for_it():
    async def task() -> object:
        return asyncio.current_task()

    async def both() -> tuple[object, list[object]]:
        return asyncio.current_task(), await gather_bounded([task], limit=4)

    caller, found = run(both())

    assert found == [caller]


def test_gather_cancels_the_rest_on_the_first_error():
    started: list[int] = []
    cancelled: list[int] = []

    async def work(number: int) -> None:
        started.append(number)
        if number == 2:
            raise ValueError("two")
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    factories = [lambda number=number: work(number) for number in range(50)]

    with pytest.raises(ValueError, match="two"):
        run(gather_bounded(factories, limit=4))
    assert sorted(cancelled) == [number for number in sorted(started) if number != 2]
    assert len(started) <= 4


def test_store_can_be_used_from_a_loop_of_the_caller():
    store = MemoryStore()

    asyncio.run(store.put_if_absent("a", b"1"))

    assert run(store.get("a")) == b"1"
