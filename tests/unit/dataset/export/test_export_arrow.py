"""Out as Arrow: what each type becomes, streams in bounded batches, conditions that are pushed."""

from __future__ import annotations

import datetime as dt
import pickle
import uuid
import zoneinfo

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import simplejpeg

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.errors import InvalidInputError, TensorNotFoundError, UnsupportedFeatureError

FIELD = pc.field
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
IDS = [uuid.UUID(int=i) for i in range(4)]


def jpeg(seed: int) -> bytes:
    return simplejpeg.encode_jpeg(np.full((4, 6, 3), seed, np.uint8))


SCHEMA = {
    "number": "int16",
    "maybe": tl.Scalar("float32", nullable=True),
    "truth": tl.Bool(nullable=True),
    "label": tl.ClassLabel(["cat", "dog"]),
    "labels": tl.ClassLabel(["a", "b"], multi=True, nullable=True),
    "text": tl.Text(nullable=True),
    "json": tl.Json(),
    "bytes": tl.Bytes(),
    "tags": tl.Tags(),
    "words": tl.Sequence("str"),
    "frames": tl.Sequence(tl.Image("jpeg")),
    "kinds": tl.Sequence(tl.ClassLabel(["x", "y"])),
    "id": tl.Uuid(),
    "at": tl.Timestamp("ms", tz="Europe/Berlin", nullable=True),
    "vector": tl.Embedding(3, nullable=True),
    "matrix": tl.Array("uint8", (2, 2), nullable=True),
    "none": tl.Array("int8", (0,)),
    "boxes": tl.BBox(of="image", nullable=True),
    "volume": tl.Array("int32", (None, None, 2)),
    "outlines": tl.Polygon(),
    "image": tl.Image("jpeg", nullable=True),
    "mask": tl.InstanceMask(of="image"),
    "binary": tl.BinaryMask(),
}
ROWS = [
    {
        "number": i,
        "maybe": None if i == 1 else i / 2,
        "truth": [True, None, False, True][i],
        "label": ["cat", "dog"][i % 2],
        "labels": [["a"], [], None, ["b", "a"]][i],
        "text": ["ü", "", None, 'a"b\\c\nd'][i],
        "json": [{"k": [1]}, "word", None, 3][i] if i != 2 else [],
        "bytes": bytes(range(i)),
        "tags": [["night"], [], ["a", "b"], []][i],
        "words": [["a", "b"], [], ["c"], []][i],
        "frames": [jpeg(j) for j in range(i)],
        "kinds": ["x", "y", "y"][:i],
        "id": IDS[i],
        "at": None if i == 2 else dt.datetime(2026, 1, 1 + i, tzinfo=BERLIN),
        "vector": None if i == 3 else [i, 0, 1],
        "matrix": None if i == 0 else [[i, 1], [2, 3]],
        "none": np.zeros(0, np.int8),
        "boxes": None if i == 2 else np.full((i, 4), i),
        "volume": np.arange((i + 1) * 3 * 2).reshape(i + 1, 3, 2),
        "outlines": [np.full((3, 2), j) for j in range(i)],
        "image": None if i == 1 else jpeg(i),
        "mask": [np.eye(4, 6, k=j, dtype=bool) for j in range(i)],
        "binary": np.eye(2 + i, dtype=bool),
    }
    for i in range(4)
]


@pytest.fixture
def ds(request):
    number = abs(hash(request.node.name))  # names of parameters are no part of a URL
    made = tl.create(f"memory://arrow-{number}", SCHEMA)
    made.extend(ROWS)
    made.commit("rows")
    return made


def same(a, b) -> bool:
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())
    if isinstance(a, list | tl.Ragged):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def check_equal(ds, other, names) -> None:
    assert {name: ds.schema[name] for name in names} == dict(other.schema)
    for row in range(len(ds)):
        for name in names:
            assert same(ds[row][name], other[row][name]), (row, name)
            if ds[row][name] is not None and name == "image":
                assert ds["image"].bytes(row) == other["image"].bytes(row)


