"""The session behind a dataset handle: a branch's log, the version read, and staged changes.

A session is shared by a ``Dataset`` and its views. Reads go through ``snapshot()``: the committed
version, or the transaction's working copy. Staging is under one lock; any thread may read.

Every 64th commit begins a compaction in the background, which publishes an entry that changes
nothing. The next call that changes the dataset or moves the handle waits for it, and changes staged
then are based on that entry: a handle never loses a race to its own compaction.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tensorlake.dataset.core.buffers import MemoryBlocks
from tensorlake.dataset.core.cells import CellComparison
from tensorlake.dataset.core.item_counts import ASSIGN_OTHER, check_rows
from tensorlake.errors import (
    InvalidInputError,
    InvalidStateError,
    ReadOnlyError,
    UncommittedChangesWarning,
)
from tensorlake.format import ColumnGroup, Entry, Schema
from tensorlake.reading import ChunkCache, ReadAhead, Reader, Snapshot
from tensorlake.storage import ForkLock, LinkStore, LocalStore, Store, runtime
from tensorlake.types import Column
from tensorlake.versions import (
    COMPACTED_EVERY,
    Background,
    BranchLog,
    CommitKeys,
    CommitRequest,
    Misfit,
    OnConflict,
    PackReader,
    Published,
    Resolved,
    State,
    Transaction,
    check_writable,
    commit_under,
    compact_in_background,
    extended,
    loaded,
    move_transaction,
    publish_transaction,
)

__all__ = ["Place", "Session"]


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a handle in a pickle: the version, without secrets or staged changes."""

    url: str
    branch: str
    number: int
    digest: str
    name: str
    is_writable: bool
    is_read_only: bool
    options: Mapping[str, Any]


