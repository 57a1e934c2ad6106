"""The report of an ingestion: rows, bytes, and items left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorlake.quantities import human_nbytes, plural

__all__ = ["IngestReport", "SkippedItem"]


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """A source item that could not be taken, why, and for which tensor, where one is known."""

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
        skipped: Items left out, with ``on_error="skip"`` or ``"quarantine"``, by an earlier run of
            the same call too, of which each commit names the first.
        skipped_unnamed: How many more the earlier run left out.
        quarantine: The dataset that those were put into, if any were.
        url: The dataset that was made.
        version: Its version then.
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

    def __str__(self) -> str:
        rate = human_nbytes(int(self.nbytes / max(self.seconds, 1e-9)))
        text = (
            f"ingested {plural(self.rows, 'row')} ({human_nbytes(self.nbytes)})"
            f" in {self.seconds:.1f} s, {rate}/s"
        )
        if self.url:
            text += f" → {self.url} {self.version}"
        if self.already_there:
            text += f"; {plural(self.already_there, 'row')} were there already"
        if skipped := len(self.skipped) + self.skipped_unnamed:
            text += f"; {plural(skipped, 'item')} skipped: ds.ingest_report.skipped"
        return text
