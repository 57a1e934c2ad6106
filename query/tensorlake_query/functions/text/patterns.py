"""Patterns of text: LIKE, ILIKE, GLOB, REGEXP.

LIKE and GLOB match the whole text: `%` (`*`) is any run of characters, `_` (`?`) any one, a
backslash takes the next literally. A pattern is cut at its runs into pieces of fixed length,
searched one after the other from left to right, so that no pattern can take more than (length of
the text × length of the pattern) steps. REGEXP finds a match anywhere in the text, on the RE2 in
pyarrow, whose time is linear in the text whatever the pattern is.

A stored column is searched as bytes: for the literals at the ends of a LIKE pattern, and for
the longest one between. Where the rows that have them may still not match, few of them are tested
one by one, and many by RE2.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.operators import TEXT_COST, required_text
from tensorlake_query.functions.text.matching import (
    ascii_lowered,
    containing,
    ending,
    equal_to,
    only_some,
    starting,
)
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import is_null
from tensorlake_query.values.source import BoolArray, UniformBatch
from tensorlake_query.values.texts import Texts, booleans, large_strings, texts_of
from tensorlake_query.values.types import BOOL, describe
from tensorlake_query.values.vectors import Vector, python_values

Matcher = Callable[[str], bool]
Matching = Callable[[Sequence[str]], BoolArray]
BytesMatching = Callable[[Texts], BoolArray]

TESTED_SHARE = 8  # of the rows: where fewer than one in so many are left, each is tested alone

_INVALID = "Invalid regular expression: "  # what pyarrow puts before RE2's words


def bind_like(site: Site, syntax: ast.Like) -> Bound:
    """Bind `text [NOT] LIKE pattern` and its kin; the pattern is known when the query is bound."""
    operand, pattern = required_text(site, site.args[0]), site.args[1]
    form, negated = syntax.form, syntax.negated
    if not isinstance(pattern, Constant) and pattern.type.kind in {"text", "json"}:
        raise site.fail(
            f"the pattern of {form} must be a constant or a parameter,"
            f" and {show(pattern)} is computed",
            at=pattern,
            hint=f"write {form} 'a%', or {form} $pattern; CONTAINS(x, y) takes a text of each row",
        )
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise site.fail(
            f"the pattern of {form} must be a text, "
            f"and {show(pattern)} is {'none' if is_null(pattern) else describe(pattern.type)}",
            at=pattern,
            hint=f"write {form} 'a%', or pass it as a parameter: {form} $pattern",
        )
    if operand.type.shape:
        shown = f"{show(operand)} is {describe(operand.type)}"
        raise site.fail(f"{form} needs one text per row, and {shown}", at=operand)
    folds = form == "ILIKE"
    if form == "REGEXP":
        found, found_in_bytes = _regexp(site, pattern.value, pattern)
    else:
        run, one = ("*", "?") if form == "GLOB" else ("%", "_")
        wanted = pattern.value.lower() if folds else pattern.value
        found = _each(like_matcher(wanted, run=run, one=one))
        found_in_bytes = _bytes_matching(wanted, run, one)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        values = vectors[0].values
        texts = texts_of(values)
        if texts is not None and not (folds and not texts.is_ascii):
            matched = found_in_bytes(ascii_lowered(texts) if folds else texts)
        elif folds:
            matched = found([text.lower() for text in python_values(values)])
        else:
            matched = found(python_values(values))
        return UniformBatch(~matched if negated else matched)

    column_type = replace(BOOL, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand, pattern), cost=2 * TEXT_COST, role="like")


def _regexp(site: Site, pattern: str, at: Bound) -> tuple[Matching, BytesMatching]:
    import pyarrow as pa
    from pyarrow import compute

    match = cast("Any", compute).match_substring_regex  # Any: pyarrow ships no types
    try:
        match(pa.array([""], pa.large_string()), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise site.fail(
            f"{pattern!r:.60} is not a pattern of RE2: {str(error).removeprefix(_INVALID)}",
            at=at,
            hint="RE2 has no back-references and no look-around",
        ) from None

    def found(texts: Sequence[str]) -> BoolArray:
        try:
            array = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # half of a surrogate pair: RE2 sees one character
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
            array = pa.array(encoded, pa.large_binary()).view(pa.large_string())
        return booleans(match(array, pattern))

    def found_in_bytes(texts: Texts) -> BoolArray:
        return booleans(match(large_strings(texts), pattern))

    return found, found_in_bytes


def _bytes_matching(pattern: str, run: str, one: str) -> BytesMatching:
    """Return the test that a LIKE pattern stands for, of texts as bytes."""
    pieces = _pieces(pattern, run, one)
    head, tail = _literal(pieces[0]), _literal(pieces[-1][::-1])[::-1]
    middle = [piece for piece in pieces[1:-1] if piece]
    is_plain = not any(None in piece for piece in pieces)
    if is_plain and len(pieces) == 1:
        return lambda texts: equal_to(texts, _encoded(head))
    if is_plain and not middle:
        return lambda texts: _between(texts, head, tail)
    if is_plain and len(middle) == 1 and not head and not tail:
        return lambda texts: containing(texts, _encoded(_literal(middle[0])))
    literals = [literal for piece in pieces for literal in _literals(piece)]
    longest = max(literals, key=len)
    matches = like_matcher(pattern, run=run, one=one)
    expression = "(?s)\\A" + ".*".join(map(_expression, pieces)) + "\\z"

    def found(texts: Texts) -> BoolArray:
        candidates = _between(texts, head, tail) if head or tail else None
        if longest not in {head, tail}:
            has_longest = containing(texts, _encoded(longest))
            candidates = has_longest if candidates is None else candidates & has_longest
        if candidates is None:
            candidates = np.ones(len(texts), np.bool_)
        few = only_some(texts, candidates, matches, len(texts) // TESTED_SHARE)
        return _by_expression(texts, expression, matches) if few is None else few

    return found


def _by_expression(texts: Texts, expression: str, matches: Matcher) -> BoolArray:
    """Match by RE2; one by one where the expression is more than it takes."""
    import pyarrow as pa
    from pyarrow import compute

    match = cast("Any", compute).match_substring_regex  # Any: pyarrow ships no types
    try:
        return booleans(match(large_strings(texts), expression))
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return np.fromiter(map(matches, texts.tolist()), np.bool_, len(texts))


def _between(texts: Texts, head: str, tail: str) -> BoolArray:
    """Tell which texts begin and end with literals that do not overlap."""
    first, last = _encoded(head), _encoded(tail)
    found = texts.lengths >= len(first) + len(last)
    if first:
        found &= starting(texts, first)
    return found & ending(texts, last) if last else found


def _encoded(literal: str) -> bytes:
    return literal.encode("utf-8", "surrogatepass")  # half of a pair, which no stored text has


def _literal(piece: Sequence[str | None]) -> str:
    """Return the known characters that a piece begins with."""
    return _literals(piece)[0]


def _literals(piece: Sequence[str | None]) -> list[str]:
    """Return the runs of known characters in a piece, between those left open."""
    found = [""]
    for character in piece:
        if character is None:
            found.append("")
        else:
            found[-1] += character
    return found


def _each(matches: Matcher) -> Matching:
    def found(texts: Sequence[str]) -> BoolArray:
        return np.fromiter(map(matches, texts), np.bool_, len(texts))

    return found


def like_matcher(pattern: str, *, run: str = "%", one: str = "_") -> Matcher:
    """Return the test that a LIKE pattern (or, with `*` and `?`, a GLOB) stands for."""
    pieces = _pieces(pattern, run, one)
    if len(pieces) == 1:
        whole = _compiled(pieces[0])
        return lambda text: whole.fullmatch(text) is not None
    first, last = _compiled(pieces[0]), _compiled(pieces[-1])
    middle = [_compiled(piece) for piece in pieces[1:-1] if piece]
    last_length = len(pieces[-1])

    def matches(text: str) -> bool:
        head = first.match(text)
        end = len(text) - last_length
        if head is None or end < head.end() or last.fullmatch(text, end) is None:
            return False
        at = head.end()
        for piece in middle:
            found = piece.search(text, at, end)
            if found is None:
                return False
            at = found.end()
        return True

    return matches


def _pieces(pattern: str, run: str, one: str) -> list[list[str | None]]:
    """Cut a pattern at its runs; a piece is a list of characters, None for any one."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == run:
            pieces.append([])
        elif character == one:
            pieces[-1].append(None)
        else:
            pieces[-1].append(next(characters, "\\") if character == "\\" else character)
    return pieces


def _expression(piece: Sequence[str | None]) -> str:
    return "".join("." if character is None else re.escape(character) for character in piece)


def _compiled(piece: Sequence[str | None]) -> re.Pattern[str]:
    return re.compile(_expression(piece), re.DOTALL)
