"""Maintenance of a dataset: compaction, verification, expiry and garbage collection.

No method here changes a value of a version; each returns a report that can be printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorlake.dataset.core.rowset import HasRows, HasSession, HasViews, writer_of
from tensorlake.dataset.maintenance import check as checking
from tensorlake.dataset.maintenance import fork as forking
from tensorlake.dataset.maintenance import gc as collecting
from tensorlake.dataset.maintenance import links as linking
from tensorlake.dataset.maintenance import optimize as optimizing
from tensorlake.dataset.maintenance.check import CheckReport
from tensorlake.dataset.maintenance.gc import CollectionReport, ExpiryReport, OlderThan
from tensorlake.dataset.maintenance.optimize import OptimizeReport
from tensorlake.quantities import Duration, check_flags, parse_nbytes, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.dataset.maintenance.forgotten import ForgetReport
    from tensorlake.dataset.maintenance.lint.report import LintReport
    from tensorlake.dataset.maintenance.lint.rule import LintRule
    from tensorlake.dataset.maintenance.trace import Trace
    from tensorlake.dataset.query.predicate import Predicate
    from tensorlake.format import Base

__all__ = [
    "absorb",
    "bases",
    "check",
    "expire",
    "forget",
    "gc",
    "lint",
    "optimize",
    "repair",
    "trace",
]


def optimize(  # noqa: D417 - a method: self
    self: HasSession,
    order_by: str | None = None,
    *,
    dry_run: bool = False,
    progress: bool | None = None,
) -> OptimizeReport:
    """Merge small chunks and drop what deleted rows left behind; this handle moves to the head.

    No value, row id or order changes, older versions stay as they are, and others may read and
    commit meanwhile: a chunk modified concurrently is skipped. Chunks that need no compaction
    are not touched, so a second call right after does nothing.

    Args:
        order_by: Also sort the rows: by a tensor, or by TQL as after ``ORDER BY``
            (``"label, score DESC"``). Row ids stay; row numbers do not.
        dry_run: Only report the changes. Data is read and encoded but not stored: this takes as
            long as a run without its writes, and the report is exact.
        progress: Whether to show a progress line; None: on terminals.

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
    check_flags(dry_run=dry_run, progress=progress, unset=("progress",))
    return optimizing.optimize(self.__session__, order_by, dry_run=dry_run, progress=progress)


def expire(  # noqa: D417 - a method: self
    self: HasSession,
    *,
    older_than: OlderThan | None = None,
    keep_last: int | None = None,
    dry_run: bool = False,
) -> ExpiryReport:
    """Expire old versions of every branch; the next ``gc`` removes the data that only they need.

    Each branch keeps its newest version, tags and saved views keep theirs, and the log still
    lists all versions. Expired versions can no longer be tagged or branched from.

    Args:
        older_than: Expire versions superseded before this time: ``"90d"`` or a timedelta ago by
            the store's clock, or an aware datetime. A number without a unit is refused.
        keep_last: Keep the last N commits of each branch. With both, versions kept by either are
            kept.
        dry_run: Only report the versions to expire.

    Raises:
        InvalidInputError: Neither is given, or one is invalid.
        ReadOnlyError: The handle was opened with ``read_only=True``, and this is not a dry run.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-expire", {"x": "int64"})
        >>> for number in range(3):
        ...     ds.append({"x": number})
        ...     _ = ds.commit()
        >>> print(ds.expire(keep_last=1))
        expired main@0 … main@2; main@3 and later are kept
    """
    check_flags(dry_run=dry_run)
    return collecting.expire(
        self.__session__, older_than=older_than, keep_last=keep_last, dry_run=dry_run
    )


def gc(self: HasSession, *, dry_run: bool = False) -> CollectionReport:  # noqa: D417 - a method: self
    """Remove data that no version, tag or view needs and no transaction can publish any more.

    Others may read and commit meanwhile. Data that was staged but never committed is kept for
    the dataset's grace time (``tl.create(…, grace="24h")``); history is never removed unless it
    was expired or its branch deleted. A run may be stopped and started again at any point.

    Args:
        dry_run: Only report the data to remove, and write nothing; concurrent commits make this
            an estimate.

    Raises:
        ReadOnlyError: The handle was opened with ``read_only=True``, and this is not a dry run.
        CorruptionError: Required data is missing or damaged; nothing was removed.
        AccessError: The credentials may not list, write or delete.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-gc", {"x": "int64"})
        >>> ds.append({"x": 1})
        >>> _ = ds.commit()
        >>> ds.gc().deleted_packs
        0
    """
    check_flags(dry_run=dry_run)
    return collecting.gc(self.__session__, dry_run=dry_run)


