"""Hugging Face datasets: one split, a dict of splits, or streams of either.

A stream is read once, into Arrow files in a temporary folder, since an ingestion must know its rows
before it commits the first. Structs that hold classes or media become a tensor per field
(`tables/nested.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, repeat
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, cast

from xxhash import xxh3_64

from tensorlake.dataset import (
    Dataset,
    Lists,
    exists,
    holds_lists,
    infer_types,
    lists_of,
    values_of,
)
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings, part_of
from tensorlake.ingest.tables.keys import KEY_ADVICE, check_key, row_names
from tensorlake.ingest.tables.nested import unnested
from tensorlake.types import ClassLabel, as_type

__all__ = ["huggingface"]

Arrow = Any  # pyarrow ships no types

ROWS_AT_ONCE = 1024
"""Rows of a table that are asked for together."""

PART_ROWS = 16_384
"""Rows of a few columns that are looked at together."""

STREAM_ROWS = 256
"""Rows of a stream that are asked for together: of images some 25 MB."""

SPLIT = "split"
"""The tensor of a row's split."""


@dataclass(frozen=True, slots=True)
class _Split:
    """A split whose rows can be read by number.

    Attributes:
        name: Its name; "" for a dataset by itself.
        num_rows: Number of rows.
        read: Reads rows [start, stop) into an Arrow table.
        mark: A string that changes with the rows; "" if they have none.
        features: Its features; None if the dataset does not know them.
        parts: Reads some columns of all rows, a table at a time.
    """

    name: str
    num_rows: int
    read: Callable[[int, int], Arrow]
    mark: str
    features: Mapping[str, Any] | None
    parts: Callable[[Sequence[str]], Iterator[Arrow]]

    @property
    def first(self) -> Arrow:
        """Its first rows, by which types are chosen."""
        return self.read(0, min(ROWS_AT_ONCE, self.num_rows))


