"""Where an ingestion begins: at its source's first item, behind what a killed run did, or nowhere.

    the commits there          mode="create"                      mode="append"
    none                       begin                              begin
    this source's first items  go on behind them                  go on, where an append put them
    all of its items           nothing to do                      nothing to do, if an append; or
    other items                refuse, and say what differs       begin; refuse what is there

A source is recognised by its notes (`provenance.py`). Commits of tensorlake 0.1.0 have keys alone,
of names and sizes: they are recognised by these.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tensorlake.dataset import Commit, Dataset
from tensorlake.errors import InvalidInputError, SchemaError
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
"""The run that made the dataset."""

NAMED_MAX = 3
"""Files that a message names."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin.

    Attributes:
        run: Which run of commits goes on.
        stop: How many items it has ingested.
        num_rows: The rows they became.
        skipped: Those that were left out.
    """

    run: str = CREATE
    stop: int = 0
    num_rows: int = 0
    skipped: Skipped = field(default_factory=Skipped)


def find_start(dataset: Dataset, source: Source[Item], mode: Mode, *, size: int) -> Start:
    """Say where an ingestion into a dataset begins.

    Args:
        dataset: The dataset.
        source: Of the call.
        mode: Of the call.
        size: Source bytes a commit.

    Raises:
        InvalidInputError: The call is not the one that made the dataset, the source is not as it
            was, or its items are there already.
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
    """Refuse to go on behind items that were left out: for a call with ``on_error="raise"``.

    Raises:
        InvalidInputError: There are any.
    """
    if not skipped.count:
        return
    names = list(dict.fromkeys(item.item for item in skipped.named))
    told = f" ({_named(names, skipped.count)})" if names else ""
    were = "was" if skipped.count == 1 else "were"
    first = f"\nthe first: {skipped.named[0].reason}" if names else ""
    raise InvalidInputError(
        f"{plural(skipped.count, 'item')} of {_called(source)} {were} left out of"
        f" {dataset.url!r} by an earlier call{told}{first}"
        "\nto go on without them: on_error='skip' or 'quarantine'; to have them too: mend them, and"
        f" {_apart(dataset, source)}; to ingest all of it anew: {_deletion(dataset)}, or another"
        " URL",
        dataset=dataset.url,
        count=skipped.count,
        items=names,
    )


def class_additions(dataset: Dataset, source: Source[Item]) -> str:
    """Write the code that adds a source's classes to a dataset that lacks them; "" where none."""
    additions: list[str] = []
    for name, kind in source.schema.items():
        here, there = as_type(kind), dataset.schema.get(name)
        if isinstance(here, ClassLabel) and isinstance(there, ClassLabel) and there.names:
            new = [one for one in here.names if one not in there.names]
            additions += [f"ds[{name!r}].add_names({new!r})"] if new else []
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
    """List the files that a run has ingested, without those that it is known to have left out."""
    left_out = {item.item for item in run.skipped.named}
    return [path for path in run.known(files) if path not in left_out]


def _start_of_first(
    dataset: Dataset, source: Source[Item], commits: Sequence[Commit], size: int
) -> Start:
    """Begin in a dataset without rows, or go on with one that tensorlake 0.1.0 began."""
    is_explained, known = _by_first_keys(source, commits, size)
    if known.stop == len(source.items):
        return known
    _check_own(dataset, source, commits)
    if not is_explained:
        raise InvalidInputError(
            f"{dataset.url!r} was ingested by tensorlake 0.1.0, and {_called(source)} has not the"
            " names and sizes that it had then, or commit_every= differs"
            f"{_advice(dataset, source)}",
            dataset=dataset.url,
        )
    declared = cast("Mapping[str, SampleType]", source.settings.get("schema") or {})
    for name, wanted in declared.items():
        found = dataset.schema.get(name)
        if found is not None and found != wanted:
            raise SchemaError(
                f"schema= is not the dataset's: {dataset.url!r} has no rows, and"
                f"\n{name!r} as {found.describe()}, where this call would make"
                f" {wanted.describe()}; to begin anew: {_deletion(dataset)}",
                dataset=dataset.url,
                tensor=name,
            )
    return known


def _by_first_keys(
    source: Source[Item], commits: Sequence[Commit], size: int
) -> tuple[bool, Start]:
    """Say what 0.1.0 ingested of this source, and whether that is all it ingested of its kind."""
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
    """Refuse a dataset with commits that are not of this source."""
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
        " to add to it give mode='append'; else choose another URL",
        dataset=dataset.url,
    )


def _check_settings(dataset: Dataset, source: Source[Item], run: Run) -> None:
    now, then = settings_of(source), run.last.settings
    differing = [name for name in {**now, **then} if now.get(name) != then.get(name)]
    if not differing:
        return
    told = "; ".join(
        f"{name}={now.get(name, _NOTHING)[0]} here, {then.get(name, _NOTHING)[0]} then"
        for name in differing
    )
    raise InvalidInputError(
        f"{dataset.url!r} was ingested with other arguments: {told}{_advice(dataset, source)}",
        dataset=dataset.url,
        arguments=differing,
    )


def _differs(dataset: Dataset, source: Source[Item], run: Run) -> InvalidInputError:
    """Return the error of a source that is not as it was when this dataset was made of it."""
    files = Files.of(source)
    found = run.differences(files)
    place = f" ({run.last.place!r})" if run.last.place not in ("", source.place) else ""
    is_same_names = found.changed and not found.added and not found.removed
    hint = "; copies keep their times with cp -p or rsync -t" if is_same_names else ""
    return InvalidInputError(
        f"{_called(source)} is not what {dataset.url!r} was ingested from{place}:"
        f" {_told(found, source.unit, run, len(files.paths))}{_advice(dataset, source)}{hint}",
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
        f"give what is new by itself{source.apart}: {_named(new)}" if new else "all of it is there"
    )
    if is_stopped:
        advice = "a call that was stopped put them there: it continues with mode='create'"
    return InvalidInputError(
        f"{count}{_named(there)} of {_called(source)} {'is' if len(there) == 1 else 'are'} in"
        f" {dataset.url!r} already\nnothing was appended: {advice}",
        dataset=dataset.url,
        items=list(there),
    )


def _told(found: Differences, unit: str, run: Run, count: int) -> str:
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
    return "; ".join(parts) or "what was ingested of it has changed"


def _named(paths: Sequence[str], count: int | None = None) -> str:
    """Name the first paths, of ``count``, which may be more than are known."""
    shown = ", ".join(repr(path) for path in paths[:NAMED_MAX])
    is_more = (count or len(paths)) > min(len(paths), NAMED_MAX)
    return f"{shown}, …" if is_more else shown


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
    """Say how some items are appended."""
    classes = class_additions(dataset, source)
    first = f", after {classes}" if classes else ""
    return f"give them by themselves{source.apart}, with mode='append'{first}"


_NOTHING = ("nothing", "")
