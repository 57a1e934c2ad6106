import struct
import tracemalloc

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensorlake.errors import CorruptionError, UnsupportedError
from tensorlake.format import (
    PackId,
    PageKind,
    decode_json_page,
    decode_page,
    encode_json_page,
    encode_page,
)
from tensorlake.format.pages.pack_table import pack_column
from tensorlake.format.pages.pages import checksum32, decode_section, read_table

DTYPES = ["<u1", "<u2", "<u4", "<u8", "<i1", "<i2", "<i4", "<i8", "<f4", "<f8"]
columns = st.dictionaries(
    st.text("abc.", min_size=1, max_size=8),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, max_side=40))
    ),
    max_size=4,
)


def sample_columns(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "rows": rng.integers(78, 83, n).astype("<u4"),
        "same": np.full(n, 3, "<u1"),
        "offset": np.cumsum(rng.integers(1, 100, n)).astype("<u8"),
        "checksum": rng.integers(0, 2**63, n).astype("<u8"),
        "tiny": np.array([1, 2], "<u2"),
    }


def media_locations(n=4096):
    """The columns of a leaf of a media tensor: 8 MiB chunks of about 80 pictures, 8 to a pack."""
    rng = np.random.default_rng(0)
    packs = [PackId(f"{rng.integers(2**62):032x}", at) for at in range(n // 8)]
    nbytes = rng.normal(8e6, 2e5, n).astype("<u8")
    aligned = ((nbytes + 63) // 64 * 64).reshape(-1, 8)
    rows = rng.integers(78, 83, n).astype("<u4")
    return {
        "rows": rows,
        "skip": np.zeros(n, "<u4"),
        "kind": np.full(n, 3, "<u1"),
        "read_as": np.zeros(n, "<u2"),
        "pack": np.repeat(np.arange(n // 8), 8).astype("<u4"),
        "offset": (64 + np.cumsum(aligned, axis=1) - aligned).reshape(-1),
        "nbytes": nbytes,
        "header_nbytes": (64 + 4 * rows).astype("<u4"),
        "checksum": rng.integers(0, 2**63, n).astype("<u8"),
        "packs": pack_column(packs),
    }


@given(columns)
@settings(max_examples=50)
def test_columns_survive_with_dtype_and_shape(columns):
    page = decode_page(encode_page(PageKind.ROWS, columns, entries=7, rows=9), where="x")

    assert (page.kind, page.entries, page.rows) == (PageKind.ROWS, 7, 9)
    assert list(page.columns) == list(columns)
    for name, column in columns.items():
        found = page.columns[name]
        assert (found.dtype, found.shape) == (column.dtype, column.shape)
        assert found.tobytes() == column.tobytes()


def test_equal_columns_give_equal_bytes():
    pages = {encode_page(PageKind.ROWS, sample_columns(), entries=1, rows=1) for _ in range(3)}

    assert len(pages) == 1


def test_one_section_can_be_read_alone():
    data = encode_page(PageKind.EXTENTS, sample_columns(), entries=500, rows=1)
    head = data[: 32 + 5 * 20 + 40]

    table = read_table(head, where="x")

    section = next(section for section in table.sections if section.name == "offset")
    stored = data[section.offset : section.offset + section.stored_nbytes]
    offset = decode_section(stored, section, where="x")
    assert (offset == sample_columns()["offset"]).all()


def test_only_wanted_sections_are_decoded():
    data = encode_page(PageKind.EXTENTS, sample_columns(), entries=500, rows=1)

    assert list(decode_page(data, where="x", wanted=["rows"]).columns) == ["rows"]


def test_locations_of_a_media_index_take_at_most_20_bytes_an_extent():
    columns = media_locations()

    data = encode_page(PageKind.EXTENTS, columns, entries=4096, rows=int(columns["rows"].sum()))

    assert len(data) / 4096 <= 20


@given(st.data())
@settings(max_examples=100)
def test_every_flipped_byte_is_noticed_or_has_no_effect(data):
    """format.md's test 19, for pages."""
    columns = sample_columns(60)
    page = bytearray(encode_page(PageKind.EXTENTS, columns, entries=60, rows=1))
    at = data.draw(st.integers(0, len(page) - 1))
    page[at] ^= data.draw(st.integers(1, 255))

    try:
        found = decode_page(bytes(page), where="page 7").columns
    except CorruptionError:
        return
    assert {name: column.tobytes() for name, column in found.items()} == {
        name: column.tobytes() for name, column in columns.items()
    }


def test_damage_is_reported_with_the_page_and_the_byte():
    page = bytearray(encode_page(PageKind.EXTENTS, sample_columns(60), entries=60, rows=1))
    page[-3] ^= 1

    with pytest.raises(CorruptionError) as caught:
        decode_page(bytes(page), where="page 7")

    assert caught.value.object == "page 7"
    assert 0 < caught.value.offset < len(page)


def test_every_missing_end_is_noticed():
    """format.md's test 19, for pages."""
    page = encode_page(PageKind.EXTENTS, sample_columns(60), entries=60, rows=1)

    for nbytes in range(len(page)):
        with pytest.raises(CorruptionError):
            decode_page(page[:nbytes], where="x")


def forged(page, edit):
    """Change a page and mend its header's checksum: an attack, not an accident."""
    changed = bytearray(page)
    edit(changed)
    count = struct.unpack_from("<H", changed, 6)[0]
    at = 32
    for _ in range(count):
        at += 20 + changed[at]
    changed[12:16] = bytes(4)
    changed[12:16] = struct.pack("<I", checksum32(bytes(changed[:at])))
    return bytes(changed)


@given(st.data())
@settings(max_examples=100)
def test_forged_section_tables_cost_no_memory(data):
    """format.md's test 19: no huge allocation, whatever a length says."""
    page = encode_page(PageKind.EXTENTS, sample_columns(60), entries=60, rows=1)
    at = data.draw(st.integers(32, 150))
    new = data.draw(st.binary(min_size=1, max_size=4))

    def edit(changed):
        changed[at : at + len(new)] = new

    tracemalloc.start()
    try:
        decode_page(forged(page, edit), where="x")
    except (CorruptionError, UnsupportedError):
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200 * 2**20


def test_a_page_of_a_later_version_is_refused_by_name():
    page = encode_page(PageKind.ROWS, {}, entries=0, rows=0)

    with pytest.raises(UnsupportedError, match="page of version 2"):
        decode_page(forged(page, lambda changed: changed.__setitem__(4, 2)), where="x")


def test_an_unknown_codec_matters_only_where_it_is_read():
    page = encode_page(PageKind.ROWS, {"a": np.arange(3)}, entries=3, rows=3)
    later = forged(page, lambda changed: changed.__setitem__(33, 99))

    assert decode_page(later, where="x", wanted=[]).entries == 3
    with pytest.raises(UnsupportedError, match="codec 99"):
        decode_page(later, where="x")


def test_json_survives_as_a_page():
    value = {"tensors": [{"id": at, "name": f"t{at}"} for at in range(1000)]}

    data = encode_json_page(value)

    assert decode_json_page(data, where="x") == value
    assert len(data) < 8000


def test_a_page_of_columns_is_no_json():
    with pytest.raises(CorruptionError, match="not of JSON"):
        decode_json_page(encode_page(PageKind.ROWS, {}, entries=0, rows=0), where="x")


def test_checksums_are_the_low_half_of_xxh3():
    assert checksum32(b"abc") == xxhash.xxh3_64_intdigest(b"abc") % 2**32
