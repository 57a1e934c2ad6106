"""Patterns of text: LIKE, ILIKE, GLOB, REGEXP.

LIKE and GLOB match the whole text: `%` (`*`) is any run of characters, `_` (`?`) any one, a
backslash takes the next literally. A pattern is cut at its runs into pieces of fixed length,
searched one after the other from left to right, so that no pattern can take more than (length of
the text × length of the pattern) steps. REGEXP finds a match anywhere in the text, on the RE2 in
pyarrow, whose time is linear in the text whatever the pattern is.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tensorlake_query.functions.registry import Site
from tensorlake_query.functions.scalar.operators import TEXT_COST, required_text
from tensorlake_query.syntax import ast
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.conversions import is_null
from tensorlake_query.values.source import BoolArray, UniformBatch
from tensorlake_query.values.types import BOOL, describe
from tensorlake_query.values.vectors import Vector, python_values

Matcher = Callable[[str], bool]
Matching = Callable[[Sequence[str]], BoolArray]

_INVALID = "Invalid regular expression: "  # what pyarrow puts before RE2's words


def bind_like(site: Site, syntax: ast.Like) -> Bound:
    """Bind `text [NOT] LIKE pattern` and its kin; the pattern is known when the query is bound."""
    operand, pattern = required_text(site, site.args[0]), site.args[1]
    form, negated = syntax.form, syntax.negated
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
        found = _regexp(site, pattern.value, pattern)
    elif form == "GLOB":
        found = _each(like_matcher(pattern.value, run="*", one="?"))
    else:
        found = _each(like_matcher(pattern.value.lower() if folds else pattern.value))

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        texts = python_values(vectors[0].values)
        if folds:
            texts = [text.lower() for text in texts]
        matched = found(texts)
        return UniformBatch(~matched if negated else matched)

    column_type = replace(BOOL, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand, pattern), cost=2 * TEXT_COST, role="like")


def _regexp(site: Site, pattern: str, at: Bound) -> Matching:
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
        return match(array, pattern).to_numpy(zero_copy_only=False)

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


def _pieces(pattern: str, run: str, one: str) -> list[list[str]]:
    """Cut a pattern at its runs; a piece is a list of one regular expression a character."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == run:
            pieces.append([])
        elif character == one:
            pieces[-1].append(".")
        else:
            literal = next(characters, "\\") if character == "\\" else character
            pieces[-1].append(re.escape(literal))
    return pieces


def _compiled(piece: Sequence[str]) -> re.Pattern[str]:
    return re.compile("".join(piece), re.DOTALL)
