"""Rows far apart in a folder: read by their parts, and the same as by any other way."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import CorruptionError
from tensorlake.storage import counted, runtime

ROWS = 80_000  # of 1 KiB: more chunks of 1 MiB than the tail of a log entry holds
UNIT_NBYTES = 8192


def token(rows: np.ndarray) -> np.ndarray:
    """The samples of some rows: their number, and the column's number added."""
    return (np.asarray(rows)[:, None] + np.arange(512)).astype(np.uint16)


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scattered") / "tokens.tl"
    schema = {"x": tl.Array("uint16", shape=(512,))}
    with tl.create(str(folder), schema, durability="none") as ds:
        ds.extend({"x": token(np.arange(ROWS))})
        ds.commit()
    return folder


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).choice(ROWS, 300)  # some twice, in no order


def pack_of_chunks(ds) -> tuple[Path, int]:
    """The file that holds row 0, and where in it."""
    key = rowset_of(ds).reader().locate("x", np.array([0])).chunks[0]
    return Path(ds.url) / key.pack.path, key.offset + key.header_nbytes


@pytest.mark.slow
def test_scattered_rows_are_those_asked_for_and_only_their_parts_are_read(written, rows):
    with tl.open(str(written), read_only=True) as ds, counted() as tally:
        found = ds["x"][rows]

    assert np.array_equal(found, token(rows))
    index_nbytes = ROWS // 8 * 8 + 64 * 1024
    assert tally.nbytes < len(rows) * UNIT_NBYTES + index_nbytes


def test_scattered_rows_of_a_folder_need_no_other_thread(written, rows):
    with tl.open(str(written), read_only=True) as ds:
        runtime.stop()
        found = ds["x"][rows]

        assert np.array_equal(found, token(rows))
    assert "tensorlake-loop" not in {thread.name for thread in threading.enumerate()}


def test_who_changes_what_came_changes_nothing_else(written, rows):
    with tl.open(str(written), read_only=True) as ds:
        ds["x"][rows][:] = 0

        assert np.array_equal(ds["x"][rows], token(rows))


def test_rows_asked_for_again_and_again_come_of_mapped_chunks_in_the_end(written, rows):
    with tl.open(str(written), read_only=True) as ds:
        requests = 1
        for _ in range(ROWS // len(rows)):
            with counted() as tally:
                assert np.array_equal(ds["x"][rows], token(rows))
            requests = tally.requests
            if not requests:
                break

    assert requests == 0


def test_deleted_updated_and_staged_rows_come_as_they_are_now(tmp_path, rows):
    model = token(np.arange(ROWS))
    with tl.create(
        str(tmp_path / "ds"), {"x": tl.Array("uint16", shape=(512,))}, durability="none"
    ) as ds:
        ds.extend({"x": model})
        ds.commit()
        ds["x"][rows[:20]] = np.full((20, 512), 7, np.uint16)
        model[rows[:20]] = 7
        ds.commit()
        ds.delete(list(range(1000, 1100)))
        model = np.delete(model, slice(1000, 1100), axis=0)
        ds.commit()
        ds.extend({"x": np.full((100, 512), 9, np.uint16)})
        model = np.concatenate([model, np.full((100, 512), 9, np.uint16)])
        asked = np.concatenate([rows[rows < len(model)], [len(model) - 1, 999, 1000, 0]])

        staged = ds["x"][asked]
        ds.commit()
        committed = ds["x"][asked]
        of_view = ds[5:]["x"][asked[asked < len(model) - 5]]

    assert np.array_equal(staged, model[asked])
    assert np.array_equal(committed, model[asked])
    assert np.array_equal(of_view, model[5:][asked[asked < len(model) - 5]])


def test_encoded_samples_keep_their_bytes_their_nulls_and_their_order(tmp_path):
    samples = [b"%05d" % n * 1500 for n in range(9000)]
    samples[::7] = [None] * len(samples[::7])
    samples[1::7] = [b""] * len(samples[1::7])
    asked = np.random.default_rng(1).choice(len(samples), 200)
    with tl.create(str(tmp_path / "ds"), {"x": tl.Bytes(nullable=True)}, durability="none") as ds:
        ds.extend({"x": samples})
        ds.commit()
        with counted() as tally:
            found = ds["x"].read(asked, null=b"NULL")

    expected = [samples[at] for at in asked.tolist()]
    assert list(found) == [b"NULL" if sample is None else sample for sample in expected]
    assert 0 < tally.requests <= len(asked) + 1  # a part for each, and the index


def test_damage_names_the_object_and_harms_no_other_rows(tmp_path, written, rows):
    folder = tmp_path / "ds"
    shutil.copytree(written, folder)
    with tl.open(str(folder), read_only=True) as ds:
        pack, at = pack_of_chunks(ds)
        flip(pack, at + 3 * UNIT_NBYTES + 5)
        others = rows[(rows < 24) | (rows >= 32)]

        assert np.array_equal(ds["x"][others], token(others))
        with pytest.raises(CorruptionError) as caught:
            ds["x"][np.append(others, 31)]

    message = str(caught.value)
    assert "part 3 of chunk" in message
    assert pack.name in message


def test_a_pack_that_is_cut_short_or_gone_is_an_error_that_names_it(tmp_path, written, rows):
    folder = tmp_path / "ds"
    shutil.copytree(written, folder)
    with tl.open(str(folder), read_only=True) as ds:
        pack, at = pack_of_chunks(ds)
        asked = np.append(rows, 31)
        with pack.open("r+b") as file:
            file.truncate(at + 100)
        with pytest.raises(CorruptionError) as cut:
            ds["x"][asked]
        pack.unlink()
        with pytest.raises(CorruptionError) as gone:
            ds["x"][asked]

    assert pack.name in str(cut.value)
    assert pack.name in str(gone.value)


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))
