"""Class names that differ only by case, spaces or punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import tensorlake_query as tql
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect
from tensorlake.types import ClassLabel, Text

__all__ = ["ALIKE"]

JOINERS = re.compile(r"[\s_,;:!?'\"()/]+|(?<!\d)[.](?!\d)|(?<=[^\W\d_])-(?=[^\W\d_])")
"""Spaces, commas and the like; points and dashes between words, not those of numbers."""

SEEN_FIRST = 10_000
CLASSES_MAX = 500
"""Different texts among the first rows, up to which a column of texts is one of classes."""


def _alike(view: Linted) -> Iterator[Suspect]:
    for name, kind in view.schema.items():
        column = tql.print_name(name)
        if isinstance(kind, ClassLabel):
            is_list = kind.multi or kind.per is not None
            names: Iterable[str] = filter(None, kind.names)
            remedy = "map the rows to one name, and drop the other class"
        elif isinstance(kind, Text):
            is_list = False
            names = _texts(view, column)
            remedy = "give the rows one spelling; a ClassLabel would refuse the other"
        else:
            continue
        for group in _groups(names):
            tests = [
                f"CONTAINS({column}, {_text(each)})" if is_list else f"{column} = {_text(each)}"
                for each in group
            ]
            counts = [len(view.where(test)) for test in tests]
            usual = counts.index(max(counts))
            others = [each for at, each in enumerate(group) if at != usual]
            what = f"has {', '.join(map(repr, others))} beside {group[usual]!r}"
            condition = " OR ".join(test for at, test in enumerate(tests) if at != usual)
            yield Suspect(name, what, condition, remedy)


def _groups(names: Iterable[str]) -> list[list[str]]:
    """Group names by their words and signs; groups of one are left out.

    Signs that mean something (C++, C#, -1, 1.0, 50%) count, those that join words do not.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        key = JOINERS.sub("", name.casefold())
        if key:
            groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _texts(view: Linted, column: str) -> list[str]:
    """Return the different texts of a column that has few."""
    first = view[:SEEN_FIRST].query(f"SELECT COUNT(DISTINCT {column}) AS n").item()
    if not 1 < first <= min(CLASSES_MAX, len(view) // 2):
        return []
    groups = view.query(f"SELECT {column} AS name, COUNT(*) AS n GROUP BY {column}")
    return [str(each) for each in groups["name"] if each is not None]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


ALIKE = LintRule("similar-classes", "class names that differ only by case or spaces", _alike)
