"""Many small ranges of a file, each read when it is asked for."""

from pathlib import Path

import pytest

from tensorlake.errors import CorruptionError
from tensorlake.storage import LocalStore, MissingObjectError, run


def test_ranges_are_read_in_the_order_given(tmp_path):
    store, data = LocalStore(tmp_path), bytes(range(256))
    run(store.put_if_absent("x", data))
    ranges = [(10, 14), (0, 3), (200, 208), (5, 5), (7, 8)]

    assert list(store.read_in_turn("x", ranges)) == [data[start:stop] for start, stop in ranges]


def test_a_file_is_closed_when_no_more_is_asked_of_it(tmp_path):
    store, data = LocalStore(tmp_path), bytes(range(256))
    run(store.put_if_absent("x", data))
    before = len([*Path("/dev/fd").iterdir()])

    reads = store.read_in_turn("x", [(0, 3), (7, 8)])
    next(reads)
    reads.close()

    assert len([*Path("/dev/fd").iterdir()]) == before


def test_reading_in_turn_names_an_object_that_is_short_or_missing(tmp_path):
    store = LocalStore(tmp_path)
    run(store.put_if_absent("packs/x", b"01234"))

    with pytest.raises(CorruptionError, match=r"packs/x.*bytes 3 to 8 .* 2 of 5 came"):
        list(store.read_in_turn("packs/x", [(0, 2), (3, 8)]))
    with pytest.raises(MissingObjectError, match="packs/y"):
        list(store.read_in_turn("packs/y", [(0, 2)]))
