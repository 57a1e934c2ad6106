"""The record of rows that are forgotten, and the report of it.

    forgotten/<id>.json            before anything changes: the rows, what held them, their packs
    forgotten/<id>-cleaned.json    the newest version of each branch without them, names deleted
    forgotten/<id>-report.json     all of it, once the packs are gone

Each object is put if absent, so that a call that was stopped is continued by the next one. None has
a value, a condition or a digest of either: only ids of rows, names of packs and of versions.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorlake.dataset.maintenance.trace import Trace, VersionRange
from tensorlake.errors import CorruptionError
from tensorlake.format import FORGOTTEN
from tensorlake.quantities import plural
from tensorlake.storage import Store, runtime
from tensorlake.versions import put_surely

__all__ = ["UNREACHED", "ForgetReport", "Forgotten", "read_forgotten"]

FORMAT = "tensorlake-forgotten"
VERSION = 1
UNREACHED = (
    "copies, mirrors and exports",
    "datasets that were made of these rows",
    "caches of readers",
    "backups, and versions of objects that the store itself keeps",
    "messages of commits, and names of tags, branches and runs",
    "ids of the rows in runs, with the values that runs logged",
    "the names of ingested items, in the ledger of ingestions",
)
"""Places of values that a dataset cannot erase."""
EXPIRED = "versions that had the rows have expired: runs that read them can no longer be replayed"


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """Rows that were forgotten, and what held them.

    Attributes:
        rows: The row ids.
        held: The versions, tags, views and runs, with their steps, that held one of them.
        deleted: The tags and saved views that were deleted.
        packs: The packs that had their values.
        bounds: Log entries whose statistics may have bounds of their values; they stay.
        unreached: Where the values may be besides.
        is_finished: Whether the packs are gone.
    """

    rows: tuple[str, ...] = ()
    held: Trace = field(default_factory=lambda: Trace((), (), (), ()))
    deleted: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    bounds: tuple[VersionRange, ...] = ()
    unreached: tuple[str, ...] = UNREACHED
    is_finished: bool = False

    def __str__(self) -> str:
        rows = plural(len(self.rows), "row")
        if not self.rows:
            return "no row meets the condition"
        if not self.is_finished:
            return (
                f"{rows} left every branch; {plural(len(self.packs), 'pack')} with their values"
                " can be collected once the grace time has passed"
                f"\ndeleted tags and views: {', '.join(self.deleted) or 'none'}"
                f"\n{EXPIRED}"
                "\nuntil they are collected they can still be opened, with the rows"
                "\nwrite, once the grace time has passed: ds.forget(finish=True)"
            )
        bounds = ", ".join(map(str, self.bounds)) or "none"
        return "\n".join(
            [
                f"forgot {rows}; {plural(len(self.packs), 'pack')} with their values are gone",
                *(f"  {line}" for line in str(self.held).splitlines()),
                f"deleted tags and views: {', '.join(self.deleted) or 'none'}",
                EXPIRED,
                f"log entries whose statistics may have bounds of the values: {bounds}",
                "not reached:",
                *(f"  {one}" for one in self.unreached),
            ]
        )

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """One call of ``forget``, as recorded."""

    id: str
    begun: Mapping[str, Any]
    cleaned: Mapping[str, Any] | None = None
    is_finished: bool = False

    @classmethod
    def begin(cls, store: Store, packs: Sequence[str], held: Trace) -> Forgotten:
        """Record rows before anything changes."""
        begun = {
            "rows": list(held.row_ids),
            "packs": list(packs),
            "versions": [[one.branch, one.first, one.last] for one in held.versions],
            "tags": list(held.tags),
            "views": list(held.views),
            "runs": {name: list(steps) for name, steps in held.runs.items()},
            "unknown": dict(held.unknown),
        }
        made = cls(secrets.token_hex(16), begun)
        _put(store, f"{FORGOTTEN}{made.id}.json", begun)
        return made

    def put_cleaned(self, store: Store, clean: Mapping[str, int], deleted: Sequence[str]) -> None:
        """Record that no branch and no name has the rows."""
        content = {"clean": dict(clean), "deleted": list(deleted)}
        _put(store, self._path("cleaned"), content)

    def put_report(self, store: Store, report: ForgetReport) -> None:
        """Record the report."""
        bounds = [[one.branch, one.first, one.last] for one in report.bounds]
        content = {**self.begun, "deleted": list(report.deleted), "bounds": bounds}
        _put(store, self._path("report"), content)

    def _path(self, part: str) -> str:
        return f"{FORGOTTEN}{self.id}-{part}.json"

    @property
    def rows(self) -> tuple[str, ...]:
        """The row ids."""
        return tuple(self.begun["rows"])

    @property
    def packs(self) -> tuple[str, ...]:
        """The packs that had values of the rows."""
        return tuple(self.begun["packs"])

    @property
    def report(self) -> ForgetReport:
        """The report so far."""
        begun, cleaned = self.begun, self.cleaned or {}
        versions = tuple(VersionRange(*one) for one in begun["versions"])
        runs = {name: tuple(steps) for name, steps in begun["runs"].items()}
        held = Trace(
            self.rows, versions, tuple(begun["tags"]), tuple(begun["views"]), runs, begun["unknown"]
        )
        deleted, clean = tuple(cleaned.get("deleted", ())), cleaned.get("clean", {})
        bounds = tuple(
            VersionRange(one.branch, one.first, clean.get(one.branch, one.last + 1) - 1)
            for one in versions
        )
        return ForgetReport(
            self.rows, held, deleted, self.packs, bounds, is_finished=self.is_finished
        )


def read_forgotten(store: Store) -> list[Forgotten]:
    """Read the records, sorted by id.

    Raises:
        CorruptionError: One is damaged.
    """

    async def listed() -> list[str]:
        await runtime.to_loop()
        return [meta.path async for meta in store.list(FORGOTTEN)]

    paths = sorted(runtime.run(listed()))
    names = [path.removeprefix(FORGOTTEN).removesuffix(".json") for path in paths]
    found: list[Forgotten] = []
    for name in names:
        if "-" in name:
            continue
        cleaned = f"{FORGOTTEN}{name}-cleaned.json"
        found.append(
            Forgotten(
                name,
                _get(store, f"{FORGOTTEN}{name}.json"),
                _get(store, cleaned) if cleaned in paths else None,
                f"{name}-report" in names,
            )
        )
    return found


def _put(store: Store, path: str, content: Mapping[str, Any]) -> None:
    data = json.dumps({"format": FORMAT, "version": VERSION, **content}, indent=1).encode()
    runtime.run(put_surely(store, path, data))


def _get(store: Store, path: str) -> dict[str, Any]:
    try:
        content = json.loads(runtime.run(store.get(path)) or b"")
    except ValueError as error:
        raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CorruptionError(f"{path!r} is not a record of forgotten rows", object=path)
    return content
