"""Memory of past batches is used again, and never while anyone can see it."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlake.loader.sources.buffer_pool import SlabPool

SHAPE, DTYPE = (256, 300), np.dtype("uint16")


def address(array):
    return array.ctypes.data


def test_memory_that_nobody_holds_is_used_again():
    pool = SlabPool(1 << 20)
    first = address(pool.array(SHAPE, DTYPE))

    assert address(pool.array(SHAPE, DTYPE)) == first


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: array,
        lambda array: array[3],
        lambda array: array[::2].T,
        memoryview,
        lambda array: np.frombuffer(array, np.uint8)[5:],
        iter,
        np.from_dlpack,
    ],
    ids=["itself", "row", "transposed", "memoryview", "frombuffer", "iterator", "dlpack"],
)
def test_memory_that_is_held_in_any_form_is_left_alone(hold):
    pool = SlabPool(1 << 20)
    array = pool.array(SHAPE, DTYPE)
    first, held = address(array), hold(array)
    del array

    assert address(pool.array(SHAPE, DTYPE)) != first
    del held
    pool.array(SHAPE, DTYPE)
    assert first in {address(pool.array(SHAPE, DTYPE)) for _ in range(2)}


def test_a_torch_tensor_holds_its_memory():
    torch = pytest.importorskip("torch")
    pool = SlabPool(1 << 20)
    array = pool.array(SHAPE, DTYPE)
    first, tensor = address(array), torch.from_numpy(array)[7].view(-1)
    del array

    assert address(pool.array(SHAPE, DTYPE)) != first
    assert tensor.numel() == 300


def test_a_jax_array_holds_its_memory():
    jax = pytest.importorskip("jax")
    pool = SlabPool(1 << 20)
    array = pool.array(SHAPE, DTYPE)
    array[:] = 7
    held = jax.device_put(array)
    held.block_until_ready()
    del array

    pool.array(SHAPE, DTYPE)[:] = 0

    assert (np.asarray(held) == 7).all()


def test_the_pool_keeps_no_more_than_its_capacity():
    pool = SlabPool(SHAPE[0] * SHAPE[1] * 2)
    arrays = [pool.array(SHAPE, DTYPE) for _ in range(3)]
    addresses = [address(array) for array in arrays]
    assert len(set(addresses)) == 3
    del arrays

    assert address(pool.array(SHAPE, DTYPE)) == addresses[0]
    assert pool._nbytes <= SHAPE[0] * SHAPE[1] * 2


def test_shapes_and_dtypes_of_one_size_share_memory():
    pool = SlabPool(1 << 20)
    first = address(pool.array(SHAPE, DTYPE))

    other = pool.array((128, 300), np.dtype("float32"))

    assert address(other) == first
    assert other.shape == (128, 300)


def test_a_smaller_batch_takes_memory_of_a_larger_one_and_holds_it():
    pool = SlabPool(1 << 20)
    first = address(pool.array(SHAPE, DTYPE))

    smaller = pool.array((SHAPE[0] - 100, SHAPE[1]), DTYPE)

    assert address(smaller) == first
    assert address(pool.array(SHAPE, DTYPE)) != first
    assert pool.nbytes == 2 * SHAPE[0] * SHAPE[1] * DTYPE.itemsize


def test_a_much_smaller_batch_leaves_memory_of_a_large_one_alone():
    pool = SlabPool(1 << 20)
    first = address(pool.array((4 * SHAPE[0], SHAPE[1]), DTYPE))

    assert address(pool.array(SHAPE, DTYPE)) != first