def absorb(  # noqa: D417 - a method: self
    self: HasSession, name: str | None = None, *, progress: bool | None = None
) -> int:
    """Copy what is elsewhere into the dataset, and commit: linked files, or the bases of a fork.

    A tensor then has the linked type, and reads as before without its files. Files are verified
    as they are copied, in commits of some 256 MiB: stopped and called again, it continues. A fork
    then needs its bases for none of its versions.

    Args:
        name: A tensor of ``tl.Link``; None: the bases.
        progress: Whether to show a progress line; None: on terminals.

    Returns:
        The number of files, or of packs of the bases.

    Raises:
        InvalidInputError: The tensor has no links.
        CorruptSampleError: A file is gone, or has changed since it was linked.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> made = tl.create("memory://doc-absorb-from", {"sound": tl.Audio(rate=8000)})
        >>> made.append({"sound": np.zeros(800, np.int16)})
        >>> _ = Path("a.flac").write_bytes(made["sound"].bytes(0))
        >>> ds = tl.create("memory://doc-absorb", {"sound": tl.Link(tl.Audio())})
        >>> ds.append({"sound": Path("a.flac")})
        >>> _ = ds.commit()
        >>> ds.absorb("sound"), ds["sound"].type
        (1, Audio())
        >>> made.discard()
    """
    check_flags(progress=progress, unset=("progress",))
    if name is None:
        return forking.absorb(self.__session__, progress=progress)
    return linking.absorb(self.__session__, name, progress=progress)


def bases(self: HasSession) -> tuple[Base, ...]:
    """The datasets whose data a fork reads, nearest first: ``.url .version .id``; else empty."""
    return self.__session__.head.bases


def check(  # noqa: D417 - a method: self
    self: HasSession,
    *,
    full: bool = True,
    decode: bool = False,
    repair: bool = False,
    links: bool = False,
    progress: bool | None = None,
) -> CheckReport:
    """Verify the dataset: every version of every branch, tag and view, and all data they need.

    Damage is reported, never raised, and does not stop the check. A check that finds none leaves
    ``check.json`` in the dataset, if it may write; a later one with ``full=False`` skips objects
    named there that the store lists unchanged (name, size, etag). Nothing else is changed.

    Args:
        full: Read every chunk and compare checksums; False: read logs and index pages only,
            and check that packs exist and are long enough.
        decode: Also decode every media sample of each branch's newest version.
        repair: First repair damage where possible, as new commits: lost index pages, wrong hints.
            Nothing is deleted; the report lists what was and was not recovered. The same as
            ``ds.repair()``.
        links: Also look up every linked file of this version, and report those that are gone or
            have changed by size or the store's tag; with ``decode``, read and decode it.
        progress: Whether to show a line of progress; None: on terminals.

    Raises:
        ReadOnlyError: ``repair`` on a handle opened with ``read_only=True``.
        UncommittedChangesError: ``repair`` over staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-check", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit()
        >>> ds.check().ok
        True
    """
    flags = {"full": full, "decode": decode, "repair": repair, "links": links}
    check_flags(**flags, progress=progress, unset=("progress",))
    return checking.check(self.__session__, **flags, progress=progress)


def repair(  # noqa: D417 - a method: self
    self: HasSession, *, full: bool = True, decode: bool = False, progress: bool | None = None
) -> CheckReport:
    """Repair damage where possible, then verify the dataset: ``check(repair=True)``.

    Repairs are new commits and restored objects; nothing is deleted. ``report.repairs`` lists
    what was and was not recovered, ``report.findings`` the damage that remains.

    Args:
        full: Read every chunk and compare checksums, as in ``check``.
        decode: Also decode every media sample of each branch's newest version.
        progress: Whether to show a line of progress; None: on terminals.

    Raises:
        ReadOnlyError: The handle was opened with ``read_only=True``.
        UncommittedChangesError: There are staged changes.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-repair", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit()
        >>> report = ds.repair()
        >>> report.ok, report.repairs
        (True, ())
    """
    return check(self, full=full, decode=decode, repair=True, progress=progress)


