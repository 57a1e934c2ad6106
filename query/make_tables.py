"""Turn `tql.lark` into the tables that the package ships: `python query/make_tables.py`.

Lark reads the grammar and builds the LALR automaton; what a parser needs of it goes to one JSON
file, which loads in milliseconds and needs no Lark (`tensorlake_query/syntax/lalr.py` drives it).
The viewer's list of keywords is written beside it. Tests make both again and compare, so that the
files cannot drift apart.

    symbols   terminals, then rules; a number below means a place in this list
    rows      distinct rows of the automaton: [symbol, action, …]; action ≥ 0 goes to that state,
              action < 0 reduces by rule ~action
    states    row of each state
    starts    start rule → [state, accepting state]
    rules     [symbol, name, [what becomes of each part], [absent parts before each], expands]
    keywords  word → [[terminal, pattern after the word or null], …], the strongest first
    literals  symbol text → terminal
    patterns  the terminals that are neither
    reserved  words that are names only in double quotes
"""

import json
import re
from pathlib import Path
from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

PACKAGE = Path(__file__).parent / "tensorlake_query/syntax"
KEYWORDS = Path(__file__).parents[1] / "viewer/src/query/keywords.json"
CONSTANTS = {"NULL", "TRUE", "FALSE"}
STARTS = ["query", "predicate", "change"]
DROP, KEEP, INLINE = 0, 1, 2
_KEYWORD = re.compile(r"([a-z]+)(.*)\Z", re.DOTALL)


def made_tables(grammar: str) -> dict[str, Any]:
    """Return the tables of a grammar."""
    lark = Lark(
        grammar, parser="lalr", start=STARTS, propagate_positions=True, maybe_placeholders=True
    )
    # Lark keeps the automaton inside its parser, untyped
    automaton: Any = lark.parser.parser._parse_table  # noqa: SLF001 no other way in  # pyright: ignore[reportPrivateUsage]
    terminals = [each.name for each in lark.terminals if each.name not in lark.ignore_tokens]
    names = {rule.origin.name for rule in lark.rules}
    symbols = [*sorted(terminals), "$END", *sorted(names)]
    number = {name: place for place, name in enumerate(symbols)}
    rules = sorted(lark.rules, key=str)
    rule_number = {rule: place for place, rule in enumerate(rules)}
    order = _reached(automaton)
    state_number = {state: place for place, state in enumerate(order)}
    rows: dict[str, int] = {}
    states: list[int] = []
    for state in order:
        row: list[int] = []
        for symbol, (action, target) in sorted(automaton.states[state].items()):
            if symbol in number:
                to = state_number[target] if action is Shift else ~rule_number[target]
                row += [number[symbol], to]
        states.append(rows.setdefault(json.dumps(row), len(rows)))
    keywords, literals, patterns, reserved = _terminals(lark)
    return {
        "symbols": symbols,
        "terminals": len(terminals) + 1,
        "rows": [json.loads(row) for row in rows],
        "states": states,
        "starts": {
            start: [
                state_number[automaton.start_states[start]],
                state_number[automaton.end_states[start]],
            ]
            for start in STARTS
        },
        "rules": [_rule(rule, number) for rule in rules],
        "keywords": keywords,
        "literals": literals,
        "patterns": patterns,
        "reserved": reserved,
    }


def written_tables() -> str:
    """Return the text of the tables of the shipped grammar."""
    tables = made_tables((PACKAGE / "tql.lark").read_text(encoding="utf-8"))
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in tables.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _reached(automaton: Any) -> list[int]:
    """Return the states in the order in which they are reached: Lark numbers them at random."""
    order = [automaton.start_states[start] for start in STARTS]
    known = set(order)
    for state in order:
        for _, (action, target) in sorted(automaton.states[state].items()):
            if action is Shift and target not in known:
                known.add(target)
                order.append(target)
    return order


def _rule(rule: Rule, number: dict[str, int]) -> list[Any]:
    fates = [
        (DROP if symbol.filter_out else KEEP)  # pyright: ignore[reportAttributeAccessIssue]  a terminal
        if symbol.is_term
        else (INLINE if symbol.name.startswith("_") else KEEP)
        for symbol in rule.expansion
    ]
    absent = [0] * (len(fates) + 1)
    place = 0
    for is_absent in rule.options.empty_indices:
        absent[place] += is_absent
        place += not is_absent
    expands = rule.options.expand1 and not rule.alias
    return [number[rule.origin.name], rule.alias or rule.origin.name, fates, absent, int(expands)]


def _terminals(
    lark: Lark,
) -> tuple[dict[str, list[Any]], dict[str, str], dict[str, str], list[str]]:
    keywords: dict[str, list[Any]] = {}
    literals: dict[str, str] = {}
    patterns: dict[str, str] = {}
    for terminal in sorted(lark.terminals, key=lambda each: (-each.priority, each.name)):
        pattern = terminal.pattern.value
        word = _KEYWORD.match(pattern)
        if terminal.name in lark.ignore_tokens:
            patterns[terminal.name] = pattern
        elif terminal.pattern.type == "str":
            literals[pattern] = terminal.name
        elif terminal.name == "COMPARE":
            literals |= dict.fromkeys(re.findall(r"[=!<>]+", pattern.replace("?:", "")), "COMPARE")
        elif terminal.pattern.flags and word and terminal.name != "NAME":
            rest = None if word[2] == r"\b" else word[2]
            keywords.setdefault(word[1], []).append([terminal.name, rest])
        else:
            patterns[terminal.name] = pattern
    excluded = re.match(r"\(\?!\(\?:([a-z|]+)\)", patterns["NAME"])
    assert excluded is not None, "NAME excludes the reserved words"
    return keywords, literals, patterns, excluded[1].split("|")


def written_keywords() -> str:
    """Return the words that the viewer's editor colours, as its JSON file has them."""
    tables = made_tables((PACKAGE / "tql.lark").read_text(encoding="utf-8"))
    words = {word.upper() for word in tables["keywords"]}
    lists = {"keywords": sorted(words - CONSTANTS), "constants": sorted(CONSTANTS)}
    return json.dumps(lists, indent=2) + "\n"


if __name__ == "__main__":
    (PACKAGE / "tql.tables.json").write_text(written_tables(), encoding="utf-8")
    KEYWORDS.write_text(written_keywords(), encoding="utf-8")
