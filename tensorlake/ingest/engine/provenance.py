"""Provenance: the record of its source in each commit of an ingestion, to recognise it again.

    meta["ingest"]   run        the call: "create", or a unique name for each append
                     what       the format and other inputs that determine the rows; prefix of keys
                     from       the source's name, for messages
                     settings   arguments of the call that determine the rows: name → text, digest
                     stop       items ingested so far, in the order of the source
                     digest     of the names, sizes and times of these items
                     is_last    whether the source had no more items
                     files      number of files that this commit has rows of
                     marks      eight bytes for each group of files, in base 85; `edges`: the ends
                     per        approximate number of files per group: 1 up to ``MAX_MARKS`` files
                     skipped    items left out, if any: their number, and the first of them

The digest alone decides whether a source is unchanged. Marks identify differences: three bytes of
the hash of a file's path in the source, five of the hash of its base name, size and time. The hash
of a path determines where groups begin, so that an additional file changes the mark of one group.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from xxhash import xxh3_64_intdigest

from tensorlake.dataset import Commit, SkippedItem
from tensorlake.format import MAX_META_NBYTES, canonical_bytes
from tensorlake.ingest.engine.source import Item, Source
from tensorlake.types import SampleType

__all__ = ["MEMBER", "Differences", "Files", "Note", "Run", "Skipped", "read_runs", "settings_of"]

MEMBER = "ingest"
MAX_MARKS = 1280
"""Per commit record: `meta` has 16 KiB (format.md), a mark takes 10 characters, and everything else
less than 3 KiB."""

MARK = np.dtype("<u8")
STATE_BITS = np.uint64(40)
SHOWN_MAX = 60
"""Characters of a setting, or of a source's name, that are stored as text."""

MAX_SKIPPED_NBYTES = 2048
"""Limit of a note for the names of items left out, as far as the marks leave room."""

REASON_MAX = 120
"""Characters of the reason why an item was left out."""

