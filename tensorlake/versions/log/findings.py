"""Findings of a check: problems of objects, each with advice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tensorlake.errors import CorruptionError

__all__ = ["RESTORE", "Finding", "Findings", "Severity"]

Severity = Literal["damage", "warning"]

KEPT_MAX = 10_000
"""Findings kept in memory; more are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem found by a check.

    Attributes:
        object: The object's path in the dataset, or the version and row of a sample.
        offset: The byte from which on it is unreliable; None if the problem is not about bytes.
        what: The problem.
        severity: "damage": data that a version shows cannot be read or is unreliable. "warning":
            no data that a version shows is affected.
        advice: The action to take.
    """

    object: str
    offset: int | None
    what: str
    severity: Severity
    advice: str

    def __str__(self) -> str:
        where = self.object if self.offset is None else f"{self.object} at byte {self.offset:,}"
        return f"{self.severity}: {where}: {self.what}; {self.advice}"


RESTORE = "restore it from a copy"


@dataclass(slots=True)
class Findings:
    """The findings of one check: each object's once, bounded in memory."""

    kept: list[Finding] = field(default_factory=list[Finding])
    left_out: int = 0
    _seen: set[tuple[str, int | None, str]] = field(
        default_factory=set[tuple[str, int | None, str]]
    )

    def add(
        self,
        path: str,
        what: str,
        *,
        offset: int | None = None,
        severity: Severity = "damage",
        advice: str = RESTORE,
    ) -> None:
        """Add a finding."""
        key = (path, offset, what if offset is None else "")
        if key in self._seen:
            return
        if len(self.kept) >= KEPT_MAX:
            self.left_out += 1
            return
        self._seen.add(key)
        self.kept.append(Finding(path, offset, what, severity, advice))

    def add_error(
        self, path: str, error: CorruptionError, *, severity: Severity = "damage"
    ) -> None:
        """Add the error of reading an object."""
        offset = getattr(error, "offset", None)
        first = str(error).splitlines()[0]
        self.add(path, first, offset=offset, severity=severity)
