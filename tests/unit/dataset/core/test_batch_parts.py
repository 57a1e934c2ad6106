"""Large arrays are taken in parts: the same rows and chunks, all or nothing, the caller's kept."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.core.buffers import PART_NBYTES, MemoryBlocks, parts_of
from tensorlake.errors import ShapeMismatchError, UnknownClassError
from tensorlake.format import Schema
from tensorlake.storage import MemoryStore
from tests.support.handles import create_on

COLUMNS = 1 << 10
ROWS = 5 * PART_NBYTES // COLUMNS + 3
SCHEMA = {"x": tl.Array("uint8", (COLUMNS,)), "label": tl.ClassLabel(["cat", "dog"])}


def large_batch() -> dict[str, np.ndarray]:
    numbers = np.arange(ROWS)
    values = np.zeros((ROWS, COLUMNS), np.uint8)
    values[:, :4] = numbers.astype("<u4")[:, None].view(np.uint8).reshape(ROWS, 4)
    return {"x": values, "label": numbers % 2}


def test_parts_are_whole_chunks_and_hold_every_row_once():
    batch, schema = large_batch(), Schema.new(SCHEMA)

    parts = list(parts_of(batch, schema))

    rows_a_chunk = schema["x"].chunk_nbytes // COLUMNS
    assert len(parts) == 6
    assert all(len(part["x"]) % rows_a_chunk == 0 for part in parts[:-1])
    for name, values in batch.items():
        assert np.array_equal(np.concatenate([part[name] for part in parts]), values)


def test_small_columns_and_those_of_different_lengths_are_taken_whole():
    schema, batch = Schema.new(SCHEMA), large_batch()
    small = {name: values[:9] for name, values in batch.items()}
    uneven = {"x": batch["x"], "label": batch["label"][1:]}

    assert list(parts_of(small, schema)) == [small]
    assert list(parts_of(uneven, schema)) == [uneven]


def test_chunks_compressed_in_several_threads_keep_their_order():
    rows = 5 * PART_NBYTES // 32
    numbers = np.zeros((rows, 4), np.int64)
    numbers[:, 0] = np.arange(rows)
    schema = {"x": tl.Array("int64", (4,))}  # small samples are compressed
    ds = create_on(MemoryStore(), schema)

    given = numbers.copy()
    ds.extend({"x": given})
    given[:] = -1
    ds.commit("large")

    assert len(list(parts_of({"x": numbers}, Schema.new(schema)))) == 2
    assert np.array_equal(ds["x"][:], numbers)


def test_a_large_array_is_stored_as_it_was_given_whatever_the_caller_does_after():
    ds = create_on(MemoryStore(), SCHEMA)
    batch = large_batch()
    ds.append({"x": np.zeros(COLUMNS, np.uint8), "label": "dog"})  # no part begins with a chunk

    ds.extend(batch)
    batch["x"][:] = 255
    ds.commit("large")

    expected = large_batch()
    assert np.array_equal(ds["x"][1:], expected["x"])
    assert np.array_equal(np.asarray(ds["label"][1:]), expected["label"])


def test_a_bad_value_in_the_last_part_leaves_the_dataset_as_it_was():
    ds = create_on(MemoryStore(), SCHEMA)
    batch = large_batch()
    batch["label"][-1] = 7

    with pytest.raises(UnknownClassError, match=f"row {ROWS - 1} "):
        ds.extend(batch)

    assert len(ds) == 0
    assert not ds.has_changes


def test_large_columns_of_different_lengths_are_refused_before_anything_is_staged():
    ds = create_on(MemoryStore(), SCHEMA)
    batch = large_batch()

    with pytest.raises(ShapeMismatchError, match="different lengths"):
        ds.extend({"x": batch["x"], "label": batch["label"][1:]})

    assert not ds.has_changes


def test_a_block_is_not_given_out_again_while_a_view_of_it_lives():
    blocks = MemoryBlocks()
    first = blocks.copy_of(np.ones(1 << 22, np.uint8))
    view = first[5:9]
    del first

    blocks.copy_of(np.zeros(1 << 22, np.uint8))

    assert view.tolist() == [1, 1, 1, 1]


def test_calls_of_one_transaction_use_the_same_memory_again_and_the_next_one_its_own():
    ds = create_on(MemoryStore(), SCHEMA)
    blocks = session_of(ds).blocks

    ds.extend(large_batch())
    ds.extend(large_batch())

    assert session_of(ds).blocks is blocks
    ds.discard()
    assert session_of(ds).blocks is not blocks
