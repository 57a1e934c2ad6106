"""Gathering rows of many chunks in one call gives what a loop over rows gives."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.loader.sources.buffer_pool import SlabPool
from tensorlake.loader.sources.chunk_cache import TensorChunks, loaded_chunk
from tensorlake.loader.sources.gather import prepare_gather
from tensorlake.types import UniformColumn


def chunks_of(arrays, constant=()):
    chunks = TensorChunks("x")
    for number, array in enumerate(arrays):
        ordinal = chunks.ordinal(f"chunk {number}")
        column = UniformColumn(array)
        chunks.put(ordinal, loaded_chunk(column, b"", is_constant=number in constant))
    return chunks


def gathered(chunks, chunk, row, shape, dtype):
    chunk = np.asarray(chunk, dtype=np.int64)
    return prepare_gather(
        chunks.loaded,
        chunks.addresses,
        chunks.strides,
        chunk,
        np.asarray(row, dtype=np.int64),
        np.unique(chunk),
        shape=shape,
        dtype=np.dtype(dtype),
    )


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64", "bool", "<i8"])
@pytest.mark.parametrize("shape", [(), (3,), (4, 5), (9000,)])
def test_rows_come_from_their_chunks_in_the_order_asked(dtype, shape):
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 2, (rows, *shape)).astype(dtype) for rows in (5, 1, 8, 3, 40)]
    chunk = random.integers(0, 5, 200)
    row = np.array([random.integers(0, len(arrays[one])) for one in chunk])

    gather = gathered(chunks_of(arrays), chunk, row, shape, dtype)
    batch = gather.take(0, 200)
    pooled = gather.take_slab(50, 150, SlabPool(1 << 20))

    assert batch.dtype == np.dtype(dtype)
    assert batch.flags.writeable
    assert np.array_equal(batch, np.stack([arrays[c][r] for c, r in zip(chunk, row, strict=True)]))
    assert np.array_equal(pooled, batch[50:150])


def test_each_batch_has_memory_of_its_own():
    chunks = chunks_of([np.arange(10)])

    gather = gathered(chunks, [0] * 6, range(6), (), "int64")
    first, second = gather.take(0, 2), gather.take(2, 6)
    first[:] = -1

    assert second.tolist() == [2, 3, 4, 5]
    assert not np.shares_memory(first, second)
    assert chunks.loaded[0].values.tolist() == list(range(10))


def test_a_fill_gives_its_one_value_for_any_row():
    chunks = chunks_of([np.arange(4), np.array([7])], constant={1})

    batch = gathered(chunks, [0, 1, 1, 0], [1, 5, 10**9, 3], (), "int64").take(0, 4)

    assert batch.tolist() == [1, 7, 7, 3]


def test_large_fills_and_rows_are_gathered_too():
    chunks = chunks_of([np.ones((2, 5000)), np.full((1, 5000), 9.0)], constant={1})

    batch = gathered(chunks, [1, 0], [123, 1], (5000,), "float64").take(0, 2)

    assert (batch == [[9.0], [1.0]]).all()


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_rows_without_elements_keep_their_shape(shape):
    gather = gathered(chunks_of([np.zeros((4, *shape))]), [0, 0], [1, 2], shape, "float64")
    batch = gather.take(0, 2)

    assert batch.shape == (2, *shape)


def test_no_rows_are_an_empty_batch():
    batch = gathered(chunks_of([np.zeros((4, 2))]), [], [], (2,), "float64").take(0, 0)

    assert batch.shape == (0, 2)


def test_rows_outlive_the_chunks_they_are_in():
    chunks = chunks_of([np.arange(1000), np.arange(1000) * 2])
    gather = gathered(chunks, [0, 1], [7, 8], (), "int64")

    chunks.loaded[:] = [None, None]

    assert gather.take(0, 2).tolist() == [7, 16]
