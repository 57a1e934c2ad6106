"""Text: LOWER, UPPER, LIKE, CONTAINS.

LIKE matches the whole text: `%` is any run of characters, `_` any one, a backslash takes the next
literally. A pattern is cut at its `%` into pieces of fixed length, searched one after the other
from left to right, so that no pattern can take more than (length of the text × length of the
pattern) steps.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tensorlake_query import ast
from tensorlake_query.bound import Bound, Constant, show
from tensorlake_query.conversions import JSON_COST, is_text_constant
from tensorlake_query.functions.operators import TEXT_COST, required_text
from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.source import UniformBatch
from tensorlake_query.types import BOOL, TEXT, describe
from tensorlake_query.vectors import Vector, object_array, python_values


def bind_like(site: Site, syntax: ast.Like) -> Bound:
    """Bind `text [NOT] [I]LIKE pattern`; the pattern is a text known when the query is bound."""
    operand, pattern = required_text(site, site.args[0]), site.args[1]
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise site.fail(
            f"the pattern of LIKE must be a text, and {show(pattern)} is {describe(pattern.type)}",
            at=pattern,
            hint="write LIKE 'a%', or pass it as a parameter: LIKE $pattern",
        )
    folds, negated = syntax.ignore_case, syntax.negated
    matches = like_matcher(pattern.value.lower() if folds else pattern.value)

    def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
        texts = python_values(vectors[0].values)
        if folds:
            texts = [text.lower() for text in texts]
        found = np.fromiter(map(matches, texts), np.bool_, len(texts))
        return UniformBatch(~found if negated else found)

    column_type = replace(BOOL, nullable=operand.type.nullable)
    return site.apply(kernel, column_type, args=(operand, pattern), cost=2 * TEXT_COST)


def like_matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test that a LIKE pattern stands for."""
    pieces = _pieces(pattern)
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


def _pieces(pattern: str) -> list[list[str]]:
    """Cut a pattern at its `%`; a piece is a list of one regular expression a character."""
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            pieces.append([])
        elif character == "_":
            pieces[-1].append(".")
        else:
            literal = next(characters, "\\") if character == "\\" else character
            pieces[-1].append(re.escape(literal))
    return pieces


def _compiled(piece: Sequence[str]) -> re.Pattern[str]:
    return re.compile("".join(piece), re.DOTALL)


def _bind_case(change: Callable[[str], str]) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        operand = required_text(site, site.args[0])

        def kernel(vectors: Sequence[Vector], _num_rows: int) -> Vector:
            return UniformBatch(object_array(list(map(change, python_values(vectors[0].values)))))

        column_type = replace(TEXT, nullable=operand.type.nullable)
        return site.apply(kernel, column_type, args=(operand,), cost=TEXT_COST)

    return bind


def _bind_contains(site: Site) -> Bound:
    """Bind CONTAINS: part of a text, or element of an array, of labels, of a JSON list."""
    container, value = site.args
    if container.type.shape or container.type.kind == "label":
        written = tuple(ast.operands(site.syntax))
        equal = ast.Compare("=", written[0], written[1], span=site.syntax.span)
        if not container.type.shape:
            return site.bind(equal)
        return site.bind(ast.Call("ANY", (equal,), span=site.syntax.span))
    if container.type.kind == "json":
        return _bind_json_contains(site)
    container = required_text(site, container)
    value = required_text(site, value)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        texts, wanted = (python_values(vector.values) for vector in vectors)
        if is_text_constant(value) and wanted:
            needle = wanted[0]
            found = [needle in text for text in texts]
        else:
            found = [part in text for text, part in zip(texts, wanted, strict=True)]
        return UniformBatch(np.array(found, np.bool_).reshape(num_rows))

    nullable = container.type.nullable or value.type.nullable
    column_type = replace(BOOL, nullable=nullable)
    return site.apply(kernel, column_type, args=(container, value), cost=TEXT_COST)


def _bind_json_contains(site: Site) -> Bound:
    value = site.args[1]
    if value.type.shape:
        raise site.fail(f"CONTAINS looks for one value, not {describe(value.type)}", at=value)

    def kernel(vectors: Sequence[Vector], num_rows: int) -> Vector:
        found = np.zeros(num_rows, np.bool_)
        valid = np.zeros(num_rows, np.bool_)
        pairs = zip(python_values(vectors[0].values), vectors[1].values.tolist(), strict=True)
        for row, (container, wanted) in enumerate(pairs):
            is_text = isinstance(container, str) and isinstance(wanted, str)
            if is_text or isinstance(container, list):
                found[row], valid[row] = wanted in container, True
        return UniformBatch(found, valid)

    return site.apply(kernel, replace(BOOL, nullable=True), cost=JSON_COST)


FUNCTIONS = (
    Function("LOWER", "LOWER(text)", "Text in lower case.", (1, 1), _bind_case(str.lower)),
    Function("UPPER", "UPPER(text)", "Text in upper case.", (1, 1), _bind_case(str.upper)),
    Function(
        "CONTAINS",
        "CONTAINS(x, value)",
        "Is the value a part of the text, or an element of the array.",
        (2, 2),
        _bind_contains,
    ),
)
