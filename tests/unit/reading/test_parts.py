"""Rows of several chunks of a pack, read by the units that hold them."""

from dataclasses import dataclass

import numpy as np
import pytest

from tensorlake.errors import CorruptionError
from tensorlake.format import ChunkLayout, PackId, Units, encode_chunk
from tensorlake.reading.fetch.partial_chunks import ChunkRows, Parts
from tensorlake.reading.index.chunk_cache import ChunkKey
from tensorlake.types import Array, Bytes, EncodedColumn

PACK = PackId("01a1ffd77bc315d3ab822247c03a355f", 0)


@dataclass(frozen=True)
class Packed:
    """Chunks of one tensor in a pack, a gap before each."""

    data: bytes
    keys: list[ChunkKey]
    units: list[Units]
    layout: ChunkLayout

    def wanted(self, *rows: list[int]) -> list[ChunkRows]:
        chunks = zip(self.keys, rows, self.units, strict=True)
        return [ChunkRows(key, np.array(own), units) for key, own, units in chunks]

    def read(self, parts: Parts) -> list[bytes]:
        return [self.data[start:stop] for start, stop in parts.ranges.tolist()]


def packed(sample_type, *chunks) -> Packed:
    layout = ChunkLayout.of(sample_type, codecs="raw")
    data, keys, units = b"", [], []
    for number, samples in enumerate(chunks):
        blob = encode_chunk(sample_type.convert(samples, tensor="x"), layout)
        data += bytes(64 + number)
        nbytes = sum(map(len, blob.pieces))
        key = ChunkKey(
            PACK, len(data), nbytes, blob.header_nbytes, blob.checksum, layout.kind, read_as=0
        )
        keys.append(key)
        units.append(blob.units)
        data += b"".join(blob.pieces)
    return Packed(data, keys, units, layout)


@pytest.fixture(scope="module")
def tokens():
    """Three chunks of rows of 1 KiB, eight to a unit; the last unit of each has three or fewer."""
    rows = np.arange(70 * 512, dtype=np.uint16).reshape(70, 512)
    return packed(Array("uint16", (512,)), rows[:27], rows[27:43], rows[43:])


def test_rows_of_several_chunks_are_those_asked_for(tokens):
    parts = Parts.of(tokens.wanted([26, 0, 7, 0], [3], [9, 26]), tokens.layout)

    columns = parts.columns(tokens.read(parts))

    first_of_row = [column.values[:, 0].tolist() for column in columns]
    expected = [[26, 0, 7, 0], [27 + 3], [43 + 9, 43 + 26]]
    assert first_of_row == [[row * 512 % 65536 for row in rows] for rows in expected]
    assert all(column.values.flags.writeable for column in columns)


def test_a_unit_is_read_once_however_many_rows_are_in_it(tokens):
    parts = Parts.of(tokens.wanted([0, 1, 7, 8], [3, 4], [26]), tokens.layout)

    assert (parts.ranges[:, 1] - parts.ranges[:, 0]).tolist() == [8192, 8192, 8192, 3072]
    assert parts.nbytes_by_chunk().tolist() == [16384, 8192, 3072]


def test_encoded_samples_are_units_of_their_own():
    samples = [[bytes([n]) * (5000 + n) for n in range(4)], [b"a" * 9000, b"", b"c" * 9000]]
    stored = packed(Bytes(), *samples)
    parts = Parts.of(stored.wanted([3, 1], [2, 1]), stored.layout)

    columns = parts.columns(stored.read(parts))

    assert all(isinstance(column, EncodedColumn) for column in columns)
    found = [[bytes(one) for one in column.samples] for column in columns]
    assert found == [[samples[0][3], samples[0][1]], [samples[1][2], samples[1][1]]]


def test_damage_names_the_chunk_and_the_part(tokens):
    parts = Parts.of(tokens.wanted([0], [9], [0]), tokens.layout)
    buffers = tokens.read(parts)
    buffers[1] = b"\xff" + buffers[1][1:]

    with pytest.raises(CorruptionError) as caught:
        parts.columns(buffers)

    assert f"part 1 of {tokens.keys[1]}" in str(caught.value)


def test_a_row_beyond_its_chunk_is_damage_and_not_a_row_of_the_next(tokens):
    with pytest.raises(CorruptionError) as beyond_units:
        Parts.of(tokens.wanted([32], [0], [0]), tokens.layout)
    within_units = Parts.of(tokens.wanted([30], [0], [0]), tokens.layout)
    with pytest.raises(CorruptionError) as beyond_rows:
        within_units.columns(tokens.read(within_units))

    assert str(tokens.keys[0]) in str(beyond_units.value)
    assert f"part 3 of {tokens.keys[0]}" in str(beyond_rows.value)
