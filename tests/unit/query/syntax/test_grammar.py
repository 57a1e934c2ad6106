"""The grammar: no conflict hidden, the reserved words in step, the printer its inverse."""

import logging
import re
from importlib.resources import files

import pytest
from lark import Lark, logger

from tensorlake_query import (
    QueryError,
    QuerySyntaxError,
    ast,
    parse,
    parse_change,
    parse_predicate,
    print_change,
    print_expr,
    print_query,
)
from tensorlake_query.syntax.grammar import STARTS, grammar
from tensorlake_query.syntax.printer import RESERVED

# Words that begin a clause in other languages.
FOREIGN = {
    "across", "approx", "collate", "escape", "fetch", "for", "natural", "qualify", "tablesample",
    "window",
}  # fmt: skip
PACKAGE = files("tensorlake_query.syntax")
GRAMMAR = PACKAGE.joinpath("tql.lark").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_grammar_has_no_conflict(caplog, monkeypatch):
    # Lark settles shift/reduce conflicts by itself, and says so only in its debug log
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level(logging.DEBUG, logger=logger.name):
        Lark(GRAMMAR, parser="lalr", start=list(STARTS), debug=True)

    assert [record.message for record in caplog.records if "onflict" in record.message] == []


def test_the_conflict_log_would_tell(caplog, monkeypatch):
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level(logging.DEBUG, logger=logger.name):
        Lark('start: e\ne: e "+" e | "1"', parser="lalr", debug=True)

    assert any("onflict" in record.message for record in caplog.records)


def test_the_printer_knows_the_words_that_the_grammar_reserves():
    excluded = re.search(r"NAME: /\(\?!\(\?a:([a-z|]+)\)", GRAMMAR)

    assert excluded is not None
    assert set(excluded.group(1).split("|")) == RESERVED


def test_an_alias_without_as_is_no_keyword():
    excluded = re.search(r"ALIAS: /\(\?!\(\?a:([a-z|]+)\)", GRAMMAR)
    keywords = re.findall(r"^\w+\.2: /\(\?a:([a-z]+)\)\\b/i$", GRAMMAR, re.MULTILINE)

    assert excluded is not None
    assert set(excluded.group(1).split("|")) == set(keywords) | FOREIGN
    assert set(keywords) >= RESERVED
    for word in sorted(set(keywords) - {"isnull"} | FOREIGN):  # a ISNULL is a condition
        with pytest.raises(QueryError, match=r"line 1, column"):
            parse(f"SELECT a {word}, b FROM this")
        if word not in RESERVED:
            assert parse(f"SELECT a AS {word} FROM this t").select[0].alias == word


