import pytest
import xxhash

from tensorlake.errors import CorruptionError, InvalidStateError
from tensorlake.format import PackId, PackWriter, new_txid, read_directory


def written(*blobs):
    pack = PackWriter(new_txid(), 3)
    offsets = [pack.add([blob], what=f"blob {at}") for at, blob in enumerate(blobs)]
    return b"".join(bytes(piece) for piece in pack.finish()), offsets, pack


def test_blobs_start_at_multiples_of_64_and_gaps_are_zero():
    data, offsets, pack = written(b"\xff" * 10, b"\xff" * 100, b"", b"\xff")

    assert offsets == [64, 128, 256, 256]
    assert data[:8] == b"TLPACK1\0"
    assert data[16:64] == bytes(48)
    assert data[74:128] == bytes(54)
    assert len(data) == pack.nbytes


def test_pieces_of_a_blob_lie_together():
    pack = PackWriter(new_txid(), 0)
    offset = pack.add([b"abc", memoryview(b"def"), bytearray(b"g")], what="chunk")

    data = b"".join(bytes(piece) for piece in pack.finish())

    assert data[offset : offset + 7] == b"abcdefg"


def test_the_directory_lists_what_is_there():
    data, offsets, _ = written(b"one", b"two" * 50)

    blobs = read_directory(data, where="x")

    assert [(blob.what, blob.offset, blob.nbytes) for blob in blobs] == [
        ("blob 0", offsets[0], 3),
        ("blob 1", offsets[1], 150),
    ]
    assert blobs[1].checksum == xxhash.xxh3_64_intdigest(b"two" * 50)


def test_the_end_of_a_pack_is_enough_for_its_directory():
    data, _, _ = written(bytes(10**6))

    assert len(read_directory(data[-1000:], where="x")) == 1


def test_a_damaged_directory_is_reported():
    data, _, _ = written(b"one")

    for at in range(128, len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 0x55
        try:
            blobs = read_directory(bytes(flipped), where="x")
        except CorruptionError:
            continue
        assert blobs == read_directory(data, where="x")


@pytest.mark.parametrize("nbytes", [0, 5, 30])
def test_a_cut_pack_is_reported(nbytes):
    data, _, _ = written(b"one")

    with pytest.raises(CorruptionError):
        read_directory(data[:nbytes], where="x")


def test_a_finished_pack_takes_no_more():
    pack = PackWriter(new_txid(), 0)
    pack.finish()

    with pytest.raises(InvalidStateError, match="is finished"):
        pack.add([b""], what="late")


def test_finishing_twice_gives_the_same_bytes():
    pack = PackWriter(new_txid(), 1)
    pack.add([b"x"], what="x")

    assert pack.finish() == pack.finish()
    assert pack.id == PackId(pack.id.txid, 1)
