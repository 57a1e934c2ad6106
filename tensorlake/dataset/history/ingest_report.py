"""The report of an ingestion: rows, bytes, and items left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorlake.quantities import human_nbytes, plural

__all__ = ["IngestReport", "SkippedItem"]


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """A source item that was not ingested, the reason, and the tensor, if known."""

    item: str
    reason: str
    tensor: str | None = None


@dataclass(slots=True)
class IngestReport:
    """The result of an ingestion.

    Attributes:
        rows: Rows committed by this call.
        nbytes: Bytes of the source items read.
        already_there: Rows that an earlier run had committed.
        skipped: Items left out with ``on_error="skip"`` or ``"quarantine"``, including those of
            an earlier run of the same call, of which each commit names the first.
        skipped_unnamed: Number of further items that the earlier run left out.
        quarantine: The dataset of quarantined items, if any.
        url: The resulting dataset.
        version: Its version after the call.
        commits: The versions that this call committed, oldest first; none if all rows were
            already present.
    """

    rows: int = 0
    nbytes: int = 0
    already_there: int = 0
    seconds: float = 0.0
    skipped: list[SkippedItem] = field(default_factory=list[SkippedItem])
    skipped_unnamed: int = 0
    quarantine: str | None = None
    url: str = ""
    version: str = ""
    commits: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        rate = human_nbytes(int(self.nbytes / max(self.seconds, 1e-9)))
        text = (
            f"ingested {plural(self.rows, 'row')} ({human_nbytes(self.nbytes)})"
            f" in {self.seconds:.1f} s, {rate}/s"
        )
        if self.url:
            count = len(self.commits)
            committed = f"committed in {plural(count, 'commit')}" if count else "nothing to commit"
            text += f" → {self.url} {self.version} ({committed})"
        if self.already_there:
            text += f"; {plural(self.already_there, 'row')} were there already"
        if skipped := len(self.skipped) + self.skipped_unnamed:
            text += f"; {plural(skipped, 'item')} skipped: ds.ingest_report.skipped"
        return text
