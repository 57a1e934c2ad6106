"""The directory at the end of a stored pack: one request, or two, whatever its trailer states."""

from __future__ import annotations

import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import PackId, PackWriter, directory_nbytes, new_txid, read_directory
from tensorlake.storage import MemoryStore, runtime
from tensorlake.testing import CountingStore
from tensorlake.versions.packs.directory import stored_directory


def stored(data: bytes) -> tuple[CountingStore, PackId]:
    store, pack = CountingStore(MemoryStore()), PackId(new_txid(), 0)
    runtime.run(store.put_if_absent(pack.path, data))
    store.reset()
    return store, pack


def packed(*blobs: bytes) -> bytes:
    writer = PackWriter(new_txid(), 0)
    for blob in blobs:
        writer.add([blob], what="chunk")
    return b"".join(bytes(piece) for piece in writer.finish())


@pytest.mark.parametrize(
    ("blobs", "requests"),
    [([], 1), ([b"x"], 1), ([bytes(10**6)], 1), ([at.to_bytes(2) for at in range(12_000)], 2)],
)
def test_a_directory_takes_one_request_or_two(blobs, requests):
    data = packed(*blobs)
    store, pack = stored(data)

    found = runtime.run(stored_directory(store, pack, len(data)))

    assert found == read_directory(data, where="all of the pack")
    assert len(found) == len(blobs)
    assert len(store.requests) == requests


@pytest.mark.parametrize("nbytes", [0, 5, 23, 100])
def test_a_pack_that_was_cut_is_reported(nbytes):
    store, pack = stored(packed(b"one", b"two")[:nbytes])

    with pytest.raises(CorruptionError, match=pack.path):
        runtime.run(stored_directory(store, pack, nbytes))


@pytest.mark.parametrize("stated", [0, 25, 1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_trailer_that_states_a_false_length_is_reported_in_two_requests(stated):
    data = bytearray(packed(*(at.to_bytes(2) for at in range(12_000))))
    data[-16:-8] = stated.to_bytes(8, "little")
    store, pack = stored(bytes(data))

    with pytest.raises(CorruptionError, match=pack.path):
        runtime.run(stored_directory(store, pack, len(data)))
    assert len(store.requests) <= 2


def test_the_length_of_a_directory_is_known_from_the_trailer_alone():
    data = packed(b"one", b"two")

    nbytes = directory_nbytes(data[-24:])

    assert len(read_directory(data[-nbytes:], where="its end")) == 2
    assert directory_nbytes(data[-23:]) == 0
    assert directory_nbytes(bytes(24)) == 0
