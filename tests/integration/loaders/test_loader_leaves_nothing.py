"""What a loader leaves behind, however its passes end: no thread, file, process or memory."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError
from tests.support.collector import no_collection
from tests.unit.loader.conftest import RESIZE, fill_pets, picture, threads_left

ROOT = Path(__file__).parents[3]
EPOCHS, REPEATS = 10, 4
GROWTH_NBYTES = 50_000  # of Python's and NumPy's allocations, by each pass
COLUMNS = ["image", "tokens", "boxes", "name"]


@contextmanager
def only_what_is_new():
    """Hide from collections, and from who counts objects, what was there before."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    with fill_pets(str(tmp_path_factory.mktemp("pets") / "pets.tl"), rows=40) as dataset:
        yield dataset


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Pictures of which the last is cut short, as only bytes of an older writer could be."""
    whole = [tl.Image("jpeg").convert([picture(row)], tensor="x") for row in range(12)]
    samples = [bytes(column.samples[0]) for column in whole]
    samples[11] = samples[11][:-100] + b"\xff\xd9"
    dataset = tl.create(str(tmp_path_factory.mktemp("d") / "d.tl"), {"image": tl.Image("jpeg")})
    dataset.extend({"image": samples})
    dataset.commit("one is cut")
    return dataset


def held():
    """Open files and child processes of this process, by name.

    Others' may end at any moment, as connections of earlier tests do that are kept for a while: so
    it is asked what is held more often than before, and not how much there is.
    """
    gc.collect()
    children = psutil.Process().children(recursive=True)
    return Counter(opened()) + Counter(f"process {child.pid}" for child in children)


def opened():
    """Name what each open file is of."""
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as that of the listing itself
            yield str(file.readlink())


def whole(pets, damaged):
    for _ in pets.loader(batch_size=8, shuffle=True, columns=COLUMNS, decode=RESIZE):
        pass


def left_early(pets, damaged):
    for number, _ in enumerate(pets.torch(batch_size=2, columns=COLUMNS, decode=RESIZE)):
        if number == 3:
            break


def failed_in_the_loop(pets, damaged):
    def train(loader):
        for batch in loader:
            len(batch["image"]) / 0

    with pytest.raises(ZeroDivisionError):
        train(pets.loader(batch_size=4, columns=COLUMNS, decode=RESIZE, prefetch="1GB"))


def failed_in_a_transform(pets, damaged):
    def transform(row):
        raise LookupError(row["name"])

    with pytest.raises(LookupError):
        list(pets.loader(batch_size=4, columns=COLUMNS, decode=RESIZE, transform=transform))


def failed_to_decode(pets, damaged):
    with pytest.raises(CorruptSampleError):
        list(damaged.loader(batch_size=4, decode=RESIZE))


def interrupted(pets, damaged):
    def interrupt(batch):
        signal.raise_signal(signal.SIGINT)
        return batch

    with pytest.raises(KeyboardInterrupt):
        list(pets.loader(batch_size=4, columns=COLUMNS, decode=RESIZE, batch_transform=interrupt))


def forgotten(pets, damaged):
    next(iter(pets.loader(batch_size=4, columns=COLUMNS, decode=RESIZE)))


def left_in_an_endless_mix(pets, damaged):
    mix = tl.mix({"a": (pets, 1), "b": (pets[:20], 1)}, stop="never")
    for batch, _ in zip(mix.loader(batch_size=16, columns=["tokens"]), range(9), strict=False):
        assert len(batch["tokens"]) == 16


def left_in_memory(pets, damaged):
    loader = pets.loader(batch_size=4, shuffle=True, columns=["tokens"])
    for stop in (99, 99, 3):  # the first pass reads; the others find all in memory
        for number, _ in enumerate(loader):
            if number == stop:
                break


WAYS = [
    whole,
    left_early,
    failed_in_the_loop,
    failed_in_a_transform,
    failed_to_decode,
    interrupted,
    forgotten,
    left_in_an_endless_mix,
    left_in_memory,
]
COMMON = {whole, left_early, failed_in_a_transform}
EACH_WAY = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way in COMMON else pytest.mark.slow) for way in WAYS],
    ids=[way.__name__ for way in WAYS],
)


def loader_objects():
    """Count what the loader's own classes have made in this test and somebody still holds."""
    kinds = Counter(map(type, gc.get_objects()))
    return {
        kind.__name__: count
        for kind, count in kinds.items()
        if str(kind.__module__).startswith("tensorlake.loader")
    }


