"""Work for many items in several threads: in order, and nothing left running behind the caller."""

import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tensorlake.storage import counted, note_read, parallel_map
from tensorlake.storage.concurrency.runtime import (
    BLOCKING_THREADS,
    gather_bounded,
    run,
    submit_work,
)

WAIT_S = 60


@pytest.fixture(autouse=True)
def two_cores(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_answers_come_in_the_order_of_the_items_whichever_is_ready_first():
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(WAIT_S)
        elif item == 1:
            second_is_done.set()
        return 10 * item

    assert list(parallel_map(work, range(9))) == [10 * item for item in range(9)]


def test_an_error_is_raised_in_its_place_after_the_answers_before_it():
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("of the fourth")
        return item

    answers = parallel_map(work, range(100))

    assert [next(answers), next(answers), next(answers)] == [0, 1, 2]
    with pytest.raises(ValueError, match="of the fourth"):
        next(answers)


def test_who_stops_early_waits_for_what_has_begun():
    begun: list[int] = []
    ended: list[int] = []
    left: list[int] = []
    may_end = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            assert may_end.wait(WAIT_S)
        ended.append(item)
        return item

    def stop() -> None:
        answers.close()
        left.append(len(begun) - len(ended))

    answers = parallel_map(work, range(100))
    assert next(answers) == 0
    stopping = threading.Thread(target=stop)
    stopping.start()
    stopping.join(0.1)  # would end now, if it did not wait
    may_end.set()
    stopping.join(WAIT_S)

    assert left == [0]


def test_no_items_need_no_thread():
    assert list(parallel_map(str, [])) == []


def test_callers_that_are_all_the_threads_there_are_wait_for_none():
    all_are_here = threading.Barrier(BLOCKING_THREADS)

    def call() -> list[int]:
        all_are_here.wait(WAIT_S)
        return list(parallel_map(abs, range(20)))

    called = [submit_work(call) for _ in range(BLOCKING_THREADS)]

    assert [one.result(WAIT_S) for one in called] == BLOCKING_THREADS * [[*range(20)]]


def test_what_the_threads_read_is_counted_where_the_caller_counts():
    both_are_here = threading.Barrier(2)

    def work(item: int) -> None:
        if item < 2:
            both_are_here.wait(WAIT_S)
        note_read(10, requests=1)

    with counted() as tally:
        list(parallel_map(work, range(20)))

    assert (tally.nbytes, tally.requests) == (200, 20)


class Held:
    """What an error's frames hold."""


def failing(held: Held, which: int, number: int) -> int:
    if number == which:
        raise ValueError(held)
    return number


def in_threads(held: Held, which: int) -> None:
    list(parallel_map(partial(failing, held, which), range(20)))


def on_the_loop(held: Held, which: int) -> None:
    async def one(number: int) -> int:
        await asyncio.sleep(0)
        return failing(held, which, number)

    run(gather_bounded([partial(one, number) for number in range(20)], limit=4))


@pytest.mark.slow
@pytest.mark.parametrize("several", [in_threads, on_the_loop])
@pytest.mark.parametrize("which", [0, 3, 19])
def test_an_error_of_one_of_many_leaves_no_cycle(several, which):
    gc.collect()
    gc.disable()
    is_gone = threading.Event()
    try:
        held = Held()
        weakref.finalize(held, is_gone.set)
        with pytest.raises(ValueError, match="Held"):
            several(held, which)
        del held

        assert is_gone.wait(WAIT_S)  # a thread may still be about to let go of it
    finally:
        gc.enable()


def test_no_more_items_are_taken_than_are_begun_ahead():
    taken: list[int] = []
    may_end = threading.Event()

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    def work(item: int) -> int:
        assert item < 2 or may_end.wait(WAIT_S)
        return item

    with ThreadPoolExecutor(2) as pool:
        results = parallel_map(work, items(), pool=pool, ahead=3)
        assert taken == [0, 1, 2, 3]  # with the call, and no more
        assert next(results) == 0
        assert taken == [0, 1, 2, 3]
        assert next(results) == 1
        assert taken == [0, 1, 2, 3, 4]
        may_end.set()
        assert list(results) == [*range(2, 100)]


def test_in_a_pool_the_caller_does_nothing_itself():
    threads: set[int] = set()

    def work(_: int) -> None:
        threads.add(threading.get_ident())

    with ThreadPoolExecutor(1) as pool:
        list(parallel_map(work, range(20), pool=pool, ahead=2))

    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_who_stops_early_has_begun_the_last_item_of_a_pool():
    begun: list[int] = []
    both_run = threading.Barrier(3)
    may_end = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            both_run.wait(WAIT_S)
            assert may_end.wait(WAIT_S)
        return item

    with ThreadPoolExecutor(2) as pool:
        results = parallel_map(work, range(100), pool=pool, ahead=5)
        assert next(results) == 0
        both_run.wait(WAIT_S)
        results.close()
        may_end.set()

    assert sorted(begun) == [0, 1, 2]  # those in progress ended with the pool


def test_an_error_of_the_items_is_raised_and_nothing_keeps_running():
    running: list[int] = []

    def items() -> Iterator[int]:
        yield from range(5)
        raise ValueError("of the items")

    def work(item: int) -> int:
        running.append(item)
        running.remove(item)
        return item

    with pytest.raises(ValueError, match="of the items"):
        list(parallel_map(work, items()))

    assert running == []


def test_an_interrupt_while_a_result_is_waited_for_waits_for_what_runs():
    may_end = threading.Event()
    is_running = threading.Event()
    ended: list[int] = []

    def work(item: int) -> int:
        if item == 0:
            assert is_running.wait(WAIT_S)  # a thread has the next item
            threading.Timer(0.05, may_end.set).start()
            signal.raise_signal(signal.SIGINT)
        is_running.set()
        assert may_end.wait(WAIT_S)
        ended.append(item)
        return item

    with pytest.raises(KeyboardInterrupt):
        list(parallel_map(work, range(2)))

    assert ended == [1]
