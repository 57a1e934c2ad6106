"""Queries of datasets: views that compute when read, other tables, functions, limits."""

import datetime as dt
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tensorlake as tl
from tensorlake.dataset import query_inside, rowset_of
from tensorlake.dataset.core import query_limits as limits
from tensorlake.dataset.core.query_limits import half_of_memory


def count_reads(view, monkeypatch):
    """Count the samples that a view's reader is asked for, by column."""
    reader = rowset_of(view).session.reader(rowset_of(view).selection.snapshot)
    counts: dict[str, int] = {}
    plain = type(reader).read

    def counted(self, tensor, physical, **options):
        counts[tensor] = counts.get(tensor, 0) + len(physical)
        return plain(self, tensor, physical, **options)

    monkeypatch.setattr(type(reader), "read", counted)
    return counts


def test_a_computed_column_is_computed_for_the_rows_that_are_read(ds, monkeypatch):
    counts = count_reads(rowset_of(ds), monkeypatch)

    view = ds.query("SELECT x, image[1:3, :2] AS crop, x * 2 AS twice WHERE x >= 4")
    assert counts == {"x": 10}
    row = view[1]
    assert row["crop"].shape == (2, 2, 3)
    assert row["twice"] == 10
    assert counts["image"] == 1

    assert view["twice"].tolist() == [8, 10, 12, 14, 16, 18]
    assert len(view["crop"]) == 6


def test_a_loader_streams_computed_columns(ds):
    view = ds.query("SELECT x, x * 2 AS twice, image[0, 0, 0] AS grey WHERE label = 'dog'")

    batches = list(view.loader(batch_size=2, shuffle=False))

    twice = [value for batch in batches for value in batch["twice"].tolist()]
    assert twice == [2, 6, 10, 14, 18]
    assert [v for batch in batches for v in batch["grey"].tolist()] == [1, 3, 5, 7, 9]


def test_a_view_of_computed_columns_can_be_pickled_and_queried_again(ds):
    view = ds.query("SELECT *, x * 2 AS twice WHERE x > 6")

    again = pickle.loads(pickle.dumps(view.query("WHERE twice > 14")))

    assert again["twice"].tolist() == [16, 18]
    assert again["x"][:].tolist() == [8, 9]


def test_a_column_may_be_renamed(ds):
    view = ds.query("SELECT x AS number, label AS kind LIMIT 2")

    assert view["number"].tolist() == [0, 1]
    assert list(view["kind"]) == [0, 1]


def test_groups_become_sequences_and_come_apart(ds):
    groups = ds.query("SELECT label, x, text GROUP BY label")

    assert [each.tolist() for each in groups["x"]] == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert groups["text"][1][1] is None
    assert groups.query("SELECT x UNGROUP BY x")["x"].tolist() == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]


def test_a_stack_of_samples_that_differ_is_refused_where_it_is_read(ds):
    groups = ds.query("SELECT * GROUP BY label")

    assert len(groups["x"]) == 2
    with pytest.raises(tl.QueryTypeError, match="cannot be stacked"):
        groups["sizes"]


def test_other_versions_stand_in_from(ds):
    ds.tag("first")
    ds["x"][:] = np.arange(10) + 100
    ds.commit("a hundred more")

    old = ds.query("SELECT x FROM this VERSION 'main@1' LIMIT 2")
    tagged = ds.query("SELECT x FROM this TAG 'first' LIMIT 2")
    changed = ds.query(
        "SELECT a.x - b.x AS more FROM this AS a JOIN this VERSION 'main@1' AS b"
        " ON ROW_NUMBER() = 0 AND a.label = b.label AND a.taken = b.taken"
    )

    assert old["x"][:].tolist() == tagged["x"][:].tolist() == [0, 1]
    assert old.version == "main@1"
    assert changed["more"].tolist() == [100]
    with pytest.raises(tl.QueryNameError, match="has no tag 'second'"):
        ds.query("FROM this TAG 'second'")
    with pytest.raises(tl.QueryNameError, match="is not a time"):
        ds.query("FROM this AS OF 'yesterday'")
    for version in ("VERSION 'main@99'", "TAG 'x'", "AS OF 'yesterday'"):
        with pytest.raises(tl.QueryNameError) as raised:
            ds.query(f"FROM this {version}")
        assert "did you mean" not in str(raised.value)


