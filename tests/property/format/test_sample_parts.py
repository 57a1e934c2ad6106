"""Samples in parts: the parts equal the whole, and no damaged byte of one is taken for another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError, InvalidInputError, TensorlakeError
from tensorlake.format import ChunkLayout, decode_chunk, encode_chunk, read_header
from tensorlake.types import Bytes, EncodedColumn, SampleMap, concat, slice_rows, take

LAYOUT = ChunkLayout.of(Bytes(nullable=True), codecs="raw")


@st.composite
def columns(draw, *, max_nbytes: int = 60):
    """Samples with heads and cuts, some empty, some NULL."""
    samples, maps = [], []
    for sample in draw(st.lists(st.none() | st.binary(max_size=max_nbytes), max_size=8)):
        cuts = draw(st.sets(st.integers(1, len(sample or b"1")))) if sample else set()
        cuts = sorted(cuts | {len(sample)}) if sample else []
        head = draw(st.binary(max_size=20))
        samples.append(sample or b"")
        maps.append(None if sample is None else SampleMap(head, np.array(cuts, np.int64)))
    valid = np.array([one is not None for one in maps], np.bool_)
    return EncodedColumn(samples, None, None if valid.all() else valid, maps)


def as_list(column):
    return [
        None if one is None else (bytes(sample), one.head, one.cuts.tolist())
        for sample, one in zip(column.samples, column.maps or [None] * len(column), strict=True)
    ]


def header_of(blob, data, where="a chunk"):
    return read_header(data, header_nbytes=blob.header_nbytes, rows=blob.rows, where=where)


def part_of_sample(header, data, header_nbytes, row, number):
    own = header.parts.map(row)
    first = header_nbytes + int(header.lengths[:row].sum())
    start, stop = own.span(number)
    return data[first + start : first + stop]


@given(columns())
def test_a_chunk_gives_back_samples_and_their_maps(column):
    blob = encode_chunk(column, LAYOUT)
    data = b"".join(blob.pieces)

    made = decode_chunk(
        data,
        header_nbytes=blob.header_nbytes,
        rows=blob.rows,
        layout=LAYOUT,
        verify=blob.checksum,
    )

    assert as_list(made) == as_list(column)
    assert blob.units is None  # the index repeats none of the header's parts


@given(columns())
def test_each_part_is_read_alone_by_the_header(column):
    blob = encode_chunk(column, LAYOUT)
    data = b"".join(blob.pieces)
    header = header_of(blob, data)

    for row, (sample, own) in enumerate(zip(column.samples, column.maps, strict=True)):
        parts = np.arange(own.num_parts if own else 0)
        read = [part_of_sample(header, data, blob.header_nbytes, row, number) for number in parts]
        header.parts.verify(row, parts, read, where="a chunk")
        assert b"".join(read) == sample


@given(columns(), st.data())
def test_take_slice_and_concat_keep_each_sample_with_its_map(column, data):
    listed = as_list(column)
    rows = data.draw(st.lists(st.integers(0, max(0, len(column) - 1)), max_size=9))
    rows = rows if len(column) else []
    start = data.draw(st.integers(0, len(column)))

    assert as_list(take(column, np.array(rows, np.int64))) == [listed[row] for row in rows]
    assert as_list(slice_rows(column, start, len(column))) == listed[start:]
    assert as_list(concat([column, slice_rows(column, start, len(column))])) == (
        listed + listed[start:]
    )


@given(columns(), st.data())
def test_no_changed_byte_passes_for_a_sample(column, data):
    """A changed header is refused; a changed payload by the checksums of its parts."""
    blob = encode_chunk(column, LAYOUT)
    whole = bytearray(b"".join(blob.pieces))
    parts = st.integers(blob.header_nbytes, max(blob.header_nbytes, len(whole) - 1))
    at = min(data.draw(st.integers(0, blob.header_nbytes - 1) | parts), len(whole) - 1)
    whole[at] ^= data.draw(st.integers(1, 255))
    changed = bytes(whole)
    if at < blob.header_nbytes:
        with pytest.raises(TensorlakeError):
            header_of(blob, changed)
        return
    header = header_of(blob, changed)
    refused = 0
    for row, own in enumerate(column.maps):
        for number in range(own.num_parts if own else 0):
            part = part_of_sample(header, changed, blob.header_nbytes, row, number)
            try:
                header.parts.verify(row, np.array([number]), [part], where="a chunk")
            except CorruptionError:
                refused += 1

    assert refused == 1
    assert header.parts.lost(changed[blob.header_nbytes :]).sum() == 1


@given(columns(max_nbytes=12), st.binary(max_size=400))
def test_bytes_that_are_no_header_are_refused(column, noise):
    """Sections whose checksum is right, as a hostile writer makes them, still have to agree."""
    import struct

    import xxhash

    blob = encode_chunk(column, LAYOUT)
    head = bytearray(b"".join(blob.pieces)[: blob.header_nbytes])
    head[64 : 64 + len(noise)] = noise[: len(head) - 64]
    digest = xxhash.xxh3_64(bytes(head[:56]))
    digest.update(bytes(head[64:]))
    head[56:64] = struct.pack("<Q", digest.intdigest())
    try:
        header = header_of(blob, bytes(head))
    except CorruptionError:
        return
    for row in range(blob.rows):
        assert header.parts.map(row).nbytes == header.lengths[row]


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([None], "no map"),
        ([SampleMap(b"", np.array([3]))], "parts of 3 bytes"),
        ([SampleMap(b"", np.zeros(0, np.int64))], "parts of 0 bytes"),
    ],
)
def test_samples_whose_maps_do_not_fit_are_not_stored(maps, message):
    with pytest.raises(InvalidInputError, match=message):
        encode_chunk(EncodedColumn([b"four"], maps=maps), LAYOUT)


def test_parts_of_a_compressed_chunk_are_refused():
    layout = ChunkLayout.of(Bytes(), codecs="zstd")
    maps = [SampleMap(b"", np.array([4]))]

    with pytest.raises(InvalidInputError, match="without a codec"):
        encode_chunk(EncodedColumn([b"four"], maps=maps), layout)


@pytest.mark.parametrize("cuts", [[0], [2, 2], [3, 1], [-1, 4], [[1, 2]]])
def test_cuts_ascend_from_above_zero(cuts):
    with pytest.raises(ValueError, match="ascend"):
        SampleMap(b"", np.array(cuts))
