"""How a text is parsed: with the compiled grammar or a new one, within its time, by any thread."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from lark.exceptions import UnexpectedInput

from tensorlake_query import (
    ColumnType,
    Limits,
    QueryError,
    QueryLimitError,
    QuerySyntaxError,
    ast,
    compile_query,
    parse,
    parse_predicate,
    print_query,
)
from tensorlake_query.syntax.grammar import built, compiled_name, loaded, save_compiled

SCHEMA = {"x": ColumnType("number", "int64", ())}
LONGEST = 262_144
TEXTS = [
    "WHERE x > 1 AND (y = 'a' OR NOT z IN (1, 2, $p)) ORDER BY x DESC NULLS LAST LIMIT 10 PERCENT",
    "SELECT a.b, COUNT(*) AS n, CASE WHEN x THEN 1 ELSE -2 ^ 3 END FROM this AS a LEFT JOIN b ON c",
    "WITH t AS (SELECT x) SELECT * FROM t UNION ALL (SELECT y[0, 1:2, ...]) EXCEPT SELECT 1",
    "WHERE",
    "SELECT x y",
    "WHERE a.5 > 1",
    "WHERE x = 'open",
    "WHERE name > 1 AND array > 2 AND date = DATE '2026-01-01'",
]


def verdict(parser, text):
    """Return the tree that a parser of Lark makes of a text, or where it stops."""
    try:
        return parser.parse(text, start="query")
    except UnexpectedInput as stop:
        return type(stop), stop.pos_in_stream


@pytest.mark.slow
def test_the_compiled_grammar_gives_the_verdicts_of_the_grammar(tmp_path):
    save_compiled(tmp_path)
    compiled, anew = loaded(tmp_path), built()

    assert [verdict(compiled, text) for text in TEXTS] == [verdict(anew, text) for text in TEXTS]


@pytest.mark.slow
def test_compiling_again_replaces_the_file_and_not_its_bytes(tmp_path):
    """A process that is loading it must not find a part of a file."""
    path = tmp_path / compiled_name()
    path.write_bytes(b"of before")

    with path.open("rb") as reader:
        save_compiled(tmp_path)

        assert reader.read() == b"of before"
    assert list(tmp_path.iterdir()) == [path]
    assert loaded(tmp_path) is not None


def test_a_grammar_compiled_by_another_lark_is_not_used(tmp_path):
    path = save_compiled(tmp_path)

    path.rename(path.with_name(compiled_name().replace("-1.", "-0.")))

    assert loaded(tmp_path) is None


def test_a_compiled_grammar_is_named_after_its_text(tmp_path, monkeypatch):
    text = tmp_path / "tql.lark"
    before = compiled_name()
    text.write_text("query: A", encoding="utf-8")

    monkeypatch.setattr("tensorlake_query.syntax.grammar.GRAMMAR", text)

    assert compiled_name() != before


def test_a_short_text_is_parsed_once():
    assert parse("WHERE x > 17") is parse("WHERE x > 17")


def test_threads_share_the_parser():
    starts = Barrier(4)

    def printed(_):
        starts.wait(timeout=60)
        return [outcome(text) for text in TEXTS * 5]

    def outcome(text):
        try:
            return print_query(parse(text))
        except QueryError as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        assert {tuple(each) for each in threads.map(printed, range(4))} == {
            tuple(outcome(text) for text in TEXTS * 5)
        }


@pytest.mark.slow
def test_a_list_as_long_as_a_text_may_be_is_parsed():
    count = (LONGEST - len("x IN ()")) // len("12345678,")

    text = f"x IN ({','.join(['12345678'] * count)})"
    parsed = parse_predicate(text)

    assert len(parsed.items) == count
    assert parsed.items[-1].span == ast.Span(len(text) - 9, len(text) - 1)


def test_the_error_of_a_text_that_is_too_long_names_parameters():
    with pytest.raises(QueryLimitError, match=r"x IN \$ids"):
        parse("WHERE x IN (" + "1," * LONGEST)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000 + "1" + "]" * 20_000,
        "(" * 20_000 + "1" + ")" * 20_000,
        "NOT " * 20_000 + "x",
    ],
)
def test_no_depth_of_nesting_exhausts_the_stack(text):
    try:
        assert parse_predicate(text) == ast.Literal(1)  # parentheses alone are no level
    except QueryLimitError as error:
        assert "levels deep" in str(error)  # noqa: PT017 either is right


@pytest.mark.parametrize("text", ["[" * 20_000, "((" * 20_000 + "1", "CASE WHEN " * 20_000])
def test_no_depth_of_an_open_text_exhausts_the_stack(text):
    with pytest.raises(QuerySyntaxError, match="ends too early"):
        parse_predicate(text)


def test_a_timeout_ends_parsing():
    times = iter(range(10_000))
    text = "WHERE x IN (" + ", ".join(["1"] * 3_000) + ")"

    with pytest.raises(QueryLimitError, match=r"timeout of 5 s, [\d,]+ of its 9,011 characters"):
        compile_query(text, SCHEMA, limits=Limits(5, clock=lambda: next(times)))


def test_parsing_is_called_off():
    text = "WHERE x IN (" + ", ".join(["1"] * 3_000) + ")"
    asked = []

    with pytest.raises(QueryLimitError, match="cancelled"):
        compile_query(
            text, SCHEMA, limits=Limits(cancelled=lambda: asked.append(1) or len(asked) > 3)
        )


def test_the_time_of_parsing_is_part_of_the_query_s():
    from tests.unit.query.array_source import ArraySource

    source = ArraySource({"x": (SCHEMA["x"], [1, 2, 3])})

    with pytest.raises(QueryLimitError, match="timeout of 5 s"):
        compile_query("WHERE x > 1", SCHEMA).run(
            source, timeout_s=5, started_s=0.0, clock=lambda: 6.0
        )


@pytest.mark.parametrize("name", ["\u0131n", "l\u0131ke", "\u017felect"])
def test_a_letter_that_folds_to_one_of_a_keyword_is_another_letter(name):
    assert parse(f"WHERE {name} > 1").where.left == ast.Column(name)


def test_between_that_lacks_its_and_says_so():
    with pytest.raises(QuerySyntaxError, match="expected AND"):
        parse("WHERE x BETWEEN 1 : 2")