def test_a_misspelt_query_of_with_is_asked_for_where_no_dataset_has_its_name(ds):
    with pytest.raises(tl.QueryNameError, match=r"(?s)no tensorlake dataset.*did you mean 'good'"):
        ds.query("WITH good AS (WHERE x > 1) SELECT * FROM godo")


def test_another_dataset_stands_in_from_by_name_and_as_a_parameter(ds):
    other = tl.create(ds.url + "-other", {"x": "int64", "weight": "float32"})
    other.extend({"x": [1, 3], "weight": [0.5, 1.5]})
    other.commit("weights")
    text = "SELECT a.x, w.weight FROM this AS a JOIN {} AS w ON a.x = w.x ORDER BY a.x"

    by_name = ds.query(text.format(f'"{other.url}"'))
    given = ds.query(text.format("$weights"), weights=other)
    whole = ds.query("SELECT * FROM $weights WHERE weight > 1", weights=other)

    assert by_name["weight"].tolist() == given["weight"].tolist() == [0.5, 1.5]
    assert given["x"][:].tolist() == [1, 3]
    assert whole.url == other.url
    assert whole["weight"][:].tolist() == [1.5]
    with pytest.raises(tl.QueryNameError, match="no tensorlake dataset"):
        ds.query("FROM nowhere")


@pytest.mark.parametrize("make", [pd.DataFrame, lambda d: pa.table(d)])  # noqa: PLW0108 two ways to the same
def test_a_table_is_a_parameter(ds, make):
    table = make({"x": [1, 3, 99], "name": ["one", None, "none"], "v": [[1.0], [2.0, 3.0], []]})

    view = ds.query(
        "SELECT a.x, t.name, ARRAY_SUM(t.v) AS s FROM this AS a JOIN $t AS t USING (x)", t=table
    )
    alone = ds.query("SELECT * FROM $t WHERE x > 2", t=table)

    assert view["name"] == ["one", None]
    assert view["s"].tolist() == [1.0, 5.0]
    assert view["x"][:].tolist() == [1, 3]
    assert not rowset_of(alone).has_rows
    assert alone["name"] == [None, "none"]


def test_times_compare_with_times(ds):
    view = ds.query("SELECT x, taken + INTERVAL '1 day' AS later WHERE taken > DATE '2026-01-08'")

    assert view["x"][:].tolist() == [8, 9]
    assert view["later"].tolist()[0] == dt.datetime(2026, 1, 10)  # noqa: DTZ001 the type has no zone
    assert len(ds.query("WHERE taken >= $t", t=dt.datetime(2026, 1, 10))) == 1  # noqa: DTZ001 likewise
    assert ds.query("SELECT EXTRACT(DAY FROM MAX(taken)) AS d").item() == 10


def test_row_ids_are_those_of_the_view(ds):
    view = ds.query("SELECT ROW_ID() AS id WHERE x > 7")

    assert view["id"] == ds[[8, 9]].row_ids
    with pytest.raises(tl.QueryTypeError, match="is not a row of the source"):
        ds.query("SELECT ROW_ID() AS id GROUP BY label")["id"]


def test_a_seed_that_was_drawn_is_in_the_text(ds):
    view = ds.query("SELECT RANDOM() AS r SAMPLE BY x + 1 LIMIT 5")

    again = ds.query(view.tql)

    assert "RANDOM()" not in view.tql
    assert "SEED" in view.tql
    assert again["r"].tolist() == view["r"].tolist()
    assert again.rows.tolist() == view.rows.tolist()


@pytest.mark.parametrize("count", [-1, 2.0, slice(0, 2), "2"])
def test_take_takes_a_number_of_rows(ds, count):
    with pytest.raises(tl.InvalidInputError, match="count must be an integer >= 0, got"):
        ds.take(count)


