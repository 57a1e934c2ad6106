"""Links of a dataset: which files are gone or have changed, and copying files into the dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.progress import Progress
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.dataset.write.staging import assign
from tensorlake.errors import (
    AccessError,
    CorruptSampleError,
    InvalidInputError,
    StorageError,
    UncommittedChangesError,
)
from tensorlake.quantities import plural
from tensorlake.reading import Reader
from tensorlake.storage import LinkStore, LinkTarget, parallel_map
from tensorlake.types import EncodedColumn, Link, LinkedSample
from tensorlake.versions import CommitRequest, Finding

__all__ = ["absorb", "link_findings"]

Int64Array = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1024
COMMIT_NBYTES = 256 << 20
"""Bytes of files in a commit of their copies: what a stopped run does again."""


def link_findings(session: Session) -> list[Finding]:
    """Look up every linked file of the handle's version; report those gone or changed.

    Sizes and the store's tags are compared, and no file is read.
    """
    snapshot = session.committed
    names = [spec.name for spec in snapshot.schema.tensors if isinstance(spec.type, Link)]
    return [
        _finding(one, why, snapshot.version)
        for name in names
        for one, why in _bad_links(session, name, np.arange(snapshot.num_rows))
    ]


def absorb(session: Session, name: str, *, progress: bool | None = None) -> int:
    """Copy the files that a tensor links to into the dataset; return the number of rows."""
    session.check_open()
    with session.lock:
        if session.transaction is not None:
            raise UncommittedChangesError(
                f"{session.store.url!r} has staged changes, and absorb({name!r}) commits"
                "\ncommit or discard them first"
            )
        session.refresh()  # another handle may have absorbed it
        kind = _link(session, name)
        copies = f"{name}.absorbing"
        if copies not in session.snapshot().schema.by_name:
            _check_files(session, name)
            own = replace(kind.file_type, nullable=True)
            schema_changes.add_tensor(session, copies, own, None)
            session.commit(CommitRequest(f"absorb {name}: begin"))
            try:
                _link(session, name)
            except InvalidInputError:  # absorbed since the refresh: leave nothing behind
                schema_changes.drop_tensor(session, copies)
                session.commit(CommitRequest(f"absorb {name}: taken back"))
                raise
        try:
            count = _copy(session, name, copies, progress=progress)
        except CorruptSampleError as error:
            session.discard()
            error.add_note(
                f"the files copied so far are in {copies!r}: call absorb({name!r}) again to go on,"
                f" or take it back: ds.drop_tensor({copies!r})"
            )
            raise
        if not kind.nullable:
            schema_changes.alter_tensor(session, copies, nullable=False)
        schema_changes.drop_tensor(session, name)
        schema_changes.rename_tensor(session, copies, name)
        session.commit(CommitRequest(f"absorb {name}: {plural(count, 'file')} copied"))
        return count


def _link(session: Session, name: str) -> Link:
    """Return the type of a tensor of links in the version that the handle is at.

    Raises:
        InvalidInputError: The tensor holds no links.
    """
    kind = session.snapshot().spec(name).type
    if not isinstance(kind, Link):
        raise InvalidInputError(
            f"absorb({name!r}) copies linked files, and in {session.committed.version} {name!r} is"
            f" {kind.describe()}\nits samples are in the dataset: absorb only tensors of tl.Link",
            tensor=name,
        )
    return kind


def _copy(session: Session, name: str, copies: str, *, progress: bool | None) -> int:
    """Copy the files that are not copied yet, in commits; return the number of all."""
    snapshot = session.snapshot()
    reader = session.reader(snapshot)
    physical = snapshot.physical(np.arange(snapshot.num_rows))
    is_linked = ~reader.is_null(name, physical)
    is_copied = ~reader.is_null(copies, physical)
    unlinked = np.flatnonzero(~is_linked & is_copied)
    if len(unlinked):  # set to NULL since they were copied
        assign(session, copies, unlinked, [None] * len(unlinked), call="absorb()")
    left = np.flatnonzero(is_linked & ~is_copied)
    left = np.union1d(left, _linked_again(reader, name, copies, is_linked & is_copied))
    with Progress(f"absorb {name}", total=len(left), shown=progress) as bar:
        held = len(unlinked)
        for samples in _samples(reader, name, left):
            for one in samples:
                content = one.content
                assign(session, copies, np.array([one.row]), [content], call="absorb()")
                held += len(content)
                bar.advance(len(content), rows=1)
                if held >= COMMIT_NBYTES:
                    session.commit(CommitRequest(f"absorb {name}: to row {one.row}"))
                    held = 0
        if held:
            session.commit(CommitRequest(f"absorb {name}: to the last row"))
    return int(is_linked.sum())


def _linked_again(
    reader: Reader, name: str, copies: str, is_both: npt.NDArray[np.bool_]
) -> Int64Array:
    """Return the copied rows whose links name other content by now: a stopped run left them."""
    found: list[int] = []
    rows = np.flatnonzero(is_both)
    for start, samples in enumerate(_samples(reader, name, rows)):
        some = rows[start * ROWS_AT_ONCE :][:ROWS_AT_ONCE]
        for at, one in zip(some.tolist(), samples, strict=True):
            stored = reader.read(copies, reader.snapshot.physical(np.array([at])), decode=False)
            assert isinstance(stored, EncodedColumn), "what links lead to is stored encoded"
            if not one.record.is_content(stored.samples[0]):
                found.append(at)
    return np.array(found, np.int64)


def _check_files(session: Session, name: str) -> None:
    """Refuse to begin where a file is gone or has changed.

    Raises:
        CorruptSampleError: One is.
    """
    bad = _bad_links(session, name, np.arange(session.committed.num_rows))
    if bad:
        (first, why), urls = bad[0], {one.record.url for one, _ in bad}
        raise CorruptSampleError(
            f"absorb({name!r}): row {first.row} is a link to {first.record.url!r}, which {why};"
            f" {plural(len(urls), 'file')} cannot be copied, and nothing was changed"
            "\nrestore them (ds.check(links=True) lists all), link others, or set the rows to None",
            tensor=name,
            row=first.row,
            url=first.record.url,
        )


def _bad_links(session: Session, name: str, rows: Int64Array) -> list[tuple[LinkedSample, str]]:
    """Look up the linked files of rows; return those that are gone or have changed, and why."""
    found: list[tuple[LinkedSample, str]] = []
    for samples in _samples(session.reader(session.committed), name, rows):
        reasons = parallel_map(partial(_why_bad, session.packs.links), samples)
        found += [(one, why) for one, why in zip(samples, reasons, strict=True) if why]
    return found


def _samples(reader: Reader, name: str, rows: Int64Array) -> Iterator[list[LinkedSample]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = reader.snapshot.physical(rows[start : start + ROWS_AT_ONCE])
        yield [one for one in reader.samples(name, some) if isinstance(one, LinkedSample)]


def _why_bad(files: LinkStore, sample: LinkedSample) -> str | None:
    record = sample.record
    try:
        found: LinkTarget = files.stat(record.url)
    except FileNotFoundError:
        return "is gone"
    except (AccessError, StorageError) as error:
        return f"cannot be looked up: {str(error).splitlines()[0]}"
    if found.nbytes != record.nbytes:
        return f"has {found.nbytes:,} bytes, and had {record.nbytes:,} when it was linked"
    if record.etag and found.etag and found.etag != record.etag:
        return "was written again since it was linked"
    return None


def _finding(sample: LinkedSample, why: str, version: str) -> Finding:
    return Finding(
        f"row {sample.row} of {sample.tensor!r} in {version}",
        None,
        f"it is a link to {sample.record.url!r}, which {why}",
        "damage",
        f"restore the file, or link it again: ds[{sample.tensor!r}][{sample.row}] = URL",
    )
