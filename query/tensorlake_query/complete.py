"""Completion of a query that is being written: words for an editor to offer.

The parser lists the kinds of token that its grammar accepts at the cursor; the schema and the
function table provide the names of those kinds. After a comparison with a class-label tensor these
are its class names, after FROM the tables, and inside a string only class names.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tensorlake_query.functions import FUNCTIONS
from tensorlake_query.functions.aggregate.aggregates import AGGREGATES
from tensorlake_query.functions.plug_ins import PlugInError, plug_in, plug_in_names
from tensorlake_query.functions.scalar.dates import EPOCH, PARTS
from tensorlake_query.syntax.diagnosis import CLAUSES
from tensorlake_query.syntax.parser import MAX_TEXT, accepted_after
from tensorlake_query.syntax.printer import print_name
from tensorlake_query.values.source import ColumnType
from tensorlake_query.values.types import CAST_TYPES, describe

_WORD = re.compile(r"[\w\"']*\Z")
_QUOTED = re.compile(r"\"[^\"]*\"|'(?:[^']|'')*(?P<end>'|\Z)")
_LABEL = re.compile(
    r'(?:"?(\w+)"?\s*(?:==?|!=|<>|\bIN\s*\((?:\s*\'[^\']*\'\s*,)*)'
    r'|\bCONTAINS\s*\(\s*"?(\w+)"?\s*,)\s*\Z',
    re.IGNORECASE,
)
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s*\Z", re.IGNORECASE)
_NAMED = re.compile(r"(\w+)\s+AS\s*\(", re.IGNORECASE)
_CAST = re.compile(r"\bCAST\s*\([^()]*\sAS\s+\Z", re.IGNORECASE)
_EXTRACT = re.compile(r"\bEXTRACT\s*\(\s*\Z", re.IGNORECASE)
_KEYWORD = re.compile(r"_?[A-Z]{2,}\Z")
_PAIRED = {clause.split()[0]: clause for clause in CLAUSES}
SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT")
_NOT_WORDS = frozenset(
    {"NUMBER", "TEXT", "NAME", "ALIAS", "QUOTED", "PARAMETER", "COMPARE", "CONCAT", "ARROW", "PLUS",
     "MINUS", "DOT", "STAR", "SLASH", "MODULO", "POWER", "COMMA", "COLON", "LPAR", "RPAR", "LSQB",
     "RSQB"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Completion:
    """One offer: the text that replaces the word at the cursor, and what it is."""

    text: str
    kind: Literal["tensor", "class", "function", "keyword"]  # a table is a keyword
    detail: str


def complete(text: str, cursor: int, schema: Mapping[str, ColumnType]) -> tuple[Completion, ...]:
    """Return completions of the word before the cursor, the most specific kinds first."""
    before = text[: min(cursor, MAX_TEXT)]
    start = _word_start(before)
    before, word = before[:start], before[start:]
    folded = word.strip("\"'").casefold()
    offers = _classes(before, schema) if word.startswith("'") else _offers(before, schema, folded)
    return tuple(offer for offer in offers if offer.text.strip("\"'").casefold().startswith(folded))


def _classes(before: str, schema: Mapping[str, ColumnType]) -> Iterator[Completion]:
    found = _LABEL.search(before)
    label = (found.group(1) or found.group(2)) if found else ""
    kind = schema.get(label)
    names = None if kind is None else kind.names or kind.class_names
    for name in filter(None, names or ()):  # a class that was dropped has none
        escaped = name.replace("'", "''")
        yield Completion(f"'{escaped}'", "class", f"class of {label}")


def _word_start(before: str) -> int:
    """Where the word at the end begins; a text that is still open is one word, spaces and all."""
    for quoted in _QUOTED.finditer(before):
        if quoted["end"] == "":
            return quoted.start()
    word = _WORD.search(before)
    return word.start() if word else len(before)


def _offers(before: str, schema: Mapping[str, ColumnType], word: str) -> Iterator[Completion]:
    yield from _classes(before, schema)
    if _CAST.search(before):
        for name in CAST_TYPES:
            yield Completion(name.upper(), "keyword", "type")
        return
    if _EXTRACT.search(before):
        for part in (*PARTS, EPOCH):
            yield Completion(part, "keyword", "part of a time")
        return
    kinds = accepted_after(before, "query")
    if _TABLE.search(before):
        for name in ("this", *_NAMED.findall(before)):
            yield Completion(name, "keyword", "table")
        return
    if "NAME" in kinds:
        for name, column_type in schema.items():
            yield Completion(print_name(name), "tensor", describe(column_type))
        for function in FUNCTIONS.values():
            yield Completion(
                f"{function.name}(", "function", f"{function.usage}: {function.summary}"
            )
        for name in sorted(AGGREGATES):
            yield Completion(f"{name}(", "function", "across rows, or across each group")
        yield from _of_plug_ins(word)
    keywords = {
        _PAIRED.get(kind.removeprefix("_"), kind.removeprefix("_"))
        for kind in kinds
        if _KEYWORD.match(kind) and kind.removeprefix("_") not in _NOT_WORDS
    }
    for keyword in sorted(keywords, key=_rank):
        yield Completion(keyword, "keyword", "keyword")


def _of_plug_ins(word: str) -> Iterator[Completion]:
    """Offer the functions that packages bring; only one whose name is begun is loaded."""
    for name in plug_in_names():
        detail = "of an installed package"
        if word and name.casefold().startswith(word):
            try:
                function = plug_in(name)
            except PlugInError:
                continue  # a query that calls it tells why
            if function is not None:
                detail = f"{function.usage}: {function.summary}"
        yield Completion(f"{name}(", "function", detail)


def _rank(keyword: str) -> tuple[int, str]:
    """Order keywords: words of expressions, clauses as they follow each other, set operations."""
    if keyword in SET_OPERATIONS:
        return len(CLAUSES) + 1, keyword
    heads = list(_PAIRED)
    head = keyword.split(maxsplit=1)[0]
    return (heads.index(head) + 1 if head in heads else 0), keyword
