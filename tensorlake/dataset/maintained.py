"""Keeping a dataset healthy, as its handle offers it: compaction, verification, giving up the old.

Nothing here changes a value that a version shows; what it costs and finds is a report that prints.
"""

from __future__ import annotations

from tensorlake.dataset import optimizing
from tensorlake.dataset.optimizing import OptimizeReport
from tensorlake.dataset.session import Session

__all__ = ["Maintained"]


class Maintained:
    """What a ``Dataset`` does to stay small, fast and whole."""

    session: Session

    def optimize(self, order_by: str | None = None, *, dry_run: bool = False) -> OptimizeReport:
        """Merge small chunks and drop what deleted rows left behind; this handle moves to the head.

        No value, row id or order changes, older versions stay as they are, and others may read and
        commit meanwhile: what they changed keeps their version. What is good already is not
        touched, so a second call right after does nothing.

        Args:
            order_by: Put the rows in another order too: a tensor, or TQL as after ``ORDER BY``
                (``"label, score DESC"``). Row ids stay; row numbers do not.
            dry_run: Only say what would be done.

        Raises:
            ReadOnlyError: The handle is not at a branch.
            UncommittedChangesError: There are staged changes.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-optimize", {"x": "int64"})
            >>> for number in range(3):
            ...     ds.append({"x": number})
            ...     _ = ds.commit()
            >>> ds.optimize().chunks_after
            1
            >>> ds["x"][:]
            array([0, 1, 2])
        """
        return optimizing.optimize(self.session, order_by, dry_run=dry_run)
