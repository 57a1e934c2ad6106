"""bfloat16 and float8: kept bit for bit, given as float32 to whoever knows no such numbers."""

import json

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import DTypeMismatchError, SchemaError
from tensorlake.format import ChunkLayout, Features, TensorSpec, decode_chunk, encode_chunk
from tensorlake.types import NARROW_FLOATS, from_json, is_widening, parse_dtype

DTYPES = {name: np.dtype(getattr(ml_dtypes, name)) for name in NARROW_FLOATS}


def bits(values):
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def every_number(dtype):
    """Every bit pattern of a dtype: all its numbers, infinities and NaNs."""
    return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)


@pytest.fixture
def make(request):
    def made(schema, rows):
        ds = tl.create(f"memory://narrow-{request.node.name}", schema)
        ds.extend(rows)
        ds.commit()
        return tl.open(ds.url)

    return made


@pytest.mark.parametrize("name", NARROW_FLOATS)
@pytest.mark.parametrize("codecs", ["raw", "lz4", "zstd", None])
def test_every_bit_pattern_comes_back_from_a_chunk(name, codecs):
    values = every_number(DTYPES[name])
    layout = ChunkLayout.from_json(ChunkLayout.of(tl.Scalar(name), codecs=codecs).to_json())
    column = tl.Scalar(name).convert(values, tensor="x")

    blob = encode_chunk(column, layout)
    read = decode_chunk(
        b"".join(blob.pieces),
        header_nbytes=blob.header_nbytes,
        rows=blob.rows,
        layout=layout,
        verify=blob.checksum,
    )

    assert read.values.dtype == DTYPES[name]
    assert np.array_equal(bits(read.values), bits(values))
    finite = values.astype(np.float32)
    finite = finite[~np.isnan(finite)]
    found = blob.statistics
    assert (found.minimum, found.maximum) == (finite.min(), finite.max())
    assert found.nan_count == len(values) - len(finite)


@pytest.mark.parametrize("kind", [tl.Scalar("bfloat16"), tl.Sequence("float8_e5m2")])
def test_readers_are_told_that_they_must_know_such_numbers(kind):
    schema = {"tensors": [TensorSpec.new("x", kind).to_json()]}

    assert Features().with_schema(schema).read == ("narrow-floats",)


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_a_dtype_is_named_in_any_form(name):
    for given_as in (name, DTYPES[name], getattr(ml_dtypes, name)):
        assert parse_dtype(given_as) == DTYPES[name]
    for kind in (tl.Scalar(name), tl.Array(name, (None,)), tl.Embedding(3, dtype=name)):
        assert from_json(json.loads(json.dumps(kind.to_json()))) == kind
        assert name in kind.describe()


def test_an_embedding_of_integers_is_refused():
    with pytest.raises(SchemaError, match="of floats, not int8"):
        tl.Embedding(3, dtype="int8")


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_rounding_is_to_the_nearest_as_ml_dtypes_rounds(name):
    given_values = np.random.default_rng(1).normal(size=1000)

    stored = tl.Scalar(name).convert(given_values, tensor="x").values

    assert np.array_equal(bits(stored), bits(given_values.astype(DTYPES[name])))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("bfloat16", 3.4e38, "infinite"),
        ("bfloat16", 257, "integers must fit"),
        ("float8_e4m3fn", 500.0, "no such number"),
        ("float8_e4m3fn", float("inf"), "no such number"),
        ("float8_e4m3fn", 17, "integers must fit"),
        ("float8_e5m2", 70_000.0, "infinite"),
        ("float8_e5m2", 2**63 - 1, "integers must fit"),
        ("bfloat16", True, "got bool"),
        ("bfloat16", "1", "got str"),
        ("bfloat16", 1j, "complex"),
    ],
)
def test_what_it_cannot_hold_is_refused_with_its_row(name, value, why):
    with pytest.raises(DTypeMismatchError, match=why) as caught:
        tl.Scalar(name).convert([type(value)(0), value], tensor="x")

    assert caught.value.row == (1 if isinstance(value, int | float) and value is not True else 0)


def test_integers_that_it_holds_exactly_are_taken():
    exact = np.array([0, 256, 258, 2**62, -(2**63)], np.int64)

    stored = tl.Scalar("bfloat16").convert(exact, tensor="x").values

    assert [int(float(one)) for one in stored] == exact.tolist()


def test_a_narrow_float_never_becomes_an_integer():
    with pytest.raises(DTypeMismatchError, match="kinds never change"):
        tl.Scalar("int8").convert(np.ones(2, ml_dtypes.bfloat16), tensor="x")