class Session:
    """One handle's place in a dataset.

    Attributes:
        store: Store of the dataset.
        branch: Branch of the handle.
        name: The version as the user named it.
        is_writable: Whether changes may be staged.
        options: How to open the store again: never holds secrets that repr would show.
    """

    def __init__(
        self,
        store: Store,
        resolved: Resolved,
        *,
        read_only: bool = False,
        options: Mapping[str, Any] | None = None,
        chunks: ChunkCache | None = None,
        links: LinkStore | None = None,
    ) -> None:
        self.store = store
        self.branch, self.name = resolved.branch, resolved.name
        self.mirror_of = resolved.mirror_of
        self.is_writable = resolved.is_writable and not read_only and self.mirror_of is None
        self.why_read_only = "it was opened with read_only=True" if read_only else None
        if self.mirror_of is not None:
            self.why_read_only = f"it mirrors {self.mirror_of!r}, and only tl.copy writes to it"
        self.options = dict(options or {})
        self.packs = PackReader(store, links)
        self.packs.read_for(f"{resolved.branch}@{resolved.entry.seq}")
        self.chunks, self.ahead = chunks or ChunkCache(), ReadAhead()
        self.log = BranchLog(store, self.branch, follows_hint=self.mirror_of is not None)
        self._keys: CommitKeys | None = None  # made with the first commit under a key
        self.reads: tuple[str, ...] = ()  # columns that the staged changes are computed from
        self.lock = ForkLock()
        self._head = self._loaded(resolved.entry)
        self._seen = time.monotonic()  # when the head was last seen in the store
        self._committed = self._snapshot_of(self._head)
        self._transaction: Transaction | None = None
        self._working: Snapshot | None = None
        self._blocks: MemoryBlocks | None = None
        self._when_dropped: weakref.finalize[Any, Any] | None = None  # warns of staged changes
        self._changes_seen = 0
        self._is_committing = self.is_closed = False
        self._compaction: Background | None = None
        self.functions: Callable[..., dict[str, Any]] = lambda *_, **__: {}
        """Makes the functions that queries of some rows (a RowSet) have beside the language's."""
        self.narrowed: Callable[..., Any] = lambda rows, *_, **__: rows  # pyright: ignore[reportUnknownLambdaType] - any
        """Returns the rows of which a query's condition on these functions is met at most."""
        self.expressions: Callable[[Any], dict[str, Any]] = lambda _rows: {}  # of its schema
        self.constraints: Callable[..., None] = lambda *_: None  # refuses rows that break them
        self.misfits: Callable[..., list[Misfit]] = lambda *_: []  # of the tensors of a schema
        self.map_report: Any = None  # of the last map(); without a version while it is staged

    @property
    def head(self) -> Entry:
        """The log entry of the handle's version."""
        return self._head

    @property
    def committed(self) -> Snapshot:
        """The version of the handle, without staged changes."""
        return self._committed

    @property
    def blocks(self) -> MemoryBlocks:
        """Blocks that staged data is copied to; given up when it is no longer staged."""
        if self._blocks is None:
            self._blocks = MemoryBlocks()
        return self._blocks

    @property
    def transaction(self) -> Transaction | None:
        """The staged changes; None without any."""
        found = self._transaction
        return found if found is not None and found.has_changes else None

    def snapshot(self) -> Snapshot:
        """Return what a read sees now, staged changes included."""
        if self.transaction is None:
            return self._committed
        with self.lock:
            transaction = self.transaction
            if transaction is None:
                return self._committed
            if self._working is None or self._working.state is not transaction.working():
                self._changes_seen += 1
                self._working = Snapshot(
                    transaction.working(),
                    transaction.packs,
                    version=self._committed.version,
                    digest=f"{self._committed.digest}+{transaction.txid}.{self._changes_seen}",
                    is_staged=True,
                    holds=transaction,
                    before=self._working or self._committed,
                )
            return self._working

    def place(self, snapshot: Snapshot) -> Place:
        """Return where a snapshot without staged changes is found again, in any process."""
        if snapshot.is_staged:
            raise InvalidStateError(
                f"a handle of {self.store.url!r} with staged changes cannot be pickled:"
                " they belong to this process\ncommit or discard them first"
            )
        branch, _, number = snapshot.version.rpartition("@")
        return Place(
            url=self.store.url,
            branch=branch,
            number=int(number),
            digest=snapshot.digest,
            name=self.name,
            is_writable=self.is_writable,
            is_read_only=self.why_read_only is not None,
            options=self.options,
        )

    def reader(self, snapshot: Snapshot) -> Reader:
        """Make a reader of a snapshot; the session's readers share their chunks."""
        return Reader(snapshot, self.chunks)

    def staging(self) -> Transaction:
        """Begin, or continue, staging changes; with the lock held."""
        self._refuse_closed()
        if not self.is_writable:
            advice = f"a branch is writable: ds.branch('fix', at={self.name!r})"
            if self.mirror_of is not None:
                advice = "write to that dataset, or tl.copy it without mirror=True"
            raise ReadOnlyError(
                f"this handle is at {self.name!r} of {self.store.url!r} and cannot write"
                + (f": {self.why_read_only}\n" if self.why_read_only else "\n")
                + advice,
                version=self.name,
            )
        if self._is_committing:
            raise InvalidStateError("a commit of this handle is under way in another thread")
        if self._transaction is None:
            self._stand_on_compaction()
        if self._head.features.write:
            check_writable(self._head, url=self.store.url)
        if self._transaction is None:
            if isinstance(self.store, LocalStore):
                self.store.check_writable()  # elsewhere it would cost a request
            self._transaction = Transaction(
                self.store, self._head, self.packs, self._committed.state
            )
            self._when_dropped = weakref.finalize(
                self, _warn_of_loss, self.store, self._transaction, os.getpid()
            )
            if self.reads:
                schema = self._transaction.schema
                self._transaction.reads = frozenset(schema[name].id for name in self.reads)
        if self._transaction.doubt.seq is not None:
            raise InvalidStateError(
                f"whether the last commit on this handle of {self.store.url!r} was published is"
                " unknown; changes staged now could be lost\n"
                "call ds.commit() again, which looks for the commit first, or ds.discard()",
                txid=self._transaction.txid,
            )
        return self._transaction

    def group(self, name: str) -> Reader | None:
        """Return a reader of a column group as staged, or as committed; None without one."""
        return self.reader(self.snapshot()).group(name)

    def stage_group(
        self,
        name: str,
        kind: str,
        columns: Mapping[str, Column],
        *,
        types: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Stage rows of a column group, which the commit publishes with everything else staged.

        Args:
            name: The group.
            kind: Its kind, which must be that of the group that rows are added to.
            columns: One column for each part, by name.
            types: Types of the parts: the columns then replace the group, if there is one. None
                adds rows to it.
            parameters: JSON of the kind, with ``types`` alone.

        Raises:
            InvalidInputError: There is no such group of that kind to add rows to, or the columns
                do not match its parts.
        """
        with self.lock:
            staging = self.staging()
            known = staging.working().groups.get(name)
            if types is not None:
                known = ColumnGroup.empty(kind, Schema.new(types), parameters)
            elif known is None or known.kind != kind:
                raise InvalidInputError(
                    f"{self.store.url!r} has no column group {name!r} of the kind {kind!r}"
                    "\ngive the types of its parts to create it",
                    name=name,
                )
            staging.stage_group(name, extended(known, columns, staging.place_column))

    def drop_group(self, name: str) -> None:
        """Stage that a column group is gone."""
        with self.lock:
            self.staging().stage_group(name, None)

    def commit(self, request: CommitRequest) -> Entry:
        """Publish what is staged; the head when nothing is, the first commit when ``key`` is known.

        Raises:
            ConflictError: Another commit changed the same; everything stays staged.
        """
        with self.lock:
            self.check_open()
            if self._is_committing:
                raise InvalidStateError("a commit of this handle is under way in another thread")
            transaction = self.transaction
            if request.key is not None:
                # With nothing staged the commit asked for may be newer than the handle.
                newest = (
                    self._head if transaction else runtime.run(self.log.newest_from(self._head))
                )
                self._keys = self._keys or CommitKeys(self.log)
                known = runtime.run(self._keys.find(newest, request.key))
                if known is not None:
                    self.discard()
                    return known
            if transaction is None:
                return self._head
            transaction.working()  # here: reads of other threads also seal what waits
            self._is_committing = True
        try:
            published = publish_transaction(
                transaction,
                self.log,
                request,
                differ=self._comparison,
                verify=self._verify,
                seen=self._seen,
            )
        finally:
            self._is_committing = False
        with self.lock:
            is_own = published.entry.txid == transaction.txid
            own = published.entry if is_own else None
            self._stand_on(published.entry, published.state, own=own)
            if self._keys is not None:
                self._keys.note_published(published.entry)
            if is_own and published.entry.seq % COMPACTED_EVERY == 0:
                self._compaction = compact_in_background(self.log, self.packs, published)
        return published.entry

    def discard(self) -> None:
        """Forget everything staged; views of it are stale from now on."""
        with self.lock:
            if self._working is not None:
                self._working.retire()
            self._end_transaction()

    def stand_on(self, published: Published) -> None:
        """Move to a commit of this branch that was just published."""
        with self.lock:
            self._stand_on(published.entry, published.state)

    def refresh(self) -> None:
        """Move to the branch's newest entry."""
        with self.lock:
            self.check_present()
            newest = runtime.run(self.log.newest_from(self._head))
            if newest.seq != self._head.seq:
                self._stand_on(self._loaded(newest))

    def rebase(self, on_conflict: OnConflict) -> None:
        """Move to the branch's newest entry with all that is staged.

        Raises:
            ConflictError: A commit in between changed the same; nothing moved.
        """
        with self.lock:
            self.check_open()
            if self._is_committing:
                raise InvalidStateError("a commit of this handle is under way in another thread")
            transaction = self.transaction
            if transaction is None:
                self.refresh()
                return
            self.check_present()
            between = runtime.run(self.log.all_after(self._head.seq))
            if not between:
                return
            own = transaction.found_in(between)
            if own is not None:
                self._stand_on(self._loaded(between[-1]), own=own)  # it was in doubt
                return
            move_transaction(
                transaction,
                self.log,
                between,
                differ=self._comparison(),
                on_conflict=on_conflict,
            )
            self._head, self._seen, self._working = transaction.base, time.monotonic(), None
            self._committed = self._snapshot_of(self._head)
            if not transaction.has_changes:
                self._end_transaction()

    def _verify(self, transaction: Transaction) -> None:
        """Refuse rows that break a constraint, or whose labels do not fit their boxes or images."""
        if not ((schema := transaction.schema).paired or schema.cut or schema.constraints):
            return
        working = Snapshot(
            transaction.working(),
            transaction.packs,
            version=self._committed.version,
            digest=f"{self._committed.digest}+{transaction.txid}",
            is_staged=True,
            holds=transaction,
            before=self._committed,
        )
        if (schema.paired or schema.cut) and (assigned := transaction.sealed().assigned()):
            check_rows(self.reader(working), assigned, call="commit()", advice=ASSIGN_OTHER)
        if schema.constraints:
            before = transaction.base_state.schema
            self.constraints(self, working, transaction.sealed().changed(), before)

    def _comparison(self) -> CellComparison:
        return CellComparison(self.packs, self.chunks, partial(self.misfits, self))

    def close(self) -> None:
        """Close the handle; warn when staged changes are lost by it."""
        if self.is_closed:
            return
        if self.transaction is not None:
            warnings.warn(
                f"{self.store.url!r} was closed with staged changes, which are gone;"
                " call ds.commit() or ds.discard() first",
                UncommittedChangesWarning,
                stacklevel=3,
            )
            self.discard()
        if self._compaction is not None:
            self._compaction.join()
        self.ahead.clear()
        self.is_closed = True

    def _stand_on(
        self, entry: Entry, state: State | None = None, *, own: Entry | None = None
    ) -> None:
        # Snapshots of the working copy stay readable: they hold the transaction.
        before = self._working or self._committed
        self._end_transaction(own)
        self._head, self._seen = entry, time.monotonic()
        self._committed = (
            self._snapshot_of(entry, before=before)
            if state is None
            else Snapshot(
                state,
                self.packs,
                version=f"{self.branch}@{entry.seq}",
                digest=entry.digest,
                before=before,
            )
        )

    def _stand_on_compaction(self) -> None:
        """Move to the entry of this handle's own compaction, if it is the next one."""
        compacted = None if self._compaction is None else self._compaction.join()
        if compacted is not None and compacted.entry.prev == self._head.digest:
            self._stand_on(compacted.entry, compacted.state)
        self._compaction = None

    def _end_transaction(self, published: Entry | None = None) -> None:
        report = self.map_report
        if self._transaction is not None and report is not None and report.version is None:
            version = None if published is None else f"{self.branch}@{published.seq}"
            self.map_report = None if version is None else replace(report, version=version)
        if self._when_dropped is not None:
            self._when_dropped.detach()
        self._transaction, self._working, self._when_dropped = None, None, None
        self._blocks = None

    def _snapshot_of(self, entry: Entry, *, before: Snapshot | None = None) -> Snapshot:
        if entry.kind != "commit":
            entry = self._loaded(runtime.run(commit_under(self.store, self.branch, entry)))
        return Snapshot.of_entry(entry, self.packs, branch=self.branch, before=before)

    def _loaded(self, entry: Entry) -> Entry:
        return runtime.run(loaded(entry, self.packs)) if entry.spilled or entry.bases else entry

    def check_open(self) -> None:
        """Refuse what changes the dataset, or moves the handle, once it was closed.

        Else wait for the compaction that the last commit began: results do not depend on its speed.
        """
        self._refuse_closed()
        if self._compaction is not None:
            self._compaction.join()

    def check_present(self) -> None:
        """Refuse it, too, where the dataset was deleted, and perhaps created again, since."""
        self.check_open()
        self.confirm()

    def confirm(self) -> None:
        """Check that the dataset is still the one that was opened."""
        if self.log.is_unconfirmed(self._seen):
            runtime.run(self.log.confirm(self._head))
            self._seen = time.monotonic()

    def _refuse_closed(self) -> None:
        if self.is_closed:
            raise InvalidStateError(
                f"this handle of {self.store.url!r} is closed; open the dataset again with tl.open"
            )


def _warn_of_loss(store: Store, transaction: Transaction, pid: int) -> None:
    """Warn that a handle ended with staged changes; a forked copy of it loses nothing."""
    if transaction.has_changes and pid == os.getpid():
        warnings.warn_explicit(  # no line of the user's is at fault: named as CPython does then
            f"the last handle of {store.url!r} ended with staged changes, which are gone;"
            " call ds.commit() or ds.discard() before, or use: with tl.open(…) as ds",
            UncommittedChangesWarning,
            filename="sys",
            lineno=1,
        )
