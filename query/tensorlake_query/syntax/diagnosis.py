"""Why a text is not TQL, in words its writer can act on.

`diagnosed` looks at the place where the parser stopped and picks the most specific explanation: a
habit of another language (`&&`, `:name`, `IN ['a']`), a
reserved word, else what was expected there.
"""

import re

from tensorlake_query.syntax.ast import Span
from tensorlake_query.syntax.errors import (
    NOT_RECURSIVE,
    QueryError,
    QuerySyntaxError,
    joined,
    nearest,
)
from tensorlake_query.syntax.printer import is_reserved

# Words of other places or of Deep Lake's language, and how the same is said here.
RESPELLED = {
    "APPROX": "write ORDER BY APPROX COSINE_SIMILARITY(column, $vector) DESC LIMIT 10",
    "ACROSS": "write GROUP BY alone",
    "NATURAL": "write JOIN … USING (the columns)",
}
# What Deep Lake writes at another place: the word, what stands before it, what to write.
MOVED = (
    (
        "AS",
        r"\bEXPAND\s+BY\b[\w\s]*\Z",
        "write EXPAND BY without AS: the rows are the result's own",
    ),
    ("REPLACE", r"\bSAMPLE\s+BY\b.*\bLIMIT\b.*\Z", "write SAMPLE BY weight REPLACE … LIMIT n"),
    (
        "VALUES",
        r"\bINSERT\s+INTO\b",
        "write INSERT INTO this SELECT …, or ds.append(…)",
    ),
    ("ROWS", r"\bOVER\s*\([^)]*\Z", "leave the frame out: with ORDER BY an aggregate runs so far"),
    ("RANGE", r"\bOVER\s*\([^)]*\Z", "leave the frame out: with ORDER BY an aggregate runs so far"),
    ("ESCAPE", r"\bI?LIKE\b[^\n]*\Z", "write a backslash before a % or _ that is meant literally"),
    ("SEED", r"\bSAMPLE\s+BY\b.*\bLIMIT\b.*\Z", "write SAMPLE BY weight SEED … LIMIT n"),
    (
        "SELECT",
        r"\b(ANY|ALL|SOME)\s*\(\s*\Z",
        "write x IN (SELECT …), or compare with (SELECT MIN(x) …) or (SELECT MAX(x) …)",
    ),
    ("QUALIFY", r"\Z", "filter in a query around it: SELECT * FROM (SELECT …) WHERE …"),
    ("FETCH", r"\Z", "write LIMIT n"),
    ("TABLESAMPLE", r"\Z", "write SAMPLE BY 1 REPLACE false LIMIT 10 PERCENT"),
)
CHANGES = {"UPDATE", "DELETE", "INSERT"}
# Statements of SQL that change more than rows, and what does it here.
SCHEMA_CHANGES = {
    "DROP": "ds.drop_tensor(name) drops a tensor",
    "ALTER": "ds.add_tensor(name, type), ds.rename_tensor(old, new), ds.drop_tensor(name)",
    "CREATE": "tl.create(url, schema) creates a dataset, view.save(name) saves a view",
    "TRUNCATE": "write DELETE FROM this",
    "MERGE": "ds.upsert(…) merges rows, ds.merge(branch) a branch",
}
STATEMENTS = "UPDATE this SET …, DELETE FROM this WHERE … or INSERT INTO this SELECT …"
READS = {"SELECT", "WITH", "FROM", "WHERE", "ORDER", "GROUP", "EXPLAIN", "LIMIT"}
# What is parsed → its name, and what to write where there is nothing.
EMPTY = {
    "query": ("query", "for all rows write SELECT *"),
    "predicate": ("condition", "for all rows write TRUE"),
    "change": ("statement", f"write {STATEMENTS}"),
}
CLAUSES = (
    "SELECT", "FROM", "WHERE", "EXPAND BY", "GROUP BY", "HAVING", "UNGROUP BY", "ORDER BY",
    "ARRANGE BY", "SAMPLE BY", "LIMIT", "OFFSET",
)  # fmt: skip
OPERATORS = {
    "COMPARE", "CONCAT", "FLOOR_DIVIDE", "LSQB", "MINUS", "MODULO", "PLUS", "POWER", "SLASH",
    "STAR",
}  # fmt: skip
# Words that a misspelt one may have meant although they may be names, too.
MEANT = {
    "UNION", "INTERSECT", "EXCEPT", "JOIN", "EXPAND", "UNGROUP", "ARRANGE", "SAMPLE",
}  # fmt: skip
# Of names that are no keyword misspelt, `score` is as near to ORDER as 0.6; ADN is to AND as 0.66.
WORD_CUTOFF = 0.66
_COMPARISON = re.compile(r"(<=|>=|<>|!=|==|=|<|>)")
_PARAMETER = re.compile(r":([^\W\d]\w*)")
_CLOSED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")  # a text, or a quoted name
_WORD = re.compile(r"[^\W\d]\w*")
# What continues an expression, and can follow no alias.
_CONTINUED = re.compile(
    r"[-+*/%^|=!<>(\['\d$]|(AND|OR|NOT|IN|IS|I?LIKE|GLOB|BETWEEN)\b", re.IGNORECASE
)
_FOREIGN = (
    ("&&", "write AND"),
    ("::", "write CAST(x AS FLOAT)"),
    ("&", "write AND"),
    ("!", "write NOT, or != to compare"),
    ("?", "write a named parameter: $name"),
    (";", "a query is one statement, without ';'"),
    ('"', 'this quoted name has no closing "'),
    ("'", "this text has no closing '"),
    ("{", "arrays are written ARRAY[1, 2] or [1, 2]"),
)


