"""The report of an ingestion: what changed in the dataset, and the items left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tensorlake.quantities import human_nbytes, plural

__all__ = ["GONE", "RENAMED", "VANISHED", "IngestReport", "SkippedItem"]

RENAMED, VANISHED = "renamed or moved", "no longer in the source"
GONE = "changed by hand, and no longer in the source"
"""The conflict of a row that ``delete=True`` does not remove."""

ITEMS_SHOWN = 10
"""Rejected and conflicting items that the text of a report names."""

NAMES_SHOWN = 3
"""Other items that it names, of each kind of change."""


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """A source item that was not ingested as it is, the reason, the tensor and the row, if known.

    Attributes:
        item: Its name.
        reason: Why it was left out, or what the conflict is.
        tensor: The tensor.
        row: The row of a conflict; None if it was deleted by hand.
    """

    item: str
    reason: str
    tensor: str | None = None
    row: int | None = None


@dataclass(slots=True)
class IngestReport:
    """The result of an ingestion.

    The counts are of items: files, annotated images, records. Items known by position only, as
    those of a table without ``key=``, are counted as rows; but what is rejected is counted as it
    was lost, a row or a part of the source with any number of rows: a shard, a row group, a chunk.

    Attributes:
        added: Items that are new in the source.
        updated: Items whose rows were brought to the source.
        renamed: Items found under another name; their rows stay, with another class if the name is
            in another folder.
        unchanged: Items that are in the dataset as they are in the source.
        vanished: Items that are in the dataset and no longer in the source.
        deleted: Rows that ``delete=True`` removed, of vanished items.
        conflicts: Items that a hand and the source have changed: one for each row and tensor.
        rows: Rows appended by this call.
        nbytes: Bytes of the source items read.
        already_there: Rows that an earlier run had committed.
        skipped: Items left out with ``on_error="skip"`` or ``"quarantine"``, including those of
            an earlier run that are known by position.
        quarantine: The dataset of quarantined items, if any.
        url: The resulting dataset.
        version: Its version after the call.
        commits: The versions that this call committed, oldest first; none if nothing changed.
        unit: Noun for an item: "image", "row".
        classes: The classes added, in words, for each tensor.
        tensors: Tensors that the source or the dataset no longer has, and other notes, in words.
        names: The first of the items that were "added" to a dataset with others, "updated",
            "renamed or moved", or are "no longer in the source".
        dry_run: Whether nothing was written; the counts are of what would be.
    """

    added: int = 0
    updated: int = 0
    renamed: int = 0
    unchanged: int = 0
    vanished: int = 0
    deleted: int = 0
    conflicts: list[SkippedItem] = field(default_factory=list[SkippedItem])
    rows: int = 0
    nbytes: int = 0
    already_there: int = 0
    seconds: float = 0.0
    skipped: list[SkippedItem] = field(default_factory=list[SkippedItem])
    quarantine: str | None = None
    url: str = ""
    version: str = ""
    commits: list[str] = field(default_factory=list[str])
    unit: str = "item"
    classes: list[str] = field(default_factory=list[str])
    tensors: list[str] = field(default_factory=list[str])
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    dry_run: bool = False

    def name(self, change: str, items: Iterable[str]) -> None:
        """Keep the names of the first items of a change.

        Args:
            change: The change, as in the text.
            items: Their names.
        """
        known = self.names.get(change, [])
        if first := [*islice(items, NAMES_SHOWN - len(known))]:
            self.names[change] = known + first

    @property
    def rejected(self) -> int:
        """Number of items left out: of a shard or row group one, however many rows it has."""
        return len(self.skipped)

    @property
    def items(self) -> list[SkippedItem]:
        """Each rejected or conflicting item with its reason."""
        return [*self.skipped, *self.conflicts]

    def __str__(self) -> str:
        rate = human_nbytes(int(self.nbytes / max(self.seconds, 1e-9)))
        counts = f"{plural(self.added, self.unit)} added"
        also = {
            "updated": self.updated,
            RENAMED: self.renamed,
            "unchanged": self.unchanged,
            VANISHED: self.vanished,
        }
        counts += "".join(f", {count:,} {what}" for what, count in also.items() if count)
        if self.rejected:  # an item may be a file with any number of rows
            is_of_rows = self.unit == "row"
            told = plural(self.rejected, "item") if is_of_rows else f"{self.rejected:,}"
            counts += f", {told} rejected"
        if self.conflicts:
            counts += f", {plural(len(self.conflicts), 'conflict')}"
            items = len({one.item for one in self.conflicts})
            counts += f" in {plural(items, self.unit)}" if items < len(self.conflicts) else ""
        text = f"{counts}; read {human_nbytes(self.nbytes)} in {self.seconds:.1f} s, {rate}/s"
        if self.url:
            count = len(self.commits)
            committed = f"committed in {plural(count, 'commit')}" if count else "nothing to commit"
            text += f" → {self.url} {self.version} ({committed})"
        if self.dry_run:
            where = f" → {self.url} {self.version}" if self.url else ""
            text = f"{counts}{where} (dry run: nothing was written)"
        return "\n".join((text, *self._lines()))

    def _lines(self) -> list[str]:
        """Describe what a curator may have to decide."""
        counts = {
            "added": self.added if self.already_there else 0,
            "updated": self.updated,
            RENAMED: self.renamed,
            VANISHED: self.vanished,
        }
        lines = [
            f"  {change}: {', '.join(names)}{', …' if count > len(names) else ''}"
            for change, count in counts.items()
            if count and (names := self.names.get(change))
        ]
        lines += [f"  {one}" for one in (*self.classes, *self.tensors)]
        kept = len([one for one in self.conflicts if one.reason.startswith(GONE)])
        if self.deleted:
            lines.append(f"  {plural(self.deleted, 'row')} of vanished items deleted")
        elif self.vanished and not kept:
            stays = "its row stays" if self.vanished == 1 else "their rows stay"
            lines.append(f"  {stays} in the dataset; to remove: delete=True")
        if kept and self.deleted < self.vanished:
            stays = "its row, changed by hand, stays" if kept == 1 else "rows changed by hand stay"
            lines.append(f"  {stays} in the dataset; to remove: on_conflict='source'")
        if self.quarantine and self.skipped:
            lines.append(f"  rejected items are in {self.quarantine}")
        lines += _described("rejected", self.skipped) + _described("conflict", self.conflicts)
        return lines


def _described(what: str, items: Sequence[SkippedItem]) -> list[str]:
    lines: list[str] = []
    for one in items[:ITEMS_SHOWN]:
        row = "" if one.row is None else f", row {one.row}"
        tensor = "" if one.tensor is None else f", {one.tensor!r}"
        lines.append(f"  {what}: {one.item}{row}{tensor}: {one.reason}")
    if len(items) > ITEMS_SHOWN:
        lines.append(f"  … {len(items) - ITEMS_SHOWN:,} more: ds.ingest_report.items")
    return lines
