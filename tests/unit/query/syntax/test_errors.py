"""Every mistake is one error: its kind, its place in the text, and what to write instead."""

import re

import numpy as np
import pytest

from tensorlake_query import (
    ColumnType,
    QueryError,
    QueryLimitError,
    QueryNameError,
    QuerySyntaxError,
    QueryTypeError,
    ast,
    compile_query,
    parse_predicate,
)
from tests.unit.query.array_source import NUMBER, ArraySource
from tests.unit.query.pets import pets

SCHEMA = {
    "image": ColumnType("media", "uint8", (None, None, 3)),
    "label": ColumnType("label", "int64", (), ("cat", "dog")),
    "boxes": ColumnType("number", "float32", (None, 4)),
    "caption": ColumnType("text", None, (), nullable=True),
    "meta": ColumnType("json", None, (), nullable=True),
    "score": ColumnType("number", "float32", ()),
}

# As the design's page of messages has them: kind, place, the line, the marker, what to write.
GOLDEN = {
    "WHERE lable = 'cat'": (
        QueryNameError,
        """\
[query-name] at line 1, column 7: no tensor or function 'lable'
    WHERE lable = 'cat'
          ^^^^^ did you mean 'label'?   tensors: image, label, boxes, caption, meta, score""",
    ),
    "WHERE boxes > 10": (
        QueryTypeError,
        """\
[query-type] at line 1, column 7: 'boxes' is an array (None, 4); a comparison with a number \
gives many answers a row
    WHERE boxes > 10
          ^^^^^^^^^^ write ANY(boxes > 10) or ALL(boxes > 10), or one element: boxes[0, 2] > 10""",
    ),
    "WHERE label = 'dgo'": (
        QueryNameError,
        """\
[query-name] at line 1, column 15: 'label' has no class 'dgo'
    WHERE label = 'dgo'
                  ^^^^^ did you mean 'dog'?   classes: cat, dog""",
    ),
    "SELECT *\nWHERE score > 1\n  AND scre < 2": (
        QueryNameError,
        """\
[query-name] at line 3, column 7: no tensor or function 'scre'
      AND scre < 2
          ^^^^ did you mean 'score'?   tensors: image, label, boxes, caption, meta, score""",
    ),
    "WHERE score > DATE '2026-13-01'": (
        QuerySyntaxError,
        """\
[query-syntax] at line 1, column 15: '2026-13-01' is not a time
    WHERE score > DATE '2026-13-01'
                  ^^^^^^^^^^^^^^^^^ write DATE '2026-01-01', or TIMESTAMP '2026-01-01 12:30:00'""",
    ),
    "WHERE score = NULL": (
        QueryTypeError,
        """\
[query-type] at line 1, column 7: a comparison with NULL is never true (= NULL)
    WHERE score = NULL
          ^^^^^^^^^^^^ write score IS NULL""",
    ),
    "WHERE (score > 1": (
        QuerySyntaxError,
        """\
[query-syntax] at line 1, column 17: the query ends too early
    WHERE (score > 1
                    ^ expected ')'""",
    ),
}


