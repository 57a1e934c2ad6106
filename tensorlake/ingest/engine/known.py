"""Which source of a dataset's ledger a call ingests: one that it knows, a new one, or none.

    the ledger has                     mode="create"                 mode="append"
    no source                          a new one; refused beside     a new one
                                       rows of another origin
    this source: same arguments, and   bring the dataset to it       the same, if it was appended
    same place or mostly same items
    other sources                      refused, with the difference  a new one; refused if items
                                                                     of it are there already

Datasets of tensorlake 0.1.0 have no ledger: their commits have keys, made of names and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tensorlake.dataset import (
    Comparison,
    Dataset,
    Entries,
    KnownSource,
    Ledger,
    Listing,
    SkippedItem,
    class_codes,
    row_ids_of,
    session_of,
)
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.format import TensorSpec
from tensorlake.ingest.engine.listing import (
    count_same_pieces,
    cut_as_known,
    file_stamps,
)
from tensorlake.ingest.engine.options import Mode, OnConflict
from tensorlake.ingest.engine.source import Item, Source
from tensorlake.quantities import plural
from tensorlake.types import ClassLabel, SampleType, as_type

__all__ = [
    "Start",
    "check_new_files",
    "check_rejected",
    "class_additions",
    "find_source",
    "in_order_of",
    "source_text",
    "with_rows_of_others",
]

NAMED_MAX = 3
"""Maximum items named in a message."""

CREATE = "create"


@dataclass(frozen=True, slots=True)
class Start:
    """The source of a call.

    Attributes:
        number: Its number in the ledger.
        new: Its description for the ledger; None if the ledger has it.
        entries: Its items, as they were ingested.
        is_complete: Whether a run of tensorlake 0.1.0 ingested all of it: there is nothing to do.
    """

    number: int
    new: KnownSource | None
    entries: Entries
    is_complete: bool = False


def find_source(
    dataset: Dataset,
    ledger: Ledger,
    source: Source[Item],
    mode: Mode,
    *,
    listing: Listing | None,
    size: int,
    begins_with: Callable[[KnownSource, Entries], bool],
) -> Start:
    """Find the source of a call in the ledger.

    Args:
        dataset: The dataset.
        ledger: Its ledger.
        source: The call's source.
        mode: The call's mode.
        listing: The items by name; None for those by position.
        size: Source bytes per commit.
        begins_with: By position: reads whether the call's source begins with the rows of entries.

    Raises:
        InvalidInputError: The dataset has another source, or its items already.
    """
    wanted = KnownSource.of(
        source.key_start,
        place=source.place,
        where=source.where,
        mode=mode,
        settings=source.settings,
    )
    found = [
        (number, ledger.entries(number))
        for number, one in enumerate(ledger.sources)
        if (one.what, one.settings) == (wanted.what, wanted.settings) and mode in {CREATE, one.mode}
    ]
    for number, entries in found:
        known = ledger.sources[number]
        if _is_it(known, wanted, in_order_of(source, known), listing, entries, mode):
            return Start(number, None, entries)
    is_read = listing is None and mode != CREATE and source.has_identity
    for number, entries in found if is_read else ():
        if begins_with(ledger.sources[number], entries):  # rows were added
            return Start(number, None, entries)
    new = Start(len(ledger.sources), wanted, Entries.empty())
    if mode == CREATE:
        first = next((one for one in ledger.sources if one.mode == CREATE), None)
        if first is None:
            is_complete = _check_first(dataset, source, size=size)
            return Start(new.number, wanted, new.entries, is_complete)
        if first.what != wanted.what:
            raise _foreign(dataset, source, f"from {first.place or first.what!r}")
        _check_settings(dataset, source, first, wanted)
        raise _other(dataset, source, first, listing, ledger)
    if source.has_identity and (ledger.sources or source.key is not None):
        _check_not_there(dataset, source, ledger, wanted, listing, begins_with)
    if _explained_by_keys(dataset, source, size)[1]:
        return Start(new.number, wanted, new.entries, is_complete=True)
    return new


def in_order_of(source: Source[Item], known: KnownSource) -> Source[Item]:
    """Return a source with its parts in the order of an earlier run."""
    if source.in_order is None:
        return source
    tensor = dict(known.tensors).get(source.parts, "")
    return source.in_order([*known.classes.get(tensor, ())])


def check_rejected(dataset: Dataset, source: Source[Item], rejected: Sequence[SkippedItem]) -> None:
    """Refuse to continue after rows that were left out, for a call with ``on_error="raise"``.

    Raises:
        InvalidInputError: Rows were left out.
    """
    if not rejected:
        return
    names = list(dict.fromkeys(item.item for item in rejected))
    were = "was" if len(rejected) == 1 else "were"
    raise InvalidInputError(
        f"{plural(len(rejected), 'item')} of {source_text(source)} {were} left out of"
        f" {dataset.url!r} by an earlier call ({_named(names, len(rejected))})"
        f"\nthe first: {rejected[0].reason}"
        "\nto continue without them: on_error='skip' or 'quarantine'; to include them: fix them,"
        f" and pass only them{source.apart}, with mode='append'; to ingest all of it anew:"
        f" {_deletion(dataset)}, or another URL",
        dataset=dataset.url,
        count=len(rejected),
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


def _named(items: Sequence[str], count: int | None = None) -> str:
    """Name the first of ``count`` items."""
    displayed = ", ".join(repr(item) for item in items[:NAMED_MAX])
    is_more = (count or len(items)) > min(len(items), NAMED_MAX)
    return f"{displayed}, …" if is_more else displayed


def source_text(source: Source[Item]) -> str:
    """Name a source in a message."""
    return repr(source.place) if source.place else f"the source of ingest.{source.kind}()"


def _is_it(
    known: KnownSource,
    wanted: KnownSource,
    source: Source[Item],
    listing: Listing | None,
    entries: Entries,
    mode: Mode,
) -> bool:
    """Whether a source of the ledger is this one, at the same place or at another."""
    if listing is None:
        # Rows of another file under the same name are appended, as of one written anew each day.
        differs = count_same_pieces(cut_as_known(source, entries), entries)[1] is not None
        is_new = mode != CREATE and (differs or not source.has_identity)
        return not is_new and (known.where == wanted.where or not differs)
    if known.where == wanted.where and (source.where or not len(entries)):
        return True
    compared = Comparison.of(listing, entries)
    if known.where == wanted.where:  # in memory: a table of other keys is another table
        return bool((compared.entry_of >= 0).any())
    return 2 * int(np.count_nonzero(compared.is_same)) >= max(1, len(entries))


def _check_first(dataset: Dataset, source: Source[Item], *, size: int) -> bool:
    """Refuse a dataset of another origin; return whether 0.1.0 ingested all of this source."""
    commits = list(dataset.log())
    is_explained, is_complete = _explained_by_keys(dataset, source, size)
    if is_complete:
        return True
    *others, first = commits
    foreign = next((one for one in others if not _has_own_key(one.keys, source)), None)
    if foreign is None and first.num_rows:
        foreign = first
    if foreign is not None:
        raise _foreign(dataset, source, f"{foreign.version}: {foreign.message!r}")
    if not is_explained or len(dataset):
        raise InvalidInputError(
            f"{dataset.url!r} was ingested by tensorlake 0.1.0, which did not record the items of"
            f" {source_text(source)}, and they have changed since, or a run was interrupted"
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
    return False


def _has_own_key(keys: Sequence[str], source: Source[Item]) -> bool:
    return any(key.startswith(source.key_start) for key in keys)


def _explained_by_keys(dataset: Dataset, source: Source[Item], size: int) -> tuple[bool, bool]:
    """Whether this source explains the keys of tensorlake 0.1.0, and whether all of it is there."""
    keys = {
        key
        for commit in dataset.log()
        if not dataset.__session__.snapshot().state.groups
        for key in commit.keys
        if key.startswith(source.key_start)
    }
    if not keys:  # what they would be costs a pass over all items
        return True, False
    wanted = {source.first_key(batch) for batch in source.cut(range(len(source.items)), size)}
    return not keys - wanted, keys == wanted


def _foreign(dataset: Dataset, source: Source[Item], commit: str) -> InvalidInputError:
    maker = f", not made by {source.maker}" if source.maker else ""
    return InvalidInputError(
        f"there is a dataset at {dataset.url!r} with other commits ({commit}){maker}"
        f"\nto use it as it is: tl.open({dataset.url!r});"
        " to add to it: mode='append'; otherwise choose another URL",
        dataset=dataset.url,
    )


def _check_settings(
    dataset: Dataset, source: Source[Item], known: KnownSource, wanted: KnownSource
) -> None:
    differing = wanted.differences(known)
    if not differing:
        return
    advice = _advice(dataset, source)
    if "key" in differing:  # the rows that are there would be added again
        was = known.settings.get("key")
        same = f"with key={was[0]}; to use it" if was is not None else "To use the dataset"
        again = f"to ingest the rows again by this key: {_deletion(dataset)}, and the same call"
        advice = (
            f"\nnothing was ingested. {'Repeat the call ' if was is not None else ''}{same} as it"
            f" is: tl.open({dataset.url!r})"
        )
        advice += f"; {again}" if "key" in wanted.settings else ""
    raise InvalidInputError(
        f"{dataset.url!r} was ingested with other arguments: {'; '.join(differing.values())}"
        f"{advice}",
        dataset=dataset.url,
        arguments=[*differing],
    )


def _other(
    dataset: Dataset,
    source: Source[Item],
    known: KnownSource,
    listing: Listing | None,
    ledger: Ledger,
) -> InvalidInputError:
    """Return the error for a source that is not the one of the dataset."""
    was = f" ({known.place!r})" if known.place else ""
    name = source_text(source)
    if source.where and known.place == source.place:  # another place of the same name
        name, was = repr(source.where), f" (another {known.place!r})"
    why = "its items are others"
    if listing is not None:
        entries = ledger.entries(ledger.sources.index(known))
        of = Comparison.of(listing, entries)
        same = int(np.count_nonzero(of.is_same))
        why = f"{same:,} of its {plural(len(listing.names), source.unit)} are there"
    return InvalidInputError(
        f"{name} is another source than that of {dataset.url!r}{was}: {why}"
        f"{_advice(dataset, source)}",
        dataset=dataset.url,
    )


def _check_not_there(
    dataset: Dataset,
    source: Source[Item],
    ledger: Ledger,
    wanted: KnownSource,
    listing: Listing | None,
    begins_with: Callable[[KnownSource, Entries], bool],
) -> None:
    """Refuse to append items that are there already, under this path or another."""
    there: list[str] = []
    if source.key is not None and listing is not None:
        listed = listing.names
        is_there = {*_keyed_rows(dataset, source, None)}
        there = [name for name in listed if name in is_there]
    elif listing is None:
        for number, one in enumerate(ledger.sources):
            if one.what != wanted.what:
                continue
            entries = ledger.entries(number)
            cut = cut_as_known(in_order_of(source, one), entries)
            start, differs = count_same_pieces(cut, entries)
            if differs is None and start:
                there += [cut.file_of(at) for at in range(start)]
            files = file_stamps(source, range(len(source.items)))
            known_files = ledger.file_stamps(number)
            there += [file for file, stamp in files.items() if stamp in known_files]
            if not there and begins_with(one, entries):
                there = [cut.file_of(at) for at in range(int(entries.spans.sum()))]
        there = list(dict.fromkeys(there))
        listed = list(dict.fromkeys(source.file_of(at) for at in range(len(source.items))))
    else:
        known: set[tuple[str, int]] = set()
        for number, one in enumerate(ledger.sources):
            if one.what == wanted.what:
                entries = ledger.entries(number)
                known |= {*zip(map(_own_name, entries.items), entries.stamps.tolist(), strict=True)}
        pairs = zip(listing.names, listing.stamps.tolist(), strict=True)
        there = [name for name, stamp in pairs if (_own_name(name), stamp) in known]
        listed = listing.names
    if there:
        raise _already_there(dataset, source, there, listed)


def check_new_files(
    dataset: Dataset, source: Source[Item], ledger: Ledger, number: int, done: int
) -> None:
    """Refuse files that follow the ``done`` known pieces of a source, and are those of another.

    Raises:
        InvalidInputError: There are such files.
    """
    what, others = ledger.sources[number].what, enumerate(ledger.sources)
    known = [ledger.file_stamps(at) for at, one in others if at != number and one.what == what]
    stamps = set[int]().union(*known)
    files = file_stamps(source, range(done, len(source.items)))
    there = [file for file, stamp in files.items() if stamp in stamps]
    if there:
        raise InvalidInputError(
            f"{_named(there)} of {source_text(source)} {'is' if len(there) == 1 else 'are'} already"
            f" in {dataset.url!r}, from another source\nnothing was ingested: pass the source"
            f" without {'it' if len(there) == 1 else 'them'}",
            dataset=dataset.url,
            items=there,
        )


def _already_there(
    dataset: Dataset, source: Source[Item], there: Sequence[str], listed: Sequence[str]
) -> InvalidInputError:
    is_there = set(there)
    new = [name for name in listed if name not in is_there]
    count = f"{len(there):,} of {plural(len(listed), source.unit)}, " if len(listed) > 1 else ""
    advice = (
        f"pass only new items{source.apart}: {_named(new)}"
        if new
        else "the source has no new items"
    )
    return InvalidInputError(
        f"{count}{_named(there)} of {source_text(source)} {'is' if len(there) == 1 else 'are'}"
        f" already in {dataset.url!r}\nnothing was appended: {advice}; to bring the dataset to its"
        " source: mode='create'",
        dataset=dataset.url,
        items=[*there],
    )


def with_rows_of_others(
    dataset: Dataset,
    source: Source[Item],
    listing: Listing,
    start: Start,
    known: KnownSource,
    on_conflict: OnConflict,
) -> Entries:
    """Add entries for rows to which a hand, or another source, gave the key of a new item.

    They are in conflict with their items, unless they are equal. Where the source is taken, a row
    that was another item's becomes that of the new one, and the other item gets a row again.

    Args:
        dataset: The dataset.
        source: The source.
        listing: Its items.
        start: What the ledger has of it.
        known: The source, as the ledger has it.
        on_conflict: The outcome of conflicts.
    """
    entries = start.entries
    if source.key is None:
        return entries
    wanted = new = {*listing.names}.difference(entries.items)
    if on_conflict == "source":
        _, of, counts = np.unique(entries.ids, return_inverse=True, return_counts=True)
        wanted = new.union(entries.items[at] for at in np.flatnonzero(counts[of] > 1).tolist())
    if not wanted:
        return entries
    named = enumerate(_keyed_rows(dataset, source, known))
    rows = {name: row for row, name in named if name in wanted}
    numbers = np.fromiter(rows.values(), np.int64, len(rows))
    made = Entries.blank([*rows])
    made.ids[:] = row_ids_of(session_of(dataset), numbers)
    if on_conflict == "source":
        is_row_of_other = np.isin(entries.ids, made.ids)
        is_row_of_other &= np.array([item not in rows for item in entries.items], dtype=bool)
        entries = entries.take(np.flatnonzero(~is_row_of_other))
    made = made.take(np.flatnonzero([item in new for item in made.items]))
    return Entries.concat([entries, made]) if len(made) else entries


def _keyed_rows(dataset: Dataset, source: Source[Item], known: KnownSource | None) -> list[str]:
    """Return the names that the rows of a dataset have by a key; none if it lacks the tensor."""
    schema = session_of(dataset).snapshot().schema
    ids = dict(known.tensors) if known is not None else {}

    def spec_of(tensor: str) -> TensorSpec | None:
        same = (one for one in schema.tensors if one.name == tensor)
        return schema.by_id(ids[tensor]) if tensor in ids else next(same, None)

    key = spec_of(source.key or "")
    if key is None or not len(dataset):
        return []
    names = [f"{source.key}={one}" for one in dataset[key.name].to_list()]
    part = spec_of(source.parts) if source.parts else None
    if part is None or not isinstance(part.type, ClassLabel):
        return names
    texts = dict(enumerate(part.type.names))
    renamed = known.classes.get(part.id, {}) if known is not None else {}
    texts |= {code: text for text, code in class_codes(part, renamed).items()}
    codes = dataset[part.name].to_numpy(null=-1).tolist()
    return [f"{texts.get(code)}/{name}" for code, name in zip(codes, names, strict=True)]


def _own_name(name: str) -> str:
    return name.rpartition("/")[2]


def _deletion(dataset: Dataset) -> str:
    return f"tl.delete({dataset.url!r}, confirm={dataset.url!r})"


def _advice(dataset: Dataset, source: Source[Item]) -> str:
    classes = class_additions(dataset, source)
    first = f", after {classes}" if classes else ""
    return (
        f"\nnothing was ingested. To use the dataset as it is: tl.open({dataset.url!r}); to add"
        f" this source beside its own: mode='append'{first}; to ingest anew: {_deletion(dataset)},"
        " or another URL"
    )