Settings = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Items that were left out: their number, and the first of them."""

    count: int = 0
    named: Sequence[SkippedItem] = ()

    @classmethod
    def of(cls, items: Sequence[SkippedItem], room: int) -> Skipped:
        """Name as many as fit into ``room`` bytes."""
        named: list[SkippedItem] = []
        for item in items:
            reason = item.reason
            if len(reason) > REASON_MAX:
                reason = f"{reason[: REASON_MAX - 1]}…"
            shown = SkippedItem(_as_utf8(item.item), _as_utf8(reason), item.tensor)
            room -= len(canonical_bytes(_skipped_to_json(shown))) + 1
            if room < 0:
                break
            named.append(shown)
        return cls(len(items), named)

    @classmethod
    def from_json(cls, noted: Mapping[str, Any] | None) -> Skipped:
        """Read the items left out from a note; notes without any have no member."""
        if noted is None:
            return cls()
        return cls(noted["count"], [SkippedItem(*one) for one in noted["first"]])

    def to_json(self) -> dict[str, Any]:
        """Write a member of a note."""
        return {"count": self.count, "first": [_skipped_to_json(one) for one in self.named]}


@dataclass(frozen=True, slots=True)
class Note:
    """The note of one commit; its members are described above."""

    run: str
    what: str
    place: str
    settings: Settings
    stop: int
    digest: str
    is_last: bool
    num_files: int
    per: int
    edges: tuple[int, int]
    marks: np.ndarray
    skipped: Skipped = field(default_factory=Skipped)

    def to_json(self) -> dict[str, Any]:
        """Write the note as a member of `meta`."""
        skipped = {"skipped": self.skipped.to_json()} if self.skipped.count else {}
        return {
            **skipped,
            "run": self.run,
            "what": self.what,
            "from": self.place,
            "settings": {name: [*one] for name, one in self.settings.items()},
            "stop": self.stop,
            "digest": self.digest,
            "is_last": self.is_last,
            "files": self.num_files,
            "per": self.per,
            "edges": [*self.edges],
            "marks": base64.b85encode(self.marks.tobytes()).decode(),
        }

    @classmethod
    def from_json(cls, noted: Mapping[str, Any]) -> Note:
        """Read a note."""
        marks = np.frombuffer(base64.b85decode(noted["marks"]), MARK)
        first, last = noted["edges"]
        settings = {name: (text, digest) for name, (text, digest) in noted["settings"].items()}
        return cls(
            noted["run"],
            noted["what"],
            noted["from"],
            settings,
            noted["stop"],
            noted["digest"],
            noted["is_last"],
            noted["files"],
            noted["per"],
            (first, last),
            marks,
            Skipped.from_json(noted.get("skipped")),
        )

    @classmethod
    def of(
        cls,
        run: str,
        source: Source[Item],
        stop: int,
        digest: str,
        batch: range,
        skipped: Sequence[SkippedItem] = (),
    ) -> Note:
        """Record that a commit of ``batch`` ingests a source up to an item."""
        files = Files.of(source, batch)
        per = 1
        while len(starts := files.starts(per)) > MAX_MARKS:
            per *= 2
        note = cls(
            run,
            source.key_start,
            source.place[:SHOWN_MAX],
            settings_of(source),
            stop,
            digest,
            stop == len(source.items),
            len(files.paths),
            per,
            files.edges,
            files.marks(starts),
            Skipped(len(skipped)),
        )
        used = len(canonical_bytes({MEMBER: note.to_json()}))
        room = min(MAX_SKIPPED_NBYTES, MAX_META_NBYTES - used)
        return replace(note, skipped=Skipped.of(skipped, room))


@dataclass(frozen=True, slots=True)
class Run:
    """The commits of one call, and of the calls that continued it after a crash."""

    notes: Sequence[Note]
    num_rows: int

    @property
    def last(self) -> Note:
        """The newest note; its digest covers all items."""
        return self.notes[-1]

    @property
    def num_files(self) -> int:
        """Number of files ingested; a file that several commits share counts in each."""
        return sum(note.num_files for note in self.notes)

    @property
    def skipped(self) -> Skipped:
        """Items left out."""
        each = [note.skipped for note in self.notes]
        named = [item for one in each for item in one.named]
        return Skipped(sum(one.count for one in each), named)

    def is_start_of(self, source: Source[Item]) -> bool:
        """Whether its items are the first of this source, and unchanged."""
        stop = self.last.stop
        return stop <= len(source.items) and source.digest(stop) == self.last.digest

    def is_whole(self, source: Source[Item]) -> bool:
        """Whether its items are all of this source, and unchanged."""
        return (
            self.last.is_last and self.last.stop == len(source.items) and self.is_start_of(source)
        )

    def known(self, files: Files) -> list[str]:
        """List the files already ingested and unchanged since, under this path or another.

        For a commit of more than ``MAX_MARKS`` files, only whole groups are recognised.
        """
        found: set[int] = set()
        for note in self.notes:
            starts = files.starts(note.per, note.edges)
            is_known = np.isin(_states(files.marks(starts)), _states(note.marks))
            found.update(files.in_groups(starts, is_known))
        return [files.paths[at] for at in sorted(found)]

    def differences(self, files: Files) -> Differences:
        """Compare a source with its state at the time of this run."""
        same, changed = set[int](), set[int]()
        removed = 0
        for note in self.notes:
            starts = files.starts(note.per, note.edges)
            marks = files.marks(starts)
            is_same = np.isin(marks, note.marks)
            names, noted = marks >> STATE_BITS, note.marks >> STATE_BITS
            same.update(files.in_groups(starts, is_same))
            changed.update(files.in_groups(starts, np.isin(names, noted) & ~is_same))
            removed += int(np.count_nonzero(~np.isin(noted, names)))
        changed -= same
        stop = len(files.paths)
        if not self.last.is_last:  # the files that follow are still to be ingested
            stop = max(same | changed, default=-1) + 1
        return Differences(
            added=[files.paths[at] for at in range(stop) if at not in same | changed],
            changed=[files.paths[at] for at in sorted(changed)],
            removed=removed,
            is_exact=all(note.per == 1 for note in self.notes),
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences of a source.

    Attributes:
        added: New files.
        changed: Files with a different size, time or content.
        removed: Number of files, or groups of files, removed; their names are not stored.
        is_exact: Whether every file listed differs; otherwise at least one file of each group.
    """

    added: list[str]
    changed: list[str]
    removed: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a source, in its order, with hashes of their paths and of their states."""

    paths: Sequence[str]
    names: np.ndarray
    states: np.ndarray

    @classmethod
    def of(cls, source: Source[Item], items: range | None = None) -> Files:
        """Hash the files of some items, or of all."""
        states: dict[str, str] = {}
        for at in range(len(source.items)) if items is None else items:
            states[source.file_of(at)] = source.state_of(at)
        own = (f"{path.rpartition('/')[2]}\0{state}" for path, state in states.items())
        return cls(list(states), _hashes(states), _hashes(own))

    @property
    def edges(self) -> tuple[int, int]:
        """Parts of the hashes of the first and the last path."""
        first, last = (self.names[[0, -1]] >> STATE_BITS).tolist()
        return first, last

    def starts(self, per: int, edges: tuple[int, int] | None = None) -> np.ndarray:
        """Return the starts of groups, given by the hashes of paths and the edges."""
        is_start = (self.names & np.uint64(per - 1)) == 0
        is_start[0] = True
        if edges is not None:
            parts = self.names >> STATE_BITS
            is_start |= parts == edges[0]
            is_start[1:] |= parts[:-1] == edges[1]
        return np.flatnonzero(is_start)

    def marks(self, starts: np.ndarray) -> np.ndarray:
        """Return a mark of each group."""
        names = np.add.reduceat(self.names, starts)
        states = np.add.reduceat(self.states, starts)
        return (names >> STATE_BITS << STATE_BITS) | _states(states)

    def in_groups(self, starts: np.ndarray, is_wanted: np.ndarray) -> np.ndarray:
        """Return the positions of the files of some groups."""
        sizes = np.diff(starts, append=len(self.paths))
        return np.flatnonzero(np.repeat(is_wanted, sizes))


def settings_of(source: Source[Item]) -> Settings:
    """Return the arguments of the call that decide the rows, as text to show and to compare."""
    return {name: _as_text(name, one) for name, one in source.settings.items()}


def read_runs(commits: Iterable[Commit]) -> list[Run]:
    """Gather the notes of a log, oldest call first."""
    runs: dict[tuple[str, str], tuple[list[Note], int]] = {}
    for commit in reversed(list(commits)):
        noted = commit.meta.get(MEMBER)
        if not isinstance(noted, Mapping):
            continue
        note = Note.from_json(cast("Mapping[str, Any]", noted))
        notes, rows = runs.get((note.what, note.run), ([], 0))
        runs[note.what, note.run] = [*notes, note], rows + commit.changes.append
    return [Run(notes, rows) for notes, rows in runs.values()]


def _skipped_to_json(item: SkippedItem) -> list[str | None]:
    return [item.item, item.reason, item.tensor]


def _as_utf8(text: str) -> str:
    """Show a name that is not UTF-8 without the bytes that are not."""
    return text.encode(errors="replace").decode()


def _as_text(name: str, setting: Any) -> tuple[str, str]:
    """Show a setting, and give a digest of all of it."""
    shown = whole = repr(setting)
    if name == "schema":
        types = cast("Mapping[str, SampleType]", setting)
        told = ", ".join(f"{name!r}: {one.describe()}" for name, one in types.items())
        shown = f"{{{told}}}"
        whole = json.dumps({name: one.to_json() for name, one in types.items()})
    if len(shown) > SHOWN_MAX:
        shown = f"{shown[: SHOWN_MAX - 1]}…"
    return shown, f"{xxh3_64_intdigest(whole.encode(errors='surrogateescape')):016x}"


def _states(marks: np.ndarray) -> np.ndarray:
    return marks & np.uint64((1 << int(STATE_BITS)) - 1)


def _hashes(texts: Iterable[str]) -> np.ndarray:
    return np.fromiter(
        (xxh3_64_intdigest(one.encode(errors="surrogateescape")) for one in texts), np.uint64
    )
