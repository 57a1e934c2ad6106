"""What a check finds: facts about objects that are not as they should be, each with what to do."""

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
    """One thing that is not as it should be.

    Attributes:
        object: The object's path in the dataset, or the version and row of a sample.
        offset: The byte from which on it is not to be trusted; None where it is not about bytes.
        what: What is wrong with it.
        severity: "damage": something a version shows cannot be read, or not be trusted. "warning":
            nothing that a version shows is touched.
        advice: What to do.
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
    """The findings of one check, growing: each object's once, and never more than memory holds."""

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
        """Note a finding."""
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
        """Note what a read of an object found."""
        offset = getattr(error, "offset", None)
        first = str(error).splitlines()[0]
        self.add(path, first, offset=offset, severity=severity)
