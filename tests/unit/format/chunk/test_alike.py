"""Chunks decoded together: the same samples as one by one, and nothing that is damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlake.format import ChunkBlob, ChunkLayout, decode_alike, decode_chunk, encode_chunk
from tensorlake.format.chunk.alike import MAX_NBYTES, likeness
from tensorlake.types import (
    Array,
    BBox,
    Bytes,
    Column,
    Embedding,
    SampleType,
    Scalar,
    Text,
    concat,
)

CASES = [
    (Scalar("float32"), [[1.5], [2.5], [0.0], [-1.0]]),
    (Scalar("int64"), [[1, 2, 3], [4, 5, 6]]),
    (Scalar("int8", nullable=True), [[1, None, 3], [None, None, 7]]),
    (Embedding(100), [np.full((2, 100), value, np.float32) for value in range(3)]),
    (Array("int32", (16,)), [np.full((1, 16), value, np.int32) for value in range(5)]),
    (Array("float32", (0, 4)), [np.zeros((1, 0, 4))] * 2),
    (BBox(), [[np.full((value, 4), value, np.float32)] for value in (2, 0, 1)]),
    (Array("complex64", (None, 2)), [[[[1j, 2]]], [[]], [[[3, 4], [5, 6]]]]),
    (Text(), [["a"], [""], ["grün" * 100], ["b" * 30]]),
    (Bytes(), [[b"ab", b"cd"], [b"", b""]]),
]

TOGETHER = pytest.mark.parametrize(("sample_type", "chunks"), CASES, ids=repr)


def stored(
    sample_type: SampleType, chunks: list[Any], codecs: str | None = None
) -> tuple[ChunkLayout, list[ChunkBlob], list[bytes]]:
    layout = ChunkLayout.of(sample_type, codecs=codecs)
    columns = [sample_type.convert(samples, tensor="x") for samples in chunks]
    blobs = [encode_chunk(column, layout) for column in columns]
    return layout, blobs, [b"".join(blob.pieces) for blob in blobs]


def together(layout: ChunkLayout, blobs: list[ChunkBlob], data: list[bytes]) -> Column | None:
    first = blobs[0]
    return decode_alike(
        data,
        header_nbytes=first.header_nbytes,
        rows=first.rows,
        layout=layout,
        verify=[blob.checksum for blob in blobs],
        where="here",
    )


@TOGETHER
@pytest.mark.parametrize("codecs", [None, "raw", "zstd"])
def test_chunks_decoded_together_have_the_samples_of_each(
    sample_type: SampleType, chunks: list[Any], codecs: str | None
) -> None:
    layout, blobs, data = stored(sample_type, chunks, codecs)
    alone = [
        decode_chunk(
            part, header_nbytes=blob.header_nbytes, rows=blob.rows, layout=layout, verify=None
        )
        for blob, part in zip(blobs, data, strict=True)
    ]

    assert len({likeness(part) for part in data}) == 1
    column = together(layout, blobs, data)

    assert column is not None
    assert encode_chunk(column, layout).pieces == encode_chunk(concat(alone), layout).pieces


@TOGETHER
def test_damage_anywhere_is_left_to_the_decoder_of_one(
    sample_type: SampleType, chunks: list[Any]
) -> None:
    layout, blobs, data = stored(sample_type, chunks)

    for at in range(len(data[-1])):
        bad = bytearray(data[-1])
        bad[at] ^= 1
        assert together(layout, blobs, [*data[:-1], bytes(bad)]) is None


def test_samples_of_different_size_in_a_chunk_are_left_to_the_decoder_of_one() -> None:
    layout, blobs, data = stored(Text(), [["a", "bcd"], ["ef", "g"]])

    assert together(layout, blobs, data) is None


def test_nulls_rows_and_kinds_make_chunks_unlike() -> None:
    alike = [
        likeness(data)
        for sample_type, samples in [
            (Scalar("int64", nullable=True), [1]),
            (Scalar("int64", nullable=True), [None]),
            (Scalar("int64"), [1, 2]),
            (Bytes(), [b"a"]),
        ]
        for data in stored(sample_type, [samples])[2]
    ]

    assert len(set(alike)) == len(alike)


@pytest.mark.parametrize("codecs", ["raw", "zstd"])
def test_a_chunk_that_is_large_once_decoded_is_decoded_alone(codecs: str) -> None:
    _, _, (small, large) = stored(Bytes(), [[bytes(MAX_NBYTES - 200)], [bytes(2 << 20)]], codecs)

    assert likeness(small) is not None
    assert likeness(large) is None