def test_methods_build_the_same_queries(ds):
    view = ds.where("x > 2").select("x", half="x / 2").order_by("half DESC").take(2)

    assert view["half"].tolist() == [4.5, 4.0]
    assert ds.select("*", one="1").tql == "SELECT *, 1 AS one"
    assert ds.where("x > 2").order_by("x").tql == "FROM (WHERE x > 2) ORDER BY x"
    assert ds.query(ds.where("x > 2").order_by("x DESC").tql).rows.tolist() == [9, 8, 7, 6, 5, 4, 3]
    for wrong in (ds.select, ds.order_by, lambda: ds.order_by("x LIMIT 3")):
        with pytest.raises(tl.InvalidInputError):
            wrong()


def test_a_filter_in_python_says_that_it_is_slow(ds):
    with pytest.warns(tl.SlowFilterWarning, match="every row"):
        view = ds.filter(lambda row: row["x"] % 4 == 0)

    assert view.rows.tolist() == [0, 4, 8]


@pytest.mark.parametrize("made", [lambda ds: "x > 8", lambda ds: ds["x"] > 8])
@pytest.mark.parametrize("of", [lambda ds: ds, lambda ds: ds[:]])
def test_a_condition_passed_to_filter_still_works_and_names_where(ds, made, of):
    with pytest.warns(DeprecationWarning, match=r"\nwrite where\(condition\)") as warned:
        view = of(ds).filter(made(ds))

    assert view.rows.tolist() == [9]
    assert warned[0].filename == __file__


@pytest.mark.parametrize("wrong", [None, 3, ["x > 8"], np.ones(10, bool), {}])
def test_filter_refuses_other_values_and_names_where(ds, wrong):
    with pytest.raises(tl.InvalidInputError, match=r"where\('x > 1'\)"):
        ds.filter(wrong)


def test_the_wrong_direction_is_warned_of(ds):
    with pytest.warns(tl.QueryWarning, match="least similar"):
        ds.query("ORDER BY DOT(sizes, sizes) LIMIT 3")


def test_a_function_of_the_user_is_called_by_name(ds):
    tl.udf("plus", lambda a, b: a + b, dtype="int64", vectorized=True)
    tl.udf("shout", lambda text: text.upper(), dtype="text")
    tl.udf("broken", lambda x: x.nothing, dtype="int64")

    assert ds.query("WHERE PLUS(x, 1) = 10").rows.tolist() == [9]
    assert ds.query("SELECT shout(text) AS s WHERE x IN (2, 3)")["s"] == ["WORD 2", None]
    with pytest.raises(tl.QueryTypeError, match="broken failed: AttributeError"):
        ds.query("WHERE broken(x) = 1")
    with pytest.raises(tl.InvalidInputError, match="of the language"):
        tl.udf("sqrt", lambda x: x, dtype="int64")
    with pytest.raises(tl.InvalidInputError, match="datetime64"):
        tl.udf("when", lambda x: x, dtype="datetime64[s]")


def test_limits_end_a_query(ds):
    with pytest.raises(tl.QueryLimitError, match="timeout"):
        ds.query("WHERE x > 1", timeout=0)
    with pytest.raises(tl.QueryLimitError, match="bytes of samples"):
        ds.query("WHERE ARRAY_SUM(image) > 1", max_bytes=100)
    with pytest.raises(tl.QueryLimitError, match="more than 100"):
        ds.query("WHERE ARRAY_SUM(image) > 1", max_bytes="0.1kB")
    with pytest.raises(tl.InvalidInputError, match="max_bytes='much' is not a size"):
        ds.query("WHERE x > 1", max_bytes="much")