def test_types_widen_only_where_every_number_stays():
    wider = {
        name: {other for other in (*NARROW_FLOATS, "float16", "float32", "int8")
               if other != name and is_widening(parse_dtype(name), parse_dtype(other))}
        for name in (*NARROW_FLOATS, "float16", "int8", "int16")
    }  # fmt: skip

    assert wider == {
        "bfloat16": {"float32"},
        "float8_e4m3fn": {"bfloat16", "float16", "float32"},
        "float8_e5m2": {"bfloat16", "float16", "float32"},
        "float16": {"float32"},
        "int8": {"bfloat16", "float16", "float32"},
        "int16": {"float32"},
    }
    for name in NARROW_FLOATS:
        for other in wider[name]:
            values = every_number(DTYPES[name])
            there = values.astype(parse_dtype(other)).astype(np.float32)
            assert np.array_equal(there, values.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("name", NARROW_FLOATS)
@given(data=st.data())
def test_ragged_null_and_empty_samples_come_back(name, data):
    sample = st.none() | hnp.arrays(
        np.float32, st.integers(0, 4), elements=st.floats(-400, 400, width=16)
    ).map(lambda array: array.astype(DTYPES[name]))
    samples = data.draw(st.lists(sample, max_size=6))
    kind = tl.Array(name, (None,), nullable=True)

    column = kind.convert(samples, tensor="x")

    assert len(column) == len(samples)
    for position, expected in enumerate(samples):
        read = kind.present_one(column, position)
        assert (read is None) is (expected is None)
        if expected is not None:
            assert read.dtype == DTYPES[name]
            assert np.array_equal(bits(read), bits(expected))


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_a_dataset_reads_queries_and_exports_them(make, name):
    values = np.array([[0.5, np.nan], [2, -3], [0, 0]]).astype(DTYPES[name])
    ds = make(
        {"v": tl.Embedding(2, dtype=name), "s": tl.Scalar(name, nullable=True)},
        {"v": torch.from_numpy(values.astype(np.float32)), "s": [1.5, None, -2]},
    )

    assert ds["v"][:].dtype == DTYPES[name]
    assert np.array_equal(bits(ds["v"][:]), bits(values))
    assert ds[0]["s"] == 1.5
    assert len(ds[ds["s"] > 1]) == 1
    assert len(ds.query("WHERE s < 0")) == 1
    assert ds.query("SELECT MAX(s) AS m").item() == 1.5
    assert ds.query("ORDER BY L2_NORM(v[:1]) DESC LIMIT 1").rows.tolist() == [1]
    table = ds.to_arrow()
    assert table.schema.field("s").type == pa.float32()
    assert table["s"].to_pylist() == [1.5, None, -2.0]
    assert ds[:1].to_pandas(["v"])["v"][0].dtype == np.float32
    again = tl.ingest.arrow(table, f"{ds.url}-again", progress=False)
    assert again.schema["v"] == ds.schema["v"]
    assert np.array_equal(bits(again["v"][:]), bits(values))
    assert json.dumps(ds.schema["v"].to_json())
    assert name in repr(ds)


def test_statistics_skip_chunks_of_bfloat16(make):
    ds = make({"x": "bfloat16"}, {"x": np.arange(4).astype(ml_dtypes.bfloat16)})

    plan = ds.query("WHERE x > 100").explain()

    assert len(ds.query("WHERE x > 100")) == 0
    assert rowset_of(ds).selection.snapshot.zones("x").maximum.tolist() == [3.0]
    assert plan


def test_a_difference_knows_equal_nans(make):
    ds = make({"x": "bfloat16"}, {"x": [float("nan"), 1.0]})
    ds["x"][:] = np.array([np.nan, 2], np.float32)

    assert ds.diff().updated["x"].rows_before.tolist() == [1]
    ds.discard()


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_loaders_give_each_framework_its_own_dtype(make, name):
    import jax

    values = np.arange(8, dtype=np.float32).reshape(4, 2).astype(DTYPES[name])
    ds = make(
        {"v": tl.Array(name, (2,)), "r": tl.Array(name, (None,))},
        {"v": values, "r": [values[0], [], values[1], [1.0]]},
    )

    plain = next(iter(ds.loader(batch_size=4, collate={"r": "pad"})))
    tensors = next(iter(ds.torch(batch_size=4)))
    arrays = next(iter(ds.jax(batch_size=4, columns=["v"])))

    assert plain["v"].dtype == plain["r"].dtype == DTYPES[name]
    assert tensors["v"].dtype == getattr(torch, name)
    assert [one.dtype for one in tensors["r"]] == [getattr(torch, name)] * 4
    assert np.array_equal(tensors["v"].float().numpy(), values.astype(np.float32))
    assert isinstance(arrays["v"], jax.Array)
    assert arrays["v"].dtype == DTYPES[name]
    assert np.array_equal(np.asarray(arrays["v"]).astype(np.float32), values.astype(np.float32))


def test_a_torch_tensor_shares_the_memory_of_its_array():
    from tensorlake.loader.frameworks.torch import TorchConverter

    values = np.ones(3, ml_dtypes.bfloat16)
    tensor = TorchConverter().convert({"x": values})["x"]
    values[0] = 2

    assert tensor[0].item() == 2


def test_a_loader_casts_to_bfloat16(make):
    ds = make({"x": tl.Array("uint8", (2,))}, {"x": [[0, 255]]})

    steps = [tl.decode.ToFloat(), tl.decode.Cast("bfloat16")]
    batch = next(iter(ds.torch(batch_size=1, decode={"x": steps})))

    assert batch["x"].dtype == torch.bfloat16
    assert batch["x"].tolist() == [[0, 1]]
