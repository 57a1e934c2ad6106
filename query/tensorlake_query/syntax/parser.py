"""Text to syntax tree.

`syntax/lalr.py` runs the grammar's automaton and `syntax/ast_builder.py` makes `ast` nodes, both
without recursion, so that no text, however nested, can exhaust the stack before its depth is
checked here. Every failure is a `QueryError`; `syntax/diagnosis.py` finds the words for it.
"""

from typing import cast

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.clause_builder import StatementBuilder
from tensorlake_query.syntax.diagnosis import diagnosed, empty_text
from tensorlake_query.syntax.errors import QueryLimitError
from tensorlake_query.syntax.lalr import ParseStopError, parsed

MAX_TEXT = 262_144  # characters; long arrays belong in parameters
# Nested nodes. Later passes recurse, up to three frames a node, below Python's limit of 1000.
MAX_DEPTH = 120
MAX_QUERIES = 40  # inside each other; running one takes some fifteen frames


def parse(text: str) -> ast.Statement:
    """Parse a whole query; SELECT may be left out, so that it may start at WHERE or ORDER BY.

    Raises:
        QuerySyntaxError: the text is not TQL.
        QueryUnsupportedError: it uses a clause that this version does not run.
        QueryLimitError: the text is too long or nested too deeply.
    """
    return cast("ast.Statement", _parsed(text, "query"))


def parse_predicate(text: str) -> ast.Expr:
    """Parse a bare expression, as in `ds.where("label = 'cat'")`.

    Raises:
        QuerySyntaxError: the text is not a TQL expression.
        QueryLimitError: the text is too long or nested too deeply.
    """
    return cast("ast.Expr", _parsed(text, "predicate"))


def parse_change(text: str) -> ast.Change:
    """Parse UPDATE, DELETE or INSERT.

    Raises:
        QuerySyntaxError: the text is not a change in TQL.
        QueryLimitError: the text is too long or nested too deeply.
    """
    return cast("ast.Change", _parsed(text, "change"))


def check_depth(node: ast.Node, text: str) -> None:
    """Refuse a tree that is too deep for the passes that recurse.

    Raises:
        QueryLimitError: it is.
    """
    depth, queries = ast.depth_of(node)
    if queries > MAX_QUERIES:
        raise QueryLimitError(
            f"{queries} queries stand inside each other, more than {MAX_QUERIES}",
            text=text,
            span=Span(0, len(text)),
            hint="name some of them by WITH, or save a view",
        )
    if depth > MAX_DEPTH:
        raise QueryLimitError(
            f"the query nests {depth} levels deep, more than {MAX_DEPTH}",
            text=text,
            span=Span(0, len(text)),
            hint="a long sum is a deep one: add its halves in parentheses",
        )


def _parsed(text: str, start: str) -> ast.Node:
    if len(text) > MAX_TEXT:
        raise QueryLimitError(
            f"the query has {len(text):,} characters, more than {MAX_TEXT:,}",
            text=text[:80],
            span=Span(0, 0),
            hint="pass long arrays as parameters: $name",
        )
    if not text.strip():
        raise empty_text(text, start)
    try:
        node = cast("ast.Node", parsed(text, start, StatementBuilder(text)))
    except ParseStopError as stop:
        raise diagnosed(text, stop, start) from None
    check_depth(node, text)
    return node
