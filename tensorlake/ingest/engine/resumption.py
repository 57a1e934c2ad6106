"""Start of an ingestion: at the source's first item, after an interrupted run, or complete.

    existing commits           mode="create"                      mode="append"
    none                       begin                              begin
    this source's first items  continue after them                continue, if by an append
    all of its items           nothing to do                      nothing to do, if by an append
    other items                raise, and name the differences    begin; raise for known items

A source is recognised by its notes (`provenance.py`). Commits of tensorlake 0.1.0 have only keys,
made of names and sizes, and are recognised by these.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tensorlake.dataset import Commit, Dataset
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.ingest.engine.options import Mode
from tensorlake.ingest.engine.provenance import (
    MEMBER,
    Differences,
    Files,
    Run,
    Skipped,
    read_runs,
    settings_of,
)
from tensorlake.ingest.engine.source import DIGEST_NBYTES, Item, Source
from tensorlake.quantities import plural
from tensorlake.types import ClassLabel, SampleType, as_type

__all__ = ["CREATE", "Start", "check_skipped", "class_additions", "find_start"]

CREATE = "create"
"""The run that created the dataset."""

NAMED_MAX = 3
"""Maximum files named in a message."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start of an ingestion.

    Attributes:
        run: Run of commits to continue.
        stop: Number of items already ingested.
        num_rows: Number of rows of these items.
        skipped: Items that were left out.
    """

    run: str = CREATE
    stop: int = 0
    num_rows: int = 0
    skipped: Skipped = field(default_factory=Skipped)


def find_start(dataset: Dataset, source: Source[Item], mode: Mode, *, size: int) -> Start:
    """Find where an ingestion into a dataset begins.

    Args:
        dataset: The dataset.
        source: The call's source.
        mode: The call's mode.
        size: Source bytes per commit.

    Raises:
        InvalidInputError: A different call created the dataset, the source has changed, or its
            items are already in the dataset.
    """
    commits = list(dataset.log())
    runs = read_runs(commits)
    mine = [run for run in runs if run.last.what == source.key_start]
    settings = settings_of(source)
    same = [run for run in mine if run.last.settings == settings]
    if mode == "append":
        return _start_of_append(dataset, source, mine, same, commits, size)
    whole = next((run for run in same if run.is_whole(source)), None)
    if whole is not None:
        return _after(whole)
    created = next((run for run in mine if run.last.run == CREATE), None)
    if created is None:
        return _start_of_first(dataset, source, commits, size)
    _check_settings(dataset, source, created)
    if created.last.is_last or not created.is_start_of(source):
        raise _differs(dataset, source, created)
    _check_own(dataset, source, commits)
    return _after(created)


def check_skipped(dataset: Dataset, source: Source[Item], skipped: Skipped) -> None:
    """Refuse to continue after items that were left out, for a call with ``on_error="raise"``.

    Raises:
        InvalidInputError: Items were left out.
    """
    if not skipped.count:
        return
    names = list(dict.fromkeys(item.item for item in skipped.named))
    displayed = f" ({_named(names, skipped.count)})" if names else ""
    were = "was" if skipped.count == 1 else "were"
    first = f"\nthe first: {skipped.named[0].reason}" if names else ""
    raise InvalidInputError(
        f"{plural(skipped.count, 'item')} of {_called(source)} {were} left out of"
        f" {dataset.url!r} by an earlier call{displayed}{first}"
        "\nto continue without them: on_error='skip' or 'quarantine'; to include them: fix them,"
        f" and {_apart(dataset, source)}; to ingest all of it anew: {_deletion(dataset)},"
        " or another URL",
        dataset=dataset.url,
        count=skipped.count,
        items=names,
    )


def class_additions(dataset: Dataset, source: Source[Item]) -> str:
    """Return code that adds the missing classes of a source to a dataset, or an empty string."""
    additions: list[str] = []
    for name, kind in source.schema.items():
        here, there = as_type(kind), dataset.schema.get(name)
        if isinstance(here, ClassLabel) and isinstance(there, ClassLabel) and there.names:
            new = [one for one in here.names if one not in there.names]
            additions += [f"ds[{name!r}].add_names({shown(new)})"] if new else []
    if not additions:
        return ""
    return f"ds = tl.open({dataset.url!r}); {'; '.join(additions)}; ds.commit()"


def _after(run: Run) -> Start:
    return Start(run.last.run, run.last.stop, run.num_rows, run.skipped)


def _start_of_append(
    dataset: Dataset,
    source: Source[Item],
    mine: Sequence[Run],
    same: Sequence[Run],
    commits: Sequence[Commit],
    size: int,
) -> Start:
    for run in same:
        if run.last.run == CREATE or not run.is_start_of(source):
            continue
        if not run.last.is_last or (source.has_identity and run.is_whole(source)):
            return _after(run)
    if not source.has_identity:
        return Start(secrets.token_hex(DIGEST_NBYTES))
    first = next(iter(source.cut(range(len(source.items)), size)), range(0))
    described = f"{source.key_start}{settings_of(source)}".encode() + source.identity(first)
    name = hashlib.blake2b(described, digest_size=DIGEST_NBYTES).hexdigest()
    _, known = _by_first_keys(source, commits, size)
    if known.stop:
        return replace(known, run=name)
    files = Files.of(source)
    there = list(dict.fromkeys(path for run in mine for path in _ingested(run, files)))
    if there:
        stopped = any(run.last.run == CREATE and not run.last.is_last for run in same)
        raise _there_already(dataset, source, there, files.paths, is_stopped=stopped)
    return Start(name)


def _ingested(run: Run, files: Files) -> list[str]:
    """List the files that a run has ingested, without those recorded as left out."""
    left_out = {item.item for item in run.skipped.named}
    return [path for path in run.known(files) if path not in left_out]


def _start_of_first(
    dataset: Dataset, source: Source[Item], commits: Sequence[Commit], size: int
) -> Start:
    """Begin in a dataset without rows, or continue one that tensorlake 0.1.0 began."""
    is_explained, known = _by_first_keys(source, commits, size)
    if known.stop == len(source.items):
        return known
    _check_own(dataset, source, commits)
    if not is_explained:
        raise InvalidInputError(
            f"{dataset.url!r} was ingested by tensorlake 0.1.0, and names or sizes in"
            f" {_called(source)} have changed since, or commit_every= differs"
            f"{_advice(dataset, source)}",
            dataset=dataset.url,
        )
    declared = cast("Mapping[str, SampleType]", source.settings.get("schema") or {})
    for name, wanted in declared.items():
        found = dataset.schema.get(name)
        if found is not None and found != wanted:
            raise SchemaError(
                f"schema= does not match {dataset.url!r}: tensor {name!r} is"
                f" {found.describe()} there, and {wanted.describe()} in this call"
                f"\nthe dataset has no rows; to start over: {_deletion(dataset)}",
                dataset=dataset.url,
                tensor=name,
            )
    return known


def _by_first_keys(
    source: Source[Item], commits: Sequence[Commit], size: int
) -> tuple[bool, Start]:
    """Find the start after a run of 0.1.0, and whether this source explains all its commits."""
    rows = {
        key: commit.changes.append
        for commit in commits
        if MEMBER not in commit.meta
        for key in commit.keys
        if key.startswith(source.key_start)
    }
    start = Start()
    for batch in source.cut(range(len(source.items)), size) if rows else ():
        key = source.first_key(batch)
        if key not in rows:
            break
        start = Start(CREATE, batch.stop, start.num_rows + rows.pop(key))
    return not rows, start


def _check_own(dataset: Dataset, source: Source[Item], commits: Sequence[Commit]) -> None:
    """Refuse a dataset with commits from other sources."""
    *others, first = commits
    mine = source.key_start
    foreign = next(
        (one for one in others if not any(key.startswith(mine) for key in one.keys)), None
    )
    if foreign is None and first.num_rows:
        foreign = first
    if foreign is None:
        return
    maker = f", not made by {source.maker}" if source.maker else ""
    raise InvalidInputError(
        f"there is a dataset at {dataset.url!r} with other commits ({foreign.version}:"
        f" {foreign.message!r}){maker}\nto use it as it is: tl.open({dataset.url!r});"
        " to add to it: mode='append'; otherwise choose another URL",
        dataset=dataset.url,
    )


def _check_settings(dataset: Dataset, source: Source[Item], run: Run) -> None:
    now, then = settings_of(source), run.last.settings
    differing = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    if not differing:
        return
    displayed = "; ".join(
        f"{name}={now.get(name, _NOTHING)[0]} here, {then.get(name, _NOTHING)[0]} then"
        for name in differing
    )
    raise InvalidInputError(
        f"{dataset.url!r} was ingested with other arguments: {displayed}{_advice(dataset, source)}",
        dataset=dataset.url,
        arguments=differing,
    )


def _differs(dataset: Dataset, source: Source[Item], run: Run) -> InvalidInputError:
    """Return the error for a source that has changed since it was ingested."""
    files = Files.of(source)
    found = run.differences(files)
    place = f" ({run.last.place!r})" if run.last.place not in ("", source.place) else ""
    is_same_names = found.changed and not found.added and not found.removed
    hint = "; copies keep their times with cp -p or rsync -t" if is_same_names else ""
    return InvalidInputError(
        f"{_called(source)} differs from the source of {dataset.url!r}{place}:"
        f" {_described(found, source.unit, run, len(files.paths))}{_advice(dataset, source)}{hint}",
        dataset=dataset.url,
        added=found.added,
        changed=found.changed,
        removed=found.removed,
    )


def _there_already(
    dataset: Dataset,
    source: Source[Item],
    there: Sequence[str],
    paths: Sequence[str],
    *,
    is_stopped: bool,
) -> InvalidInputError:
    count = f"{len(there):,} of {plural(len(paths), source.unit)}, " if len(paths) > 1 else ""
    known = set(there)
    new = [path for path in paths if path not in known]
    advice = (
        f"pass only new items{source.apart}: {_named(new)}"
        if new
        else "the source has no new items"
    )
    if is_stopped:
        advice = "an interrupted call ingested them; to continue it: mode='create'"
    return InvalidInputError(
        f"{count}{_named(there)} of {_called(source)} {'is' if len(there) == 1 else 'are'}"
        f" already in {dataset.url!r}\nnothing was appended: {advice}",
        dataset=dataset.url,
        items=list(there),
    )


def _described(found: Differences, unit: str, run: Run, count: int) -> str:
    parts: list[str] = []
    if not found.is_exact and (found.added or found.changed):
        among = [*found.added, *found.changed]
        parts.append(f"there are changes among {plural(len(among), unit)} such as {_named(among)}")
    else:
        for paths, what in ((found.added, "added"), (found.changed, "changed")):
            if paths:
                were = "was" if len(paths) == 1 else "were"
                parts.append(f"{plural(len(paths), unit)} {were} {what} ({_named(paths)})")
    if found.removed and found.is_exact:
        were = "was" if found.removed == 1 else "were"
        parts.append(f"{plural(found.removed, unit)} {were} removed")
    if run.last.is_last and not (found.is_exact and parts):
        parts.append(f"it had {plural(run.num_files, unit)} and has {count:,}")
    return "; ".join(parts) or "items already ingested have changed"


def _named(paths: Sequence[str], count: int | None = None) -> str:
    """Name the first of ``count`` paths; ``count`` may exceed the known paths."""
    displayed = ", ".join(repr(path) for path in paths[:NAMED_MAX])
    is_more = (count or len(paths)) > min(len(paths), NAMED_MAX)
    return f"{displayed}, …" if is_more else displayed


def _called(source: Source[Item]) -> str:
    return repr(source.place) if source.place else f"the source of ingest.{source.kind}()"


def _deletion(dataset: Dataset) -> str:
    return f"tl.delete({dataset.url!r}, confirm={dataset.url!r})"


def _advice(dataset: Dataset, source: Source[Item]) -> str:
    return (
        f"\nnothing was ingested. To use the dataset as it is: tl.open({dataset.url!r}); to add"
        f" new items: {_apart(dataset, source)}; to ingest all of it anew:"
        f" {_deletion(dataset)}, or another URL"
    )


def _apart(dataset: Dataset, source: Source[Item]) -> str:
    """Describe how to append some items."""
    classes = class_additions(dataset, source)
    first = f", after {classes}" if classes else ""
    return f"pass only them{source.apart}, with mode='append'{first}"


_NOTHING = ("nothing", "")
