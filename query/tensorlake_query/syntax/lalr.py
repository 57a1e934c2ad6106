"""The parser's motor: the tables of `tql.lark` (made by Lark, shipped as JSON), a lexer, a loop.

    text → tokens → shift or reduce → one call of the builder for each grammar rule

Lark itself is needed only to make the tables: loading it and building its automaton takes far
longer than most queries. The loop uses no recursion. The lexer asks the automaton which keywords it
takes in its present state, so that a word is a keyword only where the grammar has a place for one.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from tensorlake_query.syntax.ast import NOWHERE, Span

DROP, KEEP, INLINE = 0, 1, 2
_END = "$END"


class Token(Struct, frozen=True):
    """A word or sign of the text, as the grammar's terminal `kind`."""

    kind: str
    text: str
    span: Span


class ParseStopError(Exception):
    """The text has no continuation in the grammar at `position`; `expected` could stand there."""

    def __init__(self, position: int, expected: frozenset[str], kind: str) -> None:
        super().__init__(position)
        self.position = position
        self.expected = expected
        self.kind = kind  # of the token found there; "" where no token starts


class Builder(Protocol):
    """Makes a node of each grammar rule."""

    def build(self, rule: str, span: Span, children: list[Any]) -> object:
        """Return the node of a rule from its parts."""
        ...


class Rule(Struct, frozen=True):
    """One rule: what becomes of each part, and how many absent parts stand before each."""

    symbol: int
    name: str
    fates: tuple[int, ...]
    absent: tuple[int, ...]
    expands: bool
    is_plain: bool  # every part is kept, none is absent


class Keyword(Struct, frozen=True):
    """A terminal that a word may be, and what must follow it (None: anything)."""

    kind: str
    rest: re.Pattern[str] | None


