"""Rows that a run leaves out: from a step on, and a recorded run once more without them.

``run.skip()`` stores their ids as an object of its record, which states refer to. ``run.without()``
makes holes of them, so that all else is as it was: the effect of data, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import ids_of, rows_of_ids
from tensorlake.dataset.core.rowset import HasRows, RowSet, rowset_of
from tensorlake.dataset.runs.record import Record
from tensorlake.dataset.runs.replay import Replay
from tensorlake.dataset.runs.timeline import Stretch
from tensorlake.dataset.transform.splice import ids_to_arrow
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import plural
from tensorlake.versions import distinct

if TYPE_CHECKING:
    from tensorlake.loader import Framework, Loader

__all__ = ["Counterfactual", "put_exclusion"]

ROW, VALID, SOURCE = "_row", "_valid", "_source"
SEVERAL_ROWS = ("batch_transform",)
"""Arguments whose functions see several rows, so that a hole would change others."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counterfactual:
    """A run without some rows: what ``run.without(view)`` returns.

    ``loader()``, ``torch()`` and ``jax()`` make the loader of the run again, from its first step
    on, with the recorded arguments; its epochs are the run's. They take arguments that say where
    batches are made: ``rank``, ``world_size``, ``device``, ``workers``, ``cache``; and functions,
    which are not recorded.
    """

    replay: Replay
    stretches: Sequence[Stretch]
    left_out: RowSet

    def __repr__(self) -> str:
        count = plural(len(self.left_out), "row")
        return f"Run {self.replay.name!r} without {count} of {self.left_out.url!r}"

    def loader(self, **arguments: Any) -> Loader:
        """Stream batches of NumPy arrays."""
        return self.__loader__("numpy", arguments)

    def torch(self, **arguments: Any) -> Loader:
        """Stream batches of torch tensors."""
        return self.__loader__("torch", arguments)

    def jax(self, **arguments: Any) -> Loader:
        """Stream batches of JAX arrays."""
        return self.__loader__("jax", arguments)

    def batch(self, step: int, rank: int | None = None, **arguments: Any) -> Any:
        """Make the batch of a step as it would have been.

        Raises:
            InvalidInputError: There is no such step or rank.
        """
        stretch = next((one for one in self.stretches if step in one), None)
        if stretch is None:
            raise InvalidInputError(f"the run has no step {step}", actual=step)
        loader = self._made(stretch, rank, None, dict(arguments))
        with loader:
            loader.skip(step - stretch.start)
            return next(iter(loader))

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make the run's loader again, from its first step on."""
        if not self.stretches:
            raise InvalidInputError(f"run {self.replay.name!r} recorded no batch")
        sizes = sorted({one.segment.global_batch_size for one in self.stretches})
        if len(sizes) > 1:
            raise InvalidInputError(
                f"run {self.replay.name!r} was resumed with other batch sizes ({sizes}), and a"
                " loader has one\nmake its batches step by step: run.without(view).batch(step)"
            )
        return self._made(self.stretches[0], None, framework, arguments)

    def _made(
        self,
        stretch: Stretch,
        rank: int | None,
        framework: Framework | None,
        arguments: dict[str, Any],
    ) -> Loader:
        recorded = stretch.segment.arguments
        several = [name for name in SEVERAL_ROWS if name in arguments or name in recorded]
        if several:
            raise InvalidInputError(
                f"without(): {several[0]}= sees several rows, and a hole could change others"
                "\nleave it out, and call it in the loop"
            )
        is_mix = hasattr(self.replay.rows, "sources")
        columns = (ROW, VALID, SOURCE) if is_mix else (ROW, VALID)
        loader = self.replay.loader(
            stretch.segment, rank, arguments, framework=framework, columns=columns
        )
        mixed = next((column.name for column in loader.columns if column.mix is not None), None)
        if mixed is not None:
            raise InvalidInputError(
                f"without(): the steps of {mixed!r} mix rows of a batch, and a hole would change"
                " others\nleave rows out of a loader that does not mix them"
            )
        loader.leave_out(self._holes_in(loader))
        return loader

    def _holes_in(self, loader: Loader) -> list[npt.NDArray[np.int64]]:
        """Return the rows to leave out of each source that a loader reads, ascending.

        Raises:
            InvalidInputError: None of them is in any.
        """
        read: Any = loader.plan.selection
        read = read.rows if hasattr(getattr(read, "rows", None), "sources") else read
        sources = [one.selection for one in read.sources] if hasattr(read, "sources") else [read]
        left_out = self.left_out.selection
        ids = ids_of(left_out.snapshot, left_out.physical(left_out.all_positions()))
        holes: list[npt.NDArray[np.int64]] = []
        for source in sources:
            is_own = source.snapshot.url == left_out.snapshot.url
            rows = rows_of_ids(ids, source.snapshot) if is_own else np.zeros(0, np.int64)
            holes.append(distinct(rows[rows >= 0]))
        if len(ids) and not any(map(len, holes)):
            raise InvalidInputError(
                f"without(): none of these {len(self.left_out):,} rows of {self.left_out.url!r} is"
                f" in {read.snapshot.version} of {read.snapshot.url!r}, which the run read"
            )
        return holes


def put_exclusion(record: Record, view: Any, dataset: HasRows | None) -> str:
    """Store the row ids of a view beside a run's record; return the path.

    Raises:
        InvalidInputError: It has no rows of the run's dataset.
    """
    if not hasattr(view, "__rowset__"):
        raise InvalidInputError(
            f"skip() takes the rows as a view, such as ds.query(…), got {shown(view)}"
        )
    rows = rowset_of(view)
    if dataset is None:
        raise InvalidInputError(
            f"skip() is for runs that are recorded beside their dataset: ds.run({record.name!r})"
        )
    own = rowset_of(dataset).url
    if own != rows.url:
        raise InvalidInputError(
            f"run {record.name!r} is recorded beside {own!r}, and skip() got rows of {rows.url!r}"
            "\ngive a view of the run's dataset"
        )
    physical = distinct(rows.selection.physical(rows.selection.all_positions()))
    if not len(physical):
        raise InvalidInputError("skip() got a view without rows\ngive the rows to leave out")
    return record.put_skipped(ids_to_arrow(ids_of(rows.selection.snapshot, physical)))