def trace(self: HasViews[Any], row: int | str) -> Trace:  # noqa: D417 - a method: self
    """Find the versions, tags, saved views and runs that hold a row.

    A row is the same one in all versions, whatever its number and its values are there. Versions
    that have expired are not listed, and copies in other places are not known to a dataset.

    Args:
        row: Its number in this version; or its id, as ``row_ids`` lists them, of a row that this
            version does not show.

    Raises:
        RowNotFoundError: There is no row of this number.
        InvalidInputError: It is neither a number nor a row id.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-trace", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3, 4]})
        >>> _ = ds.commit("four")
        >>> with ds.run("first") as run:
        ...     _ = list(run.loader(batch_size=2))
        >>> _ = ds.delete(0)
        >>> _ = ds.commit("three")
        >>> print(ds.trace(2))
        versions with 1 row: main@1 … main@2
        tags: none
        saved views: none
        run 'first': 1 step, 1 to 1
    """
    from tensorlake.dataset.maintenance import trace as tracing

    return tracing.trace(self, row)


def forget(  # noqa: D417 - a method: self
    self: HasViews[Any],
    where: str | Predicate | HasRows | Sequence[str] | None = None,
    *,
    finish: bool = False,
) -> ForgetReport:
    """Erase rows for good, in two calls: at once from all branches, later from the store.

    The first call deletes the rows that meet the condition in any version from every branch, moves
    all other samples out of the packs that have their values, builds indexes again, puts
    ``<name>.forgotten``, the same without the rows, in place of tags and saved views of versions
    that have them, and expires those versions: they cannot be opened any more. Values of the rows
    in queries and configs of runs become ``***``. When the grace time of ``tl.create`` has passed,
    ``finish=True`` collects and confirms that the packs are gone; only then is
    ``report.is_finished`` true, and the report kept with the dataset. A call that was stopped is
    continued by the next one.

    Statistics in log entries may keep bounds of values (numbers, the first 16 bytes of strings),
    except of tensors declared ``personal=True``: ``report.bounds`` lists which, and
    ``report.unreached`` what a dataset cannot erase.

    Args:
        where: TQL text without WHERE, or a Predicate, asked of every version that has its tensors;
            or the rows: a view, row ids as ``row_ids`` lists them. None: no more, with ``finish``.
        finish: Also collect what has been forgotten.

    Raises:
        InvalidStateError: With ``finish``: packs are still there.
        QueryError: No version has what the condition names.
        ReadOnlyError: The handle cannot write.
        UncommittedChangesError: There are staged changes.
        ConflictError: Others changed a branch again and again meanwhile.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-forget", {"name": "str"})
        >>> ds.extend({"name": ["Ana", "Ben", "Cem"]})
        >>> _ = ds.commit("three")
        >>> _ = ds.tag("v1")
        >>> report = ds.forget("name = 'Ben'")
        >>> ds["name"].to_list(), report.deleted, report.is_finished
        (['Ana', 'Cem'], ('v1',), False)
    """
    from tensorlake.dataset.maintenance.forget import forget as forgetting

    check_flags(finish=finish)
    session = writer_of(self)
    assert session is not None, "a Dataset has one"
    return forgetting(self, session, where, finish=finish)


def lint(  # noqa: D417 - a method: self
    self: HasViews[Any],
    rules: Sequence[str | LintRule] | None = None,
    *,
    timeout: Duration | None = None,
    max_bytes: int | str | None = None,
    progress: bool | None = None,
) -> LintReport:
    """Find defects that large datasets often have, each with its rows and a query.

    Every column that a rule applies to is read, images, audio and parts of videos are decoded; in
    bounded memory, but for about 60 bytes per row where splits are compared. Nothing is changed. A
    view is linted alone, so ``ds.sample(1000).lint()`` reads a sample.

    Args:
        rules: Names of rules, or rules; None: those of docs/reference/sdk.md and of plug-ins.
        timeout: Seconds after which it ends with an error, or "5min", or a timedelta.
        max_bytes: Stored bytes of the columns, or "4GiB", above which nothing is read, and an error
            gives the number of rows to sample.
        progress: Whether to show a progress line; None: on terminals.

    Raises:
        InvalidInputError: There is no such rule.
        QueryLimitError: A limit was passed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-lint", {"box": tl.BBox("xyxy")})
        >>> ds.extend({"box": [[[0, 0, 4, 4]], [[3, 3, 3, 8]]]})
        >>> for finding in ds.lint():
        ...     print(finding.what, finding.rows, ds.query(finding.query).rows)
        has boxes of no area [1] [1]
        >>> ds.discard()
    """
    from tensorlake.dataset.maintenance.lint import run

    check_flags(progress=progress, unset=("progress",))
    return run.lint(
        self.__view__(self.__rowset__),
        rules,
        timeout_s=None if timeout is None else seconds_of(timeout, what="timeout"),
        max_nbytes=None if max_bytes is None else parse_nbytes(max_bytes, name="max_bytes"),
        progress=progress,
    )
