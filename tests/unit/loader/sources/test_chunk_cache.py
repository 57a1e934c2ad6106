"""The memory tier: it fills, never evicts what fits, and holds what is in use."""

from __future__ import annotations

import numpy as np

from tensorlake.loader.sources.chunk_cache import ChunkCache, loaded_chunk
from tensorlake.types import EncodedColumn, RaggedColumn, UniformColumn

CHUNK_NBYTES = 800


def chunk():
    return loaded_chunk(UniformColumn(np.zeros(100)), b"")


def cache_of(chunks, *, capacity=10, spare=0):
    cache = ChunkCache(("x",), capacity=capacity * CHUNK_NBYTES, spare=spare * CHUNK_NBYTES)
    cache.ordinals("x", np.arange(chunks), tuple(f"key {number}" for number in range(chunks)))
    return cache


def use(cache, *numbers):
    """Pin, load what is missing, unpin; return what was missing."""
    used = np.array(numbers)
    missing = cache.pin("x", used)
    for number in missing:
        cache.add("x", number, chunk())
    cache.unpin("x", used)
    return missing


def test_a_chunk_is_loaded_once_when_all_fit():
    cache = cache_of(5)

    assert use(cache, 0, 1, 2, 3, 4) == [0, 1, 2, 3, 4]
    assert use(cache, 4, 2, 0) == []
    assert cache.nbytes == 5 * CHUNK_NBYTES


def test_what_was_kept_first_stays_when_the_rest_does_not_fit():
    cache = cache_of(6, capacity=3)
    for number in range(6):
        use(cache, number)

    again = [number for number in range(6) if use(cache, number)]

    assert again == [3, 4, 5]
    assert cache.nbytes == 3 * CHUNK_NBYTES


def test_a_chunk_in_use_is_never_dropped():
    cache = cache_of(2, capacity=0)
    held = np.array([0])
    for number in cache.pin("x", held):
        cache.add("x", number, chunk())

    use(cache, 0, 1)

    assert cache.is_loaded("x", 0)
    assert not cache.is_loaded("x", 1)
    cache.unpin("x", held)
    assert not cache.is_loaded("x", 0)


def test_the_running_window_is_held_in_spare_room_oldest_out_first():
    cache = cache_of(4, capacity=0, spare=2)

    use(cache, 0)
    use(cache, 1)
    assert use(cache, 0) == []
    use(cache, 2)

    assert use(cache, 0, 2) == []
    assert use(cache, 1) == [1]
    assert cache.nbytes <= 2 * CHUNK_NBYTES


def test_chunks_in_use_count_as_held_and_leave_less_room_for_others():
    cache = cache_of(4, capacity=0, spare=2)
    use(cache, 0)
    held = np.array([1, 2])

    for number in cache.pin("x", held):
        cache.add("x", number, chunk())

    assert cache.nbytes == 2 * CHUNK_NBYTES
    assert not cache.is_loaded("x", 0)


def test_a_chunk_dropped_from_spare_room_while_pinned_comes_back_to_it():
    cache = cache_of(3, capacity=0, spare=1)
    use(cache, 0)
    cache.pin("x", np.array([0]))

    use(cache, 1)
    assert cache.is_loaded("x", 0)
    cache.unpin("x", np.array([0]))

    assert cache.is_loaded("x", 0)
    assert not cache.is_loaded("x", 1)


def test_the_end_of_a_pass_forgets_pins_and_what_they_held():
    cache = cache_of(3, capacity=1)
    for number in cache.pin("x", np.array([0, 1])):
        cache.add("x", number, chunk())

    cache.end_pass()

    assert cache.is_loaded("x", 0)
    assert not cache.is_loaded("x", 1)
    assert not cache.tensors["x"].pins.any()


def test_any_number_of_chunks_can_be_met():
    cache = cache_of(1000)

    assert cache.pin("x", np.arange(1000)) == list(range(1000))


def test_equal_keys_have_one_ordinal():
    cache = cache_of(3)

    ordinals = cache.ordinals("x", np.array([1, 0, 1]), ("key 2", "key 0"))

    assert ordinals.tolist() == [0, 2, 0]


def test_what_lies_in_a_mapped_file_counts_for_nothing():
    blob = np.arange(100, dtype=np.int64).tobytes()
    values = np.frombuffer(blob, np.int64)

    assert loaded_chunk(UniformColumn(values), blob).nbytes == 0
    assert loaded_chunk(UniformColumn(values.copy()), blob).nbytes == 800
    assert loaded_chunk(RaggedColumn(values, np.array([[100]])), blob).nbytes == 0
    assert loaded_chunk(EncodedColumn([b"abc"], None), blob).nbytes == 0
    assert loaded_chunk(EncodedColumn([b"abc"], None), b"").nbytes > 3