class ParseStopError(Exception):
    """The text has no continuation in the grammar at `position`; `expected` could be there."""

    def __init__(self, position: int, expected: frozenset[str]) -> None:
        super().__init__(position)
        self.position = position
        self.expected = expected


def empty_text(text: str, start: str) -> QuerySyntaxError:
    """Say that there is nothing to parse."""
    what, hint = EMPTY[start]
    return QuerySyntaxError(f"the {what} is empty", text=text, span=Span(0, 0), hint=hint)


def diagnosed(text: str, error: ParseStopError, start: str = "query") -> QueryError:
    """Say what went wrong where the parser stopped, by the most specific rule that fits.

    `start` is what was to be parsed: a query, a predicate or a change.
    """
    at = error.position
    rest = text[at:]
    word_match = _WORD.match(rest)
    word = word_match.group() if word_match else ""
    previous, previous_at = word_before(text, at)
    span = Span(at, at + max(len(word), 1))

    def fail(message: str, hint: str = "", where: Span = span) -> QuerySyntaxError:
        return QuerySyntaxError(message, text=text, span=where, hint=hint)

    for candidate, first in ((word, at), (previous, previous_at)):
        if candidate.upper() in RESPELLED:
            where = Span(first, first + len(candidate))
            return fail(
                f"{candidate.upper()} is not a keyword here", RESPELLED[candidate.upper()], where
            )
    for moved, before, hint in MOVED:
        if word.upper() == moved and re.search(before, text[:at], re.IGNORECASE | re.DOTALL):
            return fail(f"unexpected {word!r}", hint)
    recursive = re.search(r"\bWITH\s+(RECURSIVE)\s+\Z", text[:at], re.IGNORECASE)
    if recursive:
        where = Span(*recursive.span(1))
        return fail("a query of WITH cannot read itself", NOT_RECURSIVE, where)
    is_first = not text[:at].strip()
    if start == "change" and is_first and word.upper() in READS:
        return fail(f"{word.upper()} only reads", f"ds.query(…); ds.execute takes {STATEMENTS}")
    if is_first and word.upper() in SCHEMA_CHANGES:
        return fail(f"TQL has no {word.upper()}", SCHEMA_CHANGES[word.upper()])
    if start == "change" and is_first and word:
        return fail(f"unexpected {word!r}", f"a statement is {STATEMENTS}")
    if start != "change" and is_first and word.upper() in CHANGES:
        return fail(f"{word.upper()} changes rows", "a query only reads: ds.execute(…)")
    for first in (at - 1, at):
        if text[max(first, 0) : first + 2] == "/*":
            where = Span(first, first + 2)
            return fail("unexpected '/*'", "this comment has no closing */", where)
    if text[max(at - 1, 0) : at + 1] == "*/":
        where = Span(at - 1, at + 1)
        return fail("unexpected '*/'", "no comment is open here: /* opens one", where)
    if not rest:
        return fail("the query ends too early", f"expected {_expected(error)}")
    if rest.startswith("[") and previous.upper() == "IN":
        return fail("IN takes its values in parentheses", "write IN ('a', 'b')")
    if word and previous.upper() == "IN" and not is_reserved(word):
        return fail(
            "IN takes its values in parentheses",
            f"write IN ('a', 'b'), or CONTAINS({word}, …) for what a list holds",
        )
    if parameter := _PARAMETER.match(rest):
        hint = f"write ${parameter.group(1)}; ':' belongs to slices"
        return fail("a parameter is written with '$'", hint, Span(at, at + parameter.end()))
    if "$END" in error.expected:
        if comparison := _COMPARISON.match(rest):
            hint = "comparisons do not chain: write a < b AND b < c"
            where = Span(at, at + comparison.end())
            return fail(f"unexpected {comparison.group()!r}", hint, where)
        if rest[0] == ".":
            return fail("unexpected '.'", "a member of a JSON value is written meta['name']")
        if any(word.upper() == clause.split()[0] for clause in CLAUSES):
            if re.match(r"\s*(update|delete)\b", text, re.IGNORECASE) and start == "change":
                return fail(f"unexpected {word!r}", "UPDATE and DELETE end with WHERE")
            order = ", ".join(CLAUSES)
            return fail(f"unexpected {word!r}", f"clauses appear once, in this order: {order}")
    for foreign, hint in _FOREIGN:
        if rest.startswith(foreign) and not _CLOSED.match(rest):
            return fail(f"unexpected {foreign!r}", hint, Span(at, at + len(foreign)))
    if not text[:at].strip():
        return fail(
            f"unexpected {word or rest[0]!r}",
            joined(
                _nearest_word(word, error),
                "a query begins with a clause: WHERE …, SELECT …, ORDER BY …",
            ),
        )
    if is_reserved(word):
        expected = _expected(error)
        return fail(
            f"unexpected {word!r}",
            f'expected {expected}; a tensor of this name needs quotes: "{word}"',
        )
    shown = word or rest[0]
    needs_as = "ALIAS" in error.expected and word
    hint = joined(
        _nearest_word(word, error),
        f"expected {_expected(error)}",
        f"an alias of this name needs AS: AS {word}" if needs_as else "",
    )
    return fail(f"unexpected {shown!r}", hint)