@pytest.mark.parametrize("text", list(GOLDEN))
def test_an_error_points_at_the_text_and_says_what_to_write(text):
    kind, expected = GOLDEN[text]

    with pytest.raises(QueryError) as caught:
        compile_query(text, SCHEMA)

    assert type(caught.value) is kind
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "kind", "where", "says"),
    [
        # habits of other languages
        ('WHERE caption = "cat"', QueryNameError, '"cat"', "single quotes: 'cat'"),
        ("WHERE score != NULL", QueryTypeError, "score != NULL", "score IS NOT NULL"),
        ("WHERE score > 1 && score < 2", QuerySyntaxError, "&&", "write AND"),
        ("WHERE !score", QuerySyntaxError, "!", "write NOT"),
        ("WHERE label IN ['cat']", QuerySyntaxError, "[", "write IN ('a', 'b')"),
        ("WHERE score > :low", QuerySyntaxError, ":low", "write $low"),
        ("WHERE score > ?", QuerySyntaxError, "?", "$name"),
        ("SELECT *;", QuerySyntaxError, ";", "one statement"),
        ("WHERE caption = 'cat", QuerySyntaxError, "'", "no closing"),
        ('WHERE "caption', QuerySyntaxError, '"', "no closing"),
        ("WHERE score > 1 /* and", QuerySyntaxError, "/*", "closing */"),
        ("WHERE score = {1}", QuerySyntaxError, "{", "ARRAY[1, 2]"),
        # shape of the text
        ("", QuerySyntaxError, "", "SELECT *"),
        ("  \n ", QuerySyntaxError, "", "SELECT *"),
        ("-- all rows", QuerySyntaxError, "", "SELECT *"),
        ("/* all */ -- rows\n", QuerySyntaxError, "", "SELECT *"),
        ("DROP TENSOR score", QuerySyntaxError, "DROP", "ds.drop_tensor(name)"),
        ("ALTER TABLE this", QuerySyntaxError, "ALTER", "ds.rename_tensor(old, new)"),
        ("WHERE score = NaN", QueryNameError, "NaN", "x != x finds it"),
        ("WHERE score < inf", QueryNameError, "inf", "infinity is written 1 / 0"),
        ("SELECT score AS _row", QueryNameError, "score AS _row", "AS row"),
        ("SELECT COUNT(*) AS _row_id", QueryNameError, "COUNT(*) AS _row_id", "AS row_id"),
        ("SELECT", QuerySyntaxError, "", "a value"),
        ("SELECT score label image", QuerySyntaxError, "image", "','"),
        ("SELECT score left", QuerySyntaxError, "left", "needs AS: AS left"),
        ("FROM this score = 1", QuerySyntaxError, "score", "expected ',', the next clause"),
        ("SELECT score label + 1", QuerySyntaxError, "label", "an operator"),
        ("SELECT score label AND true", QuerySyntaxError, "label", "an operator"),
        ("FROM this NATURAL JOIN b", QuerySyntaxError, "NATURAL", "write JOIN … USING"),
        ("FROM this QUALIFY score > 1", QuerySyntaxError, "QUALIFY", "a query around it"),
        ("WHERE caption = 'x' label", QuerySyntaxError, "label", "an operator"),
        ("WHERE score >", QuerySyntaxError, "", "a value"),
        ("WHERE order = 1", QuerySyntaxError, "order", '"order"'),
        ("LIMIT -1", QuerySyntaxError, "-", "expected"),
        ("LIMIT score", QuerySyntaxError, "score", "a number"),
        ("score > 1", QuerySyntaxError, "score", "begins with a clause: WHERE"),
        # keywords misspelt
        ("SELEKT *", QuerySyntaxError, "SELEKT", "did you mean 'SELECT'?   a query begins"),
        ("SELECT * WEHRE score > 1", QuerySyntaxError, "WEHRE", "mean 'WHERE'?   expected"),
        ("SELECT * ordr BY score", QuerySyntaxError, "ordr", "did you mean 'ORDER'?"),
        ("WHERE score > 1 ADN score < 2", QuerySyntaxError, "ADN", "did you mean 'AND'?"),
        ("SELECT score UNON SELECT score", QuerySyntaxError, "UNON", "did you mean 'UNION'?"),
        ("SELECT * FROM this WHER score = 1", QuerySyntaxError, "WHER", "did you mean 'WHERE'?"),
        ("SELECT * FROM this t WHER score", QuerySyntaxError, "WHER", "did you mean 'WHERE'?"),
        ("SELECT label FRM this", QuerySyntaxError, "FRM", "did you mean 'FROM'?"),
        ("SELECT label l FORM this", QuerySyntaxError, "FORM", "did you mean 'FROM'?"),
        ("FROM this LIMT 3", QuerySyntaxError, "LIMT", "did you mean 'LIMIT'?"),
        ("FROM this SAMPL BY 1", QuerySyntaxError, "SAMPL", "did you mean 'SAMPLE'?"),
        ("FROM this JON b ON b.x = 1", QuerySyntaxError, "JON", "did you mean 'JOIN'?"),
        ("SELECT CASE WHEN score > 1 THN 2 END", QuerySyntaxError, "THN",
         "did you mean 'THEN'?   expected THEN or an operator"),
        ("WHERE 'night' IN caption", QuerySyntaxError, "caption", "CONTAINS(caption, …)"),
        ("WHERE meta.camera = 2", QueryNameError, "meta.camera", "meta['camera']"),
        ("WHERE label = zebra", QueryNameError, "zebra", "text takes quotes: 'zebra'"),
        ("SELECT MEAN(boxes)", QueryNameError, "MEAN", "write AVG"),
        ("SELECT HOUR(taken)", QueryNameError, "HOUR", "EXTRACT(HOUR FROM"),
        ("WHERE score > 99999999999999999999", QuerySyntaxError, "9" * 20, "which rounds: 1e+20"),
        ("LIMIT 100000000000000000000", QuerySyntaxError, "1" + "0" * 20, "leave LIMIT out"),
        ("OFFSET 99999999999999999999", QuerySyntaxError, "9" * 20, "no dataset has"),
        ("LIMIT 1e20", QueryTypeError, "1e20", "an integer >= 0 is needed, and got 1e+20"),
        ("WHERE score > 1e999", QuerySyntaxError, "1e999", "beyond float64"),
        ("SELECT ANY(axis => 0, boxes)", QuerySyntaxError, "boxes", "after a named one"),
        ("WHERE MATCH(caption, '!!!')", QueryTypeError, "'!!!'", "letters, digits and underscores"),
        ("WHERE MATCH(caption, caption)", QueryTypeError, "caption", "MATCH(caption, $words)"),
        ("ORDER BY DOT(boxes, boxes) APPROX", QuerySyntaxError, "APPROX", "ORDER BY APPROX"),
        ("ORDER BY score APPROX LIMIT 1", QuerySyntaxError, "APPROX", "ORDER BY APPROX"),
        ("ORDER BY APPROX score LIMIT 1", QuerySyntaxError, "APPROX", "ORDER BY APPROX"),
        ("ORDER BY APPROX ABS(score) LIMIT 1", QueryTypeError, "ABS(score)", "leave APPROX out"),
        (
            "ORDER BY APPROX DOT(vector, [1, 1, 0]) DESC",
            QueryNameError,
            "vector",
            "text takes quotes",
        ),
        ("EXPAND BY 1 1 OVERLAP false AS clip", QuerySyntaxError, "AS", "without AS"),
        ("SAMPLE BY score LIMIT 2 REPLACE false", QuerySyntaxError, "REPLACE", "REPLACE … LIMIT"),
        ("SAMPLE BY score LIMIT 2 SEED 1", QuerySyntaxError, "SEED", "SEED … LIMIT"),
        ("SELECT STD(score) OVER (ORDER BY score) AS s", QueryTypeError,
         "STD(score) OVER (ORDER BY score)", "does not run"),
        # Deep Lake's words
        ("SELECT * GROUP BY label ACROSS TIME", QuerySyntaxError, "ACROSS", "GROUP BY alone"),
        ("FROM this NATURAL JOIN that", QuerySyntaxError, "NATURAL", "USING"),
        ("SELECT * EXPAND BY 1 1 AS clip", QuerySyntaxError, "AS", "without AS"),
        # clauses
        ("UPDATE this SET score = 1", QuerySyntaxError, "UPDATE", "ds.execute"),
        ("SELECT *, COUNT(*) GROUP BY label", QueryTypeError, "*", "group keys"),
        ("SELECT TOP 3 label LIMIT 2", QuerySyntaxError, "LIMIT 2", "write LIMIT alone"),
        ("SELECT * UNGROUP BY label", QueryTypeError, "label", "take arrays apart"),
        ("SELECT * ARRANGE BY boxes", QueryTypeError, "boxes", "one comparable value"),
        ("SELECT * SAMPLE BY caption", QueryTypeError, "caption", "MAX_WEIGHT"),
        ("SELECT * SAMPLE BY score REPLACE 1", QuerySyntaxError, "1", "expected"),
        ("SELECT * FROM (SELECT * GROUP BY label) GROUP BY label UNGROUP BY image",
         QueryTypeError, "image", "UNGROUP BY and GROUP BY"),
        ("WITH t AS (SELECT * FROM t) FROM t", QueryNameError, "t", "cannot read itself"),
        ("WITH a AS (WITH b AS (FROM a) FROM b) FROM a", QueryNameError, "a", "cannot read itself"),
        ("WITH a AS (FROM b), b AS (FROM this) FROM a", QueryNameError, "b", "b AS (…) before a"),
        (
            "WITH RECURSIVE t AS (SELECT score FROM t) FROM t",
            QuerySyntaxError, "RECURSIVE", "cannot read itself",
        ),
        ("SELECT score LIMIT 'a'", QuerySyntaxError, "'", "expected ALL"),
        ("SELECT score::float", QuerySyntaxError, "::", "write CAST(x AS FLOAT)"),
        ("SELECT * FETCH FIRST 3 ROWS ONLY", QuerySyntaxError, "FETCH", "write LIMIT n"),
        ("SELECT * QUALIFY score > 1", QuerySyntaxError, "QUALIFY", "a query around it"),
        ("WHERE score > ALL (SELECT score)", QuerySyntaxError, "SELECT", "(SELECT MAX(x) …)"),
        ("FROM this TABLESAMPLE 10", QuerySyntaxError, "TABLESAMPLE", "write SAMPLE BY 1"),
        ("WHERE score > 1 /* cats", QuerySyntaxError, "/*", "this comment has no closing */"),
        ("/* SELECT *", QuerySyntaxError, "/*", "this comment has no closing */"),
        ("WHERE score > 1 */", QuerySyntaxError, "*/", "no comment is open here"),
        ("WHERE score = $low", QueryNameError, "$low", "give it beside the text: low=…"),
        ("WITH a AS (SELECT *), a AS (SELECT *) SELECT *", QueryNameError, "a AS (SELECT *)",
         "two queries"),
        # tables and queries
        ("SELECT * FROM other", QueryNameError, "other", "tables: this"),
        ("SELECT * FROM 's3://a'", QueryNameError, "'s3://a'", "no table"),
        ("SELECT * FROM this VERSION 'a'", QueryNameError, "this VERSION 'a'", "no versions"),
        ("SELECT * FROM this JOIN this ON true", QueryNameError, "this", "AS a"),
        ("SELECT * FROM this AS a JOIN this AS b", QuerySyntaxError, "JOIN this AS b", "ON a.id"),
        ("SELECT score FROM this AS a CROSS JOIN this AS b", QueryNameError, "score", "a.score"),
        ("SELECT c.score FROM this AS a CROSS JOIN this AS b", QueryNameError, "c.score", "tables"),
        ("SELECT a.scre FROM this AS a", QueryNameError, "a.scre", "'score'"),
        ("SELECT * FROM this AS a JOIN this AS b USING (x)", QueryNameError,
         "this AS a JOIN this AS b USING (x)", "no column"),
        ("WHERE score IN (SELECT score, label)", QueryTypeError,
         "score IN (SELECT score, label)", "one column"),
        ("WHERE score IN (SELECT caption)", QueryTypeError, "score IN (SELECT caption)", "text"),
        ("WHERE score > (SELECT boxes)", QueryTypeError, "SELECT boxes", "single values"),
        ("SELECT score UNION SELECT score, label", QueryTypeError,
         "SELECT score UNION SELECT score, label", "1 columns and 2"),
        ("SELECT score UNION SELECT caption", QueryTypeError,
         "SELECT score UNION SELECT caption", "CAST"),
        # windows
        ("WHERE ROW_NUMBER() OVER () > 1", QueryTypeError, "ROW_NUMBER() OVER ()", "around it"),
        ("SELECT RANK() OVER ()", QueryTypeError, "RANK() OVER ()", "needs an order"),
        ("SELECT LAG() OVER (ORDER BY score)", QueryTypeError,
         "LAG() OVER (ORDER BY score)", "LAG(x, 1)"),
        ("SELECT ABS(score) OVER ()", QueryNameError, "ABS(score) OVER ()", "is not a window"),
        ("SELECT LAG(score)", QueryNameError, "LAG", "OVER"),
        # times
        ("SELECT EXTRACT(YEAR FROM caption)", QueryTypeError, "caption", "takes a time"),
        ("SELECT EXTRACT(YAER FROM DATE '2026-01-01')", QueryTypeError,
         "EXTRACT(YAER FROM DATE '2026-01-01')", "'YEAR'"),
        ("SELECT INTERVAL '1 year'", QuerySyntaxError, "INTERVAL '1 year'", "give days"),
        ("SELECT INTERVAL '9000000000 weeks'", QuerySyntaxError,
         "INTERVAL '9000000000 weeks'", "can be counted"),
        ("WHERE score > DATE '2026-01-01'", QueryTypeError, "score", "EXTRACT(EPOCH FROM"),
        ("WHERE DATE '2026-01-01' IN (1, 2)", QueryTypeError, "1", "a time is needed"),
        ("SELECT COALESCE(DATE '2026-01-01', 5)", QueryTypeError, "5", "a time is needed"),
        ("SELECT INTERVAL '1 day' = 5", QueryTypeError, "5", "an interval is needed"),
        ("WHERE score IN (SELECT DATE '2026-01-01')", QueryTypeError,
         "score IN (SELECT DATE '2026-01-01')", "the query gives a time"),
        ("SELECT score UNION SELECT DATE '2026-01-01'", QueryTypeError,
         "SELECT score UNION SELECT DATE '2026-01-01'", "a time"),
        ("WHERE caption > DATE '2026-01-01'", QueryTypeError, "caption", "a time is needed"),
        ("SELECT DATE '2026-01-01' * 2", QueryTypeError, "DATE '2026-01-01' * 2", "t - u"),
        ("WHERE DATE '2026-01-01' > INTERVAL '1 day'", QueryTypeError,
         "DATE '2026-01-01' > INTERVAL '1 day'", "cannot be compared"),
        # patterns and rows
        ("WHERE caption REGEXP '('", QueryTypeError, "'('", "RE2"),
        ("WHERE caption GLOB caption", QueryTypeError, "caption", "pattern"),
        ("SELECT DATA(score + 1, 0)", QueryTypeError, "score + 1", "a column"),
        ("SELECT DATA(score, 0.5)", QueryTypeError, "0.5", "integer"),
        # names
        ("WHERE flor(score) > 1", QueryNameError, "flor", "did you mean 'FLOOR'?"),
        ("SELECT score AS s WHERE s > 1", QueryNameError, "s", "an alias"),
        ("WHERE label IN ('cat', 'cow')", QueryNameError, "'cow'", "classes: cat, dog"),
        ("SELECT score, label AS score", QueryNameError, "label AS score", "two outputs"),
        ("WHERE score > $low", QueryNameError, "$low", "no value"),
        ("WHERE CAST(score AS flot) > 1", QueryTypeError, "CAST(score AS flot)", "'float'"),
        # types
        ("WHERE caption > 1", QueryTypeError, "caption > 1", "cannot compare"),
        ("WHERE caption", QueryTypeError, "caption", "is text"),
        ("WHERE caption AND label", QueryTypeError, "caption", "is text"),
        ("WHERE boxes", QueryTypeError, "boxes", "ANY(boxes)"),
        ("WHERE score > 1 AND NOT boxes > 1", QueryTypeError, "boxes > 1", "ANY(boxes > 1)"),
        ("WHERE boxes IN (1, 2)", QueryTypeError, "boxes", "single values"),
        ("WHERE score + caption > 1", QueryTypeError, "caption", "a number is needed"),
        ("WHERE LOWER(score) = 'a'", QueryTypeError, "score", "text is needed"),
        ("WHERE label < 'cat'", QueryTypeError, "'cat'", "have no order"),
        ("WHERE caption LIKE caption", QueryTypeError, "caption", "must be a constant"),
        ("WHERE caption LIKE '%' || 'x'", QueryTypeError, "'%' || 'x'", "'%' || 'x' is computed"),
        ("WHERE meta > meta", QueryTypeError, "meta > meta", "have no order"),
        ("WHERE score[0] > 1", QueryTypeError, "score", "nothing to index"),
        ("SELECT boxes[0, 4]", QueryTypeError, "boxes[0, 4]", "outside dimension 1"),
        ("SELECT boxes[0, 0, 0]", QueryTypeError, "boxes[0, 0, 0]", "3 indices"),
        ("SELECT boxes[..., ...]", QueryTypeError, "boxes[..., ...]", "only one"),
        ("SELECT boxes['a']", QueryTypeError, "'a'", "integer"),
        ("SELECT boxes[0.5]", QueryTypeError, "0.5", "integer"),
        ("SELECT boxes[::0]", QueryTypeError, "boxes[::0]", "other than 0"),
        ("SELECT meta[0:1]", QueryTypeError, "meta[0:1]", "not slices"),
        ("SELECT boxes + ARRAY[1, 2, 3]", QueryTypeError, "boxes + ARRAY[1, 2, 3]", "do not fit"),
        ("SELECT DOT(boxes, [1, 2])", QueryTypeError, "DOT(boxes, [1, 2])", "different lengths"),
        ("SELECT DOT(boxes, [1])", QueryTypeError, "DOT(boxes, [1])", "different lengths"),
        ("SELECT AREA(score)", QueryTypeError, "score", "boxes"),
        ("SELECT [1, [2]]", QueryTypeError, "[1, [2]]", "differ in length"),
        ("SELECT [score]", QueryTypeError, "score", "constant numbers"),
        ("SELECT ANY(boxes > 1, axis => 2)", QueryTypeError, "ANY(boxes > 1, axis => 2)", "axis 2"),
        ("SELECT ANY(boxes > 1, axis => label)", QueryTypeError, "label", "axis => 0"),
        ("SELECT ANY(boxes > 1, ax => 0)", QueryTypeError, "ax => 0", "no option 'ax'"),
        ("SELECT ABS()", QueryTypeError, "ABS()", "takes 1 argument, got 0"),
        ("SELECT ABS(*)", QueryTypeError, "ABS(*)", "ABS(x)"),
        ("SELECT SHAPE(caption)", QueryTypeError, "caption", "LENGTH(x)"),
        ("SELECT CASE WHEN score THEN 1 ELSE 'a' END", QueryTypeError,
         "CASE WHEN score THEN 1 ELSE 'a' END", "different kinds"),
        ("ORDER BY boxes", QueryTypeError, "boxes", "ARRAY_MAX(boxes)"),
        ("ORDER BY meta", QueryTypeError, "meta", "CAST(meta AS FLOAT)"),
        ("SELECT SUM(boxes)", QueryTypeError, "SUM(boxes)", "ARRAY_SUM(boxes)"),
        ("SELECT SUM(caption)", QueryTypeError, "caption", "a number is needed"),
        ("SELECT SUM(*)", QueryTypeError, "SUM(*)", "SUM(x)"),
        ("SELECT score, COUNT(*)", QueryTypeError, "score", "GROUP BY score"),
        ("SELECT SUM(COUNT(*))", QueryTypeError, "COUNT(*)", "not allowed here"),
        ("WHERE COUNT(*) > 1", QueryTypeError, "COUNT(*)", "not allowed here"),
        ("HAVING score > 1", QueryTypeError, "score > 1", "write WHERE"),
        ("SELECT COUNT(*) GROUP BY boxes", QueryTypeError, "boxes", "comparable"),
        ("LIMIT 1.5", QueryTypeError, "1.5", "integer"),
        ("LIMIT 101 PERCENT", QueryTypeError, "101", "0 to 100"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_kind_place_and_hint(text, kind, where, says):
    with pytest.raises(QueryError) as caught:
        compile_query(text, SCHEMA)

    error = caught.value
    assert type(error) is kind, str(error)
    assert text[error.span.start : error.span.stop] == where
    assert says in str(error)
    assert (error.text, error.code) == (text, kind.code)


@pytest.mark.parametrize(
    ("text", "params", "kind", "says"),
    [
        ("WHERE score > 1", {"low": 1}, QueryNameError, "unused query parameter 'low'"),
        ("WHERE score > $low", {"lwo": 1}, QueryNameError, "no value for the parameter $low"),
        ("WHERE score > $low", {"low": object()}, QueryTypeError, "object"),
        ("WHERE score > $low", {"low": ["a"]}, QueryTypeError, "list"),
        ("WHERE score > $low", {"low": [[1], [2, 3]]}, QueryTypeError, "list"),
        ("WHERE score > $low", {"low": 2**70}, QueryTypeError, "int"),
        ("WHERE score > $low", {"low": np.ones(3)}, QueryTypeError, "many answers"),
        ("WHERE score = $low", {"low": None}, QueryTypeError, "IS NULL"),
        ("WHERE label = $low", {"low": "dgo"}, QueryNameError, "did you mean 'dog'?"),
        ("LIMIT $low", {"low": "3"}, QueryTypeError, "integer"),
        ("LIMIT $low", {"low": -1}, QueryTypeError, "integer"),
    ],
)
def test_a_wrong_parameter_is_named(text, params, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        compile_query(text, SCHEMA, params=params)


def test_rows_whose_shapes_do_not_fit_are_named():
    kind = ColumnType("number", "int64", (None,))
    source = ArraySource({"a": (kind, [[1, 2], [1, 2]]), "b": (kind, [[3, 4], [1, 2, 3]])})

    with pytest.raises(
        QueryTypeError, match=r"row 1: shapes \(2,\) and \(3,\) do not fit together"
    ):
        compile_query("SELECT a + b AS c", source.schema).run(source)


def test_an_unknown_output_is_named():
    source = pets()
    compiled = compile_query("SELECT score AS s, tiny + 1 AS more", source.schema)

    with pytest.raises(QueryNameError, match="did you mean 'more'"):
        compiled.evaluate(source, "mroe", np.array([0]))


@pytest.mark.parametrize(
    "text",
    [
        "WHERE " + "NOT " * 1000 + "true",
        "WHERE " + "-" + " -" * 1000 + " 1 = 1",
        "WHERE " + "[" * 1000 + "]" * 1000,
        "WHERE score" + "[0]" * 1000,
        "WHERE " + " + ".join(["1"] * 1000) + " > 1",
        "WHERE " + "ABS(" * 1000 + "1" + ")" * 1000 + " > 1",
        "WHERE " + "CASE WHEN true THEN " * 1000 + "1" + " END" * 1000,
        "WHERE score > " + "9" * 100_000,
        "SELECT * FROM (" * 1000 + "SELECT *" + ")" * 1000,
        "WHERE EXISTS (SELECT * " * 50 + "WHERE true" + ")" * 50,
        " UNION ".join(["SELECT *"] * 50),
        "WHERE " + "x" * 300_000,
    ],
    ids=lambda text: text[:24],
)
def test_depth_and_length_are_bounded(text):
    with pytest.raises(QueryError):
        compile_query(text, SCHEMA)


def test_parentheses_alone_are_not_deep():
    text = "WHERE " + "(" * 1000 + "1 = 1" + ")" * 1000

    assert compile_query(text, SCHEMA).text == "WHERE 1 = 1"


def test_many_conditions_are_not_deep():
    text = "WHERE " + " OR ".join(f"score = {number}" for number in range(1000))
    source = ArraySource({"score": (NUMBER, [5.0, -1.0])})

    assert compile_query(text, source.schema).run(source).rows.tolist() == [0]


def test_a_tree_that_is_too_deep_is_refused():
    expr: ast.Expr = ast.Literal(value=True)
    for _ in range(1000):
        expr = ast.Not(expr)

    with pytest.raises(QueryLimitError, match="levels deep"):
        compile_query(ast.Query(where=expr), SCHEMA)


def test_a_long_line_is_shown_around_the_mistake():
    text = "WHERE " + " AND ".join(["score > 1"] * 50) + " AND scroe > 2"

    with pytest.raises(QueryNameError) as caught:
        compile_query(text, SCHEMA)

    _, line, marker = str(caught.value).split("\n")
    assert len(line) < 120
    assert line[marker.index("^") :].startswith("scroe")


def test_a_predicate_needs_no_where():
    assert parse_predicate("label = 'cat'") == ast.Compare(
        "=", ast.Column("label"), ast.Literal("cat")
    )
    with pytest.raises(QuerySyntaxError):
        parse_predicate("WHERE label = 'cat'")
    with pytest.raises(QuerySyntaxError):
        parse_predicate("label = 'cat' LIMIT 3")


def test_query_errors_are_value_errors():
    assert issubclass(QueryError, ValueError)
    codes = {
        each.code for each in (QuerySyntaxError, QueryNameError, QueryTypeError, QueryLimitError)
    }
    assert codes == {"query-syntax", "query-name", "query-type", "query-limit"}