def test_memory_is_limited_in_a_query_and_when_its_result_is_read(ds):
    with pytest.raises(tl.QueryLimitError) as caught:
        ds.query("SAMPLE BY x + 1 LIMIT 1000000", max_memory="1MiB")
    view = ds.query("SELECT x, HISTOGRAM(x, 10000) OVER () AS h", max_memory="4MiB")
    wide = ds.query("SELECT x, ARRAY_SUM(image) AS s, image[:, :, 0] * 2.5 AS z", max_memory=900)

    assert "SAMPLE BY would hold 48,000,320 bytes more" in str(caught.value)
    assert str(caught.value).endswith("or allow more: ds.query(…, max_memory='64GiB')")
    assert view["h"][:2].sum() == 20
    assert rowset_of(view).held_nbytes > 10 * 10_000 * 8
    assert wide[2:4]["s"][:].tolist() == [120, 180]
    with pytest.raises(tl.QueryLimitError, match="would hold"):
        wide["z"][:]
    with pytest.raises(tl.InvalidInputError, match="max_memory=-1 is not a size"):
        ds.query("WHERE x > 1", max_memory=-1)


def test_a_query_may_hold_half_of_the_memory_there_is(ds):
    with pytest.raises(tl.QueryLimitError, match="SAMPLE BY would hold") as caught:
        ds.query("SAMPLE BY x + 1 LIMIT 1000000000000")

    assert f"{half_of_memory():,} in all" in str(caught.value)
    assert 1 << 26 < half_of_memory() < 1 << 44


def test_where_and_computed_columns_of_saved_views_are_limited_too(ds, monkeypatch):
    monkeypatch.setattr(limits, "half_of_memory", lambda: 1000)

    with pytest.raises(tl.QueryLimitError, match="would hold"):
        ds.where("ANY(image / 2.5 > 0)")
    ds.query("SELECT x, image * 2.5 AS z").save("wide")
    with pytest.raises(tl.QueryLimitError, match="would hold"):
        ds.views["wide"]["z"][:]


def test_labels_that_a_query_computes_are_shown_like_stored_ones(ds):
    groups = ds.query("SELECT label, FIRST(label) AS first, COUNT(*) AS n GROUP BY label")

    assert groups["label"][:].as_names() == ["cat", "dog"]
    assert [label.name for label in groups["first"][:]] == ["cat", "dog"]
    assert (groups["label"][:] == "cat").tolist() == [True, False]
    assert [row["label"].name for row in groups] == ["cat", "dog"]


def test_a_query_of_somebody_else_reaches_nothing_else(ds):
    tl.udf("mine", lambda x: x, dtype="int64")

    assert query_inside(ds, "FROM this VERSION 'main@1' WHERE x > 8", {}).rows.tolist() == [9]
    with pytest.raises(tl.QueryNameError, match="reads only 'this'"):
        query_inside(ds, f'FROM "{ds.url}"', {})
    with pytest.raises(tl.QueryNameError, match="no function"):
        query_inside(ds, "WHERE mine(x) = 1", {})


