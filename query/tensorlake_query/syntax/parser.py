"""Text to syntax tree.

    text → tokens, shifts and reductions (Lark) → Lark's tree → `ast` nodes (`StatementBuilder`)

Neither Lark's loop nor the walk over its tree recurses, so that no text, however nested, can
exhaust the stack before its depth is checked here; both are linear in the text. The lexer is
contextual: a word is a keyword only where the grammar has a place for one. Every failure is a
`QueryError`; `syntax/diagnosis.py` finds the words for it. Threads share the parser; each
call has its own state.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

from tensorlake_query.syntax import ast
from tensorlake_query.syntax.ast import NOWHERE, Span
from tensorlake_query.syntax.ast_builder import Token
from tensorlake_query.syntax.clause_builder import StatementBuilder
from tensorlake_query.syntax.diagnosis import (
    ParseStopError,
    diagnosed,
    empty_text,
    is_no_alias,
    word_before,
)
from tensorlake_query.syntax.errors import QueryLimitError
from tensorlake_query.syntax.grammar import grammar

MAX_TEXT = 262_144  # characters; long arrays belong in parameters
SIGNS = frozenset({"LPAR", "RPAR", "LSQB", "RSQB", "COMMA", "COLON", "DOT"})  # without a meaning
SHORT_TEXT = 1024  # characters, parsed in some ten milliseconds
KEPT_TREES = 128  # of short texts, of some 10 kB each; the same query is often sent again
CHECK_EVERY = 512  # tokens or nodes between two looks at the time limit: some 10 ms of parsing
# Nested nodes. Later passes recurse, up to three frames a node, below Python's limit of 1000.
MAX_DEPTH = 120
MAX_QUERIES = 40  # inside each other; running one takes some fifteen frames

Check = Callable[[int], None]
"""Called with the number of characters parsed; raises when the time limit has passed."""


def parse(text: str, check: Check | None = None) -> ast.Statement:
    """Parse a whole query; SELECT may be left out, so that it may start at WHERE or ORDER BY.

    Args:
        text: The query.
        check: Called regularly with the number of characters parsed; an exception ends parsing.

    Raises:
        QuerySyntaxError: the text is not TQL.
        QueryUnsupportedError: it uses a clause that this version does not run.
        QueryLimitError: the text is too long or nested too deeply.
    """
    return cast("ast.Statement", _parsed(text, "query", check))


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
            f"queries are nested {queries} deep, more than {MAX_QUERIES}",
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


def accepted_after(text: str, start: str) -> frozenset[str]:
    """Return the terminals that could follow a text; none where it has an error."""
    from lark.exceptions import UnexpectedInput

    state = grammar().parse_interactive(text, start=start)
    try:
        state.exhaust_lexer()
    except UnexpectedInput:
        return frozenset()
    return frozenset(state.accepts())


def _parsed(text: str, start: str, check: Check | None = None) -> ast.Node:
    if check is not None:
        check(0)
    return _short(text, start) if len(text) <= SHORT_TEXT else _anew(text, start, check)


@lru_cache(maxsize=KEPT_TREES)
def _short(text: str, start: str) -> ast.Node:
    """Return the tree of a short text, which callers share: nodes are immutable."""
    return _anew(text, start, None)


def _anew(text: str, start: str, check: Check | None) -> ast.Node:
    if len(text) > MAX_TEXT:
        raise QueryLimitError(
            f"the query has {len(text):,} characters, more than {MAX_TEXT:,}",
            text=text[:80],
            span=Span(0, 0),
            hint="pass long arrays as parameters: x IN $ids",
        )
    try:
        tree = _tree(text, start, check)
    except ParseStopError as stop:
        raise diagnosed(text, _at_alias(text, stop, start), start) from None
    node = _built(tree, StatementBuilder(text), check, len(text))
    check_depth(node, text)
    return node


def _at_alias(text: str, stop: ParseStopError, start: str) -> ParseStopError:
    """Move a stop to the word before it, if that passed as an alias and was meant otherwise.

    In `FROM this WHER x = 1` the parser stops at x, and WHER is the mistake.
    """
    word, first = word_before(text, stop.position)
    alias = grammar().get_terminal("ALIAS").pattern.to_regexp()
    if not re.fullmatch(alias, word):
        return stop
    expected = accepted_after(text[:first], start)
    if "ALIAS" in expected:
        before = ParseStopError(first, expected - {"ALIAS", "QUOTED"})
        if is_no_alias(word, text[stop.position :], before):
            return before
    return stop


def _tree(text: str, start: str, check: Check | None) -> Any:
    """Return Lark's tree of a text.

    Raises:
        ParseStopError: the text is not in the grammar.
        QuerySyntaxError: it has no word.
    """
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    state = grammar().parse_interactive(text, start=start)
    position, number = 0, -1
    try:
        for number, token in enumerate(state.iter_parse()):
            position = cast("int", token.start_pos)
            if check is not None and number % CHECK_EVERY == 0:
                check(position)
        if number < 0:
            raise empty_text(text, start)  # or comments alone
        position = len(text)
        return state.feed_eof()
    except UnexpectedCharacters as stop:
        position = cast("int", stop.pos_in_stream)
        raise ParseStopError(position, frozenset(state.accepts())) from None
    except UnexpectedToken as stop:
        if stop.token.type == "$END":
            raise ParseStopError(position, frozenset(state.accepts())) from None
        position = cast("int", stop.token.start_pos)
        # the token has reduced what stands before it: what could follow is asked without it
        raise ParseStopError(position, accepted_after(text[:position], start)) from None


def _built(root: Any, builder: StatementBuilder, check: Check | None, nchars: int) -> ast.Node:
    """Return what the builder makes of a tree: its nodes from the inside out, left to right."""
    from lark import Tree

    order: list[Any] = []
    unseen = [root]
    while unseen:
        tree = unseen.pop()
        order.append(tree)
        unseen += [child for child in tree.children if isinstance(child, Tree)]
    made: dict[int, tuple[Any, Span]] = {}  # of each tree whose parent is not built yet
    while order:
        if check is not None and len(order) % CHECK_EVERY == 0:
            check(nchars)
        tree = order.pop()
        children: list[Any] = []
        first = last = NOWHERE
        for child in tree.children:
            if child is None:
                children.append(None)
                continue
            if isinstance(child, Tree):
                value, span = made.pop(id(child))
                children.append(value)
                if span is NOWHERE:
                    continue
            else:
                kind, span = child.type, Span(child.start_pos, child.end_pos)
                if kind[0] != "_" and kind not in SIGNS:
                    children.append(Token(kind, child.value, span))
            first = span if first is NOWHERE else first
            last = span
        tree.children = ()  # its memory goes while others are built
        span = first if first is last else Span(first.start, last.stop)
        made[id(tree)] = builder.build(tree.data, span, children), span
    return cast("ast.Node", made[id(root)][0])
