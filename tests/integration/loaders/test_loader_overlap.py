"""Loading from an object store: pictures are decoded while other chunks are on their way."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tensorlake.dataset import rowset_of
from tensorlake.loader import SelectedRows, make_loader
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on, open_on, wait_for_storage
from tests.support.noise import ROWS, SCHEMA, fill


@pytest.fixture
def store():
    store = MemoryStore()
    fill(create_on(store, SCHEMA))
    wait_for_storage()
    return store


@dataclass(frozen=True)
class Announced:
    """A step that says when the first picture is about to be decoded."""

    is_random: ClassVar[bool] = False
    resizes: ClassVar[bool] = False
    event: threading.Event

    def place(self, placement, draws):
        self.event.set()
        return placement

    def output_size(self, size):
        return 64, 64


class Reader:
    """A dataset's reader, of which a test does something in its own time."""

    def __init__(self, dataset):
        self.dataset, self.reader = dataset, rowset_of(dataset).reader()

    def through(self, near, hedge):
        return self

    def __getattr__(self, name):
        return getattr(self.reader, name)


def loader_by(reader, **arguments):
    rows = SelectedRows(rowset_of(reader.dataset).selection, reader)
    return make_loader(rows, "numpy", **arguments)


def test_images_of_the_first_batch_are_decoded_while_others_are_on_their_way(store):
    dataset = open_on(store)
    decoding = threading.Event()
    waited = []

    class LastRowsLate(Reader):
        async def fetch(self, tensor, physical):
            if last in physical:
                waited.append(await asyncio.to_thread(decoding.wait, 60))
            return await self.reader.fetch(tensor, physical)

    loader = loader_by(
        LastRowsLate(dataset),
        batch_size=32,
        shuffle=True,
        columns=["image", "_row"],
        decode={"image": Announced(decoding)},
    )
    (whole,) = dataset.loader(batch_size=ROWS, shuffle=True, columns=["_row"])
    last = whole["_row"][31]

    batch = next(iter(loader))

    assert waited == [True]
    assert batch["_row"].tolist() == whole["_row"][:32].tolist()
    assert np.array_equal(batch["image"][0], dataset["image"][int(batch["_row"][0])])


def test_chunks_of_the_first_batch_are_asked_for_though_its_images_came_first(store):
    dataset = open_on(store)
    decoding = threading.Event()

    class PicturesFirst(Reader):
        """A reader whose chunks are asked about only when pictures of the first batch are here."""

        def map_chunk(self, key):
            assert decoding.wait(60)
            return self.reader.map_chunk(key)

    loader = loader_by(
        PicturesFirst(dataset),
        batch_size=8,
        shuffle=True,
        columns=["image", "label", "_row"],
        decode={"image": Announced(decoding)},
    )

    batch = next(iter(loader))

    assert np.array_equal(batch["label"], batch["_row"])


def test_images_are_decoded_while_another_chunk_of_their_batch_is_on_its_way(store):
    dataset = open_on(store)
    decoding = threading.Event()
    waited = []

    class LastChunkLate(Reader):
        def decode_chunk(self, tensor, key, *blobs):
            if key == last:
                waited.append(decoding.wait(60))
            return self.reader.decode_chunk(tensor, key, *blobs)

    last = rowset_of(dataset).reader().locate("image", np.array([ROWS - 1])).chunks[0]
    loader = loader_by(
        LastChunkLate(dataset),
        batch_size=ROWS,
        columns=["image", "_row"],
        decode={"image": Announced(decoding)},
        workers=2,
    )

    (batch,) = loader

    assert waited == [True]
    assert batch["_row"].tolist() == list(range(ROWS))
    assert np.array_equal(batch["image"][ROWS - 1], dataset["image"][ROWS - 1])
