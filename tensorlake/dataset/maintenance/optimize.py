"""Compaction for users: ``ds.optimize()``, and its report."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.progress import Progress
from tensorlake.dataset.core.rowset import everything
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.maintenance.indexes import update_indexes
from tensorlake.errors import (
    ConflictError,
    InvalidInputError,
    ReadOnlyError,
    UncommittedChangesError,
    shown,
)
from tensorlake.format import PackId, TensorSpec
from tensorlake.quantities import human_nbytes, plural
from tensorlake.reading import Reader
from tensorlake.storage import runtime
from tensorlake.types import Column
from tensorlake.versions import (
    Begun,
    TensorOptimized,
    check_writable,
    loaded,
    optimize_branch,
    recluster,
    state_of,
)

__all__ = ["OptimizeReport", "leave_packs", "optimize"]

Int64Array = npt.NDArray[np.int64]

BEGINNINGS_MAX = 3
"""Restarts of a sort before it fails."""


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """The result of an optimization; prints as a table.

    Attributes:
        version: The newest version after it, as ``branch@number``.
        commits: Number of commits published; 0 if there was nothing to do.
        tensors: Changes of each tensor's chunks.
        yielded: Ranges skipped because of concurrent changes.
        is_dry_run: Whether nothing was stored; the figures are those of a run at that time.
        rows_moved: Rows moved to another place by a sort.
        indexes: Names of the indexes that were brought up to date.
    """

    version: str
    commits: int
    tensors: tuple[TensorOptimized, ...]
    yielded: int = 0
    is_dry_run: bool = False
    rows_moved: int = 0
    indexes: tuple[str, ...] = ()

    @property
    def chunks_before(self) -> int:
        """Chunks that the version referenced before."""
        return sum(tensor.chunks_before for tensor in self.tensors)

    @property
    def chunks_after(self) -> int:
        """Chunks that it references now."""
        return sum(tensor.chunks_after for tensor in self.tensors)

    @property
    def dead_rows(self) -> int:
        """Deleted rows whose data the version no longer references."""
        return max((tensor.dead_rows for tensor in self.tensors), default=0)

    @property
    def nbytes_moved(self) -> int:
        """Stored bytes of the chunks that were moved, each counted once."""
        return sum(tensor.nbytes_moved for tensor in self.tensors)

    @property
    def nbytes_written(self) -> int:
        """Stored bytes of the chunks that replaced them."""
        return sum(tensor.nbytes_made for tensor in self.tensors)

    def __repr__(self) -> str:
        moved = [tensor for tensor in self.tensors if tensor.chunks_moved or tensor.dead_rows]
        if not moved and not self.commits:
            return f"{self.version} is optimal already: {plural(self.chunks_before, 'chunk')}"
        verb = "would be" if self.is_dry_run else "are now"
        would = "would come" if self.is_dry_run else "came"
        facts = [
            f"{plural(self.chunks_before, 'chunk')} {verb} {self.chunks_after:,}",
            f"{human_nbytes(self.nbytes_written)} written",
        ]
        if self.dead_rows:
            facts.append(f"{plural(self.dead_rows, 'dead row')} dropped")
        if self.rows_moved:
            facts.append(f"{plural(self.rows_moved, 'row')} {would} to another place")
        if self.yielded:
            facts.append(f"{plural(self.yielded, 'stretch')} left to concurrent changes")
        if self.indexes:
            facts.append(f"indexes brought up to date: {', '.join(self.indexes)}")
        width = max((len(tensor.name) for tensor in moved), default=0)
        return "\n".join(
            [
                f"optimize of {self.version}: {' · '.join(facts)}",
                *(
                    f"  {tensor.name:<{width}}  {tensor.chunks_moved:,} of"
                    f" {plural(tensor.chunks_before, 'chunk')} → {tensor.chunks_made:,},"
                    f" {human_nbytes(tensor.nbytes_moved)} → {human_nbytes(tensor.nbytes_made)}"
                    for tensor in moved
                ),
            ]
        )


def optimize(
    session: Session, order_by: str | None, *, dry_run: bool, progress: bool | None
) -> OptimizeReport:
    """Compact the newest version of the handle's branch and move the handle there.

    Its indexes are brought up to date last, when all samples are at their final places.
    """
    check_may_optimize(session, dry_run=dry_run)
    session.refresh()
    if order_by is None:
        report = _compacted(session, dry_run=dry_run, progress=progress)
    else:
        report = _put_in_order(session, order_by, dry_run=dry_run, progress=progress)
    names = [] if dry_run else update_indexes(session)
    if not names:
        return report
    version = f"{session.branch}@{session.head.seq}"
    return replace(report, version=version, commits=report.commits + 1, indexes=tuple(names))


def leave_packs(session: Session, packs: AbstractSet[PackId]) -> OptimizeReport:
    """Compact the newest version so that it has no chunk of some packs, and no dead row."""
    return _compacted(session, dry_run=False, progress=False, leaving=packs)


def _compacted(
    session: Session,
    *,
    dry_run: bool,
    progress: bool | None,
    leaving: AbstractSet[PackId] = frozenset(),
) -> OptimizeReport:
    head = runtime.run(loaded(session.head, session.packs))
    with _bar(session, described=progress) as bar:
        done = optimize_branch(
            session.log,
            session.packs,
            head,
            state_of(head),
            dry_run=dry_run,
            progress=partial(bar.advance, rows=0),
            leaving=leaving,
        )
    session.refresh()
    return OptimizeReport(
        version=f"{session.branch}@{session.head.seq}",
        commits=len(done.entries),
        tensors=done.tensors,
        yielded=done.yielded,
        is_dry_run=dry_run,
    )


def _bar(session: Session, *, described: bool | None) -> Progress:
    """Make a progress line over the bytes that the branch references."""
    total = session.head.packs.nbytes
    return Progress(f"optimize {session.store.url}", total=total, shown=described)


def _put_in_order(
    session: Session, order_by: str, *, dry_run: bool, progress: bool | None
) -> OptimizeReport:
    for _ in range(BEGINNINGS_MAX):
        snapshot = session.committed
        reader = session.reader(snapshot)
        positions = _positions_in_order(session, order_by)
        order = snapshot.physical(positions)
        head = runtime.run(loaded(session.head, session.packs))

        def read(spec: TensorSpec, physical: Int64Array, reader: Reader = reader) -> Column:
            return reader.read(spec.name, physical, decode=False)

        begun = Begun(head, state_of(head), order)
        with _bar(session, described=progress) as bar:
            advance = partial(bar.advance, rows=0)
            done = recluster(
                session.log, session.packs, begun, read, dry_run=dry_run, progress=advance
            )
        session.refresh()
        if done is not None:
            return OptimizeReport(
                f"{session.branch}@{session.head.seq}",
                len(done.entries),
                done.tensors,
                is_dry_run=dry_run,
                rows_moved=int(np.count_nonzero(positions != np.arange(len(positions)))),
            )
    raise ConflictError(
        f"{session.branch!r} of {session.store.url!r} was changed {BEGINNINGS_MAX} times while it"
        " was sorted, in ways that cannot be carried over (its schema, a restore, many"
        " updates); nothing is lost\ncall optimize(order_by=…) again when fewer commit",
        branch=session.branch,
    )


def _positions_in_order(session: Session, order_by: str) -> Int64Array:
    """Return the rows of the committed version, in an order given as TQL.

    Raises:
        QueryError: The text is not a valid order.
    """
    from tensorlake.dataset.query.run import run_query

    if not isinstance(order_by, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(
            f"optimize(order_by={shown(order_by)}): give a string\n"
            'name tensors or expressions, as after ORDER BY: "label, score DESC"'
        )
    snapshot = session.committed
    rows = run_query(everything(session), f"ORDER BY {order_by}", {}).selection.rows
    if rows is None or len(rows) != snapshot.num_rows:
        raise InvalidInputError(
            f"optimize(order_by={shown(order_by)}): an order keeps every row\n"
            'name tensors or expressions, as after ORDER BY: "label, score DESC"'
        )
    return rows


def check_may_optimize(session: Session, *, dry_run: bool) -> None:
    """Refuse if a commit could not be published.

    Raises:
        ReadOnlyError: The handle cannot write.
        UncommittedChangesError: It has staged changes, which are based on the current version.
    """
    session.check_present()
    if session.transaction is not None:
        raise UncommittedChangesError(
            f"{session.store.url!r} has staged changes, which optimize() would not see\n"
            "commit or discard them first"
        )
    if not session.is_writable and not dry_run:
        raise ReadOnlyError(
            f"this handle is at {session.name!r} of {session.store.url!r} and cannot write"
            + (f": {session.why_read_only}\n" if session.why_read_only else "\n")
            + "only a branch is optimized: open it without a version, or ds.at('main')",
            version=session.name,
        )
    check_writable(session.head, url=session.store.url)
