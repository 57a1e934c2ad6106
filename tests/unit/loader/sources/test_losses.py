"""``on_error="skip"`` goes on past damaged bytes of packs, and loses the rows they hold (A7).

Each test flips bytes of a dataset that was written whole, in a folder (chunks are mapped) and in
memory (chunks are fetched), and compares what comes with what was written.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import CorruptionError
from tensorlake.loader.sources.damaged_rows import shown_rows
from tensorlake.storage import MemoryStore, open_store, run

ROWS = 24
NAMES = itertools.count()
COLUMNS = ["image", "numbers", "packed", "boxes", "text", "_row"]


def pixels(row):
    """Noise, which no codec makes small: samples of more than 4 KiB have units of their own."""
    return np.random.default_rng(row).integers(0, 256, (48, 40, 3), dtype=np.uint8)


def fill(url):
    dataset = tl.create(
        url,
        {
            "image": tl.Image("png"),
            "numbers": tl.Array("uint8", (3000,)),  # two rows a unit
            "packed": tl.Array("int64", (4,)),  # compressed: no units
            "boxes": tl.BBox(),
            "text": "str",
        },
    )
    dataset.extend(
        {
            "image": [pixels(row) for row in range(ROWS)],
            "numbers": [pixels(row).reshape(-1)[:3000] for row in range(ROWS)],
            "packed": [[row] * 4 for row in range(ROWS)],
            "boxes": [[[0, 0, row, row]] * (row % 3) for row in range(ROWS)],
            "text": [f"row {row}" for row in range(ROWS)],
        }
    )
    dataset.commit()
    return dataset


@pytest.fixture(params=["folder", "memory"])
def dataset(request, tmp_path: Path):
    url = f"memory://losses-{next(NAMES)}" if request.param == "memory" else str(tmp_path / "ds")
    return fill(url)


def keys_of(dataset, tensor):
    physical = rowset_of(dataset).selection.physical(np.arange(ROWS))
    return rowset_of(dataset).reader().chunks(tensor, physical)


def flip(dataset, pack, at, nbytes=1):
    """Change bytes of a pack; handles opened from now on read them."""
    store = open_store(dataset.url)
    path = getattr(pack, "path", pack)
    data = bytearray(run(store.get(path)))
    data[at : at + nbytes] = bytes(byte ^ 0x5A for byte in data[at : at + nbytes])
    if isinstance(store, MemoryStore):
        run(store.put(path, bytes(data)))
    else:
        Path(dataset.url, path).chmod(0o600)
        Path(dataset.url, path).write_bytes(bytes(data))
    return tl.open(dataset.url)


def check_batches(batches):
    """See that every row that came has what was written; return the rows."""
    came = []
    for batch in batches:
        for at, row in enumerate(batch["_row"].tolist()):
            assert np.array_equal(batch["image"][at], pixels(row))
            assert np.array_equal(batch["numbers"][at], pixels(row).reshape(-1)[:3000])
            assert batch["packed"][at].tolist() == [row] * 4
            assert len(batch["boxes"][at]) == row % 3
            assert batch["text"][at] == f"row {row}"
            came.append(row)
    return came


def loader_of(dataset, **arguments):
    collate = {"image": "list", **arguments.pop("collate", {})}
    return dataset.loader(
        batch_size=5, columns=COLUMNS, collate=collate, on_error="skip", **arguments
    )


def test_a_byte_of_one_sample_loses_that_row_alone(dataset, caplog):
    (key,) = keys_of(dataset, "image")
    at = key.offset + key.header_nbytes + 5 * len(dataset["image"].bytes(0)) + 700
    damaged = flip(dataset, key.pack, at)
    loader = loader_of(damaged)

    batches = list(loader)
    came = check_batches(batches)

    (lost,) = set(range(ROWS)) - set(came)
    assert lost in (4, 5)
    assert came == sorted(came)
    assert [len(batch["_row"]) for batch in batches] == [5 - (lost // 5 == n) for n in range(4)] + [
        4
    ]
    assert loader.stats().skipped == 1
    assert f"rows {lost} of 'image' are damaged" in caplog.text
    assert key.pack.path in caplog.text
    with pytest.raises(CorruptionError, match=r"is damaged: (its|the) checksum"):
        list(damaged.loader(batch_size=5, columns=["image"], collate={"image": "list"}))


def test_a_byte_of_a_block_of_rows_loses_those_rows_alone(dataset):
    (key,) = keys_of(dataset, "numbers")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 6000 + 10)

    came = check_batches(loader_of(damaged))

    assert came == [0, 1, *range(4, ROWS)]


@pytest.mark.parametrize("tensor", ["packed", "boxes", "text"])
def test_a_chunk_without_units_loses_its_rows(dataset, tensor):
    (key,) = keys_of(dataset, tensor)
    damaged = flip(dataset, key.pack, key.offset + key.nbytes - 3)
    loader = loader_of(damaged)

    assert check_batches(loader) == []
    assert loader.stats().skipped == ROWS
    assert (
        len(list(damaged.loader(batch_size=5, columns=["image"], collate={"image": "list"}))) == 5
    )


def test_a_damaged_header_loses_its_chunk_and_no_other(dataset):
    dataset.append({name: dataset[0][name] for name in dataset.schema})
    dataset.commit()
    first, _ = keys_of_all(dataset, "image")
    damaged = flip(dataset, first.pack, first.offset + 70)

    loader = loader_of(damaged)

    assert [batch["_row"].tolist() for batch in loader if len(batch["_row"])] == [[ROWS]]


def keys_of_all(dataset, tensor):
    physical = rowset_of(dataset).selection.physical(np.arange(len(dataset)))
    return rowset_of(dataset).reader().chunks(tensor, physical)


def test_positions_do_not_shift_and_places_are_kept_where_valid_is_asked_for(dataset):
    (key,) = keys_of(dataset, "numbers")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 6000 + 10)
    loader = damaged.loader(
        batch_size=5,
        columns=[*COLUMNS, "_valid"],
        collate={"image": "pad", "boxes": "pad"},
        on_error="skip",
        shuffle=True,
        seed=3,
    )
    whole = dataset.loader(batch_size=5, columns=["_row"], shuffle=True, seed=3)

    batches = list(loader)

    order = [batch["_row"].tolist() for batch in batches]
    assert order == [batch["_row"].tolist() for batch in whole]
    valid = np.concatenate([batch["_valid"] for batch in batches])
    rows = np.concatenate([batch["_row"] for batch in batches])
    assert sorted(rows[~valid].tolist()) == [2, 3]


def test_a_second_epoch_and_a_transform_leave_the_same_rows_out(dataset):
    (key,) = keys_of(dataset, "numbers")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 6000 + 10)
    loader = loader_of(damaged, transform=lambda row: row)

    first, second = check_batches(loader), check_batches(loader)

    assert first == second == [0, 1, *range(4, ROWS)]
    assert loader.stats().skipped == 4


def test_the_same_rows_are_lost_from_the_memory_tier(dataset):
    (key,) = keys_of(dataset, "numbers")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 6000 + 10)
    loader = damaged.loader(batch_size=5, columns=["numbers", "_row"], on_error="skip")

    epochs = [[row for batch in loader for row in batch["_row"].tolist()] for _ in range(3)]

    assert epochs == [[0, 1, *range(4, ROWS)]] * 3


def test_rows_read_by_themselves_lose_only_those_that_are_damaged():
    dataset = fill(f"memory://losses-{next(NAMES)}")
    (key,) = keys_of(dataset, "image")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 100)
    few = damaged[[7, 0, 9]]  # of a remote dataset so few rows of large samples are read alone

    came = [batch["_row"].tolist() for batch in loader_of(few)]

    assert came == [[7, 9]]


def test_rows_that_come_back_are_lost_each_time_and_their_neighbours_never():
    dataset = fill(f"memory://losses-{next(NAMES)}")
    (key,) = keys_of(dataset, "image")
    damaged = flip(dataset, key.pack, key.offset + key.header_nbytes + 100)
    how = {"repeat": 3, "shuffle": "full", "seed": 2, "cache": 1 << 15}  # read alone, and kept

    with loader_of(damaged, **how) as loader:
        came = sorted(check_batches(loader))
        stats = loader.stats()

    assert came == sorted([*range(1, ROWS)] * 3)
    assert stats.row_reads >= ROWS
    assert stats.cache_nbytes <= 1 << 15
    with pytest.raises(CorruptionError):
        list(damaged.loader(batch_size=5, columns=["image"], collate={"image": "list"}, **how))


@pytest.mark.parametrize("shuffle", [False, "full"])
def test_a_damaged_index_page_loses_the_rows_it_speaks_of(shuffle):
    large = tl.Array("int64", (1024,))  # samples of 8 KiB: compaction of the tail leaves them
    dataset = tl.create(f"memory://losses-{next(NAMES)}", {"x": large, "y": "int64"})
    for row in range(72):  # a commit adds an entry, and some twenty make a page
        dataset.append({"x": np.full(1024, row), "y": row})
        dataset.commit()
    snapshot = rowset_of(dataset).selection.snapshot
    first, second, *_ = snapshot.state.roots[snapshot.spec("x").id].children
    lost = range(first.rows, first.rows + second.rows)
    damaged = flip(dataset, second.pack, second.offset + 40)
    loader = damaged.loader(batch_size=9, shuffle=shuffle, columns=["x", "y"], on_error="skip")

    rows = np.concatenate([batch["x"][:, 0] for batch in loader])

    assert sorted(rows.tolist()) == [row for row in range(72) if row not in lost]
    assert loader.stats().skipped == second.rows
    with pytest.raises(CorruptionError, match=r"index page|checksum"):
        list(damaged.loader(batch_size=9, columns=["x"]))


@pytest.mark.parametrize("change", [lambda data, at: data[:at], lambda data, at: None])
def test_a_pack_that_is_cut_or_missing_loses_its_rows(dataset, change):
    dataset.append({name: dataset[0][name] for name in dataset.schema})
    dataset.commit()
    first, _ = keys_of_all(dataset, "text")
    store = open_store(dataset.url)
    data = change(run(store.get(first.pack.path)), first.offset + 5)
    if isinstance(store, MemoryStore):
        run(store.delete(first.pack.path))
        if data is not None:
            run(store.put(first.pack.path, data))
    else:
        Path(dataset.url, first.pack.path).unlink()
        if data is not None:
            Path(dataset.url, first.pack.path).write_bytes(data)
    damaged = tl.open(dataset.url)
    loader = damaged.loader(batch_size=5, columns=["text", "_row"], on_error="skip")

    rows = [row for batch in loader for row in batch["_row"].tolist()]

    assert (rows, loader.stats().skipped) == ([ROWS], ROWS)


@pytest.mark.slow
def test_every_flipped_byte_loses_rows_and_never_changes_one(dataset):
    packs = {key.pack for tensor in dataset.schema for key in keys_of(dataset, tensor)}
    (pack,) = packs
    nbytes = len(run(open_store(dataset.url).get(pack.path)))
    opened = 0
    for at in range(0, nbytes, nbytes // 20):
        damaged = flip(dataset, pack, at)
        try:
            came = check_batches(loader_of(damaged))
        finally:
            flip(dataset, pack, at)
        assert len(came) == len(set(came))
        opened += 1

    assert opened >= 20


def test_rows_shown_are_few():
    assert shown_rows(np.arange(3)) == "0, 1, 2"
    assert shown_rows(np.arange(20)).endswith("7, … (20 rows)")


def test_a_chunk_that_comes_back_is_reported_once_a_pass(caplog):
    dataset = fill(f"memory://losses-{next(NAMES)}")
    (key,) = keys_of(dataset, "image")
    step = len(dataset["image"].bytes(0))
    for row in (3, 11, 17):
        dataset = flip(dataset, key.pack, key.offset + key.header_nbytes + row * step + 700)
    loader = dataset.loader(
        batch_size=4,
        columns=["image", "_row"],
        weights=np.arange(1, ROWS + 1),  # rows come back, and are read alone
        shuffle=True,
        repeat=4,
        cache="64KB",
        collate={"image": "list"},
        on_error="skip",
    )

    for number in (1, 2):
        came = {row for batch in loader for row in batch["_row"].tolist()}
        told = [one for one in caplog.messages if "rows of a chunk of 'image'" in one]
        assert not came & {3, 11, 17}
        assert len(told) == number
