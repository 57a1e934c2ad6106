"""``lint()``: rules applied to a view, one after another, and their suspicions made findings.

A suspicion with a condition becomes the rows that meet it; one with rows, a query that names them.
Memory is bounded by a batch of samples, 8 bytes for each row found, and what a rule keeps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.progress import Progress
from tensorlake.dataset.maintenance.lint.report import SEVERITIES, LintFinding, LintReport
from tensorlake.dataset.maintenance.lint.rule import Linted, LintRule, Suspect, plug_ins
from tensorlake.dataset.maintenance.lint.rules import (
    boxes,
    classes,
    images,
    numbers,
    sounds,
    splits,
    times,
)
from tensorlake.errors import (
    InvalidInputError,
    QueryLimitError,
    StorageError,
    did_you_mean,
    shown,
)
from tensorlake.quantities import human_nbytes
from tensorlake.versions import stored_chunks

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["BUILT_IN", "known_rules", "lint"]

Int64Array = npt.NDArray[np.int64]

BUILT_IN: tuple[LintRule, ...] = (
    *(numbers.NOT_FINITE, numbers.CONSTANT),
    *(boxes.NO_AREA, boxes.OUTSIDE),
    *(images.UNREADABLE, images.ODD_SIZE),
    sounds.SILENCE,
    classes.ALIKE,
    times.OUT_OF_ORDER,
    splits.LEAKAGE,
)
ROWS_LISTED = 10_000
"""Rows that a finding lists, and a query names: TQL of 10,000 numbers is parsed in a second."""


def known_rules() -> dict[str, LintRule]:
    """Return the rules by name: those that come with tensorlake, then those of plug-ins.

    Raises:
        UnsupportedFeatureError: A plug-in cannot be loaded, or has the name of another rule.
    """
    rules = {rule.name: rule for rule in BUILT_IN}
    for rule in plug_ins():
        if rule.name in rules:
            raise InvalidInputError(
                f"two lint rules are named {rule.name!r}\nuninstall a plug-in that provides one",
                actual=rule.name,
            )
        rules[rule.name] = rule
    return rules


def lint(
    view: Linted,
    rules: Sequence[str | LintRule] | None,
    *,
    timeout_s: float | None,
    max_nbytes: int | None,
    progress: bool | None,
) -> LintReport:
    """Apply rules to a view; see ``Rows.lint``."""
    rows = view.__rowset__
    if not rows.has_rows:
        raise InvalidInputError(
            "lint() needs rows of a dataset, and these are groups or values of a query"
            "\ngive the dataset, or a view of its rows"
        )
    applied = _chosen(rules)
    if max_nbytes is not None:
        _refuse_above(rows, max_nbytes)
    limited = _Limited(view, None if timeout_s is None else time.monotonic() + timeout_s, timeout_s)
    findings: list[LintFinding] = []
    what = f"lint {rows.url}"
    with Progress(what, total=len(applied), rows=len(applied), shown=progress) as bar:
        for rule in applied:
            findings += _found(limited, rule)
            bar.advance(1, 1)
    findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    names = tuple(rule.name for rule in applied)
    return LintReport(rows.url, rows.version, len(rows), names, tuple(findings))


@dataclass(frozen=True, slots=True)
class _Limited:
    """A view whose queries and column reads end at a deadline."""

    view: Any
    deadline: float | None
    timeout_s: float | None

    @property
    def __rowset__(self) -> RowSet:
        self._left()  # rules that read by themselves ask for it batch by batch
        return self.view.__rowset__

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, key: Any) -> Any:
        self._left()
        return self.view[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def query(self, tql: str, /, **options: Any) -> Any:
        return self.view.query(tql, **{"timeout": self._left()} | options)

    def where(self, condition: str, /) -> Any:
        return self.query(f"WHERE {condition}")

    def _left(self) -> float | None:
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise QueryLimitError(
                f"lint of {self.view.url!r} took longer than timeout={self.timeout_s:g} s"
                "\nallow more time, name fewer rules=, or lint a sample: ds.sample(1000).lint()"
            )
        return left


def _chosen(rules: Sequence[str | LintRule] | None) -> list[LintRule]:
    known = known_rules()
    if rules is None:
        return list(known.values())
    several = isinstance(rules, Sequence) and not isinstance(rules, str)
    chosen: list[LintRule] = []
    for rule in rules if several else [rules]:
        if isinstance(rule, str) and rule in known:
            chosen.append(known[rule])
        elif isinstance(rule, LintRule):
            chosen.append(rule)
        else:
            hint = did_you_mean(rule, known) if isinstance(rule, str) else ""
            raise InvalidInputError(
                f"there is no lint rule {shown(rule)}{hint}\nrules: {', '.join(known)}",
                argument="rules",
                actual=rule,
            )
    return chosen


def _refuse_above(rows: RowSet, max_nbytes: int) -> None:
    """Refuse to read rows whose tensors take more bytes, by their share of the stored ones."""
    snapshot = rows.selection.snapshot
    specs = (snapshot.spec(name) for name in rows.selection.columns)
    stored = sum(
        int(stored_chunks(snapshot.extents(spec.id)).nbytes.sum())
        for spec in specs
        if not spec.is_virtual
    )
    needed = stored * len(rows) // max(1, snapshot.num_rows)
    if needed > max_nbytes:
        few = max(1, len(rows) * max_nbytes // needed)
        raise QueryLimitError(
            f"lint of {rows.url!r} would read about {human_nbytes(needed)} of {len(rows):,} rows,"
            f" above max_bytes={human_nbytes(max_nbytes)}"
            f"\nlint a sample: ds.sample({few}).lint(), or some columns: ds.select(…).lint()"
        )


def _found(view: _Limited, rule: LintRule) -> Iterable[LintFinding]:
    try:
        for suspect in rule.find(view):
            finding = _finding(view, rule, suspect)
            if finding is not None:
                yield finding
    except (QueryLimitError, StorageError):
        raise  # not of the rule
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise InvalidInputError(
            f"the lint rule {rule.name!r} failed: {type(error).__name__}: {first}"
            "\nreport this to its author; to lint without it, name the others: rules=[…]",
            argument="rules",
            actual=rule.name,
        ) from error


def _finding(view: _Limited, rule: LintRule, suspect: Suspect) -> LintFinding | None:
    if (
        not isinstance(suspect, Suspect)  # pyright: ignore[reportUnnecessaryIsInstance] - rules give anything
        or suspect.severity not in SEVERITIES
        or suspect.column not in view.schema
    ):
        raise InvalidInputError(
            f"it gave {suspect!r:.200}, and a suspect has a column of the dataset, and one of the"
            f" severities {', '.join(map(repr, SEVERITIES))}",
            actual=suspect,
        )
    if suspect.rows is None:
        found: Int64Array = view.where(suspect.condition).rows
    else:
        found = view.__rowset__.rows[np.asarray(suspect.rows, np.int64)]
    if not len(found):
        return None
    query = f"WHERE {suspect.condition}" if suspect.condition else _naming(suspect.rows or ())
    return LintFinding(
        rule.name,
        suspect.severity,
        suspect.what,
        suspect.column,
        found[:ROWS_LISTED],
        len(found),
        query,
        suspect.remedy,
    )


def _naming(positions: Sequence[int]) -> str:
    """Write the query of rows by their numbers, ascending, runs of three and more as ranges."""
    kept = np.asarray(positions[:ROWS_LISTED], np.int64)
    runs = np.split(kept, np.flatnonzero(np.diff(kept) != 1) + 1)
    is_long = [len(run) > 2 for run in runs]  # noqa: PLR2004 - a range has two numbers
    terms = [
        f"ROW_NUMBER() BETWEEN {run[0]} AND {run[-1]}"
        for run, long in zip(runs, is_long, strict=True)
        if long
    ]
    single = [run.tolist() for run, long in zip(runs, is_long, strict=True) if not long]
    if single:
        terms.append(f"ROW_NUMBER() IN ({', '.join(map(str, chain.from_iterable(single)))})")
    return f"WHERE {' OR '.join(terms)}"
