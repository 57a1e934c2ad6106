"""Views as rows to append: all their columns, those that a query or the schema computes too.

DuckDB evaluates the same SELECT over the same rows.
"""

import datetime as dt

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tensorlake as tl

NUMBER = tl.Scalar("float64", nullable=True)
COLUMNS = {"id": [0, 1, 2, 3], "v": [1.0, 2.0, None, 4.0], "k": ["a", "b", "a", None]}
SELECTS = [
    "SELECT id, v * 10 AS w, v AS z",
    "SELECT id, v AS w, k AS z",
    "SELECT id, CASE WHEN id = 1 THEN NULL ELSE k END AS w, id > 1 AS z WHERE id <> 2",
    "SELECT a.id AS id, b.v AS w, a.v + b.v AS z FROM this AS a JOIN this AS b ON a.id = b.id + 1",
    "SELECT COUNT(*) AS id, SUM(v) AS w, MIN(k) AS z",
    "SELECT k AS z, COUNT(*) AS id, MAX(v) AS w GROUP BY k",
    "SELECT id, v AS w, SUM(v) OVER (ORDER BY id) AS z",
]


@pytest.fixture
def ds(request):
    schema = {"id": "int64", "v": NUMBER, "k": tl.Text(nullable=True)}
    made = tl.create(f"memory://{request.node.name}", schema)
    made.extend(COLUMNS)
    made.commit("rows")
    return made


def from_duckdb(tql):
    this = pa.table(COLUMNS)  # noqa: F841 - DuckDB finds it by name
    head, where, tail = tql.partition(" WHERE ")
    if not where:
        head, where, tail = tql.partition(" GROUP ")
    text = tql if "FROM" in tql else f"{head} FROM this{where}{tail}"
    rows = duckdb.sql(text).to_arrow_table()
    return sorted(rows.select(["id", "w", "z"]).to_pylist(), key=repr)


def rows_of(made):
    return sorted(made.to_arrow(columns=["id", "w", "z"]).to_pylist(), key=repr)


@pytest.mark.parametrize("tql", SELECTS)
def test_extend_takes_what_a_select_computes(ds, tql):
    view = ds.query(tql)
    made = tl.create(f"{ds.url}-to", tl.infer_schema(view))

    made.extend(view)

    assert rows_of(made) == from_duckdb(tql)
    made.discard()


@pytest.mark.parametrize("tql", SELECTS[:4])
def test_upsert_takes_what_a_select_computes(ds, tql):
    view = ds.query(tql)
    made = tl.create(f"{ds.url}-to", tl.infer_schema(view))
    made.extend(view[:1])
    made.commit("the first row")

    assert made.upsert(view, on="id").updated == 1

    assert rows_of(made) == from_duckdb(tql)
    made.discard()


def test_upsert_changes_known_rows_to_what_is_computed(ds):
    made = tl.create(f"{ds.url}-to", {"id": "int64", "w": NUMBER})
    made.extend({"id": [0, 1, 2, 3], "w": [7.0] * 4})
    made.commit("sevens")

    made.upsert(ds.query("SELECT id, v * 10 AS w"), on="id")

    assert made["w"].to_list() == [10.0, 20.0, None, 40.0]
    made.discard()


def test_a_computed_column_that_is_no_tensor_is_refused(ds):
    made = tl.create(f"{ds.url}-to", {"id": "int64"})

    with pytest.raises(tl.TensorNotFoundError, match="no tensor 'w'"):
        made.extend(ds.query("SELECT id, v * 10 AS w"))

    assert not made.has_changes


def test_extend_takes_what_the_schema_computes(ds):
    ds.add_tensor("d", NUMBER, compute="v * 2")
    ds.commit("d")
    expected = [2.0, 4.0, None, 8.0]
    whole = {"id": "int64", "v": NUMBER, "k": tl.Text(nullable=True), "d": NUMBER}

    for number, given in enumerate([ds, ds[:], ds.query("SELECT *"), ds[["id", "d"]]]):
        schema = whole if number < 3 else {"id": "int64", "d": NUMBER}
        made = tl.create(f"{ds.url}-{number}", schema)
        made.extend(given)
        assert made["d"].to_list() == expected
        made.discard()