def test_the_lexer_never_has_to_choose_between_a_name_and_an_alias():
    states = grammar().parser.parser._parse_table.states.values()

    assert [state for state in states if "NAME" in state and "ALIAS" in state] == []


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_reserved_word_is_a_name_in_quotes(word):
    assert print_expr(ast.Column(word)) == f'"{word}"'
    assert parse_predicate(f'"{word}" = 1').left == ast.Column(word)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("select * where a==1", "SELECT * WHERE a = 1"),
        ("WHERE (a <> 1)", "WHERE a != 1"),
        ("where ((a = 1) and (b = 2)) or (c = 3)", "WHERE a = 1 AND b = 2 OR c = 3"),
        ("where a = 1 and (b = 2 or c = 3)", "WHERE a = 1 AND (b = 2 OR c = 3)"),
        ("where not (a = 1 and b = 2)", "WHERE NOT (a = 1 AND b = 2)"),
        ("where not a is null", "WHERE NOT a IS NULL"),
        ("where (a + b) * c - (d - e) > 0", "WHERE (a + b) * c - (d - e) > 0"),
        ("where a - (b + c) = a - b + c", "WHERE a - (b + c) = a - b + c"),
        ("where (a ^ b) ^ c = a ^ (b ^ c)", "WHERE (a ^ b) ^ c = a ^ b ^ c"),
        ("where (-a) ^ 2 = -a ^ 2", "WHERE (-a) ^ 2 = -a ^ 2"),
        ("where - - a = -(-1)", "WHERE -(-a) = -(-1)"),
        ("where (a + b)[0] = 1", "WHERE (a + b)[0] = 1"),
        ("where a in array[1,2]", "WHERE a IN (1, 2)"),
        ("where a in $few", "WHERE a IN ($few)"),
        ("where a not in (1)", "WHERE a NOT IN (1)"),
        ("where b not between 1 and 2", "WHERE b NOT BETWEEN 1 AND 2"),
        ("where a not ilike 'x%'", "WHERE a NOT ILIKE 'x%'"),
        ("where x[ : , ::2, ... , -1]=[1]", "WHERE x[:, ::2, ..., -1] = ARRAY[1]"),
        ("select any(a, axis=0), count( * )", "SELECT ANY(a, axis => 0), COUNT(*)"),
        ('select cast(a as float) as "x y"', 'SELECT CAST(a AS FLOAT) AS "x y"'),
        ("select case a when 1 then 'b' end", "SELECT CASE a WHEN 1 THEN 'b' END"),
        ("from this order by a asc", "FROM this ORDER BY a"),
        ("order by a nulls last, b desc nulls first", "ORDER BY a, b DESC NULLS FIRST"),
        ("limit 10 percent offset $n", "LIMIT 10 PERCENT OFFSET $n"),
        ("group by a having true", "GROUP BY a HAVING TRUE"),
        ("explain select a", "EXPLAIN SELECT a"),
        ("where a = 1.50e2", "WHERE a = 150.0"),
        ("select top 3 a", "SELECT a LIMIT 3"),
        ("select distinct on(a) a, b.*", "SELECT DISTINCT ON (a) a, b.*"),
        ("select * limit all", "SELECT *"),
        ('select a b, c "d e", max(f) over(partition by g) h from t u',
         'SELECT a AS b, c AS "d e", MAX(f) OVER (PARTITION BY g) AS h FROM t AS u'),
        ("from a b left join unnest(c, d) e on b.x = e.x, (where f) g",
         "FROM a AS b LEFT JOIN (FROM c UNGROUP BY d) AS e ON b.x = e.x CROSS JOIN (WHERE f) AS g"),
        ("select a date, b top from c version 'x' array",
         "SELECT a AS date, b AS top FROM c VERSION 'x' AS \"array\""),
        ("from a b version 'x'", None),
        ("from a as b version 'x'", None),
        ("from a version 'x' as b", "FROM a VERSION 'x' AS b"),
        ("from a as of '2026' as b, c", "FROM a AS OF '2026' AS b CROSS JOIN c"),
        ("from 's3://a' left outer join b using(c,d)", 'FROM "s3://a" LEFT JOIN b USING (c, d)'),
        ("from (where a) as t inner join u on t.a==u.a",
         "FROM (WHERE a) AS t JOIN u ON t.a = u.a"),
        ("expand by 2", "EXPAND BY 2 2"),
        ("expand by 2 1 overlap true", "EXPAND BY 2 1 OVERLAP TRUE"),
        ("ungroup by split arrange by a", "UNGROUP BY split ARRANGE BY a"),
        ("sample by max_weight(a: 2, true: 1) replace false seed 7 limit 5 percent",
         "SAMPLE BY MAX_WEIGHT(a: 2, TRUE: 1) REPLACE FALSE SEED 7 LIMIT 5 PERCENT"),
        ("(where a) union (where b limit 2)", "WHERE a UNION (WHERE b LIMIT 2)"),
        ("select a except (select b except select c)",
         "SELECT a EXCEPT (SELECT b EXCEPT SELECT c)"),
        ("(select a union select b) intersect select c",
         "(SELECT a UNION SELECT b) INTERSECT SELECT c"),
        ("select a union all select b order by a limit 1",
         "SELECT a UNION ALL SELECT b ORDER BY a LIMIT 1"),
        ("with a as(where x),b as(from a) from b", "WITH a AS (WHERE x), b AS (FROM a) FROM b"),
        ("where a in(select b) and exists(select 1)",
         "WHERE a IN (SELECT b) AND EXISTS (SELECT 1)"),
        ("where a > (select max(b)) + 1", "WHERE a > (SELECT MAX(b)) + 1"),
        ("select rank() over(partition by a order by b desc)",
         "SELECT RANK() OVER (PARTITION BY a ORDER BY b DESC)"),
        ("select count(distinct a)", "SELECT COUNT(DISTINCT a)"),
        ("where a glob '*x?' or b not regexp 'y'", "WHERE a GLOB '*x?' OR b NOT REGEXP 'y'"),
        ("where a isnull", "WHERE a IS NULL"),
        ("explain analyze where a", "EXPLAIN ANALYZE WHERE a"),
    ],
)  # fmt: skip
def test_canonical_text_is_upper_case_with_no_needless_parenthesis(text, canonical):
    if canonical is None:
        with pytest.raises(QuerySyntaxError):
            parse(text)
        return
    assert print_query(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("update this set a=1,b=a+1 where c", "UPDATE this SET a = 1, b = a + 1 WHERE c"),
        ("delete from this", "DELETE FROM this"),
        ("delete from this where a", "DELETE FROM this WHERE a"),
        ("insert into this(a,b) select 1,2", "INSERT INTO this (a, b) SELECT 1, 2"),
        ("insert into this select *", "INSERT INTO this SELECT *"),
    ],
)
def test_a_change_has_canonical_text_too(text, canonical):
    assert print_change(parse_change(text)) == canonical
    assert parse_change(canonical) == parse_change(text)