@pytest.mark.slow
@EACH_WAY
def test_nothing_is_left_and_no_collection_is_needed(pets, damaged, way):
    whole(pets, damaged)  # opens the packs, which the dataset keeps open
    way(pets, damaged)  # what is made once a process, the storage loop above all
    assert threads_left() == []
    before = held()

    with only_what_is_new(), no_collection():
        way(pets, damaged)
        assert threads_left() == []
        assert loader_objects() == {}

    assert held() - before == Counter()


@pytest.mark.slow
@EACH_WAY
def test_memory_stays_flat(pets, damaged, way):
    way(pets, damaged)
    assert threads_left() == []
    sizes = []

    with only_what_is_new():
        tracemalloc.start()
        try:
            for _ in range(REPEATS):
                way(pets, damaged)
                assert threads_left() == []
                gc.collect()  # pytest's own circles: ours are none, as the test above shows
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()

    # what is left behind is left each time; an interpreter's own table doubles once
    assert min(later - earlier for earlier, later in pairwise(sizes)) < GROWTH_NBYTES, sizes


@pytest.fixture(scope="module", params=["local", "remote"])
def stored(request, pets):
    """Pets that are mapped, and such that are read by requests."""
    if request.param == "local":
        yield pets
    else:
        with fill_pets("memory://leaves-nothing", rows=40) as dataset:
            yield dataset


def fail():
    raise ZeroDivisionError


def interrupt():
    signal.raise_signal(signal.SIGINT)


def train(loader, stop, end):
    """Take batches of an epoch until one is the last that is wanted."""
    for number, batch in enumerate(loader):
        assert len(batch["tokens"]) == 4
        if number == stop:
            end()
            break


@pytest.mark.slow
def test_ten_epochs_of_one_loader_end_each_in_another_way_and_leave_nothing(stored):
    loader = stored.loader(batch_size=4, shuffle=True, columns=COLUMNS, decode=RESIZE)
    ends = [int, fail, interrupt]  # int: only the loop is left
    train(loader, 10**6, int)  # what is made once: the storage loop, the cache, the slabs
    before, sizes = held(), []

    with only_what_is_new():
        tracemalloc.start()
        try:
            for epoch in range(EPOCHS):
                with suppress(ZeroDivisionError, KeyboardInterrupt):
                    train(loader, epoch, ends[epoch % len(ends)])
                assert threads_left() == []
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()

    assert held() - before == Counter()
    # batches that are slabs' by now are no growth: that is over when all lengths have been
    half = sizes[EPOCHS // 2 :]
    assert min(later - earlier for earlier, later in pairwise(half)) < GROWTH_NBYTES, sizes
    loader.close()
    assert loader.stats().cache_nbytes == 0
    assert loader.stats().batch_nbytes == 0


CHILD = """
import sys, threading, time
import tensorlake as tl

with tl.open(sys.argv[1]) as ds:
    try:
        for epoch in range(10**6):
            for batch in ds.loader(batch_size=4, columns=["tokens", "name"], shuffle=True):
                print("running", flush=True)
    except KeyboardInterrupt:
        pass  # with it goes what its traceback held, the pass too where it came between two calls
    threads = [t for t in threading.enumerate() if t.name.startswith("tensorlake-loader")]
    for thread in threads:  # all were told to end; one that waits for more would wait for ever
        while thread.ident is None:
            time.sleep(0.001)  # the interrupt came while it was being started
        thread.join(60)
    # on a line of its own: the other may have been interrupted before its end
    print("\\nstopped", [t.name for t in threads if t.is_alive()], flush=True)
    raise KeyboardInterrupt
"""


@pytest.mark.slow
def test_control_c_ends_a_program(pets):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, pets.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        watchdog = threading.Timer(120, child.kill)
        watchdog.start()
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        lines = child.stdout.read().splitlines()
        code = child.wait()
        watchdog.cancel()

    assert first == "running\n"
    assert lines[-1] == "stopped []"
    assert code in (-signal.SIGINT, 130, 1)
