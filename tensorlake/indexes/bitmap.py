"""Bitmaps: the rows of each value, for columns of few values: labels, tags, booleans, categories.

    part "value"   the distinct values, ascending; last NULL, if a row is NULL
    part "count"   how many rows have each
    part "rows"    these rows: numbers of 4 or 8 bytes, ascending; or pairs (first, length) of runs,
                   where that takes less than as many numbers

The values of lists (several labels, tags, sequences) are the items; a row is under each of its own.
Any condition of the column is answered by asking it of every value; a condition of lists only where
it asks whether an item is in the list, by asking it of lists of one item.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, shown
from tensorlake.format import TensorSpec
from tensorlake.indexes.condition import Condition
from tensorlake.indexes.kind import (
    Batches,
    IndexKind,
    RowRanges,
    Rows,
    known_options,
)
from tensorlake.indexes.parts import Built, Part, PartsReader
from tensorlake.indexes.ranges import within
from tensorlake.types import (
    Bool,
    Bytes,
    ClassLabel,
    Column,
    EncodedColumn,
    Json,
    RaggedColumn,
    SampleType,
    Scalar,
    Tags,
    Text,
    UniformColumn,
    offsets_of,
)
from tensorlake.types import Sequence as SequenceType
from tensorlake.versions import distinct

__all__ = ["BITMAP", "rows_where"]

Int64Array = npt.NDArray[np.int64]
Value = int | bytes

MAX_VALUES = 1 << 20
"""Distinct values that are worth a list of rows each."""

NARROW = 1 << 16
"""Values within such a range are sorted by counting."""

PIECE_NBYTES = 8 << 20
_encoder = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
KEPT_ANSWERS, KEPT_NUMBERS = 256, 1024  # conditions, and values of each, that are kept
KEPT_LISTS, KEPT_ROWS = 64, 1 << 16  # values, and rows of each, that are kept: up to 32 MiB


def _suits(sample_type: SampleType) -> bool:
    match sample_type:
        case ClassLabel() | Bool() | Tags() | Text() | Json():
            return True
        case Scalar(dtype=dtype):
            return dtype.kind in "biu"
        case SequenceType() if sample_type.has_uniform_items:
            return not sample_type.item.shape and _suits(sample_type.item)
        case _:
            return False


def _options(spec: TensorSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(spec.type, Json):
        return known_options("bitmap", given, {})
    path = known_options("bitmap", given, {"path": None})["path"]
    keys = [path] if isinstance(path, str) else path
    if isinstance(keys, list | tuple) and keys:
        names = [one for one in cast("Sequence[object]", keys) if isinstance(one, str)]
        if len(names) == len(cast("Sequence[object]", keys)):
            return {"path": names}
    raise InvalidInputError(
        f"{spec.name!r} has JSON values, whose index is of the values under a key; got"
        f" path={shown(path)}\nname the key, path='source', or those of nested objects,"
        " path=['origin', 'source']",
        tensor=spec.name,
        argument="path",
    )


def _pruned(sample: Any, path: Sequence[str]) -> Any:
    """Leave of a JSON value what a condition of the values under a path can see."""
    if not path or not isinstance(sample, dict):
        return sample
    members = cast("dict[str, Any]", sample)
    return {path[0]: _pruned(members[path[0]], path[1:])} if path[0] in members else {}


def _has_items(sample_type: SampleType) -> bool:
    """Whether a sample is a list, whose items are the values."""
    return isinstance(sample_type, Tags | SequenceType) or (
        isinstance(sample_type, ClassLabel) and (sample_type.multi or sample_type.per is not None)
    )


@dataclass(slots=True)
class _Lists:
    """The rows of each value, in pieces as they came.

    Attributes:
        path: The keys of a JSON column's values.
        ids: The number of each value, in order of appearance.
        runs: For each batch the values that it has, by number, where the rows of each end, and the
            rows, by value.
        nulls: Rows that are NULL.
    """

    spec: TensorSpec
    path: Sequence[str] = ()
    ids: dict[Value, int] = field(default_factory=dict[Value, int])
    runs: list[tuple[Int64Array, Int64Array, Int64Array]] = field(
        default_factory=list[tuple[Int64Array, Int64Array, Int64Array]]
    )
    nulls: list[Int64Array] = field(default_factory=list[Int64Array])

    def add(self, batches: Batches) -> None:
        for rows, column in batches:
            if column.valid is not None:
                self.nulls.append(rows[~column.valid])
            self.add_items(*_items(self.spec.type, self.path, rows, column))

    def add_items(self, values: Sequence[Value], codes: Int64Array, rows: Int64Array) -> None:
        """Add rows, with the place of each one's value among some distinct values."""
        ids = self.ids
        numbers = np.array([ids.setdefault(one, len(ids)) for one in values], np.int64)
        if len(ids) > MAX_VALUES:
            raise InvalidInputError(
                f"{self.spec.name!r} has more than {MAX_VALUES:,} different values; a bitmap lists"
                + (" the rows of each" if self.path else ' the rows of each\ngive kind="btree"'),
                tensor=self.spec.name,
            )
        order = np.argsort(codes.astype(_narrowest(len(values))), kind="stable")
        codes, rows = codes[order], rows[order]
        is_new = (np.diff(codes, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        codes, rows = codes[is_new], rows[is_new]  # a list may have an item twice
        stops = np.searchsorted(codes, np.arange(len(values)), side="right")
        self.runs.append((numbers, stops, rows))

    def built(self, parameters: Mapping[str, Any]) -> Built:
        keys = sorted(self.ids)
        nulls = np.sort(np.concatenate([np.zeros(0, np.int64), *self.nulls]))
        highest = max((int(rows.max(initial=0)) for _, _, rows in self.runs), default=0)
        dtype = np.dtype("<u4" if max(highest, int(nulls.max(initial=0))) < 1 << 32 else "<u8")
        place = np.zeros(len(self.ids), np.int64)
        place[[self.ids[key] for key in keys]] = np.arange(len(keys))
        counts = np.zeros(len(keys), np.int64)
        for numbers, stops, _ in self.runs:
            counts[place[numbers]] += np.diff(stops, prepend=0)
        if len(nulls):
            counts = np.append(counts, len(nulls))
        values = _values(self.spec.type, keys, has_null=bool(len(nulls)))
        lists = partial(self._lists, place, nulls)
        return Built(
            {
                "value": Part(_value_type(self.spec.type), [values]),
                "count": Part(Scalar("int64"), [UniformColumn(counts)]),
                "rows": Part(Bytes(), _pieces(lists, dtype)),
            },
            {**parameters, "rows": dtype.name},
        )

    def _lists(self, place: Int64Array, nulls: Int64Array) -> Iterator[Int64Array]:
        """Yield the rows of each value, in order of the values."""
        owners = [place[numbers] for numbers, _, _ in self.runs]
        batch = np.repeat(np.arange(len(owners)), [len(one) for one in owners])
        starts = [np.concatenate(([0], stops))[:-1] for _, stops, _ in self.runs]
        stops = [stops for _, stops, _ in self.runs]
        none = np.zeros(0, np.int64)
        owner, first, last = (np.concatenate([none, *each]) for each in (owners, starts, stops))
        order = np.argsort(owner, kind="stable")
        cuts = np.searchsorted(owner[order], np.arange(len(place) + 1))
        runs = list(zip(batch[order], first[order], last[order], strict=True))
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            parts = [self.runs[number][2][start:stop] for number, start, stop in runs[begin:end]]
            rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
            yield rows if bool((rows[1:] > rows[:-1]).all()) else np.sort(rows)
        if len(nulls):
            yield nulls


def _build(rows: Rows, parameters: Mapping[str, Any]) -> Built:
    lists = _Lists(rows.spec, parameters.get("path", ()))
    lists.add(rows.batches())
    return lists.built(parameters)


def _merge(parts: PartsReader, rows: Rows, keep: RowRanges) -> Built:
    made = {name: parts.parameters[name] for name in ("path",) if name in parts.parameters}
    lists = _Lists(rows.spec, made.get("path", ()))
    column = parts.whole("value")
    for number, value in enumerate(_keys(column)):
        (known,) = _decoded(parts, np.array([number]))
        kept = known[within(keep, known)]
        if value is None:
            lists.nulls.append(kept)
        elif len(kept):
            lists.add_items([value], np.zeros(len(kept), np.int64), kept)
    lists.add(rows.batches())
    return lists.built(made)


def rows_where(
    parts: PartsReader, sample_type: SampleType, conditions: Sequence[Condition], most: int
) -> Int64Array | None:
    """Find the physical rows that meet conditions, ascending.

    Args:
        parts: The index.
        sample_type: The column's type.
        conditions: Conditions that all of them meet.
        most: Rows beyond which a scan is cheaper.

    Returns:
        The rows; None where the index cannot tell, or they are more than ``most``.
    """
    has_items = _has_items(sample_type)
    if has_items and any(one.op != "any" for one in conditions):
        return None
    if has_items and len(conditions) > 1:
        found = [rows_where(parts, sample_type, [one], most) for one in conditions]
        known = [rows for rows in found if rows is not None]
        if not known:
            return None
        if len(known) < len(found):
            return None
        result = known[0]
        for other in known[1:]:
            result = np.intersect1d(result, other, assume_unique=True)
        return result
    numbers = _matching(parts, sample_type, conditions)
    counts = cast("UniformColumn", parts.whole("count")).values
    if int(counts[numbers].sum()) > most:
        return None
    if len(numbers) == 1:
        return _listed(parts, int(numbers[0]))
    lists = _decoded(parts, numbers)
    joined = np.concatenate([np.zeros(0, np.int64), *lists])
    return distinct(joined) if has_items else np.sort(joined)


def _matching(
    parts: PartsReader, sample_type: SampleType, conditions: Sequence[Condition]
) -> Int64Array:
    """Return the numbers of the values that meet conditions; of few, kept for the next time."""
    answers = parts.keep("answers", dict[tuple[object, ...], Int64Array])
    asked = tuple(one.key for one in conditions)
    known = answers.get(asked)  # never of a condition without a key: none is kept
    if known is not None:
        return known
    samples = parts.keep("samples", partial(_samples, sample_type, parts))
    mask = np.ones(len(samples), np.bool_)
    for one in conditions:
        mask &= one.matches(samples)
    numbers = np.flatnonzero(mask)
    if None not in asked and len(numbers) <= KEPT_NUMBERS:
        if len(answers) >= KEPT_ANSWERS:
            answers.clear()
        answers[asked] = numbers
    return numbers


def _listed(parts: PartsReader, number: int) -> Int64Array:
    """Return the rows of one value, ascending, not to be written to; short lists are kept."""
    lists = parts.keep("lists", dict[int, Int64Array])
    known = lists.get(number)
    if known is not None:
        return known
    (rows,) = _decoded(parts, np.array([number]))
    rows.flags.writeable = False
    if len(rows) <= KEPT_ROWS:
        if len(lists) >= KEPT_LISTS:
            lists.clear()
        lists[number] = rows
    return rows


def _decoded(parts: PartsReader, numbers: Int64Array) -> list[Int64Array]:
    """Read the rows of some values, each ascending."""
    counts = cast("UniformColumn", parts.whole("count")).values[numbers]
    stored = cast("EncodedColumn", parts.read({"rows": numbers})["rows"])
    dtype = np.dtype(parts.parameters["rows"]).newbyteorder("<")
    found: list[Int64Array] = []
    for sample, count in zip(stored.samples, counts.tolist(), strict=True):
        rows = np.frombuffer(sample, dtype).astype(np.int64)
        if len(rows) < count:
            firsts, lengths = rows.reshape(-1, 2).T
            rows = np.arange(count) + np.repeat(firsts - offsets_of(lengths)[:-1], lengths)
        found.append(rows)
    return found


def _pieces(lists: Any, dtype: np.dtype[Any]) -> Iterator[Column]:
    samples: list[bytes] = []
    nbytes = 0
    for rows in lists():
        samples.append(_packed(rows, dtype))
        nbytes += len(samples[-1])
        if nbytes >= PIECE_NBYTES:
            yield EncodedColumn(samples)
            samples, nbytes = [], 0
    yield EncodedColumn(samples)


def _packed(rows: Int64Array, dtype: np.dtype[Any]) -> bytes:
    is_first = np.concatenate(([True], np.diff(rows) != 1))
    if 2 * int(np.count_nonzero(is_first)) >= len(rows):
        return rows.astype(dtype).tobytes()
    firsts = np.flatnonzero(is_first)
    lengths = np.diff(firsts, append=len(rows))
    return np.stack((rows[firsts], lengths), axis=1).astype(dtype).tobytes()


def _items(
    sample_type: SampleType, path: Sequence[str], rows: Int64Array, column: Column
) -> tuple[Sequence[Value], Int64Array, Int64Array]:
    """Return distinct values, and of each item the place of its value, and its row."""
    known = None if column.valid is None else np.flatnonzero(column.valid)
    match column:
        case EncodedColumn() if isinstance(sample_type, SequenceType):
            values, counts = sample_type.uniform_items(column)
            return *_distinct(values), np.repeat(rows, counts)
        case RaggedColumn(values=values):
            return *_distinct(values), np.repeat(rows, column.lengths)
        case UniformColumn(values=values):
            if known is not None:
                values, rows = values[known], rows[known]
            return *_distinct(values), rows
        case EncodedColumn(samples=samples):
            words: list[bytes] = []
            owners: list[int] = []
            chosen = range(len(samples)) if known is None else known.tolist()
            if isinstance(sample_type, Tags):
                for at in chosen:
                    items = [one.encode() for one in json.loads(bytes(samples[at]))]
                    words += items
                    owners += [at] * len(items)
            else:
                words = [bytes(samples[at]) for at in chosen]
                owners = list(chosen)
                if path:
                    words = _pruned_texts(words, path)
            ids: dict[bytes, int] = {}
            codes = [ids.setdefault(word, len(ids)) for word in words]
            return list(ids), np.array(codes, np.int64), rows[np.array(owners, np.int64)]


def _pruned_texts(texts: Sequence[bytes], path: Sequence[str]) -> list[bytes]:
    """Return JSON texts with only what is under a path; of equal texts once."""
    known: dict[bytes, bytes] = {}
    for text in texts:
        if text not in known:
            known[text] = _encoder.encode(_pruned(json.loads(text), path)).encode()
    return [known[text] for text in texts]


def _distinct(values: npt.NDArray[Any]) -> tuple[Sequence[Value], Int64Array]:
    """Return the distinct values, and of each value its place among them."""
    if not len(values):
        return [], np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= NARROW:
        found, codes = np.unique(values, return_inverse=True)
        return found.tolist(), codes.reshape(-1)
    # As uint64 the difference is right for any integers, also those beyond int64.
    above = (values.astype(np.uint64) - np.uint64(low % (1 << 64))).astype(np.int64)
    present = np.bincount(above) > 0
    places = np.cumsum(present) - 1
    return [low + place for place in np.flatnonzero(present).tolist()], places[above]


def _narrowest(count: int) -> np.dtype[Any]:
    return np.min_scalar_type(max(count - 1, 0))


def _value_type(sample_type: SampleType) -> SampleType:
    match _of_value(sample_type):
        case Tags() | Text() | Json():
            return Text(nullable=True)
        case Scalar(dtype=dtype):
            return Scalar(dtype, nullable=True)
        case _:
            return Scalar("int64", nullable=True)


def _of_value(sample_type: SampleType) -> SampleType:
    """Return the type of a value: of a sequence, that of its items."""
    return sample_type.item if isinstance(sample_type, SequenceType) else sample_type


def _values(sample_type: SampleType, keys: Sequence[Value], *, has_null: bool) -> Column:
    valid = np.append(np.ones(len(keys), np.bool_), [False]) if has_null else None
    if isinstance(sample_type, Tags | Text | Json):
        texts = [key for key in keys if isinstance(key, bytes)]
        return EncodedColumn([*texts, b""] if has_null else texts, valid=valid)
    one = _of_value(sample_type)
    dtype = one.dtype if isinstance(one, Scalar) else np.dtype(np.int64)
    return UniformColumn(np.array([*keys, 0] if has_null else keys, dtype), valid)


def _keys(column: Column) -> list[Value | None]:
    """Return the values, None where NULL."""
    known = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    match column:
        case EncodedColumn(samples=samples):
            values: list[Any] = [bytes(one) for one in samples]
        case UniformColumn(values=array):
            values = [int(one) for one in array.tolist()]
        case RaggedColumn():
            raise AssertionError("values are single")
    return [one if is_known else None for one, is_known in zip(values, known, strict=True)]


def _samples(sample_type: SampleType, parts: PartsReader) -> Column:
    """Return the values as samples of the column: of lists, those of one item."""
    column = parts.whole("value")
    is_bool = isinstance(_of_value(sample_type), Bool)
    if is_bool and isinstance(column, UniformColumn):
        column = UniformColumn(column.values.astype(np.bool_), column.valid)
    match column:
        case UniformColumn(values=values) if _has_items(sample_type):
            shapes = np.ones((len(values), 1), np.int64)
            return RaggedColumn(values, shapes, column.valid)
        case EncodedColumn(samples=samples) if isinstance(sample_type, Tags):
            return EncodedColumn(
                [json.dumps([bytes(one).decode()]).encode() for one in samples], valid=column.valid
            )
        case _:
            return column


BITMAP = IndexKind(
    "bitmap",
    _suits,
    _options,
    _build,
    _merge,
    wants="labels, tags, booleans, texts or integers of few values, sequences of labels, integers"
    " or booleans, and values under a key of JSON",
)
