"""Why a text is not TQL, in words its writer can act on.

`diagnosed` looks at the place where the parser stopped and picks the most specific explanation: a
clause that is not supported yet, a habit of another language (`&&`, `:name`, `IN ['a']`), a
reserved word, else what was expected there.
"""

import re
from typing import cast

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from tensorlake_query.ast import Span
from tensorlake_query.errors import QuerySyntaxError
from tensorlake_query.printer import is_reserved

# Words of the language that this version does not run yet. Reported by name, never ignored.
UNSUPPORTED = {
    "ACROSS", "ANALYZE", "APPROX", "ARRANGE", "CROSS", "DATE", "DELETE", "DISTINCT", "EXCEPT",
    "EXISTS", "EXPAND", "FULL", "GLOB", "INNER", "INSERT", "INTERSECT", "INTERVAL", "ISNULL",
    "JOIN", "LEFT", "NATURAL", "OVER", "REGEXP", "RIGHT", "SAMPLE", "TAG", "TOP", "UNGROUP",
    "UNION", "UPDATE", "USING", "VERSION", "WITH",
}  # fmt: skip
_SUBQUERY = re.compile(r"\(\s*select\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d]\w*")
_FOREIGN = (
    ("&&", "write AND"),
    ("&", "write AND"),
    ("!", "write NOT, or != to compare"),
    ("?", "write a named parameter: $name"),
    (";", "a query is one statement, without ';'"),
    ('"', 'this quoted name has no closing "'),
    ("'", "this text has no closing '"),
    ("{", "arrays are written ARRAY[1, 2] or [1, 2]"),
)


def diagnosed(text: str, error: UnexpectedInput) -> QuerySyntaxError:
    """Say what went wrong where the parser stopped, by the most specific rule that fits."""
    at = _position(text, error)
    rest = text[at:]
    word_match = _WORD.match(rest)
    word = word_match.group() if word_match else ""
    previous_match = re.search(r"([^\W\d]\w*)\s*\Z", text[:at])
    previous = previous_match.group(1) if previous_match else ""
    span = Span(at, at + max(len(word), 1))

    def fail(message: str, hint: str = "", where: Span = span) -> QuerySyntaxError:
        return QuerySyntaxError(message, text=text, span=where, hint=hint)

    for candidate, start in (
        (word, at),
        (previous, at - len(text[:at]) + _start_of(previous_match)),
    ):
        if candidate.upper() in UNSUPPORTED:
            where = Span(start, start + len(candidate))
            return fail(f"{candidate.upper()} is not supported yet", "", where)
    if text[at - 1 : at + 1] == "/*":
        return fail("unexpected '/*'", "this comment has no closing */", Span(at - 1, at + 1))
    if word.upper() == "SELECT" or _SUBQUERY.match(rest):
        return fail("sub-queries are not supported yet")
    if not rest:
        return fail("the query ends too early", f"expected {_expected(error)}")
    if rest.startswith("[") and previous.upper() == "IN":
        return fail("IN takes its values in parentheses", "write IN ('a', 'b')")
    if re.match(r":[^\W\d]", rest):
        name = re.match(r":(\w+)", rest)
        return fail(
            "a parameter is written with '$'",
            f"write ${name.group(1) if name else 'name'}; ':' belongs to slices",
            Span(at, at + (name.end() if name else 1)),
        )
    for foreign, hint in _FOREIGN:
        if rest.startswith(foreign):
            return fail(f"unexpected {foreign!r}", hint, Span(at, at + len(foreign)))
    if is_reserved(word):
        expected = _expected(error)
        return fail(
            f"unexpected {word!r}",
            f'expected {expected}; a tensor of this name needs quotes: "{word}"',
        )
    shown = word or rest[0]
    return fail(f"unexpected {shown!r}", f"expected {_expected(error)}")


def _start_of(match: re.Match[str] | None) -> int:
    return match.start(1) if match else 0


def _position(text: str, error: UnexpectedInput) -> int:
    if isinstance(error, UnexpectedToken):
        token = cast("Token", error.token)
        return len(text) if token.type == "$END" else cast("int", token.start_pos)
    if isinstance(error, UnexpectedCharacters):
        return error.pos_in_stream if error.pos_in_stream is not None else 0
    return len(text)


def _expected(error: UnexpectedInput) -> str:
    """Name what could have come next: a value, or the few keywords."""
    names: set[str] = set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
    elif isinstance(error, UnexpectedCharacters):
        names = set(error.allowed or ())
    if {"NUMBER", "TEXT", "NAME"} <= names:
        return "a value, a tensor or '('"
    if "$END" in names:
        return "an operator, the next clause, or the end"
    symbols = {"RPAR": "')'", "RSQB": "']'", "COMMA": "','", "LPAR": "'('"}
    shown = sorted(
        symbols.get(name, name.strip("_")) for name in names if not name.startswith("__")
    )
    few = [name for name in shown if name.startswith("'")] or shown
    return " or ".join(few[:4]) or "something else"