def test_words_that_are_not_reserved_stay_names():
    names = (
        "top exists array cast left right version tag sample of on using over union all join date"
    )
    for name in names.split():
        assert parse(f"SELECT {name} WHERE {name} > 1").where.left == ast.Column(name)


def test_spans_point_at_the_text():
    text = "SELECT a WHERE  lower( b ) = 'x' AND c[1, 2:] > 3"
    where = parse(text).where
    assert isinstance(where, ast.And)

    shown = [text[node.span.start : node.span.stop] for node in ast.walk(where)]

    assert set(shown) >= {"lower( b )", "'x'", "c[1, 2:]", "2:", "c[1, 2:] > 3", "b"}


def test_operands_can_be_replaced_in_order():
    expr = parse_predicate("CASE WHEN a THEN b ELSE c[d, e:f] END")

    renamed = ast.with_operands(
        expr, [ast.Column(f"x{n}") for n, _ in enumerate(ast.operands(expr))]
    )

    assert print_expr(renamed) == "CASE WHEN x0 THEN x1 ELSE x2 END"


def test_a_tree_needs_no_text():
    tree = ast.And(
        (
            ast.Compare("=", ast.Column("label"), ast.Literal("it's")),
            ast.Or(
                (ast.IsNull(ast.Column("a b")), ast.InList(ast.Column("c"), (ast.Literal(-1),)))
            ),
            ast.Not(ast.Compare("<", ast.value_expr([1, 2.5]), ast.value_expr(None))),
        )
    )

    assert print_expr(tree) == (
        "label = 'it''s' AND (\"a b\" IS NULL OR c IN (-1)) AND NOT ARRAY[1, 2.5] < NULL"
    )
    assert parse_predicate(print_expr(tree)) == tree


def test_values_without_a_literal_are_refused():
    for value in (float("nan"), float("inf"), object(), b"x"):
        with pytest.raises(TypeError, match="pass it as a parameter"):
            ast.value_expr(value)