def test_a_range_over_very_many_rows_reads_few_of_them():
    rows = (1 << 23) + 1000  # more than are ever listed one by one
    many = tl.create("memory://queries-many-rows", {"x": "uint8"})
    many.extend({"x": np.arange(rows) * 200 // rows})
    many.commit("sorted")

    plan = "\n".join(many.query("EXPLAIN ANALYZE SELECT COUNT(*) AS n WHERE x = 100")["plan"])

    read = int(re.search(r"read x: ([\d,]+) samples", plan)[1].replace(",", ""))
    assert 0 < read < rows / 2


def test_a_predicate_in_brackets_is_a_where(ds):
    condition = ds["x"] > 1

    in_brackets, in_words = ds[condition], ds.where(condition)

    assert in_brackets.tql == in_words.tql == "WHERE x > 1"
    assert in_brackets.explain() == in_words.explain()
    assert in_brackets.rows.tolist() == in_words.rows.tolist()


def test_unnest_makes_a_row_of_each_item_and_leads_back():
    schema = {"boxes": tl.BBox(), "label": tl.ClassLabel(["cat", "dog"], per="boxes")}
    ds = tl.create("memory://unnest", schema)
    ds.append({"boxes": [[0, 0, 2, 2], [1, 1, 9, 5]], "label": ["dog", "cat"]})
    ds.append({"boxes": [], "label": []})
    ds.append({"boxes": [[3, 3, 4, 4]], "label": ["cat"]})
    ds.commit("three images")

    cats = ds.unnest("boxes", "label").where("label = 'cat'")
    grouped = ds.query("SELECT label, COUNT(*) AS n FROM UNNEST(this, label) GROUP BY label")

    assert cats.rows.tolist() == [0, 2]
    assert cats["boxes"][:].tolist() == [[1, 1, 9, 5], [3, 3, 4, 4]]
    assert [row["label"] for row in ds[:2].unnest(["label"])] == ["dog", "cat"]
    assert dict(zip(grouped["label"][:].tolist(), grouped["n"][:].tolist(), strict=True)) == {
        1: 1, 0: 2
    }  # fmt: skip
    with pytest.raises(tl.InvalidInputError, match="names no column"):
        ds.unnest()


def test_a_vectorized_function_receives_no_row_with_null():
    ds = tl.create("memory://udf-nulls", {"x": tl.Scalar("int32", nullable=True)})
    ds.extend({"x": [None, 3, None, 5]})
    ds.commit("four")
    given = []

    def doubled(x):
        given.append(x.tolist())
        return x * 2

    tl.udf("doubled_of_known", doubled, dtype="int64", vectorized=True)
    tl.udf("worded_of_known", lambda x: ["", 7][: len(x)], dtype="text", vectorized=True)

    assert ds.query("SELECT DOUBLED_OF_KNOWN(x) y")["y"][:] == [None, 6, None, 10]
    assert given == [[3, 5]]
    assert len(ds.query("WHERE DOUBLED_OF_KNOWN(NULLIF(x, x)) IS NULL")) == 4
    with pytest.raises(tl.QueryTypeError, match="row 3: worded_of_known gave int where text"):
        ds.query("WHERE WORDED_OF_KNOWN(x) = ''")


def test_polygons_of_a_tensor_are_measured():
    ds = tl.create(
        "memory://polygons",
        {"outline": tl.Polygon(nullable=True), "room": tl.Array("float32", (None, 2))},
    )
    square = [[0, 0], [4, 0], [4, 4], [0, 4]]
    ds.extend({"outline": [[square, [[9, 9], [9, 11], [11, 9]]], None, []], "room": [square] * 3})
    ds.commit("three")

    assert ds.query("WHERE ANY(AREA(outline) > 10)").rows.tolist() == [0]
    shared = ds.query("SELECT INTERSECTION(outline, room) / AREA(outline) part")["part"][:]
    assert [None if each is None else np.ravel(each).tolist() for each in shared] == [
        [1, 0],
        None,
        [],
    ]
    assert len(ds.query("WHERE ANY(POLYGON_CONTAINS(outline, [1, 1]))")) == 1
    sizes = ds.query("SELECT AVG(ARRAY_SUM(AREA(outline))) AS mean")
    assert list(sizes["mean"][:]) == [9.0]
    with pytest.raises(tl.QueryTypeError, match="polygons meet polygons"):
        ds.query("SELECT INTERSECTION(outline, [0, 0, 1, 1])")


def test_the_length_of_sequences_counts_items_of_any_sizes():
    url = "memory://queries-lengths"
    pages = [np.zeros(shape, np.uint8) for shape in ((4, 6, 3), (9, 3, 3), (1, 1, 3))]
    with tl.create(url, {"pages": tl.Sequence(tl.Image("png"), nullable=True)}) as ds:
        ds.extend({"pages": [pages, [pages[0]] * 2, [], None, pages[:1]]})
        ds.commit("rows")

        found = ds.query("SELECT LENGTH(pages) AS n").to_pandas()["n"]
        assert found.astype(object).where(found.notna(), None).tolist() == [3, 2, 0, None, 1]
        assert [len(row["pages"]) for row in ds.query("WHERE LENGTH(pages) > 1")] == [3, 2]
