"""UPDATE, DELETE and INSERT: what they stage, what they conflict with, what they refuse."""

import numpy as np
import pytest
from PIL import Image

import tensorlake as tl


def test_update_sets_what_its_expressions_said_before_it(ds):
    count = ds.execute(
        "UPDATE this SET x = x + LENGTH(sizes), label = 'dog', text = $t WHERE x > 7", t="new"
    )

    assert count == 2
    assert ds["x"][:].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 9]
    assert ds["label"][8:].tolist() == [1, 1]
    assert ds["text"][8:] == ["new", "new"]


def test_delete_and_insert_stage_rows(ds):
    assert ds.execute("DELETE FROM this WHERE x < 8") == 8
    assert ds.execute("INSERT INTO this SELECT * WHERE x = 9") == 1
    inserted = ds.execute(
        "INSERT INTO this (label, x, image, sizes, taken, text)"
        " SELECT label, x + 1, image, sizes, taken, 'again' AS text WHERE text IS NOT NULL LIMIT 1"
    )

    assert inserted == 1
    assert ds["x"][:].tolist() == [8, 9, 9, 9]
    assert ds["text"][3:] == ["again"]
    np.testing.assert_array_equal(ds["image"][3], np.full((4, 5, 3), 8, np.uint8))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE this SET text = 'big' WHERE x > 5",
        "DELETE FROM this WHERE x > 5",
        "INSERT INTO this SELECT * WHERE x > 5",
    ],
)
def test_a_change_conflicts_with_a_change_of_what_it_read(ds, change):
    other = tl.open(ds.url)
    ds.execute(change)
    other["x"][0] = 7
    other.commit("somebody else changed x")

    with pytest.raises(tl.ConflictError):
        ds.commit("texts")


@pytest.mark.parametrize(
    ("query", "conflicts"),
    [
        ("SELECT * WHERE x > 5", True),
        ("SELECT 1 AS x, label, image, sizes, taken, text WHERE x = 0", True),
        ("SELECT 1 AS x, label, image, sizes, taken, text", False),
        ("SELECT * FROM this VERSION 'main@1' WHERE x > 5", False),
    ],
)
def test_an_insert_conflicts_with_a_change_of_what_its_query_read(ds, query, conflicts):
    other = tl.open(ds.url)
    ds.execute(f"INSERT INTO this {query}")
    other["x"][0] = 7
    other.commit("somebody else changed x")

    if conflicts:
        with pytest.raises(tl.ConflictError):
            ds.commit("rows")
    else:
        ds.commit("rows")


def test_wrong_statements_are_refused(ds):
    with pytest.raises(tl.QueryNameError, match="column 13: a statement changes 'this'"):
        ds.execute("DELETE FROM that")
    with pytest.raises(tl.QueryNameError, match="not a tensor"):
        ds.execute("UPDATE this SET y = 1")
    with pytest.raises(tl.QueryNameError, match="'x' twice"):
        ds.execute("UPDATE this SET x = 1, label = 'dog', x = 2")
    with pytest.raises(tl.QueryTypeError, match=r"column 21: .* an aggregate gives one for all"):
        ds.execute("UPDATE this SET x = MAX(x)")
    with pytest.raises(tl.QueryNameError, match="is not a time"):
        ds.query("FROM this AS OF 'yesterday'")
    with pytest.raises(tl.QuerySyntaxError):
        ds.execute("SELECT *")
    with pytest.raises(tl.QueryTypeError, match=r"column 19: INSERT names 1 tensor and .* gives 2"):
        ds.execute("INSERT INTO this (x) SELECT x, label")
    assert ds.execute("UPDATE this SET x = 1 WHERE false") == 0
    assert not ds.has_changes


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO this SELECT label", "INSERT lacks '"),
        ("INSERT INTO this (x, label) SELECT 'a', label", "row 0 of INSERT: 'x' expects"),
        (
            "INSERT INTO this (x, lable) SELECT x, label",
            "column 22: .*'lable', which is not a tensor",
        ),
        ("INSERT INTO this (x, x) SELECT x, label", "column 22: INSERT names 'x' twice"),
        (
            "INSERT INTO this SELECT *, x AS y",
            "column 28: the query returns 'y', which is not a tensor",
        ),
        ("INSERT INTO this", "column 17: .*\n.*\n.*a query: SELECT …"),
        ("UPDATE this SET x = 'one'", "row 0 of UPDATE: 'x' expects"),
        ("UPDATE this SET x = x / 2", "row 0 of UPDATE: 'x' .*\n.*CAST\\(… AS INT64\\)"),
        ("UPDATE this SET label = 'dgo'", "row 0 of UPDATE"),
        ("UPDATE this SET x = 1 WHERE sizes > 1", "column 29: 'sizes' is an array"),
        ("UPDATE this SET x = 1 LIMIT 2", "UPDATE and DELETE end with WHERE"),
        ("DELETE FROM this WHERE x = $low", "column 28: no value for the parameter"),
        ("SELECT *", "SELECT only reads"),
        ("DROP TABLE this", "TQL has no DROP"),
        (" ", "the statement is empty"),
    ],
)
def test_what_is_wrong_with_a_statement_is_said_in_its_own_words(ds, statement, said):
    with pytest.raises(tl.TensorlakeError, match=said) as caught:
        ds.execute(statement)

    assert "extend()" not in str(caught.value)
    assert not ds.has_changes


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE this SET {column} = name",
        "UPDATE this SET {column} = $path",
        "INSERT INTO this (name, {column}) SELECT 'b', name",
        "INSERT INTO this (name, {column}) SELECT 'b', $path",
    ],
)
@pytest.mark.parametrize("column", ["image", "mask"])
def test_texts_of_rows_never_name_files_to_read(statement, column, request, tmp_path):
    path = str(tmp_path / "secret.png")
    Image.new("L", (4, 4)).save(path)
    schema = {
        "name": "text",
        "image": tl.Image("png", nullable=True),
        "mask": tl.SegmentMask(nullable=True),
    }
    ds = tl.create(f"memory://{request.node.name}", schema)
    ds.append({"name": path, "image": None, "mask": None})
    ds.commit("names")
    text = statement.format(column=column)
    given = {"path": path} if "$path" in text else {}

    with pytest.raises(tl.InvalidInputError, match="name of a local file"):
        ds.execute(text, **given)

    assert ds[0][column] is None
    assert len(ds) == 1