def word_before(text: str, position: int) -> tuple[str, int]:
    """Return the word before a position, and where it begins; '' without one."""
    match = re.search(r"([^\W\d]\w*)\s*\Z", text[:position])
    return (match.group(1), match.start(1)) if match else ("", 0)


def is_no_alias(word: str, rest: str, stop: ParseStopError) -> bool:
    """Return whether a word that passed as an alias was meant otherwise, by what follows it."""
    return bool(_nearest_word(word, stop)) or _CONTINUED.match(rest) is not None


def _nearest_word(word: str, error: ParseStopError) -> str:
    """Ask for the keyword that a misspelt one may have meant, of those allowed there."""
    keywords = {name.strip("_") for name in error.expected}
    words = {name for name in keywords if is_reserved(name) or name in MEANT}
    return nearest(word, sorted(words), cutoff=WORD_CUTOFF)


def _expected(error: ParseStopError) -> str:
    """Name what could have come next: a value, or the few keywords."""
    names = error.expected
    if {"NUMBER", "TEXT", "NAME"} <= names:
        return "a value, a tensor or '('"
    if "_SELECT" in names:
        return "a query: SELECT …"
    if "$END" in names:
        first = "an operator" if names & OPERATORS else "','"
        return f"{first}, the next clause, or the end"
    symbols = {
        "RPAR": "')'", "RSQB": "']'", "COMMA": "','", "LPAR": "'('", "DOT": "'.'",
        "NUMBER": "a number", "PARAMETER": "a $parameter", "TEXT": "a text", "NAME": "a name",
        "QUOTED": "a name",
    }  # fmt: skip
    shown = sorted(
        "an operator" if name in OPERATORS else symbols.get(name, name.strip("_"))
        for name in names
        if not name.startswith("__")
    )
    shown = list(dict.fromkeys(shown))
    if "an operator" in shown and "OR" in shown:  # AND and OR are two of them
        shown = [name for name in shown if name not in {"AND", "OR"}]  # alone it is BETWEEN's AND
    few = [name for name in shown if name.startswith("'")] or shown
    return " or ".join(few[:4]) or "something else"