@shows_options
def huggingface(
    dataset: Any,
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a ``datasets.Dataset``: images as stored, with class names.

    Classes keep their names at any depth: a list of classes is a ``ClassLabel`` of many, and a
    struct, or a list of structs, that holds classes or media becomes a tensor for each field
    (``objects/category``). Other structs become ``Json``. A class of -1 is NULL; within a list no
    class is: ``schema={"objects": tl.Json()}`` keeps lists with NULLs, with codes for classes.

    Args:
        dataset: A ``Dataset``, an ``IterableDataset``, or a ``DatasetDict`` of either: its splits
            follow each other, and the tensor ``split`` has their names. Their order does not
            matter later, and new ones are added. A stream is copied to this
            machine's temporary folder first.
        dst: Path or URL of the dataset.
        schema: Types in place of those that follow from its features, by name.
        key: The column that names a row, in its split; None: rows are known by position, and the
            dataset by its fingerprint.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: The object is not such a dataset, or its splits have different features.

    Example:
        >>> import tensorlake as tl
        >>> from datasets import Dataset
        >>> reviews = Dataset.from_dict({"text": ["good", "bad"], "stars": [5, 1]})
        >>> tl.ingest.huggingface(reviews, "memory://doc-huggingface")["stars"][:]
        array([5, 1])
    """
    is_sample = options.get("dry_run") and not exists(
        dst, storage_options=options.get("storage_options"), token=options.get("token")
    )
    most = STREAM_ROWS if is_sample else None
    with tempfile.TemporaryDirectory(prefix="tensorlake-") as folder:
        if isinstance(dataset, Mapping):
            given = cast("Mapping[Any, Any]", dataset)
            splits = [
                _split(one, str(name), Path(folder, str(at)), most)
                for at, (name, one) in enumerate(given.items())
            ]
        else:
            splits = [_split(dataset, "", Path(folder, "0"), most)]
        source = _source(splits, schema, has_splits=isinstance(dataset, Mapping), key=key)
        one_reader: IngestOptions = {"workers": 1, **options}  # not every dataset takes threads
        return run_ingest(source, dst, **one_reader)


def _source(
    splits: Sequence[_Split],
    schema: Mapping[str, Any] | None,
    *,
    has_splits: bool,
    key: str | None,
) -> Source[int]:
    import pyarrow as pa

    if not splits:
        raise InvalidInputError("the dataset has no splits to ingest")
    for one in splits[1:]:
        _check_same(splits[0], one)
    counts = [one.num_rows for one in splits]
    stops = [*accumulate(counts)]
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    try:
        firsts = [one.first for one in splits]
        first = pa.concat_tables(firsts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        message = f"the splits have columns of different types: {error}"
        raise InvalidInputError(f"{message}\n{_CAST}") from error
    whole = unnested(first, given)
    is_whole = max(counts) <= ROWS_AT_ONCE
    lists = None if is_whole else _lists(splits, first, given)
    if not whole.column_names:
        raise InvalidInputError("the dataset has no columns to ingest")
    types = infer_types(whole, is_whole=is_whole, lists=lists) | given
    if has_splits:
        if SPLIT in whole.column_names:
            raise InvalidInputError(
                f"the dataset has a column {SPLIT!r}, which is to be the split of each row"
                f"\nrename it: dataset.rename_column({SPLIT!r}, 'part'), or pass one split:"
                f" dataset[{splits[0].name!r}]",
                tensor=SPLIT,
            )
        types |= {SPLIT: given.get(SPLIT) or ClassLabel([one.name for one in splits])}

    def load(items: Sequence[int]) -> dict[str, Any]:
        tables: list[Arrow] = []
        names: list[str] = []
        for one, stop in zip(splits, stops, strict=True):
            start = stop - one.num_rows
            low, high = max(items[0], start), min(items[-1] + 1, stop)
            if low < high:
                tables.append(one.read(low - start, high - start))
                names += [one.name] * (high - low)
        table = unnested(pa.concat_tables(tables, promote_options="permissive"), given)
        columns = {
            name: values_of(table, name, one)
            for name, one in types.items()
            if not has_splits or name != SPLIT
        }
        return columns | ({SPLIT: names} if has_splits else {})

    def of_split(row: int) -> tuple[_Split, int]:
        part, own = part_of(row, counts)
        return splits[part], own

    def name(row: int) -> str:
        one, own = of_split(row)
        return f"{one.mark}[{own}]"

    def row_name(items: Sequence[int], row: int) -> str:
        one, own = of_split(items[row])
        return _row_name(one, own)

    keys: list[str] = []
    if key is not None:
        check_key(key, types)
        for one in splits:
            values = [value for table in one.parts([key]) for value in table[key].to_pylist()]
            named = row_names(key, values, lambda row, one=one: _row_name(one, row))
            keys += [f"{one.name}/{each}" if has_splits else each for each in named]

    def in_order(names: Sequence[str]) -> Source[int]:
        places = {name: at for at, name in enumerate(names)}
        ordered = sorted(splits, key=lambda one: places.get(one.name, len(places)))
        return made if ordered == [*splits] else _source(ordered, schema, has_splits=True, key=key)

    row_nbytes = [max(1, table.nbytes // max(1, len(table))) for table in firsts]
    made = Source(
        kind="huggingface",
        schema=types,
        items=range(sum(counts)),
        sizes=[*chain.from_iterable(map(repeat, row_nbytes, counts))],
        name=keys.__getitem__ if key is not None else name,
        load=load,
        row_name=None if key is not None else row_name,
        stamp=lambda row: of_split(row)[0].mark,
        file=None if key is not None else lambda row: of_split(row)[0].name or "the dataset",
        unit="row" if key is not None else "split" if has_splits else "dataset",
        by_position=key is None,
        settings=given_settings(schema, splits=has_splits or None, key=key),
        parts=SPLIT if has_splits else "",
        in_order=in_order if has_splits and key is None else None,
        content=(),
        key_advice=KEY_ADVICE,
        key=key,
        has_identity=all(one.mark for one in splits),
    )
    return made


def _row_name(split: _Split, row: int) -> str:
    return f"row {row} of {split.name!r}" if split.name else f"row {row}"


def _lists(splits: Sequence[_Split], first: Arrow, given: Mapping[str, Any]) -> dict[str, Lists]:
    """Find what the lists of all rows have in common."""
    kinds = {field.name: field.type for field in first.schema}
    names = [name for name, kind in kinds.items() if name not in given and holds_lists(kind)]
    found: dict[str, Lists] = {}
    for one in splits if names else ():
        for table in one.parts(names):
            for name in names:
                column = table[name]
                if column.null_count == len(column):
                    continue
                here = lists_of(column)
                found[name] = found[name].joined(here) if name in found else here
    return found


_CAST = "give all one type: dataset = dataset.cast(features)"


def _check_same(first: _Split, other: _Split) -> None:
    """Refuse splits with different columns, or columns of different features."""
    theirs = [
        dict(one.features) if one.features is not None else dict.fromkeys(one.first.column_names)
        for one in (first, other)
    ]
    if first.features is None or other.features is None:
        theirs = [dict.fromkeys(one) for one in theirs]
    ours, others = theirs
    apart = [
        name
        for name in dict.fromkeys((*ours, *others))
        if name not in ours or name not in others or ours[name] != others[name]
    ]
    if apart:
        raise InvalidInputError(
            f"the split {other.name!r} has other features than {first.name!r}:"
            f" {', '.join(map(repr, apart))}"
            f"\n{_CAST}, or pass one split: dataset[{first.name!r}]",
            columns=apart,
        )


def _split(dataset: Any, name: str, folder: Path, most: int | None) -> _Split:
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "features"):
        message = (
            f"{type(dataset).__name__} is not a Hugging Face dataset\npass a Dataset, an"
            " IterableDataset, or a DatasetDict"
        )
        raise InvalidInputError(message, actual=type(dataset).__name__)
    rows = dataset.with_format("arrow")
    if not hasattr(rows, "__len__"):
        return _of_stream(rows, name, folder, most)
    mark = str(getattr(dataset, "_fingerprint", ""))

    def parts(names: Sequence[str]) -> Iterator[Arrow]:
        return rows.select_columns([*names]).iter(batch_size=PART_ROWS)

    def read(start: int, stop: int) -> Arrow:
        return rows[start:stop]

    return _Split(name, len(rows), read, mark, dataset.features, parts)


def _of_stream(rows: Any, name: str, folder: Path, most: int | None) -> _Split:
    """Copy a stream into files, which are then mapped into memory."""
    import pyarrow as pa

    folder.mkdir()
    try:
        try:
            whole, mark = _copied(rows.iter(batch_size=STREAM_ROWS), folder / "batches", most)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            # Examples of Python have types of their own, such as lists that are empty, and
            # `datasets` joins only tables of one type.
            whole, mark = _copied(_joined(rows.iter(batch_size=1)), folder / "rows", most)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        message = f"the stream has rows of different types: {error}"
        raise InvalidInputError(f"{message}\n{_CAST}") from error
    if whole is None:
        what = f"the split {name!r}" if name else "the stream"
        raise InvalidInputError(f"{what} has no rows to ingest")

    def read(start: int, stop: int) -> Arrow:
        return whole.slice(start, stop - start)

    def columns(names: Sequence[str]) -> Iterator[Arrow]:
        yield whole.select(names)

    return _Split(name, len(whole), read, mark, rows.features, columns)


def _joined(tables: Iterator[Arrow]) -> Iterator[Arrow]:
    """Join tables of one row, whose types may differ in what is empty."""
    import pyarrow as pa

    while some := [*islice(tables, STREAM_ROWS)]:
        yield pa.concat_tables(some, promote_options="permissive")


def _copied(tables: Iterator[Arrow], folder: Path, most: int | None) -> tuple[Arrow | None, str]:
    """Copy tables into files; return one table of all, None if there are none, and its digest."""
    import pyarrow as pa

    folder.mkdir()
    digest = xxh3_64()
    files = [*_written(islice(tables, None if most is None else 1), folder, digest)]
    parts = [pa.ipc.open_stream(pa.memory_map(str(file))).read_all() for file in files]
    whole = pa.concat_tables(parts, promote_options="permissive") if parts else None
    return whole, digest.hexdigest()


def _written(tables: Iterator[Arrow], folder: Path, digest: xxh3_64) -> Iterator[Path]:
    """Write tables into files, one for each run of tables of the same schema."""
    import pyarrow as pa

    writer: Any = None  # Any: pyarrow ships no types
    schema: Any = None
    count = 0
    try:
        for table in tables:
            if writer is None or table.schema != schema:
                if writer is not None:
                    writer.close()
                file = folder / str(count)
                writer, schema = pa.ipc.new_stream(str(file), table.schema), table.schema
                count += 1
                yield file
            digest.update(str(table.schema).encode())
            for batch in table.to_batches():
                digest.update(batch.serialize())
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