def test_arrow_reads_each_type_as_its_own(ds):
    table = ds.to_arrow()

    table.validate(full=True)
    row = table.slice(1, 1).to_pylist()[0]
    assert row["label"] == "dog"
    assert (row["maybe"], row["truth"], row["image"]) == (None, None, None)
    assert row["labels"] == []
    assert row["json"] == '"word"'
    assert row["frames"] == [jpeg(0)]
    assert row["kinds"] == ["x"]
    assert row["at"] == ROWS[1]["at"]
    assert row["vector"] == [1, 0, 1]
    assert row["boxes"] == [[1, 1, 1, 1]]
    assert row["volume"][0] == [[0, 1], [2, 3], [4, 5]]
    assert row["outlines"] == [[[0, 0]] * 3]
    assert table["image"][0].as_py() == jpeg(0)
    assert table["matrix"].combine_chunks()[1:].to_numpy_ndarray().shape == (3, 2, 2)
    assert table.schema.field("label").type == pa.dictionary(pa.int32(), pa.string())
    assert table.schema.field("at").type == pa.timestamp("ms", "Europe/Berlin")
    assert not table.schema.field("number").nullable
    assert table.schema.field("maybe").nullable


def test_table_ingested_again_is_the_dataset_it_was(ds):
    again = tl.ingest.arrow(ds.to_arrow(), f"{ds.url}-again")

    check_equal(ds, again, list(SCHEMA))


def test_parquet_of_the_table_ingested_again_is_the_dataset_it_was(ds, tmp_path):
    pq.write_table(ds.to_arrow(), tmp_path / "x.parquet")

    again = tl.ingest.parquet(tmp_path / "x.parquet", f"{ds.url}-parquet")

    check_equal(ds, again, list(SCHEMA))


def test_column_that_was_changed_after_it_went_out_is_what_it_is_now(ds):
    table = ds.to_arrow(columns=["number"])
    field = table.schema.field("number").with_type(pa.float64())
    changed = table.cast(pa.schema([field]))

    again = tl.ingest.arrow(changed, f"{ds.url}-changed")

    assert again.schema["number"] == tl.Scalar("float64")


@pytest.mark.parametrize("written", [b"{", b"1", b'{"kind": "from-tomorrow"}'])
def test_foreign_metadata_under_our_key_is_left_alone(ds, written):
    field = pa.field("x", pa.int8(), metadata={b"tensorlake": written})

    again = tl.ingest.arrow(pa.table([[1]], pa.schema([field])), f"{ds.url}-{len(written)}")

    assert again["x"].dtype == np.int8


def test_dropped_class_is_no_name_of_the_dictionary():
    ds = tl.create("memory://arrow-dropped", {"y": tl.ClassLabel(["a", "b", "c", "d"])})
    ds.extend({"y": ["d", "a"]})
    ds["y"].drop_names(["b", "c"])

    column = ds.to_arrow().column("y").combine_chunks()

    assert column.to_pylist() == ["d", "a"]
    assert column.dictionary.to_pylist() == ["a", "d"]
    ds.discard()


def test_virtual_columns_come_when_they_are_named(ds):
    table = ds[[3, 1]].to_arrow(columns=["_row", "number", "_row_id"])

    assert table.column("_row").to_pylist() == [3, 1]
    assert table.column("_row_id").to_pylist() == [ds.row_ids[3], ds.row_ids[1]]
    assert ds.to_pandas(columns=["label", "_row_id"])["_row_id"].tolist() == ds.row_ids


def test_unknown_column_and_a_bare_name_are_refused(ds):
    with pytest.raises(TensorNotFoundError, match="numbr"):
        ds.to_arrow(columns=["numbr"])
    with pytest.raises(InvalidInputError, match=r"columns=\['number'\]"):
        ds.to_arrow(columns="number")


def test_computed_columns_of_queries_come_out(ds):
    view = ds.query("SELECT number * 2 AS twice, label, SHAPE(image)[0] AS height, text AS words")
    counts = ds.query("SELECT label, COUNT(*) AS n GROUP BY label ORDER BY label")

    assert view.to_arrow().column("twice").to_pylist() == [0, 2, 4, 6]
    assert view.to_arrow().column("height").to_pylist() == [4, None, 4, 4]
    assert view.to_arrow().column("words").to_pylist() == [row["text"] for row in ROWS]
    assert counts.to_arrow().to_pylist() == [{"label": "cat", "n": 2}, {"label": "dog", "n": 2}]


def test_staged_rows_are_among_those_that_go_out(ds):
    ds["number"][0] = 100

    assert ds.to_arrow(columns=["number"]).column(0).to_pylist() == [100, 1, 2, 3]
    ds.discard()


