"""Large raw arrays fill packs of their own in a folder: the same chunks, and nothing kept."""

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.core.buffers import PART_NBYTES, parts_of
from tensorlake.format import Schema, TensorSpec
from tensorlake.storage import LocalStore, MemoryStore, run
from tensorlake.types import UniformColumn
from tensorlake.versions.packs import writer as stage
from tensorlake.versions.packs.streaming import shares_of
from tests.support.filling import (
    ROWS,
    ROWS_A_CHUNK,
    SMALL,
    chunks_in,
    create,
    numbers_of,
    pack_files,
    rows,
)
from tests.support.handles import create_on, open_on


@pytest.fixture(autouse=True)
def small_packs(monkeypatch) -> None:
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)


async def packs_of(store: MemoryStore) -> list[bytes]:
    names = [meta.path async for meta in store.list("packs/")]
    found = [(int(name.rpartition("-")[2][:-4]), await store.get(name)) for name in names]
    return [data or b"" for _, data in sorted(found, key=lambda one: one[0])]


def stage_all(dataset) -> None:
    dataset.append({"x": rows(0, 1)["x"][0]})
    dataset.extend(rows(1, 1 + ROWS))
    dataset.extend(rows(1 + ROWS, 2 * ROWS))


def test_filled_packs_hold_the_same_chunks_as_packs_from_memory(tmp_path):
    memory, folder = MemoryStore(), LocalStore(tmp_path)

    for store in (memory, folder):
        dataset = create(store)
        stage_all(dataset)
        dataset.commit()

    filled = pack_files(tmp_path)
    assert len(filled) > len(run(packs_of(memory)))
    expected = [(blob.what, blob.checksum, data) for blob, data in chunks_in(run(packs_of(memory)))]
    found = [
        (blob.what, blob.checksum, data)
        for blob, data in chunks_in([pack.read_bytes() for pack in filled])
    ]
    assert found == expected
    assert numbers_of(open_on(folder)) == numbers_of(open_on(memory)) == [*range(2 * ROWS)]


def test_what_fills_packs_is_read_before_it_is_committed_and_gone_once_discarded(tmp_path):
    dataset = create(LocalStore(tmp_path))

    stage_all(dataset)

    assert numbers_of(dataset) == [*range(2 * ROWS)]
    dataset.discard()
    assert len(dataset) == 0
    dataset.extend(rows(7, 7 + ROWS))
    dataset.commit()
    assert numbers_of(open_on(LocalStore(tmp_path))) == [*range(7, 7 + ROWS)]


def test_the_caller_may_fill_its_array_anew_after_the_call(tmp_path):
    dataset = create(LocalStore(tmp_path))
    given = rows(0, ROWS + 1)  # a row waits for its chunk

    dataset.extend(given)
    given["x"][:] = 255
    dataset.extend(rows(ROWS + 1, 2 * ROWS))
    dataset.commit()

    assert numbers_of(open_on(LocalStore(tmp_path))) == [*range(2 * ROWS)]


def test_rows_in_the_wrong_form_are_stored_as_from_memory(tmp_path):
    """Not in C order, of another dtype, or few: these do not go straight into packs."""
    schema = {"x": tl.Array("float32", (64, 16))}
    values = np.arange(40 * 64 * 16, dtype=np.float32).reshape(40, 64, 16)
    given = [values.astype(np.float64), values.transpose(0, 2, 1).copy().transpose(0, 2, 1)]
    given += [values[::-1], values[:1], values.astype(">f4")]

    dataset = create_on(LocalStore(tmp_path), schema)
    for one in given:
        dataset.extend({"x": one})
    dataset.commit()

    assert np.array_equal(open_on(LocalStore(tmp_path))["x"][:], np.concatenate(given))


def test_a_bad_value_in_another_column_leaves_the_dataset_as_it_was(tmp_path):
    labels = tl.ClassLabel(["cat", "dog"])
    schema = {"x": tl.Array("uint8", (4096,)), "label": labels}
    dataset = create_on(LocalStore(tmp_path), schema)
    dataset.extend(rows(0, 3) | {"label": [0, 1, 1]})

    with pytest.raises(tl.errors.UnknownClassError):
        dataset.extend(rows(0, 9) | {"label": np.full(9, 7)})

    assert len(dataset) == 3
    assert list((tmp_path / "packs").rglob("*.tlp")) == []


def test_only_large_raw_columns_without_nulls_fill_packs_and_only_of_a_folder(tmp_path):
    raw = TensorSpec.new("x", tl.Array("uint8", (4096,)), chunk_nbytes=1 << 14)
    compressed = TensorSpec.new("y", tl.Array("uint8", (8,)))
    values = np.zeros((8, 4096), np.uint8)
    few = values[: ROWS_A_CHUNK - 1]
    column, with_null = UniformColumn(values), UniformColumn(values, np.arange(8) > 0)
    of_folder, of_memory = stage.PackStage(LocalStore(tmp_path)), stage.PackStage(MemoryStore())

    assert not of_folder.keeps(raw, column)
    assert of_folder.keeps(raw, with_null)
    assert of_folder.keeps(raw, UniformColumn(few))
    assert of_folder.keeps(compressed, UniformColumn(np.zeros((1 << 14, 8), np.uint8)))
    assert of_memory.keeps(raw, column)


@pytest.mark.parametrize(("chunks", "pack_chunks"), [(1, 4), (5, 2), (12, 4), (100, 64), (3, 9)])
def test_shares_hold_every_chunk_once_and_no_pack_is_too_large(chunks, pack_chunks):
    cuts = [*range(0, 3 * chunks, 3), 3 * chunks - 1]
    chunk_nbytes = 1 << 20

    shares = shares_of(cuts, chunks * chunk_nbytes, pack_nbytes=pack_chunks * chunk_nbytes)

    assert [share[0] for share in shares[1:]] == [share[-1] for share in shares[:-1]]
    assert sorted({cut for share in shares for cut in share}) == cuts
    sizes = [len(share) - 1 for share in shares]
    assert max(sizes) <= pack_chunks
    assert max(sizes) - min(sizes) <= 1


def test_parts_that_fill_packs_are_large_unless_another_column_is_copied():
    schema = Schema.new({"x": tl.Array("uint8", (1024,)), "y": tl.Array("uint8", (1024,))})
    count = 5 * PART_NBYTES // 1024
    raw = np.zeros((count, 1024), np.uint8)
    copied = np.zeros((count, 1024), np.uint16)

    def parts(**batch: np.ndarray) -> int:
        return len(list(parts_of(batch, schema, fills_packs=True)))

    assert parts(x=raw) == 1
    assert parts(x=raw, y=raw) == 1
    assert parts(x=copied) == 10
    assert parts(x=raw, y=copied) == 10
    assert len(list(parts_of({"x": raw}, schema))) == 5