def test_what_both_schemas_compute_alike_is_left_out(ds):
    ds.add_tensor("d", NUMBER, compute="v * 2")
    ds.commit("d")
    like = tl.create(f"{ds.url}-like", {"id": "int64", "v": NUMBER, "k": tl.Text(nullable=True)})
    like.add_tensor("d", NUMBER, compute="v * 2")
    other = tl.create(f"{ds.url}-other", {"id": "int64", "v": NUMBER, "k": tl.Text(nullable=True)})
    other.add_tensor("d", NUMBER, compute="v * 3")

    like.extend(ds)
    with pytest.raises(tl.InvalidInputError, match="gives values of 'd', which an expression"):
        other.extend(ds)

    assert like["d"].to_list() == [2.0, 4.0, None, 8.0]
    assert like.upsert([], on="id").updated == 0
    like.discard()
    other.discard()


def test_a_dataset_takes_what_is_computed_of_its_own_staged_rows(ds):
    ds.append({"id": 4, "v": 5.0, "k": None})

    ds.extend(ds.query("SELECT id + 10 AS id, v * 10 AS v, k"))

    assert ds["v"].to_list() == [1.0, 2.0, None, 4.0, 5.0, 10.0, 20.0, None, 40.0, 50.0]
    ds.discard()


def test_a_renamed_column_is_copied_as_it_is_stored(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), np.uint8)
    at = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    schema = {
        "image": tl.Image("jpeg"),
        "mask": tl.SegmentMask(["road", "car"]),
        "boxes": tl.BBox("xywh"),
        "label": tl.ClassLabel(["cat", "dog"]),
        "at": tl.Timestamp("ms", tz="UTC"),
    }
    ds = tl.create(tmp_path / "from", schema)
    mask, boxes = np.eye(3, dtype=np.uint8), [[1.0, 2.0, 3.0, 4.0]]
    ds.append({"image": pixels, "mask": mask, "boxes": boxes, "label": "dog", "at": at})
    ds.commit("one")
    view = ds.query("SELECT image AS i, mask AS m, boxes AS b, label AS l, at AS a")

    made = view.materialize(tmp_path / "made")
    other = tl.create(
        tmp_path / "other",
        {
            "i": tl.Image("jpeg"),
            "m": tl.SegmentMask(["sky", "road", "car"]),
            "b": tl.BBox("xyxy"),
            "l": tl.ClassLabel(["dog", "cat"]),
            "a": tl.Timestamp("ms", tz="UTC"),
        },
    )
    other.extend(view)

    assert list(made.schema.values()) == list(schema.values())
    stored = ds.query("SELECT image").to_arrow()["image"].to_pylist()
    assert made.to_arrow(columns=["i"])["i"].to_pylist() == stored
    assert other.to_arrow(columns=["i"])["i"].to_pylist() == stored
    assert other[0]["m"].tolist() == (mask + 1).tolist()
    assert other[0]["b"].tolist() == [[1.0, 2.0, 4.0, 6.0]]
    assert other[0]["l"] == "dog"
    assert other[0]["a"] == made[0]["a"] == at
    other.discard()


@pytest.mark.parametrize("kind", [tl.Image("png"), tl.Link(tl.Image("png"))])
@pytest.mark.parametrize("tql", ["SELECT k AS x WHERE id = 0", "SELECT k || '.png' AS x LIMIT 1"])
def test_texts_that_are_computed_are_never_names_of_files(ds, kind, tql):
    made = tl.create(f"{ds.url}-to", {"x": kind})

    with pytest.raises(tl.InvalidInputError, match="for the name of a local file"):
        made.extend(ds.query(tql))


def test_times_that_are_computed_become_times(ds):
    made = tl.create(f"{ds.url}-times", {"at": tl.Timestamp("ms")})
    made.extend({"at": ["2026-03-01T12:00", "2026-03-02"]})
    made.commit("times")

    copy = made.query("SELECT MAX(at) OVER () AS last").materialize(f"{ds.url}-last")

    assert copy[0]["last"] == dt.datetime(2026, 3, 2)  # noqa: DTZ001 - without a zone
    with pytest.raises(tl.UnsupportedFeatureError, match=r"\(duration\) cannot become a tensor"):
        made.query("SELECT at - at AS d").materialize(f"{ds.url}-none")
