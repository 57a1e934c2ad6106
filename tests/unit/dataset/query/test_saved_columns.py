"""Computed columns of saved views: computed again at the version of the view, or refused."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tensorlake as tl
from tensorlake.dataset import rowset_of
from tensorlake.dataset.core.steps import QueryStep
from tensorlake.dataset.query.saved_views import save

_names = itertools.count()


def new(rows: int = 10):
    ds = tl.create(f"memory://saved-columns-{next(_names)}", {"x": "int64", "note": tl.Text()})
    ds.extend({"x": np.arange(rows), "note": [f"n{row}" for row in range(rows)]})
    ds.commit("first")
    return ds


@pytest.mark.parametrize(
    "texts",
    [
        ["SELECT a.x, b.x * 10 AS next FROM this AS a JOIN this AS b ON a.x = b.x - 1"],
        ["SELECT b.x, a.x AS low FROM this AS a RIGHT JOIN this AS b ON a.x = b.x - 4"],
        ["SELECT x, SUM(x) OVER (ORDER BY x DESC) AS total WHERE x % 2 = 0"],
        ["SELECT x, old.note AS was FROM this JOIN this VERSION 'main@1' AS old USING (x)"],
        ["SELECT *, x * 2 AS twice WHERE x > 3", "SELECT x, twice + 1 AS more WHERE twice > 9"],
        ["WHERE x > 3", "SELECT x, (SELECT MIN(x)) AS least, ROW_NUMBER() AS n ORDER BY x DESC"],
        ["SELECT x, part FROM (SELECT x, SPLIT(note, 'n') AS part) UNGROUP BY part"],
        ["SELECT x, RANDOM() AS r SAMPLE BY x + 1"],
    ],
)
def test_columns_that_look_at_other_rows_are_computed_again(texts):
    ds = new()
    view = ds
    for text in texts:
        view = view.query(text)
    view.save("made")
    ds["x"][:] = 0
    ds.commit("later")

    again = tl.open(ds.url).views["made"]

    assert list(rowset_of(again).computed) == list(rowset_of(view).computed) != []
    assert again["x"][:].tolist() == view["x"][:].tolist()
    for name in rowset_of(view).computed:
        assert list(again[name]) == list(view[name])


def test_a_column_of_another_dataset_is_saved_at_a_version_of_it_alone():
    ds, other = new(), new(3)
    text = 'SELECT a.x, b.note AS theirs FROM this AS a JOIN "{}" {} AS b USING (x)'

    with pytest.raises(tl.InvalidInputError, match=r"names no version[^\n]*\nwrite FROM "):
        ds.query(text.format(other.url, "")).save("moving")
    ds.query(text.format(other.url, "VERSION 'main@1'")).save("fixed")
    other["note"][:] = "changed"
    other.commit("later")

    assert ds.views["fixed"]["theirs"] == ["n0", "n1", "n2"]
    assert list(ds.views) == ["fixed"]


def test_a_table_that_is_no_dataset_is_not_saved():
    ds = new()
    table = pd.DataFrame({"x": [1, 2], "name": ["one", "two"]})
    view = ds.query("SELECT a.x, t.name FROM this AS a JOIN $t AS t USING (x)", t=table)

    with pytest.raises(tl.InvalidInputError, match=r"\$t of the view's query is DataFrame"):
        view.save("named")


def test_a_view_whose_query_selects_other_rows_now_says_so():
    ds = new()
    tl.udf("SAVED_VIEWS_LIMIT", lambda x: x > 4, dtype="bool")
    text = "SELECT x, SUM(x) OVER () AS total WHERE SAVED_VIEWS_LIMIT(x)"
    ds.query(text).save("some")
    tl.udf("SAVED_VIEWS_LIMIT", lambda x: x > 6, dtype="bool")

    with pytest.raises(tl.InvalidStateError, match="now selects other rows, so that 'total'"):
        ds.views["some"]


def saved_of_a_label(select):
    """Return a dataset with a view whose query is one of the time when labels were conditions."""
    ds = tl.create(
        f"memory://saved-columns-{next(_names)}", {"label": tl.ClassLabel(["cat", "dog"])}
    )
    ds.extend({"label": ["cat", "dog", "dog"]})
    ds.commit("first")
    of_today = rowset_of(ds.query(f"{select} WHERE label != 0"))
    save(replace(of_today, steps=(QueryStep(f"{select} WHERE label", {}),)), "dogs", "")
    return tl.open(ds.url)


def test_a_saved_view_of_a_label_as_condition_has_its_rows():
    ds = saved_of_a_label("SELECT *")

    view = ds.views["dogs"]

    assert view["label"][:].tolist() == [1, 1]
    with pytest.raises(tl.QueryTypeError, match="write label = 'cat'"):
        view.rerun()


def test_a_column_computed_where_a_label_was_the_condition_is_refused_with_the_words_to_write():
    ds = saved_of_a_label("SELECT label, label + 1 AS next")

    with pytest.raises(tl.QueryTypeError, match="write label = 'cat'"):
        ds.views["dogs"]
