"""The state of a check: its findings, and facts to compare later ones with."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.format import PackId
from tensorlake.storage import Store
from tensorlake.versions.log.findings import RESTORE, Findings
from tensorlake.versions.packs.reader import PackReader
from tensorlake.versions.reachability import PageKey
from tensorlake.versions.verify.bytes import RangeVerifier
from tensorlake.versions.verify.mark import Mark

__all__ = ["RERUN", "UPGRADE", "CheckRun", "LogFacts", "add_unsupported"]

UPGRADE = "install a newer tensorlake"
RERUN = "run check(repair=True)"
BEYOND_REPAIR = (
    f"the repair could not recover it: {RESTORE}, or go back to a whole version with"
    " ds.restore(version) and expire the others"
)


@dataclass(slots=True)
class LogFacts:
    """Facts recorded of one branch's log."""

    branch: str
    newest: int = -1
    expired_before: int = 0
    is_ended: bool = False
    digests: dict[int, str] = field(default_factory=dict[int, str])
    commits: int = 0
    unchanged: int = (
        -1
    )  # the newest entry that an earlier check verified and that is listed unchanged
    listed: str = ""


@dataclass(slots=True)
class CheckRun:
    """The state of a check."""

    store: Store
    packs: PackReader
    findings: Findings
    ranges: RangeVerifier
    logs: dict[str, LogFacts] = field(default_factory=dict[str, LogFacts])
    foreign: list[tuple[str, str, int, str]] = field(
        default_factory=list[tuple[str, str, int, str]]
    )  # (path, branch, seq, digest) cited from another branch
    seen: set[PageKey] = field(default_factory=set[PageKey])
    referenced: set[PackId] = field(default_factory=set[PackId])
    mark: Mark | None = None  # of an earlier check, usable
    is_unsure: bool = False  # whether something here is known only to a newer tensorlake
    entries: int = 0
    versions: int = 0
    unchanged: int = 0
    is_repaired: bool = False  # whether a repair has just done what it can

    @property
    def repair_advice(self) -> str:
        """The advice for damage that a repair may recover."""
        return BEYOND_REPAIR if self.is_repaired else f"{RERUN}, or {RESTORE}"


def add_unsupported(check: CheckRun, path: str, error: UnsupportedFeatureError) -> None:
    """Record an object that only a newer tensorlake can read."""
    first = str(error).splitlines()[0]
    check.is_unsure = True
    check.findings.add(path, first, severity="warning", advice=UPGRADE)
