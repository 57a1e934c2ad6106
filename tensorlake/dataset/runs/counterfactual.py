"""A recorded run once more, without some of its rows: the effect of data, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorlake.dataset.core.row_identity import ids_of, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.runs.replay import Replay, check_whole_rows
from tensorlake.dataset.runs.timeline import Stretch
from tensorlake.errors import InvalidInputError
from tensorlake.quantities import plural
from tensorlake.reading import Snapshot

if TYPE_CHECKING:
    from tensorlake.loader import Framework, Loader

__all__ = ["Counterfactual"]

ROW, VALID = "_row", "_valid"
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
        loader = self.replay.loader(
            stretch.segment, rank, arguments, framework=framework, columns=(ROW, VALID)
        )
        check_whole_rows(loader, "without()")
        mixed = next((column.name for column in loader.columns if column.mix is not None), None)
        if mixed is not None:
            raise InvalidInputError(
                f"without(): the steps of {mixed!r} mix rows of a batch, and a hole would change"
                " others\nleave rows out of a loader that does not mix them"
            )
        snapshot = cast("Snapshot", loader.plan.selection.snapshot)
        left_out = self.left_out.selection
        physical = left_out.physical(left_out.all_positions())
        rows = rows_of_ids(ids_of(left_out.snapshot, physical), snapshot)
        if len(rows) and not (rows >= 0).any():
            raise InvalidInputError(
                f"without(): none of these {len(self.left_out):,} rows of {self.left_out.url!r} is"
                f" in {snapshot.version} of {snapshot.url!r}, which the run read"
            )
        loader.leave_out(np.unique(rows[rows >= 0]))
        return loader
