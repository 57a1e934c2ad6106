"""Worker threads: urgent tasks first, others as they came."""

from __future__ import annotations

import threading

from tensorlake.loader.runtime.threads import WorkerThreads

LONG_S = 60.0


def test_a_task_of_lower_order_is_done_before_those_that_came_earlier():
    workers = WorkerThreads(1, name="tensorlake-loader-ordered")
    may_begin, has_ended = threading.Event(), threading.Event()
    done: list[str] = []
    workers.start(on_crash=lambda error: None)
    workers.submit(lambda: may_begin.wait(LONG_S))

    for order, name in ((2, "c"), (1, "a"), (2, "d"), (1, "b")):
        workers.submit(lambda name=name: done.append(name), order=order)
    workers.submit(has_ended.set, order=3)
    may_begin.set()

    assert has_ended.wait(LONG_S)
    assert done == ["a", "b", "c", "d"]
    workers.stop()
    workers.join(LONG_S)


def test_tasks_that_wait_are_dropped_when_the_threads_are_stopped():
    workers = WorkerThreads(1, name="tensorlake-loader-dropping")
    has_begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []
    workers.start(on_crash=lambda error: None)
    workers.submit(lambda: (has_begun.set(), may_end.wait(LONG_S)))
    assert has_begun.wait(LONG_S)
    workers.submit(lambda: done.append("waiting"))

    workers.stop()
    workers.submit(lambda: done.append("late"))
    may_end.set()
    workers.join(LONG_S)

    assert done == []
