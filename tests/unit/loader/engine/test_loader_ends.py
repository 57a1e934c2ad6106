"""How a loader ends: by failure, by leaving the loop, by being forgotten."""

from __future__ import annotations

import gc
import time
from functools import partial

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import (
    CorruptSampleError,
    InvalidStateError,
    StorageTimeoutError,
)
from tensorlake.loader import SelectedRows, make_loader
from tensorlake.loader.engine import iterator, loader, pipeline
from tensorlake.loader.engine.pipeline import Pipeline
from tensorlake.loader.runtime import threads
from tensorlake.loader.runtime.counters import Counters
from tests.support.interrupts import interrupted_at
from tests.unit.loader.conftest import (
    PLAIN,
    RESIZE,
    ROWS,
    fill_pets,
    loader_threads,
    picture,
    rows_of,
    threads_left,
)

# ---- failures


@pytest.fixture(scope="module")
def damaged():
    """Pictures of which row 5 ends in the middle of its scan."""
    whole = [tl.Image("jpeg").convert([picture(row)], tensor="x") for row in range(12)]
    samples = [bytes(column.samples[0]) for column in whole]
    samples[5] = samples[5][:-100] + b"\xff\xd9"
    dataset = tl.create("memory://loader-damaged", {"image": tl.Image(codec="jpeg"), "n": "int64"})
    dataset.extend({"image": samples, "n": range(12)})
    dataset.commit("one of them is cut")
    return dataset


def test_a_damaged_image_raises_with_row_and_tensor(damaged):
    with pytest.raises(CorruptSampleError, match="row 5 of 'image'"):
        list(damaged.loader(batch_size=4, decode=RESIZE))

    assert threads_left() == []


def test_skipping_leaves_its_place_empty_and_counts_it(damaged, caplog):
    loader = damaged.loader(batch_size=4, decode=RESIZE, on_error="skip")

    batches = list(loader)

    assert [len(batch["image"]) for batch in batches] == [4, 3, 4]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == [
        row for row in range(12) if row != 5
    ]
    assert loader.stats().skipped == 1
    assert "row 5 of 'image'" in caplog.text


def test_a_store_that_does_not_answer_ends_the_wait():
    dataset = fill_pets("memory://loader-stuck", rows=10)
    iterators = []

    class StuckReader:
        def through(self, near, hedge):
            return self

        def __getattr__(self, name):
            return getattr(rowset_of(dataset).reader(), name)

        def map_chunk(self, key):
            while not iterators or iterators[0].is_live:  # until nobody waits any more
                time.sleep(0.01)

    loader = make_loader(
        SelectedRows(rowset_of(dataset).selection, StuckReader()),
        "numpy",
        batch_size=4,
        columns=["tokens"],
        timeout=0.05,
        workers=1,
    )
    iterators.append(iter(loader))

    with pytest.raises(StorageTimeoutError, match="timeout="):
        next(iterators[0])

    assert threads_left() == []


# ---- ends


@pytest.mark.slow
def test_leaving_the_loop_ends_every_thread(pets):
    for _ in pets.loader(batch_size=1, columns=PLAIN):
        break
    gc.collect()

    assert threads_left() == []


@pytest.mark.slow
def test_forgetting_a_live_iterator_ends_every_thread(pets):
    iterator = iter(pets.loader(batch_size=1, columns=PLAIN))
    next(iterator)
    assert loader_threads()

    del iterator
    gc.collect()

    assert threads_left() == []


def test_an_interrupt_in_the_loop_ends_every_thread(pets):
    def interrupt(batch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(pets.loader(batch_size=4, batch_transform=interrupt, columns=PLAIN))

    assert threads_left() == []


def interrupting(function):
    """The same function, interrupted when it has done its work."""

    def interrupted(*arguments, **keywords):
        function(*arguments, **keywords)
        raise KeyboardInterrupt

    return interrupted


@pytest.mark.parametrize(("kind", "name"), [(Pipeline, "start"), (Counters, "add")])
def test_an_interrupt_of_the_loader_itself_ends_every_thread_though_it_is_kept(
    pets, monkeypatch, kind, name
):
    """As by a debugger, or by who handles it: its traceback keeps the iterator."""
    loader = pets.loader(batch_size=1, columns=PLAIN)
    monkeypatch.setattr(kind, name, interrupting(getattr(kind, name)))

    with pytest.raises(KeyboardInterrupt) as kept:
        list(loader)

    assert threads_left() == []
    del kept


STEPS_OF = frozenset(module.__file__ for module in (loader, iterator, pipeline, threads))


ENDINGS = {
    "close the iterator": lambda _read, began: began[0].close(),
    "close the loader": lambda read, _began: read.close(),
    "begin another": lambda read, began: began.append(iter(read)),
}


def half(row):
    return {"_row": row["_row"], "half": row["label"] / 2}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("given", "stride"),
    [
        pytest.param({}, 1, id="no threads"),
        pytest.param({"transform": half}, 1, id="threads"),
        pytest.param(
            {"transform": half, "engine": "processes"}, 47, id="processes", marks=pytest.mark.slow
        ),
    ],
)
def test_an_interrupt_at_any_step_of_the_end_ends_every_thread(pets, given, ending, stride):
    """Such as a second Ctrl-C, while the first one closes the pass."""
    read = pets.loader(batch_size=4, columns=["label", "_row"], workers=1, **given)
    step, was_interrupted = 1, True

    while was_interrupted:
        began = [iter(read)]
        next(began[0])
        was_interrupted = interrupted_at(
            step, partial(ENDINGS[ending], read, began), within=STEPS_OF
        )

        again = next(iter(read))
        assert again["_row"].tolist() == [0, 1, 2, 3], f"interrupted at step {step}"
        began.clear()
        assert threads_left() == [], f"interrupted at step {step}"
        step += stride

    assert step > 40


def test_closing_a_loader_ends_its_iterator(pets):
    with pets.loader(batch_size=1, columns=PLAIN) as loader:
        iterator = iter(loader)
        next(iterator)

    with pytest.raises(InvalidStateError, match="was closed"):
        list(iterator)
    assert threads_left() == []


def test_a_tiny_prefetch_still_delivers_everything(pets):
    loader = pets.loader(
        batch_size=7, decode=RESIZE, columns=["image", "_row"], prefetch=1, cache=0, shuffle=True
    )

    assert sorted(row for rows in rows_of(loader) for row in rows) == list(range(ROWS))
