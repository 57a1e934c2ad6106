"""Every kind of Arrow column comes in and goes out as it was, by Arrow's and DuckDB's own word."""

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorlake as tl

UTC = dt.datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=dt.UTC)
NAIVE = UTC.replace(tzinfo=None)
TIME = dt.time(23, 59, 59, 999_000)
POINT = pa.struct([("x", pa.float64()), ("when", pa.timestamp("us"))])

KINDS = {
    "decimal": (pa.decimal128(10, 2), [Decimal("12.50"), Decimal("-0.01")]),
    "wide_decimal": (pa.decimal256(50, 3), [Decimal("1" * 40 + ".125"), Decimal(0)]),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 3, 1)]),
    "time": (pa.time64("us"), [TIME, dt.time(0)]),
    "time_ms": (pa.time32("ms"), [TIME, dt.time(0)]),
    "instant": (pa.timestamp("us", "UTC"), [UTC, UTC]),
    "clock": (pa.timestamp("ms"), [NAIVE, NAIVE]),
    "duration": (pa.duration("us"), [dt.timedelta(days=-1), dt.timedelta(microseconds=3)]),
    "holes": (pa.list_(pa.int64()), [[1, None, 2**63 - 1], []]),
    "float_holes": (pa.list_(pa.float32()), [[1.5, None], []]),
    "texts_with_holes": (pa.list_(pa.string()), [["a", None], []]),
    "texts": (pa.list_(pa.string()), [["a", "ü"], []]),
    "deep": (pa.list_(pa.list_(pa.list_(pa.int32()))), [[[[1], []], []], []]),
    "uneven": (pa.list_(pa.list_(pa.float64())), [[[1.0], [2.0, 3.0]], []]),
    "deep_holes": (pa.list_(pa.list_(pa.int32())), [[None, [1]], []]),
    "dates": (pa.list_(pa.date32()), [[dt.date(2026, 3, 1)], []]),
    "prices": (pa.list_(pa.decimal128(5, 1)), [[Decimal("1.5"), None], []]),
    "struct": (POINT, [{"x": 1.5, "when": NAIVE}, {"x": None, "when": None}]),
    "points": (pa.list_(POINT), [[{"x": float("inf"), "when": NAIVE}, None], []]),
    "nested": (pa.struct([("p", POINT), ("b", pa.binary())]), [{"p": None, "b": b"\xff"}] * 2),
    "map": (pa.map_(pa.string(), pa.int64()), [[("b", 1), ("a", None)], []]),
    "map_of_days": (pa.map_(pa.int32(), pa.list_(pa.date32())), [[(1, [dt.date(2026, 3, 1)])], []]),
    "bytes": (pa.binary(), [b"\x00", b""]),
    "uint64": (pa.uint64(), [2**64 - 1, 0]),
    "half": (pa.float16(), [np.float16(0.1), np.float16(2)]),
    "flag": (pa.bool_(), [True, False]),
}


def table_of(kinds=KINDS, *, has_null=True):
    return pa.table(
        {
            name: pa.array([*values, None] if has_null else values, kind)
            for name, (kind, values) in kinds.items()
        }
    )


@pytest.fixture
def dst(request):
    return f"memory://arrow-kinds-{request.node.name}".replace("[", "-").replace("]", "")


@pytest.mark.parametrize("has_null", [True, False])
def test_every_kind_goes_out_as_it_came_in(dst, has_null):
    table = table_of(has_null=has_null)

    out = tl.ingest.arrow(table, dst).to_arrow()

    for name in table.column_names:
        assert out[name].type == table[name].type, name
        assert out[name].combine_chunks().equals(table[name].combine_chunks()), name


def test_python_reads_what_arrow_reads(dst):
    table = table_of(
        {name: KINDS[name] for name in ("decimal", "time", "duration", "points", "map")}
    )

    ds = tl.ingest.arrow(table, dst)

    expected = table.to_pylist(maps_as_pydicts="strict")
    assert [dict(ds[at]) for at in range(len(ds))] == expected
    assert ds["points"].read([0, 1], null=[]) == [row["points"] for row in expected[:2]]


def test_duckdb_sees_the_same_parquet_before_and_after(dst, tmp_path):
    kinds = {name: one for name, one in KINDS.items() if name not in ("wide_decimal", "half")}
    before, after = tmp_path / "before.parquet", tmp_path / "after.parquet"
    pq.write_table(table_of(kinds), before, row_group_size=1)

    tl.ingest.parquet(before, dst).to_parquet(after)

    described, rows = (
        [duckdb.sql(f"{query} '{path}'").fetchall() for path in (before, after)]
        for query in ("DESCRIBE FROM", "SELECT COLUMNS(*)::VARCHAR FROM")
    )
    assert [one[:2] for one in described[1]] == [one[:2] for one in described[0]]
    assert rows[1] == rows[0]