class Tables:
    """The automaton of the grammar."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.symbols: list[str] = tables["symbols"]
        self.number = {name: place for place, name in enumerate(self.symbols)}
        self.num_terminals: int = tables["terminals"]
        self.starts: Mapping[str, tuple[int, int]] = tables["starts"]
        self._accepting = {stop for _, stop in self.starts.values()}
        self.reserved = frozenset(tables["reserved"])
        self.literals: Mapping[str, str] = tables["literals"]
        self.words = frozenset(tables["keywords"])
        self._rows: list[Any] = tables["rows"]
        self._states: list[int] = tables["states"]
        self._actions: list[dict[int, int] | None] = [None] * len(self._states)
        self._rules: list[Any] = tables["rules"]
        self._known_rules: list[Rule | None] = [None] * len(self._rules)
        self._keywords: Mapping[str, Any] = tables["keywords"]
        self._known_keywords: dict[str, tuple[Keyword, ...]] = {}
        patterns: Mapping[str, str] = tables["patterns"]
        signs = "|".join(re.escape(sign) for sign in sorted(self.literals, key=len, reverse=True))
        self.lexer = re.compile(
            rf"(?P<SKIP>(?:{patterns['SPACE']}|{patterns['LINE_COMMENT']}"
            rf"|{patterns['BLOCK_COMMENT']})+)"
            rf"|(?P<WORD>[^\W\d]\w*)|(?P<NUMBER>{patterns['NUMBER']})|(?P<TEXT>{patterns['TEXT']})"
            rf"|(?P<QUOTED>{patterns['QUOTED']})|(?P<PARAMETER>{patterns['PARAMETER']})"
            rf"|(?P<SIGN>{signs})"
        )

    def actions(self, state: int) -> dict[int, int]:
        """Return what a state does with each symbol."""
        found = self._actions[state]
        if found is None:
            row = self._rows[self._states[state]]
            found = self._actions[state] = dict(zip(row[::2], row[1::2], strict=True))
        return found

    def rule(self, number: int) -> Rule:
        """Return a rule by its number."""
        found = self._known_rules[number]
        if found is None:
            symbol, name, fates, absent, expands = self._rules[number]
            is_plain = all(fate == KEEP for fate in fates) and not any(absent)
            found = Rule(symbol, name, tuple(fates), tuple(absent), bool(expands), is_plain)
            self._known_rules[number] = found
        return found

    def keywords(self, word: str) -> tuple[Keyword, ...]:
        """Return the keywords that a word in lower case may be, the strongest first."""
        found = self._known_keywords.get(word)
        if found is None:
            found = tuple(
                Keyword(kind, None if rest is None else re.compile(rest, re.IGNORECASE))
                for kind, rest in self._keywords.get(word, ())
            )
            self._known_keywords[word] = found
        return found

    def accepted(self, stack: Sequence[int]) -> frozenset[str]:
        """Return the terminals that can follow, where the automaton stands at `stack`."""
        kinds: set[str] = set()
        for symbol in (*self.actions(stack[-1]), self.number[_END]):
            if symbol < self.num_terminals and self._takes(list(stack), symbol):
                kinds.add(self.symbols[symbol])
        return frozenset(kinds)

    def _takes(self, stack: list[int], symbol: int) -> bool:
        while True:
            action = self.actions(stack[-1]).get(symbol)
            if action is None:
                return stack[-1] in self._accepting and self.symbols[symbol] == _END
            if action >= 0:
                return True
            rule = self.rule(~action)
            if rule.fates:
                del stack[-len(rule.fates) :]
            stack.append(self.actions(stack[-1])[rule.symbol])


@lru_cache(maxsize=1)
def tables() -> Tables:
    """Return the shipped tables, loaded at the first call."""
    # beside this file: importlib.resources takes longer to load than all of the tables
    text = Path(__file__).with_name("tql.tables.json").read_text(encoding="utf-8")
    return Tables(json.loads(text))


def parsed(text: str, start: str, builder: Builder) -> object:
    """Return what the builder makes of a text.

    Raises:
        ParseStopError: the text is not in the grammar.
    """
    automaton = tables()
    initial, accepting = automaton.starts[start]
    states, values, spans = [initial], [], []
    position = 0
    while True:
        token = _next_token(automaton, text, position, states)
        symbol = automaton.number[token.kind]
        while True:
            if states[-1] == accepting and token.kind == _END:
                return values[-1]
            action = automaton.actions(states[-1]).get(symbol)
            if action is None:
                raise ParseStopError(token.span.start, automaton.accepted(states), token.kind)
            if action >= 0:
                break
            _reduce(automaton, automaton.rule(~action), builder, states, values, spans)
        states.append(action)
        values.append(token)
        spans.append(token.span)
        position = token.span.stop


def accepted_after(text: str, start: str) -> frozenset[str]:
    """Return the terminals that could follow a text; none where it has an error."""
    automaton = tables()
    states: list[int] = [automaton.starts[start][0]]
    position = 0
    try:
        while True:
            token = _next_token(automaton, text, position, states)
            if token.kind == _END:
                return automaton.accepted(states)
            symbol = automaton.number[token.kind]
            while (action := automaton.actions(states[-1]).get(symbol, -(10**9))) < 0:
                if action == -(10**9):
                    return frozenset()
                rule = automaton.rule(~action)
                if rule.fates:
                    del states[-len(rule.fates) :]
                states.append(automaton.actions(states[-1])[rule.symbol])
            states.append(action)
            position = token.span.stop
    except ParseStopError:
        return frozenset()


def _next_token(automaton: Tables, text: str, position: int, states: Sequence[int]) -> Token:
    while True:
        found = automaton.lexer.match(text, position)
        if found is None:
            if position == len(text):
                return Token(_END, "", Span(position, position))
            raise ParseStopError(position, automaton.accepted(states), "")
        kind = found.lastgroup
        if kind != "SKIP":
            break
        position = found.end()
    written = found.group()
    stop = found.end()
    if kind == "SIGN":
        return Token(automaton.literals[written], written, Span(position, stop))
    if kind == "WORD":
        kind, stop = _word(automaton, text, position, stop, states)
        written = text[position:stop]
    return Token(str(kind), written, Span(position, stop))


def _word(
    automaton: Tables, text: str, start: int, stop: int, states: Sequence[int]
) -> tuple[str, int]:
    """Return what a word is here, and where it ends: a keyword where one fits, else a name."""
    word = text[start:stop].lower()
    actions = automaton.actions(states[-1])
    for keyword in automaton.keywords(word):
        if automaton.number[keyword.kind] in actions:
            rest = None if keyword.rest is None else keyword.rest.match(text, stop)
            if keyword.rest is None:
                return keyword.kind, stop
            if rest is not None:
                return keyword.kind, rest.end()
    if word in automaton.reserved:  # a keyword out of its place
        raise ParseStopError(start, automaton.accepted(states), "")
    return "NAME", stop


def _reduce(
    automaton: Tables,
    rule: Rule,
    builder: Builder,
    states: list[int],
    values: list[Any],
    spans: list[Span],
) -> None:
    count = len(rule.fates)
    if count:
        parts = values[-count:]
        span = _joined(spans[-count:])
        del values[-count:], spans[-count:], states[-count:]
    else:
        parts, span = [], NOWHERE
    children = parts if rule.is_plain else _children(rule, parts)
    if rule.name.startswith("_"):
        value: object = children
    elif rule.expands and len(children) == 1:
        value = children[0]
    else:
        value = builder.build(rule.name, span, children)
    values.append(value)
    spans.append(span)
    states.append(automaton.actions(states[-1])[rule.symbol])


def _children(rule: Rule, parts: Sequence[Any]) -> list[Any]:
    children: list[Any] = []
    for absent, fate, part in zip(rule.absent, rule.fates, parts, strict=False):
        if absent:
            children += [None] * absent
        if fate == KEEP:
            children.append(part)
        elif fate == INLINE:
            children += part
    children += [None] * rule.absent[-1]
    return children


def _joined(spans: Sequence[Span]) -> Span:
    written = [span for span in spans if span is not NOWHERE]
    if not written:
        return NOWHERE
    return written[0] if len(written) == 1 else Span(written[0].start, written[-1].stop)
