"""Probes of functions: the injected amounts of waiting, and of other threads, are found again."""

from __future__ import annotations

import threading
import time
import zlib

from tensorlake.loader.diagnosis.probes import probe_collate, probe_transform

SPENT_S = 0.01


def spend(seconds):
    """Take processor time without the interpreter's lock."""
    data, stop = bytes(1 << 20), time.thread_time() + seconds
    while time.thread_time() < stop:
        zlib.crc32(data)


def test_a_collate_function_that_waits_runs_for_less_than_it_takes():
    waited = threading.Event()

    ready_s, running_s = probe_collate(lambda _: waited.wait(SPENT_S), [1, 2], seconds=0)

    assert ready_s >= SPENT_S
    assert running_s < SPENT_S / 2


def test_a_collate_function_that_computes_runs_for_what_it_takes():
    _, running_s = probe_collate(lambda _: spend(SPENT_S), [1, 2], seconds=0)

    assert running_s >= SPENT_S


def test_threads_that_a_transform_runs_are_counted():
    def threaded(_row, _place):
        helper = threading.Thread(target=spend, args=(SPENT_S,))
        helper.start()
        spend(SPENT_S)
        helper.join()

    found = probe_transform(threaded, [{"x": 1}], seconds=0)

    assert found.kind == "runs threads of its own"
    assert found.native.value >= SPENT_S / 2
    assert found.cpu.value >= 1.5 * SPENT_S


def test_a_transform_of_one_thread_runs_no_others():
    found = probe_transform(lambda _row, _place: spend(SPENT_S), [{"x": 1}], seconds=0)

    assert found.kind != "runs threads of its own"
    assert found.native.value < SPENT_S / 4


def test_threads_that_only_calls_beside_others_run_are_counted():
    main = threading.get_ident()

    def threaded(_row, _place):
        spend(SPENT_S)
        if threading.get_ident() != main:
            helper = threading.Thread(target=spend, args=(SPENT_S,))
            helper.start()
            helper.join()

    found = probe_transform(threaded, [{"x": 1}], seconds=0)

    assert found.kind == "runs threads of its own"
    assert found.native.value >= SPENT_S / 2