def test_empty_dataset_has_its_schema():
    ds = tl.create("memory://arrow-empty", SCHEMA)

    table = ds.to_arrow()

    assert table.num_rows == 0
    assert table.column_names == list(SCHEMA)


def test_stream_is_cut_by_bytes_and_reads_no_batch_before_it_is_asked(monkeypatch):
    monkeypatch.setattr("tensorlake.dataset.export.arrow.stream.BATCH_NBYTES", 4096)
    ds = tl.create("memory://arrow-bounded", {"x": tl.Array("uint8", (None,)), "y": "int64"})
    ds.extend({"x": [np.zeros(i % 1000, np.uint8) for i in range(3000)], "y": range(3000)})
    ds.commit("rows")

    batches = list(pa.RecordBatchReader.from_stream(ds))

    assert max(batch.nbytes for batch in batches) < 3 * 4096
    assert max(batch.num_rows for batch in batches) > 1
    assert pa.Table.from_batches(batches).column("y").to_pylist() == list(range(3000))


def test_more_than_memory_should_hold_names_the_largest_column_and_a_way(monkeypatch, ds):
    monkeypatch.setattr("tensorlake.dataset.export.arrow.stream.IN_MEMORY_NBYTES_MAX", 100)

    with pytest.raises(InvalidInputError, match=r"(?s)more than 100; '\w+' has .*columns=\['"):
        ds.to_arrow()
    with pytest.raises(InvalidInputError, match=r"to_pandas\(\) would read"):
        ds.to_pandas()
    assert ds.to_arrow(columns=["number"]).num_rows == 4


def test_stream_stays_at_the_version_it_was_opened_at(ds):
    reader = pa.RecordBatchReader.from_stream(ds[["number"]])
    ds["number"][:] = 7
    ds.commit("sevens")

    assert reader.read_all().column(0).to_pylist() == [0, 1, 2, 3]


def test_polars_and_duckdb_take_a_dataset_and_a_view(ds):
    view = ds.where("number > 0")  # noqa: F841 - DuckDB finds it by its name

    assert pl.DataFrame(ds[["number", "label"]])["label"].to_list() == ["cat", "dog"] * 2
    assert duckdb.sql("SELECT label, count(*) FROM view GROUP BY 1 ORDER BY 1").fetchall() == [
        ("cat", 1),
        ("dog", 2),
    ]


def test_schema_capsule_is_the_streams_schema(ds):
    assert pa.schema(ds) == ds.to_arrow().schema


# ---- scans

CONDITIONS = [
    (FIELD("number") > 1, "number > 1"),
    (FIELD("number") == pa.scalar(2, pa.int16()), "number = 2"),
    (FIELD("number") != 2, "number != 2"),
    (FIELD("maybe") <= pa.scalar(0.1, pa.float32()), "maybe <= 0.10000000149011612"),
    (FIELD("maybe") >= 1.0, "maybe >= 1.0"),
    (FIELD("maybe") > 0.1, None),  # compared as float64 there, as float32 here
    (FIELD("label") == "dog", "label = 'dog'"),
    (FIELD("label") == "zebra", None),
    (FIELD("label") < "dog", None),
    (FIELD("label").isin(["dog", "cat"]), "label IN ('dog', 'cat')"),
    (FIELD("number").isin(pa.array([1, 3], pa.int16())), "number IN (1, 3)"),
    (FIELD("text") == 'a"b\\c\nd', "text = 'a\"b\\c\nd'"),
    (FIELD("text").is_null(), "text IS NULL"),
    (FIELD("text").is_valid(), "NOT text IS NULL"),
    (FIELD("truth"), "truth = TRUE"),
    (~(FIELD("truth") == True), "NOT truth = TRUE"),  # noqa: E712 - an expression of Arrow
    ((FIELD("number") > 0) & ((FIELD("label") == "cat") | FIELD("truth")), "number > 0 AND (…)"),
    (FIELD("number") + 1 > 2, None),
    (FIELD("number") > FIELD("maybe"), None),
    (pc.starts_with(FIELD("text"), "a"), None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "pushed"), CONDITIONS, ids=lambda one: str(one)[:30])
