"""What could come next in a query that is being written: words for an editor to offer.

The parser says which kinds of token its grammar takes at the cursor; the schema and the function
table say which names of those kinds exist. After a comparison with a class-label tensor these are
its class names.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tensorlake_query.functions import FUNCTIONS
from tensorlake_query.functions.aggregates import AGGREGATES
from tensorlake_query.lalr import accepted_after
from tensorlake_query.parser import MAX_TEXT
from tensorlake_query.printer import print_name
from tensorlake_query.source import ColumnType
from tensorlake_query.types import describe

_WORD = re.compile(r"[\w\"']*\Z")
_QUOTED = re.compile(r"\"[^\"]*\"|'(?:[^']|'')*(?P<end>'|\Z)")
_LABEL = re.compile(
    r'(?:"?(\w+)"?\s*(?:==?|!=|<>|\bIN\s*\((?:\s*\'[^\']*\'\s*,)*)'
    r'|\bCONTAINS\s*\(\s*"?(\w+)"?\s*,)\s*\Z',
    re.IGNORECASE,
)
_KEYWORD = re.compile(r"_?[A-Z]{2,}\Z")
_PAIRED = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}
_NOT_WORDS = frozenset(
    {"NUMBER", "TEXT", "NAME", "QUOTED", "PARAMETER", "COMPARE", "CONCAT", "ARROW", "PLUS", "MINUS",
     "STAR", "SLASH", "MODULO", "POWER", "COMMA", "COLON", "LPAR", "RPAR", "LSQB", "RSQB"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Completion:
    """One offer: the text that replaces the word at the cursor, and what it is."""

    text: str
    kind: Literal["tensor", "class", "function", "keyword"]
    detail: str


def complete(text: str, cursor: int, schema: Mapping[str, ColumnType]) -> tuple[Completion, ...]:
    """Return what the word before the cursor could become, the most specific kinds first."""
    before = text[: min(cursor, MAX_TEXT)]
    start = _word_start(before)
    before, word = before[:start], before[start:]
    folded = word.strip("\"'").casefold()
    return tuple(
        offer
        for offer in _offers(before, schema)
        if offer.text.strip("\"'").casefold().startswith(folded)
        and (offer.kind == "class" or not word.startswith("'"))
    )


def _word_start(before: str) -> int:
    """Where the word at the end begins; a text that is still open is one word, spaces and all."""
    for quoted in _QUOTED.finditer(before):
        if quoted["end"] == "":
            return quoted.start()
    word = _WORD.search(before)
    return word.start() if word else len(before)


def _offers(before: str, schema: Mapping[str, ColumnType]) -> Iterator[Completion]:
    label = _LABEL.search(before)
    tensor = (label.group(1) or label.group(2)) if label else ""
    names = schema[tensor].names if tensor in schema else None
    for name in filter(None, names or ()):  # a class that was dropped has none
        escaped = name.replace("'", "''")
        yield Completion(f"'{escaped}'", "class", f"class of {tensor}")
    kinds = accepted_after(before, "query")
    if "NAME" in kinds:
        for name, column_type in schema.items():
            yield Completion(print_name(name), "tensor", describe(column_type))
        for function in FUNCTIONS.values():
            yield Completion(
                f"{function.name}(", "function", f"{function.usage}: {function.summary}"
            )
        for name in sorted(AGGREGATES):
            yield Completion(f"{name}(", "function", "across rows, or across each group")
    for kind in sorted(kinds):
        keyword = kind.removeprefix("_")
        if _KEYWORD.match(kind) and keyword not in _NOT_WORDS:
            yield Completion(_PAIRED.get(keyword, keyword), "keyword", "keyword")