def test_values_of_an_arrow_type_are_appended_and_misfits_are_named(dst):
    schema = {"p": tl.Json(arrow=pa.struct([("price", pa.decimal128(6, 2))]))}
    with tl.create(dst, schema) as ds:
        ds.append({"p": {"price": Decimal("1.50")}})
        ds.commit()

        assert ds["p"][0] == {"price": Decimal("1.50")}
        assert ds.query("SELECT CAST(p['price'] AS FLOAT64) AS price")["price"][:] == [1.5]
        with pytest.raises(tl.DTypeMismatchError, match=r"row 1.*'cost', which 'price' does not"):
            ds.extend({"p": [{"price": None}, {"cost": 1}]})
        with pytest.raises(tl.DTypeMismatchError, match=r"1\.125"):
            ds.append({"p": {"price": Decimal("1.125")}})
        reopened = tl.open(dst)
        assert reopened.schema["p"] == tl.Json(arrow="struct<price: decimal128(6, 2)>")


@pytest.mark.parametrize(
    "text", ["list<", "struct<a>", "list<int64>>", "int65", "list<int64, int64>", "map<int64>", ""]
)
def test_text_that_is_not_an_arrow_type_is_refused(text):
    with pytest.raises(tl.SchemaError, match="write it as Arrow does"):
        tl.Json(arrow=text)


def test_map_with_a_key_twice_is_refused_by_row(dst):
    table = pa.table({"m": pa.array([[], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))})

    with pytest.raises(tl.DTypeMismatchError, match=r"row 1.*duplicate key"):
        tl.ingest.arrow(table, dst)


@pytest.mark.parametrize("length", [2, 31, 32, 768])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_of_one_length_are_vectors(dst, tmp_path, length, kind):
    rows = np.random.default_rng(1).random((7, length)).tolist()
    table = pa.table({"v": pa.array([*rows, None], pa.list_(kind))})
    pq.write_table(table, tmp_path / "v.parquet", row_group_size=3)

    ds = tl.ingest.parquet(tmp_path / "v.parquet", dst)

    dtype = kind.to_pandas_dtype()
    wanted = tl.Array(dtype, (length,)) if length < 32 else tl.Embedding(length, dtype=dtype)
    assert (ds.schema["v"].kind, ds.schema["v"].shape) == (wanted.kind, (length,))
    assert ds.to_arrow()["v"].to_pylist() == table["v"].to_pylist()


@pytest.mark.parametrize("last", [[1.0, 2.0, 3.0], [], [1.0, None]])
def test_a_later_row_group_decides_with_the_first(dst, tmp_path, last):
    table = pa.table({"v": pa.array([[1.0, 2.0]] * 4 + [last])})
    pq.write_table(table, tmp_path / "v.parquet", row_group_size=2)

    ds = tl.ingest.parquet(tmp_path / "v.parquet", dst)

    assert ds.to_arrow()["v"].to_pylist() == table["v"].to_pylist()


def values(depth=2):
    leaves = st.sampled_from(
        [
            (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
            (pa.float64(), st.floats(allow_nan=False)),
            (pa.string(), st.text(max_size=5)),
            (pa.binary(), st.binary(max_size=5)),
            (pa.date32(), st.dates()),
            (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
            (pa.timestamp("us"), st.datetimes()),
            (pa.time64("us"), st.times()),
            (pa.decimal128(9, 3), st.decimals(-99999, 99999, places=3)),
        ]
    ).map(lambda one: (one[0], st.none() | one[1]))
    if not depth:
        return leaves
    inner = values(depth - 1)
    lists = inner.map(lambda one: (pa.list_(one[0]), st.none() | st.lists(one[1], max_size=3)))
    structs = st.tuples(inner, inner).map(
        lambda two: (
            pa.struct([("a", two[0][0]), ('b "<', two[1][0])]),
            st.none() | st.fixed_dictionaries({"a": two[0][1], 'b "<': two[1][1]}),
        )
    )
    return leaves | lists | structs


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_values_of_any_nested_type_survive(data):
    kind, one = data.draw(values())
    array = pa.array(data.draw(st.lists(one, max_size=4)), kind)
    sample_type = tl.Json(arrow=kind, nullable=True)

    column = sample_type.convert(array.to_pylist(), tensor="x")

    shown = [sample_type.present_one(column, at) for at in range(len(column))]
    assert shown == array.to_pylist()
    assert sample_type.arrow_type == kind


def test_hugging_face_gives_back_structs_lists_and_times(dst):
    datasets = pytest.importorskip("datasets")
    names = ("decimal", "date", "time", "duration", "holes", "uneven", "struct", "points", "map")
    table = table_of({name: KINDS[name] for name in names})

    out = tl.ingest.arrow(table, dst).to_hf()

    again = tl.ingest.huggingface(out, f"{dst}-again").to_arrow()
    assert isinstance(out.features["points"], datasets.List)
    assert out.features["struct"]["when"] == datasets.Value("timestamp[us]")
    assert out[0]["points"] == table["points"][0].as_py()
    for name in names[:-1]:
        assert again[name].combine_chunks().equals(table[name].combine_chunks()), name
    assert out["map"][0] == [{"key": "b", "value": 1}, {"key": "a", "value": None}]


def test_hugging_face_finds_nulls_and_lengths_beyond_the_first_rows(dst):
    datasets = pytest.importorskip("datasets")
    rows = [[1.0, 2.0]] * 1500
    data = datasets.Dataset.from_dict({"even": rows, "odd": [*rows[:-1], [1.0, None]]})

    ds = tl.ingest.huggingface(data, dst)

    assert ds.schema["even"].shape == (2,)
    assert ds["odd"][1499] == [1.0, None]