def test_scan_answers_a_condition_as_arrow_does(ds, condition, pushed):
    scanned = ds.arrow_dataset()
    expected = ds.to_arrow().filter(condition).column("number").to_pylist()

    found = scanned.to_table(columns=["number"], filter=condition)

    assert found.column("number").to_pylist() == expected
    if pushed is None or "…" not in pushed:
        assert scanned.pushed(condition) == pushed
    else:
        assert scanned.pushed(condition) is not None


def test_scan_is_a_dataset_of_pyarrow(ds):
    scanned = ds.arrow_dataset()

    assert isinstance(scanned, pads.Dataset)
    assert scanned.count_rows() == 4
    assert scanned.count_rows(filter=FIELD("number") > 1) == 2
    assert scanned.head(2, columns=["number"]).column(0).to_pylist() == [0, 1]
    assert scanned.to_table(columns={"n": FIELD("number") * 2}).to_pydict() == {"n": [0, 2, 4, 6]}
    assert [batch.num_rows for batch in scanned.to_batches(columns=[])] == [4]


def test_scan_travels_to_another_process_as_its_view(tmp_path):
    ds = tl.create(str(tmp_path / "x.tl"), {"x": "int64"})
    ds.extend({"x": [1, 2]})
    ds.commit("two")

    again = pickle.loads(pickle.dumps(ds.arrow_dataset()))

    assert again.to_table().column("x").to_pylist() == [1, 2]


def test_duckdb_pushes_columns_and_conditions_down(ds, monkeypatch):
    read = []
    reads = type(rowset_of(ds).reader()).read

    def noting(reader, tensor, physical, **options):
        read.append((tensor, len(physical)))
        return reads(reader, tensor, physical, **options)

    monkeypatch.setattr(type(rowset_of(ds).reader()), "read", noting)

    rows = ds.to_duckdb().filter("number IN (1, 3) AND label = 'dog'").project("number, text")

    assert rows.fetchall() == [(1, ""), (3, 'a"b\\c\nd')]
    assert {name for name, _ in read} == {"number", "label", "text"}


def test_duckdb_counts_and_joins_over_a_connection_given(ds):
    with duckdb.connect() as connection:
        relation = ds.to_duckdb(connection)

        assert relation.aggregate("count(*)").fetchall() == [(4,)]


def test_polars_scans_lazily(ds):
    scanned = pl.scan_pyarrow_dataset(ds[["number", "label"]].arrow_dataset())

    assert scanned.filter(pl.col("number") > 2).collect().to_dicts() == [
        {"number": 3, "label": "dog"}
    ]


@pytest.fixture(scope="module")
def mixed():
    ds = tl.create(
        "memory://computed-lists",
        {"at": tl.Timestamp(), "p": tl.Polygon(), "s": tl.Sequence(tl.Text()), "b": tl.Bytes()}
        | {"c": "complex64"},
    )
    outline = [[0, 0], [1, 0], [1, 1]]
    ds.extend(
        {"at": ["2026-01-01", "2026-01-02"], "p": [[outline], []], "s": [["a"], []]}
        | {"b": [b"a", b"b"], "c": [1j, 2]}
    )
    ds.commit("rows")
    return ds


@pytest.mark.parametrize(
    ("query", "kind", "rows"),
    [
        (
            "SELECT ARRAY_AGG(at) AS x",
            pa.list_(pa.timestamp("us")),
            [[dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)]],  # noqa: DTZ001 no zone is given
        ),
        ("SELECT ARRAY_AGG(at) AS x WHERE false", pa.list_(pa.timestamp("us")), [None]),
        (
            "SELECT LAG(p) OVER (ORDER BY at) AS x",
            pa.list_(pa.list_(pa.list_(pa.float32(), 2))),
            [None, [[[0, 0], [1, 0], [1, 1]]]],
        ),
    ],
)
def test_computed_moments_and_polygons_are_lists(mixed, query, kind, rows):
    table = mixed.query(query).to_arrow()

    assert table.schema.field("x").type == kind
    assert table["x"].to_pylist() == rows


@pytest.mark.parametrize(
    "query",
    ["SELECT ARRAY_AGG(b) AS x", "SELECT COALESCE(s, s) AS x", "SELECT c AS x UNION ALL SELECT c"],
)
def test_computed_values_that_arrow_cannot_take_are_named(mixed, query):
    with pytest.raises(UnsupportedFeatureError, match="Arrow does not support 'x', which is comp"):
        mixed.query(query).to_arrow()
