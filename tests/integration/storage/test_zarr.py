"""What zarr reads is what the SDK reads (format.md, test 30): whole groups, and our very bytes."""

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import LocalStore

import tensorlake as tl
from tensorlake.format import ChunkLayout, decode_chunk, encode_chunk
from tensorlake.types import UniformColumn, as_type

SCHEMA = {
    "number": "int32",
    "grid": tl.Array("float32", (2, 3)),
    "raw": tl.Array("uint16", (200,)),
    "flag": "bool",
    "label": tl.ClassLabel(["cat", "dog"]),
    "list": tl.Array("int16", (None,)),
    "maybe": tl.Scalar("int64", nullable=True),
    "text": "str",
    "bytes": tl.Bytes(),
}


def rows_of(seed: int, count: int):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, count)
    return {
        "number": rng.integers(-(2**31), 2**31, count).astype(np.int32),
        "grid": rng.normal(size=(count, 2, 3)).astype(np.float32),
        "raw": rng.integers(0, 2**16, (count, 200)).astype(np.uint16),
        "flag": rng.integers(0, 2, count).astype(np.bool_),
        "label": rng.integers(0, 2, count),
        "list": [rng.integers(0, 99, length).astype(np.int16) for length in lengths],
        "maybe": [None if length == 0 else int(length) for length in lengths],
        "text": [f"t{length}" * int(length) for length in lengths],
        "bytes": [bytes([int(length)]) * int(length) for length in lengths],
    }


def read_by_zarr(place):
    """All samples of a tensor, by the parts that the group says it has."""
    if isinstance(place, zarr.Array):
        return list(place[:])
    parts = {name: array[:] for name, array in place.arrays()}
    values = parts["values"]
    if "offsets" in parts:
        found = [part.tobytes() for part in np.split(values, parts["offsets"][1:-1])]
    elif "shapes" in parts:
        ends = np.cumsum(parts["shapes"].prod(axis=1))
        found = np.split(values, ends[:-1])
    else:
        found = list(values)
    valid = parts.get("valid", np.ones(len(found), np.bool_))
    return [one if ok else None for one, ok in zip(found, valid, strict=True)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(1, 5)),
        st.tuples(st.just("update"), st.integers(0, 99)),
        st.tuples(st.just("delete"), st.integers(0, 99)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("reorder"), st.integers(0, 99)),
        st.tuples(st.just("optimize"), st.just(0)),
    ),
    min_size=2,
    max_size=10,
)


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=8)
def test_zarr_reads_what_the_sdk_reads_after_any_history(steps):
    ds = tl.create(f"memory://zarr-{np.random.default_rng().integers(2**62)}", SCHEMA)
    ds.extend(rows_of(0, 4))
    view = ds
    for number, (step, value) in enumerate(steps, start=1):
        if step == "extend":
            ds.extend(rows_of(number, value))
        elif step == "update" and len(ds):
            new = rows_of(number, 1)
            for name in ("number", "grid", "raw", "list", "text"):
                ds[name][value % len(ds)] = new[name][0]
        elif step == "delete" and len(ds):
            ds.delete([value % len(ds)])
        elif step == "optimize":
            ds.commit()
            ds.optimize()
        else:
            ds.commit()
        order = np.random.default_rng(value).permutation(len(ds))
        view = ds[order] if step == "reorder" else ds

    group = view.to_zarr()

    for name in SCHEMA:
        own = [view[name][row] for row in range(len(view))]
        found = read_by_zarr(group[name])[: len(view)]
        for one, other in zip(own, found, strict=True):
            np.testing.assert_array_equal(one, other)
    ds.discard()


@pytest.mark.parametrize("codecs", [None, "raw", "lz4", "zstd"])
@pytest.mark.parametrize(
    "sample_type",
    ["int64", "float32", "bool", "uint8", tl.Array("int16", (3, 5)), tl.Array("float32", (64, 2))],
    ids=repr,
)
def test_zarr_decodes_a_chunk_s_own_bytes_by_the_codecs_in_the_schema(
    sample_type, codecs, tmp_path
):
    """A uniform payload is a chunk of a Zarr v3 array as it is."""
    layout = ChunkLayout.of(as_type(sample_type), codecs=codecs)
    shape = (37, *layout.shape)
    values = np.random.default_rng(0).integers(0, 2, shape).astype(layout.element_dtype)
    blob = encode_chunk(UniformColumn(values), layout)
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": layout.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": False if layout.dtype == "bool" else 0,
        "codecs": layout.to_json()["codecs"],
        "attributes": {},
    }
    (tmp_path / "zarr.json").write_text(json.dumps(metadata))
    payload = b"".join(blob.pieces)[blob.header_nbytes :]
    (tmp_path / ".".join(["c", *["0"] * len(shape)])).write_bytes(payload)

    found = zarr.open_array(LocalStore(tmp_path), mode="r")[:]

    own = decode_chunk(
        b"".join(blob.pieces),
        header_nbytes=blob.header_nbytes,
        rows=37,
        layout=layout,
        verify=blob.checksum,
    )
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, own.values)
    np.testing.assert_array_equal(found, values)
