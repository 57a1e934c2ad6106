"""``tl.copy``: copy a dataset to another place, completely, in part, or as a mirror."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

from tensorlake.dataset.core.progress import Progress
from tensorlake.errors import InvalidInputError, SnapshotExpiredError, shown
from tensorlake.quantities import check_flags, checked_integer, human_nbytes, plural
from tensorlake.storage import open_store, place_text, runtime
from tensorlake.versions import PACKS_AT_ONCE, copy_dataset, refuse_occupied

__all__ = ["CopyReport", "copy"]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy; prints as a line.

    Attributes:
        source: URL of the dataset.
        target: URL of the copy.
        version: The one version that was copied; None: all of them.
        packs: Packs copied, and their bytes.
        present: Packs that were already in the target.
        entries: Log entries copied.
        tags: Tags copied.
        is_mirror: Whether the copy follows its source.
        is_dry_run: Whether nothing was done; entries and tags are not counted then.
    """

    source: str
    target: str
    version: str | None
    packs: int
    nbytes: int
    present: int
    entries: int
    tags: int
    is_mirror: bool = False
    is_dry_run: bool = False

    def __repr__(self) -> str:
        what = self.source if self.version is None else f"{self.version} of {self.source}"
        facts = [f"{plural(self.packs, 'pack')} ({human_nbytes(self.nbytes)})"]
        if self.present:
            facts.append(f"{self.present:,} there already")
        if self.is_dry_run:
            return f"would copy {what} to {self.target}: {', '.join(facts)}"
        entries = f"{self.entries:,} log {'entry' if self.entries == 1 else 'entries'}"
        facts += [entries, *([plural(self.tags, "tag")] if self.tags else [])]
        verb = "mirrored" if self.is_mirror else "copied"
        return f"{verb} {what} to {self.target}: {', '.join(facts)}"


def copy(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    version: str | dt.datetime | None = None,
    history: bool = True,
    mirror: bool = False,
    bases: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    src_storage_options: Mapping[str, Any] | None = None,
    durability: Literal["fsync", "none"] = "fsync",
    progress: bool | None = None,
) -> CopyReport:
    """Copy a dataset to another place; the same call continues an interrupted copy.

    An incomplete copy is not a dataset: it cannot be opened, only finished by the same call, or
    removed by ``tl.delete``. A complete copy is an independent dataset with the same branches,
    commits, digests, tags and row ids. Packs that the target has already are not copied again.
    Versions that the source has forgotten do not open in the target either; a mirror loses their
    packs once the source has.

    Args:
        src: URL of the dataset.
        dst: Destination: without a dataset, or with an earlier state of this copy.
        version: Copy this branch, commit or tag, or main at this aware datetime, with its history.
        history: False: one version alone, main's newest by default, with a new log.
        mirror: Make a copy that is read only and follows its source: the same call again brings it
            up to date.
        bases: Also copy the data that a fork reads in its bases: the copy is read without them.
        dry_run: Only report what would be copied.
        workers: Number of packs copied concurrently; None: 8. One process copies all of them, with
            at most 192 MiB of packs in memory.
        storage_options: Credentials and endpoint, by fsspec's key names.
        src_storage_options: Those of ``src``, if different.
        durability: ``"none"`` leaves out the fsyncs of a local folder.
        progress: Whether to show a line of progress; None: on terminals.

    Raises:
        DatasetNotFoundError: There is none at ``src``.
        InvalidInputError: ``dst`` has another dataset, a diverged one, or other files, or is
            inside a dataset; or the number of workers
            is invalid.
        SnapshotExpiredError: ``version`` has expired, for example because its branch has ended.
        CorruptionError: A pack of the source is damaged; run ``check`` on it.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-copy", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit()
        >>> report = tl.copy("memory://doc-copy", "memory://doc-copied")
        >>> tl.open("memory://doc-copied").version
        'main@1'
    """
    src, dst = place_text(src, what="src"), place_text(dst, what="dst")
    check_flags(
        history=history,
        mirror=mirror,
        bases=bases,
        dry_run=dry_run,
        progress=progress,
        unset=("progress",),
    )
    if src.rstrip("/") == dst.rstrip("/"):
        raise InvalidInputError(f"copy({shown(src)}, {shown(dst)}): both are the same place")
    if workers is not None:
        packs = f"pass the number of packs to copy concurrently; default {PACKS_AT_ONCE}"
        workers = checked_integer(workers, name="workers", least=1, advice=packs)
    options = storage_options if src_storage_options is None else src_storage_options
    source = open_store(src, storage_options=options)
    target = open_store(dst, storage_options=storage_options, durability=durability)
    runtime.run(refuse_occupied(target, storage_options))
    described: Progress | None = None
    seen = 0

    def advanced(done: int, total: int) -> None:
        nonlocal described, seen
        described = described or Progress(f"copy {src} → {dst}", total=total, shown=progress)
        described.advance(done - seen, 0)
        seen = done

    try:
        done = runtime.run(
            copy_dataset(
                source,
                target,
                version=version,
                history=history,
                mirror=mirror,
                bases=bases,
                dry_run=dry_run,
                workers=PACKS_AT_ONCE if workers is None else int(workers),
                progress=advanced,
            )
        )
    except SnapshotExpiredError as error:
        if version is None:
            raise
        raise SnapshotExpiredError(
            f"copy(version={shown(version)}): {error}", **error.facts
        ) from error
    finally:
        if described is not None:
            described.__exit__()
    return CopyReport(
        source=src,
        target=dst,
        version=done.version,
        packs=done.packs,
        nbytes=done.nbytes,
        present=done.present,
        entries=done.entries,
        tags=done.tags,
        is_mirror=mirror,
        is_dry_run=dry_run,
    )
