"""Batches of a server that fails, stops or says nothing: who waits is told, and nothing is left.

The server is one of the loader's own border, the protocol ``BatchServer``; its streams are those of
the HTTP client, over bytes that a local loader wrote for the request.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidStateError, StorageError
from tensorlake.loader import (
    ListedBatch,
    ListedRows,
    MixNode,
    MixRows,
    MixSource,
    SelectedRows,
    make_loader,
)
from tensorlake.loader.frameworks.server import WrittenBatches, served_loader
from tensorlake.loader.sources.remote.streams import FRUITLESS_STREAMS
from tensorlake.storage import AnswerStream, LostStreamError, runtime
from tensorlake.storage.http.types import AttemptError
from tests.support.collector import collect_in_the_storage_loop, no_collection
from tests.support.handles import wait_for_storage
from tests.unit.loader.conftest import threads_left

ROWS, BATCH = 24, 4
LONG_S = 60  # until a test gives up; what works takes milliseconds
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def dataset():
    dataset = tl.create("memory://remote-pass", {"n": "int64"})
    dataset.extend({"n": range(ROWS)})
    dataset.commit("rows")
    return dataset


async def forever():
    await asyncio.get_running_loop().create_future()


@dataclass
class Server:
    """Sends a stream for each request, and does to it what the test asked for.

    Attributes:
        cut: Bytes of each stream after which ``then`` happens; None: at its end.
        then: Ends it, breaks it off, raises, or waits for ever.
        opening: What becomes of the request itself.
        times: So many streams go wrong; later ones do not.
        skipped: Rows that it leaves out at the start of each.
        is_source: It has one source of a mix; another server has the other, and never fails.
    """

    dataset: Any
    cut: int | None = None
    then: Any = "end"
    opening: Any = None
    times: int = 1
    skipped: int = 0
    is_source: bool = False
    opened: int = 0
    closed: int = 0
    is_awaited: threading.Event = field(default_factory=threading.Event)
    url: str = "http://lake/pets"

    def open(self, request, *, timeout_s):
        self.opened += 1
        goes_wrong = self.opened <= self.times
        if goes_wrong and self.opening is not None:
            self.is_awaited.set()
            if self.opening == "wait":
                runtime.run(forever())
            raise self.opening
        loader = self._served(request)
        written = WrittenBatches(loader, lambda error: {"detail": str(error)})
        body = b"".join(written)
        data = written.schema + body
        pieces = self._pieces(data, self.cut if goes_wrong else None)
        return AnswerStream(self.url, pieces, self._end, {})

    def _served(self, request):
        rows, columns = self._rows(), {"columns": request["columns"]}
        if "batches" in request:
            listed = [
                ListedBatch(one["stop"], np.array(one["places"]), np.array(one["positions"]))
                for one in request["batches"]
            ]
            most = max(len(one.places) for one in listed)
            return served_loader(ListedRows.of(rows, listed), {"batch_size": most} | columns)
        loader = served_loader(rows, {"batch_size": request["global_batch_size"]} | columns)
        state = request["state"]
        loader.load_state_dict(state | {"position": state["position"] + self.skipped})
        return loader

    def _rows(self, server=None):
        rows = rowset_of(self.dataset)
        return SelectedRows(rows.selection, rows.reader(), server=server)

    def loader(self, **arguments):
        given = {"batch_size": BATCH, "timeout": LONG_S} | arguments
        rows = self._rows(server=self)
        if self.is_source:
            sources = [
                MixSource(name, rows.selection, rows.reader, server=server)
                for name, server in (("own", self), ("other", Server(self.dataset, times=0)))
            ]
            rows = MixRows(tuple(sources), MixNode((0, 1), (0.5, 0.5)))
        return make_loader(rows, "numpy", decode_on="server", **given)

    async def _pieces(self, data, cut):
        yield data[:cut]
        if cut is None or self.then == "end":
            return
        if self.then == "wait":
            self.is_awaited.set()
            await forever()
        raise BROKEN if self.then == "break" else self.then

    async def _end(self):
        self.closed += 1


BROKEN = AttemptError("broke off")


def rows_of(batches):
    return np.concatenate([batch["n"] for batch in batches]).tolist()


def stream_nbytes(dataset):
    rows = SelectedRows(rowset_of(dataset).selection, rowset_of(dataset).reader())
    loader = served_loader(rows, {"batch_size": BATCH, "columns": ["n"]})
    written = WrittenBatches(loader, lambda error: {})
    return sum(map(len, written)) + len(written.schema)


# ---- streams that break off


@pytest.mark.parametrize("then", ["end", "break"])
def test_a_stream_that_breaks_off_anywhere_is_continued_exactly(dataset, then):
    for cut in range(0, stream_nbytes(dataset), 197):
        server = Server(dataset, cut=cut, then=then)

        rows = rows_of(server.loader())

        assert rows == list(range(ROWS)), cut
        assert server.opened == server.closed == 2, cut
    assert threads_left() == []


def test_streams_of_a_source_that_break_off_are_continued_exactly(dataset):
    whole = rows_of(Server(dataset, is_source=True, times=0).loader())
    for cut in range(0, 900, 97):
        server = Server(dataset, cut=cut, then="break", is_source=True, times=2)

        assert rows_of(server.loader()) == whole, cut
    assert threads_left() == []


def test_a_server_whose_streams_bring_nothing_is_given_up(dataset):
    server = Server(dataset, cut=0, times=10**6)

    with pytest.raises(LostStreamError):
        list(server.loader())

    assert server.opened == server.closed == FRUITLESS_STREAMS
    assert threads_left() == []


# ---- every error arrives


@pytest.mark.parametrize("error", [LookupError("mine"), RuntimeError("mine")], ids=repr)
@pytest.mark.parametrize("cut", [0, 400])
@pytest.mark.parametrize("is_source", [False, True])
def test_what_a_stream_raises_reaches_the_loop(dataset, error, cut, is_source):
    server = Server(dataset, cut=cut, then=error, is_source=is_source)

    with pytest.raises(type(error)) as raised:
        list(server.loader())

    assert raised.value is error
    assert threads_left() == []
    assert is_source or (server.opened, server.closed) == (1, 1)


@pytest.mark.parametrize("error", [LookupError("mine"), SystemExit(3)], ids=repr)
def test_what_a_request_raises_reaches_the_loop(dataset, error):
    server = Server(dataset, opening=error)

    with pytest.raises(type(error)) as raised:
        list(server.loader())

    assert raised.value is error
    assert threads_left() == []


def test_batches_of_other_places_are_refused(dataset):
    server = Server(dataset, skipped=BATCH)

    with pytest.raises(StorageError, match="the batch that ends at place 8, not the one at 4"):
        list(server.loader())

    assert (server.opened, server.closed) == (1, 1)
    assert threads_left() == []


def test_a_request_that_others_cancel_is_an_error(dataset):
    server = Server(dataset, opening="wait")
    iterator = iter(server.loader())
    assert server.is_awaited.wait(LONG_S)

    async def cancel_all():
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    runtime.run(asyncio.sleep(0))  # the request is on the loop by now
    runtime.run(cancel_all())

    with pytest.raises(InvalidStateError, match="storage was stopped"):
        next(iterator)
    assert threads_left() == []


# ---- ends that somebody else brings about

SILENT = {"opening": {"opening": "wait"}, "streaming": {"cut": 400, "then": "wait"}}
SILENT |= {f"{name} of a source": {**one, "is_source": True} for name, one in SILENT.items()}


@pytest.fixture(params=SILENT)
def silent(dataset, request):
    """A server that does not answer, or not to the end."""
    return Server(dataset, **SILENT[request.param])


def test_closing_ends_a_pass_whose_server_is_silent(silent):
    loader = silent.loader()
    iterator = iter(loader)
    assert silent.is_awaited.wait(LONG_S)

    loader.close()

    assert threads_left() == []
    wait_for_storage()
    assert 1 <= silent.opened <= 4  # streams at once, of a source
    with pytest.raises(InvalidStateError, match="was closed"):
        next(iterator)


def test_closing_from_another_thread_ends_the_wait_and_not_the_epoch(silent):
    loader = silent.loader()
    iterator = iter(loader)
    seen = []
    assert silent.is_awaited.wait(LONG_S)
    closer = threading.Thread(target=iterator.close)
    closer.start()

    with pytest.raises(InvalidStateError, match="was closed"):
        seen.extend(iterator)
    closer.join(LONG_S)

    assert loader.epoch == 0
    assert threads_left() == []


def test_a_forgotten_iterator_ends_a_pass_whose_server_is_silent(silent):
    iterator = iter(silent.loader())
    assert silent.is_awaited.wait(LONG_S)

    del iterator

    assert threads_left() == []
    wait_for_storage()


@pytest.mark.slow
def test_an_iterator_collected_by_the_storage_loop_does_not_block_it(silent):
    circle = [iter(silent.loader())]
    circle.append(circle)
    assert silent.is_awaited.wait(LONG_S)

    with no_collection():
        del circle
        collect_in_the_storage_loop()

    assert threads_left() == []


def test_an_iterator_is_dropped_under_any_lock_of_its_own(silent):
    iterator = iter(silent.loader())
    assert silent.is_awaited.wait(LONG_S)

    with iterator._pipeline._setup.counters._lock, runtime._lock:
        del iterator

    assert threads_left() == []


def test_what_was_read_ahead_and_not_taken_is_forgotten(dataset):
    server = Server(dataset)
    loader = server.loader(prefetch=1)
    iterator = iter(loader)
    next(iterator)

    iterator.close()

    remote = loader._last_pass
    assert remote._arrivals.get_nowait() is None  # for whoever still waits
    assert remote._arrivals.empty()
    assert server.opened == server.closed == 1


def test_a_pass_that_is_left_ends_before_the_next_begins(dataset):
    loader = Server(dataset, times=0).loader(prefetch=1)
    for _ in loader:
        break

    assert rows_of(loader) == list(range(ROWS))
    assert threads_left() == []
