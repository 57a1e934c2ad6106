"""Progress of a loader: one line, available at any time.

pets.tl main@12  epoch 3  ━━━━━━━╸━━━━━━━━━━━━  41%  40/98 batches  1,512 rows/s  0:00:34 left
    waits: model 96%, data 4%
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tensorlake.loader.runtime.stats import LoaderStats, shown_share

if TYPE_CHECKING:
    from tensorlake.loader.plan.state import Place
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["Progress", "progress_of"]

WIDTH = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a pass.

    Attributes:
        what: The dataset and version.
        epoch: The current epoch; between two, the one that ended, or that a state continues.
        places: Places of the epoch before the next batch, over all ranks.
        num_places: Places of the epoch; None if it never ends.
        batches: Batches handed out in this pass.
        remaining: Batches left; None if it never ends.
        stats: Statistics of this pass.
    """

    what: str
    epoch: int
    places: int
    num_places: int | None
    batches: int
    remaining: int | None
    stats: LoaderStats

    @property
    def share(self) -> float | None:
        """Fraction of the epoch that is done; None if it never ends."""
        if self.num_places is None:
            return None
        return self.places / self.num_places if self.num_places else 1.0

    @property
    def eta_s(self) -> float | None:
        """Seconds left at the rate of this pass; None while there is no rate."""
        if self.remaining is None or not self.batches:
            return None
        return self.remaining * self.stats.wall_s / self.batches

    def __str__(self) -> str:
        total = "" if self.remaining is None else f"/{self.batches + self.remaining:,}"
        wall = max(self.stats.wall_s, 1e-9)
        user = shown_share((self.stats.user_s + self.stats.batch_transform_s) / wall)
        parts = [
            self.what,
            f"epoch {self.epoch}",
            *([] if self.share is None else [_bar(self.share), shown_share(self.share)]),
            f"{self.batches:,}{total} batches",
            f"{self.stats.rows_per_s:,.0f} rows/s",
            *([] if self.eta_s is None else [f"{timedelta(seconds=round(self.eta_s))} left"]),
            f"waits: model {user}, data {shown_share(self.stats.data_s / wall)}",
        ]
        return "  ".join(parts)


def _bar(share: float) -> str:
    full = round(share * WIDTH)
    return "━" * full + "╌" * (WIDTH - full)


def progress_of(
    rows: OrderedRows, place: Place, *, remaining: int | None, stats: LoaderStats
) -> Progress:
    """Return a loader's progress in the current pass, else at the end of the previous one."""
    snapshot, finished = rows.selection.snapshot, place.finished
    return Progress(
        what=f"{snapshot.url.rstrip('/').rpartition('/')[2]} {snapshot.version}",
        epoch=place.epoch if finished is None else finished,
        places=place.position if finished is None else rows.num_places,
        num_places=None if rows.is_endless else rows.num_places,
        batches=stats.batches,
        remaining=None if rows.is_endless else remaining or 0,
        stats=stats,
    )
