"""Columns and chunks against plain lists, and damage against them, with hypothesis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError
from tensorlake.format import ChunkLayout, decode_chunk, encode_chunk, statistics_of
from tensorlake.types import (
    DTYPE_NAMES,
    Array,
    Bytes,
    Scalar,
    Text,
    concat,
    is_narrow_float,
    parse_dtype,
    slice_rows,
    take,
)
from tests.support.examples import examples

CODECS = st.sampled_from([None, "raw", "lz4", "zstd"])


def numbers(dtype):
    if is_narrow_float(dtype):
        return st.sampled_from([0.0, -0.0, 0.5, -1.25, 3.0, 448.0, float("nan")])
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        return st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    width = 8 * dtype.itemsize // (2 if dtype.kind == "c" else 1)
    floats = st.floats(width=width)
    return floats if dtype.kind == "f" else st.complex_numbers(width=2 * width)


@st.composite
def columns(draw):
    """A type, samples of it (some None), and the column that they make."""
    layout = draw(st.sampled_from(["scalar", "fixed", "ragged", "text", "bytes"]))
    if layout == "text":
        sample_type, samples = Text(nullable=True), st.text(max_size=30)
    elif layout == "bytes":
        sample_type, samples = Bytes(nullable=True), st.binary(max_size=30)
    else:
        dtype = parse_dtype(draw(st.sampled_from(DTYPE_NAMES)))
        element = numbers(dtype)
        if layout == "scalar":
            sample_type, samples = Scalar(dtype, nullable=True), element
        elif layout == "fixed":
            length = draw(st.integers(0, 3))
            sample_type = Array(dtype, (length,), nullable=True)
            samples = st.lists(element, min_size=length, max_size=length)
        else:
            sample_type = Array(dtype, (None,), nullable=True)
            samples = st.lists(element, max_size=4)
        samples = samples.map(lambda sample, dtype=dtype: np.array(sample, dtype=dtype))
    given_samples = draw(st.lists(st.none() | samples, max_size=12))
    return sample_type, given_samples, sample_type.convert(given_samples, tensor="x")


def as_list(sample_type, column):
    shown = [sample_type.present_one(column, row) for row in range(len(column))]
    return [one if one is None or isinstance(one, (str, bytes)) else one.tobytes() for one in shown]


def chunk(column, layout):
    blob = encode_chunk(column, layout)
    return blob, b"".join(blob.pieces)


def known(blob, verify):
    return {
        "header_nbytes": blob.header_nbytes,
        "rows": blob.rows,
        "verify": blob.checksum if verify else None,
    }


@pytest.mark.slow
@given(columns(), CODECS)
def test_a_chunk_gives_back_the_samples(case, codecs):
    sample_type, samples, column = case
    layout = ChunkLayout.of(sample_type, codecs=codecs)
    blob, data = chunk(column, layout)

    restored = decode_chunk(data, layout=layout, **known(blob, verify=True))

    expected = [
        one if one is None or isinstance(one, (str, bytes)) else one.tobytes() for one in samples
    ]
    assert as_list(sample_type, restored) == expected


@given(columns(), st.data())
def test_take_slice_and_concat_are_those_of_lists(case, data):
    sample_type, samples, column = case
    model = as_list(sample_type, column)
    start = data.draw(st.integers(0, len(samples)))
    stop = data.draw(st.integers(start, len(samples)))
    rows = data.draw(st.lists(st.integers(0, len(samples) - 1), max_size=20)) if samples else []

    part = slice_rows(column, start, stop)
    taken = take(column, np.array(rows, dtype=np.int64))
    joined = concat([part, taken, column])

    assert as_list(sample_type, part) == model[start:stop]
    assert as_list(sample_type, taken) == [model[row] for row in rows]
    assert as_list(sample_type, joined) == model[start:stop] + [model[r] for r in rows] + model


@examples(20)
@given(columns(), CODECS, st.booleans(), st.integers(1, 255))
def test_every_byte_of_a_chunk_matters(case, codecs, verify, mask):
    sample_type, _, column = case
    layout = ChunkLayout.of(sample_type, codecs=codecs)
    blob, data = chunk(column, layout)
    # raw samples are only covered by the checksum in the index
    stop = len(data) if verify or not layout.is_raw else blob.header_nbytes

    for position in range(stop):
        damaged = bytearray(data)
        damaged[position] ^= mask
        with pytest.raises(CorruptionError):
            decode_chunk(bytes(damaged), layout=layout, **known(blob, verify=verify))
    for cut in range(len(data)):
        with pytest.raises(CorruptionError):
            decode_chunk(data[:cut], layout=layout, **known(blob, verify=verify))


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 50))
def test_arbitrary_bytes_are_never_a_chunk(data, header_nbytes, rows):
    for sample_type in (Scalar("int64"), Array("int8", (None,)), Text()):
        with pytest.raises(CorruptionError):
            decode_chunk(
                data,
                header_nbytes=header_nbytes,
                rows=rows,
                layout=ChunkLayout.of(sample_type),
                verify=None,
            )


@given(columns())
def test_statistics_bound_every_element(case):
    sample_type, samples, column = case
    statistics = statistics_of(column)
    present = [one for one in samples if one is not None]

    assert statistics.null_count == len(samples) - len(present)
    if isinstance(sample_type, Text):
        elements = [one.encode() for one in present]
    elif isinstance(sample_type, Bytes):
        elements = present
    else:
        elements = [element for one in present for element in one.reshape(-1).tolist()]
        elements = [element for element in elements if element == element]  # noqa: PLR0124 -- NaN
    assert statistics.is_empty == (not elements)
    if statistics.minimum is not None:
        assert all(statistics.minimum <= element for element in elements)
    if statistics.maximum is not None:
        assert all(element <= statistics.maximum for element in elements)
    if statistics.labels is not None:
        assert set(statistics.labels) == set(elements)
