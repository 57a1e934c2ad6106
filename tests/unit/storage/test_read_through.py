"""Many small ranges of a file, read one after another into a buffer that serves again."""

import pytest

from tensorlake.errors import CorruptionError
from tensorlake.storage import LocalStore, MissingObjectError, run


def test_ranges_are_read_through_a_buffer_as_many_at_a_time_as_it_holds(tmp_path):
    store, data = LocalStore(tmp_path), bytes(range(256))
    run(store.put_if_absent("x", data))
    ranges = [(10, 14), (0, 3), (200, 208), (5, 5), (7, 8)]

    batches = [
        [bytes(view) for view in views]
        for views in store.read_through("x", ranges, memoryview(bytearray(8)))
    ]

    assert batches == [[data[10:14], data[:3]], [data[200:208], b""], [data[7:8]]]


def test_reading_through_a_buffer_names_an_object_that_is_short_or_missing(tmp_path):
    store, buffer = LocalStore(tmp_path), memoryview(bytearray(8))
    run(store.put_if_absent("packs/x", b"01234"))

    with pytest.raises(CorruptionError, match=r"packs/x.*bytes 3 to 8 .* 2 of 5 came"):
        list(store.read_through("packs/x", [(0, 2), (3, 8)], buffer))
    with pytest.raises(MissingObjectError, match="packs/y"):
        list(store.read_through("packs/y", [(0, 2)], buffer))
