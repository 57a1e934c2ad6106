"""Iterators of a loader as trainers use them: drawn to the last batch and no further, made and not
read, left after a few batches, kept beside the next one, and read by several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from tensorlake.errors import InvalidStateError
from tests.unit.loader.conftest import ROWS, loader_threads, rows_of, threads_left

READ = {"batch_size": 7, "shuffle": True, "seed": 4, "columns": ["_row"]}
THREADS = 4


@pytest.fixture
def expected(pets):
    """The first three epochs, as plain loops have them."""
    loader = pets.loader(**READ)
    return [rows_of(loader) for _ in range(3)]


def drawn(iterator, batches):
    return [next(iterator)["_row"].tolist() for _ in range(batches)]


# ---- drawn to the last batch: nothing asks for the end


def test_a_loop_that_draws_exactly_as_many_batches_as_there_are_reads_each_epoch(pets, expected):
    loader = pets.loader(**READ)
    epochs, kept = [], []

    for epoch in range(3):
        kept.append(iter(loader))  # as a trainer's fetcher keeps it
        epochs.append(drawn(kept[-1], len(loader)))
        assert loader.epoch == epoch

    assert epochs == expected


@pytest.mark.parametrize(
    "idiom", [islice, lambda loader, count: map(snd, zip(range(count), loader, strict=False))]
)
def test_islice_and_zip_of_a_whole_epoch_read_each_epoch(pets, expected, idiom):
    loader = pets.loader(**READ)

    epochs = [[one["_row"].tolist() for one in idiom(loader, len(loader))] for _ in range(3)]

    assert epochs == expected


def snd(pair):
    return pair[1]


def test_after_the_last_batch_the_state_is_of_the_end_until_the_next_pass(pets, expected):
    loader = pets.loader(**READ)
    iterator = iter(loader)
    drawn(iterator, len(loader))

    state = loader.state_dict()
    assert (state["epoch"], state["position"], loader.remaining) == (0, ROWS, 0)
    assert (loader.epoch, loader.progress().remaining) == (0, 0)
    assert next(iterator, None) is None
    state_after = loader.state_dict()
    assert (state_after["epoch"], state_after["position"]) == (1, 0)
    for one in (state, state_after):
        resumed = pets.loader(**READ)
        resumed.load_state_dict(one)
        assert resumed.epoch == 1
        assert rows_of(resumed) == expected[1]


def test_a_finished_iterator_that_is_asked_late_moves_no_epoch(pets, expected):
    loader = pets.loader(**READ)
    first = iter(loader)
    drawn(first, len(loader))
    second = iter(loader)
    head = drawn(second, 2)

    assert list(first) == []
    assert loader.epoch == 1
    assert head + [batch["_row"].tolist() for batch in second] == expected[1]


def test_a_finished_iterator_holds_no_thread_though_it_is_kept(pets):
    loader = pets.loader(**READ | {"batch_size": 1}, transform=dict)
    iterator = iter(loader)
    next(iterator)
    assert loader_threads()

    drawn(iterator, len(loader) - 1)

    assert threads_left() == []
    assert list(iterator) == []


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_finished_epoch_can_be_set_skipped_and_loaded_over(pets, expected, drop_last):
    loader = pets.loader(**READ, drop_last=drop_last)
    count = len(loader)

    def finish():
        loader.set_epoch(0)
        iterator = iter(loader)
        drawn(iterator, count)
        return iterator

    kept = [finish()]
    loader.set_epoch(2)
    assert rows_of(loader) == expected[2][:count]
    kept.append(finish())
    loader.skip(2)  # of the next: nothing is left of the one that ended
    assert rows_of(loader) == expected[1][2:count]
    kept.append(finish())
    loader.load_state_dict(loader.state_dict())
    assert loader.epoch == 1
    assert rows_of(loader) == expected[1][:count]


# ---- made and not read, or left


def test_an_iterator_that_was_not_read_is_replaced_and_no_epoch_is_lost(pets, expected):
    loader = pets.loader(**READ)

    iter(loader)  # as Lightning tries whether it is iterable
    kept = iter(loader)
    assert rows_of(loader) == expected[0]

    with pytest.raises(InvalidStateError, match="a newer"):
        next(kept)
    assert rows_of(loader) == expected[1]


def test_an_iterator_that_was_not_read_moves_no_loaded_place(pets, expected):
    loader = pets.loader(**READ)
    loader.skip(3)
    state = loader.state_dict()

    loader.load_state_dict(state)
    kept = iter(loader)
    loader.load_state_dict(state)
    del kept
    iter(loader)

    assert rows_of(loader) == expected[0][3:]


def test_a_pass_that_is_left_after_a_few_batches_is_an_epoch_of_its_own(pets, expected):
    """A sanity check reads two batches of what is validated with."""
    loader = pets.loader(**READ)

    for number, _ in enumerate(loader):
        if number == 1:
            break

    assert loader.epoch == 0
    assert rows_of(loader) == expected[1]


# ---- threads


def test_threads_that_share_an_iterator_get_each_batch_once(pets):
    for transform in (None, dict):
        loader = pets.loader(**READ | {"batch_size": 1}, transform=transform)
        for epoch in range(3):
            iterator = iter(loader)
            together = threading.Barrier(THREADS)

            def read(iterator=iterator, together=together):
                together.wait()
                return [batch["_row"].item() for batch in iterator]

            with ThreadPoolExecutor(THREADS) as pool:
                parts = [pool.submit(read) for _ in range(THREADS)]
            rows = [row for part in parts for row in part.result()]

            assert sorted(rows) == list(range(ROWS))
            assert loader.epoch == epoch + 1
    assert threads_left() == []


def test_threads_that_each_ask_for_an_iterator_leave_one_that_reads_all(pets, expected):
    loader = pets.loader(**READ)
    together = threading.Barrier(THREADS)

    def ask(_):
        together.wait()
        return iter(loader)

    with ThreadPoolExecutor(THREADS) as pool:
        iterators = list(pool.map(ask, range(THREADS)))
    live = [one for one in iterators if one.is_live]

    assert len(live) == 1
    assert [batch["_row"].tolist() for batch in live[0]] == expected[0]
    assert threads_left() == []


def test_closing_in_another_thread_ends_the_wait_for_a_batch(pets):
    waits, goes_on = threading.Event(), threading.Event()

    def transform(row):
        waits.set()
        goes_on.wait(60)
        return row

    loader = pets.loader(**READ, transform=transform, workers=1)
    iterator = iter(loader)

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(next, iterator) for _ in range(2)]
        waits.wait(60)
        closing = threading.Thread(target=iterator.close)
        closing.start()
        goes_on.set()
        closing.join(60)

    assert not closing.is_alive()
    for reader in readers:
        with pytest.raises(InvalidStateError, match="closed"):
            reader.result()
    assert threads_left() == []


def test_an_iterator_that_is_replaced_while_it_waits_moves_no_place(pets, expected):
    waits, goes_on = threading.Event(), threading.Event()

    def batch_transform(batch):
        if not waits.is_set():
            waits.set()
            goes_on.wait(60)
        return batch

    loader = pets.loader(**READ, batch_transform=batch_transform)
    older = iter(loader)

    with ThreadPoolExecutor(2) as pool:
        reader = pool.submit(next, older)
        waits.wait(60)
        maker = pool.submit(iter, loader)
        while older.is_live:
            pass
        goes_on.set()
        newer = maker.result(60)
    with pytest.raises(InvalidStateError, match="closed"):
        reader.result()

    assert [batch["_row"].tolist() for batch in newer] == expected[0]
    assert loader.epoch == 1
