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

from tensorlake.dataset.maintenance.trace import Trace, VersionRange, merged_ranges
from tensorlake.errors import CorruptionError
from tensorlake.format import FORGOTTEN
from tensorlake.quantities import plural
from tensorlake.storage import Store, runtime
from tensorlake.versions import CLEANED, put_surely

__all__ = ["UNREACHED", "ForgetReport", "Forgotten", "joined_reports", "read_forgotten"]

FORMAT = "tensorlake-forgotten"
VERSION = 1
UNREACHED = (
    "exports and copies, and mirrors that are not brought up to date",
    "datasets that were made of these rows",
    "caches of readers",
    "backups, and versions of objects that the store itself keeps",
    "messages of commits, and names of tags, branches and runs",
    "ids of the rows in runs, with the values that runs logged",
    "queries and configs of runs that tell of a row in other words than its own",
    "the names of ingested items, in the ledger of ingestions",
)
"""Places of values that a dataset cannot erase."""
EXPIRED = (
    "versions that had the rows have expired and cannot be opened; runs that read them are replayed"
    " with holes, where their orders need no values of the rows"
)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """Rows that were forgotten, and what held them.

    Attributes:
        rows: The row ids.
        held: The versions, tags, views and runs, with their steps, that held one of them.
        deleted: The tags and saved views that were deleted.
        renamed: By such a name, the name of the same rows without these.
        redacted: The runs whose queries or config had values of them, replaced by ``***``.
        packs: The packs that had their values.
        bounds: Log entries whose statistics may have bounds of their values; they stay.
        bounded: The tensors that these are of: all but those declared ``personal=True``.
        unreached: Where the values may be besides.
        is_finished: Whether the packs are gone.
        is_new: Whether they are of the call that returned it; else of earlier ones.
    """

    rows: tuple[str, ...] = ()
    held: Trace = field(default_factory=lambda: Trace((), (), (), ()))
    deleted: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    redacted: tuple[str, ...] = ()
    packs: tuple[str, ...] = ()
    bounds: tuple[VersionRange, ...] = ()
    bounded: tuple[str, ...] = ()
    unreached: tuple[str, ...] = UNREACHED
    is_finished: bool = False
    is_new: bool = True

    def __str__(self) -> str:
        rows = plural(len(self.rows), "row")
        if not self.rows:
            return "no row meets the condition"
        names = [
            f"deleted tags and views: {', '.join(map(self._now, self.deleted)) or 'none'}",
            f"runs whose queries or config had the values: {', '.join(self.redacted) or 'none'}",
            EXPIRED,
        ]
        packs = plural(len(self.packs), "pack")
        are = "is" if len(self.rows) == 1 else "are"
        bounded = ", ".join(self.bounded) or "the values"
        if not self.is_finished:
            before = "" if self.is_new else "no other row meets the condition; of earlier calls "
            waits = "with their values can be collected once the grace time has passed"
            return "\n".join(
                [
                    f"{before}{rows} {are} in no branch any more; {packs} {waits}",
                    *names,
                    "write, once the grace time has passed: ds.forget(finish=True)",
                ]
            )
        bounds = ", ".join(map(str, self.bounds)) or "none"
        return "\n".join(
            [
                f"forgot {rows}; {packs} with their values are gone",
                *(f"  {line}" for line in str(self.held).splitlines()),
                *names,
                f"log entries whose statistics may have bounds of {bounded}: {bounds}",
                "not reached:",
                *(f"  {one}" for one in self.unreached),
            ]
        )

    def _now(self, name: str) -> str:
        return f"{name} (now {self.renamed[name]})" if name in self.renamed else name

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
    def begin(cls, store: Store, held: Trace, found: Mapping[str, Any]) -> Forgotten:
        """Record rows before anything changes.

        Args:
            store: The dataset's store.
            held: Versions, names and runs with the rows.
            found: By name: the ``packs`` with their values, the ``branches`` with these, the tags
                and views that will be deleted (``names``), the names of the rest (``renamed``),
                tags of versions that runs read (``run_tags``), runs with texts of them
                (``redacted``), tensors that have bounds (``bounded``).
        """
        begun = {
            **found,
            "rows": list(held.row_ids),
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
        _put(store, f"{FORGOTTEN}{self.id}{CLEANED}", content)

    def put_report(self, store: Store, report: ForgetReport) -> None:
        """Record the report."""
        bounds = [[one.branch, one.first, one.last] for one in report.bounds]
        content = {**self.begun, "deleted": list(report.deleted), "bounds": bounds}
        _put(store, f"{FORGOTTEN}{self.id}-report.json", content)

    @property
    def rows(self) -> tuple[str, ...]:
        """The row ids."""
        return tuple(self.begun["rows"])

    @property
    def packs(self) -> tuple[str, ...]:
        """The packs that had values of the rows."""
        return tuple(self.begun["packs"])

    @property
    def branches(self) -> tuple[str, ...]:
        """The branches with versions that had values of the rows."""
        return self._strings("branches") or tuple({one for one, *_ in self.begun["versions"]})

    @property
    def names(self) -> tuple[str, ...]:
        """The tags and saved views that are deleted."""
        return self._strings("names")

    @property
    def renamed(self) -> dict[str, str]:
        """The name of what is left of each of them."""
        return dict(self.begun.get("renamed", {}))

    @property
    def run_tags(self) -> dict[str, str]:
        """The tag of what is left of each version that runs read."""
        return dict(self.begun.get("run_tags", {}))

    def _strings(self, name: str) -> tuple[str, ...]:
        return tuple(self.begun.get(name, ()))  # earlier records do not have all

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
        bounded = self._strings("bounded")
        return ForgetReport(
            self.rows,
            held,
            deleted,
            self.renamed,
            self._strings("redacted"),
            self.packs,
            bounds if bounded or "bounded" not in self.begun else (),
            bounded,
            is_finished=self.is_finished,
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
        cleaned = f"{FORGOTTEN}{name}{CLEANED}"
        found.append(
            Forgotten(
                name,
                _get(store, f"{FORGOTTEN}{name}.json"),
                _get(store, cleaned) if cleaned in paths else None,
                f"{name}-report" in names,
            )
        )
    return found


def joined_reports(parts: Sequence[Forgotten]) -> ForgetReport:
    """Return the reports of several calls as one."""
    reports = [one.report for one in parts]
    if len(reports) == 1:
        return reports[0]
    held = [one.held for one in reports]
    runs = {
        name: tuple(sorted({step for one in held for step in one.runs.get(name, ())}))
        for name in dict.fromkeys(name for one in held for name in one.runs)
    }

    def all_of(name: str, of: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(value for one in of for value in getattr(one, name)))

    together = Trace(
        all_of("row_ids", held),
        merged_ranges(all_of("versions", held)),
        all_of("tags", held),
        all_of("views", held),
        runs,
        {name: why for one in held for name, why in one.unknown.items()},
    )
    return ForgetReport(
        all_of("rows", reports),
        together,
        all_of("deleted", reports),
        {name: new for one in reports for name, new in one.renamed.items()},
        all_of("redacted", reports),
        all_of("packs", reports),
        merged_ranges(all_of("bounds", reports)),
        all_of("bounded", reports),
        is_finished=bool(reports) and all(one.is_finished for one in reports),
    )


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
