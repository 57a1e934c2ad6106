"""Text output of datasets and views: ``repr`` reads no data, ``summary`` only the index."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns.freshness import freshness_of
from tensorlake.dataset.core.formatting import describe_value
from tensorlake.dataset.core.rowset import everything
from tensorlake.dataset.history import versions as versioning
from tensorlake.format import ChunkKind, Entry, Extents, StatisticsTable, TensorSpec
from tensorlake.quantities import human_nbytes, human_time, plural
from tensorlake.reading import Snapshot
from tensorlake.types import ClassLabel
from tensorlake.versions import SavedView, dropped_before, small_chunks, stored_chunks, time_of

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.core.session import Session

__all__ = [
    "TENSORS_SHOWN",
    "Summary",
    "TensorSummary",
    "dataset_head",
    "dataset_repr",
    "summarize",
    "tensor_cells",
    "view_head",
    "view_repr",
    "views_text",
]

TENSORS_SHOWN = 12
FORMAT = "format 1"
OLD_SHARE = 10
"""The size of old versions is shown from a tenth of the current size."""
QUERY_CHARACTERS_SHOWN = 200
ROWS_SHOWN = 10
"""Rows of aggregates in a text."""


def dataset_repr(session: Session) -> str:
    """Describe a dataset without reading data, with one line per tensor."""
    return "\n".join([dataset_head(session), *_tensor_lines(session.snapshot())])


def dataset_head(session: Session) -> str:
    """Describe the dataset, its version and its number of rows."""
    snapshot = session.snapshot()
    transaction = session.transaction
    rows = plural(snapshot.num_rows, "row")
    if transaction is not None and transaction.appended_rows:
        rows += f", {transaction.appended_rows:,} of them staged"
    elif transaction is not None:
        rows += ", changes staged"
    return f"Dataset {session.store.url!r} {snapshot.version} · {rows}"


def tensor_cells(snapshot: Snapshot) -> list[tuple[str, str, str, str]]:
    """Describe the first tensors by name, type, shape and dtype."""
    return [
        (spec.name, _described(snapshot, spec), _shape(spec), str(spec.type.dtype or ""))
        for spec in snapshot.schema.tensors[:TENSORS_SHOWN]
    ]


def _tensor_lines(snapshot: Snapshot) -> list[str]:
    specs = snapshot.schema.tensors
    lines = [f"  {line}" for line in _aligned(tensor_cells(snapshot))]
    if len(specs) > TENSORS_SHOWN:
        lines.append(f"  … {len(specs) - TENSORS_SHOWN} more tensors (ds.tensors)")
    return lines


def _described(snapshot: Snapshot, spec: TensorSpec) -> str:
    """Describe a tensor's type; of a computed one also which share of its rows is fresh."""
    described = spec.type.describe()
    if not (spec.is_virtual or spec.has_function):
        return described
    return f"{described}, {freshness_of(snapshot, spec)}"


def _shape(spec: TensorSpec) -> str:
    if spec.type.dtype is None:
        return ""
    ragged = "ragged " if None in spec.type.shape and spec.type.is_media else ""
    return f"{ragged}{spec.type.shape}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Pad columns but the last two, which read as one: ``(None, 4) float32``."""
    if not rows:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 2)]
    return [
        "   ".join(
            [
                *(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)),
                " ".join(cell for cell in row[len(widths) :] if cell),
            ]
        ).rstrip()
        for row in rows
    ]


def view_repr(view: RowSet) -> str:
    """Describe a view: its version, number of rows and query; aggregates with their values."""
    computed = [f"  {name}   computed" for name in view.computed]
    return "\n".join([*view_head(view), *(computed if view.has_rows else _aggregates(view))])


def view_head(view: RowSet) -> list[str]:
    """Return the lines of a view without its columns."""
    selection = view.selection
    total = selection.snapshot.num_rows
    what = "View" if view.name is None else f"View {view.name!r}"
    head = (
        f"{what} of {view.url!r} {view.version} · {len(view):,} of {plural(total, 'row')}"
        if view.has_rows
        else f"View of {view.url!r} {view.version} · {plural(len(view), 'row')} of aggregates"
    )
    lines = [head]
    if view.tql is not None:
        text = view.tql
        shown = text if len(text) <= QUERY_CHARACTERS_SHOWN else f"{text[:QUERY_CHARACTERS_SHOWN]}…"
        lines.append(f"  {shown}")
    return lines


def _aggregates(view: RowSet) -> list[str]:
    """Tabulate the first rows of aggregates, which the query has left in memory."""
    names, count = list(view.computed), len(view)
    rows = range(min(count, ROWS_SHOWN))
    columns = [
        (name, *(describe_value(view.computed[name].present_one(at)) for at in rows))
        for name in names[:TENSORS_SHOWN]
    ]
    lines = [f"  {line}" for line in _table(zip(*columns, strict=True))]
    left_out = [
        *([f"{plural(count - len(rows), 'more row')}"] if count > len(rows) else []),
        *([plural(len(names) - len(columns), "more column")] if len(names) > len(columns) else []),
    ]
    return [*lines, f"  … {' and '.join(left_out)} (to_arrow())"] if left_out else lines


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """A summary of one tensor, from the index.

    Attributes:
        shape: Shapes of its samples: ``32–500 × 64–640 × 3``.
        stored_nbytes: Bytes of the chunks that this version references.
        nulls: Number of NULL rows; an upper bound if a chunk with NULLs is referenced in part.
        values: Range or classes, if statistics record them.
    """

    name: str
    type: str
    shape: str
    stored_nbytes: int
    codec: str
    nulls: int
    values: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A dataset at a glance; prints as a table."""

    url: str
    version: str
    message: str
    author: str
    time: dt.datetime
    num_rows: int
    stored_nbytes: int
    pack_count: int
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    tensors: tuple[TensorSummary, ...]
    views: tuple[str, ...] = ()
    old_nbytes: int = 0
    """Bytes of packs that this version does not reference: older versions, and the index."""
    advice: str = ""
    """Possible improvement by ``optimize``, if any."""

    def __repr__(self) -> str:
        when = human_time(self.time)
        refs = [f"{plural(len(self.branches), 'branch')} ({', '.join(self.branches)})"]
        if self.tags:
            refs.append(f"{plural(len(self.tags), 'tag')} ({', '.join(self.tags)})")
        if self.views:
            refs.append(f"{plural(len(self.views), 'view')} ({', '.join(self.views)})")
        old = ""
        if self.old_nbytes * OLD_SHARE >= self.stored_nbytes:
            old = f" ({human_nbytes(self.old_nbytes)} in old versions and the index)"
        message = self.message if self.message.isprintable() else repr(self.message)[1:-1]
        rows = [("tensor", "type", "shape", "stored", "codec", "nulls", "values")]
        rows += [
            (
                t.name,
                t.type,
                t.shape,
                human_nbytes(t.stored_nbytes),
                t.codec,
                str(t.nulls),
                t.values,
            )
            for t in self.tensors
        ]
        return "\n".join(
            [
                f'{self.url}   {self.version} "{message}"   {self.author}, {when}   {FORMAT}',
                " · ".join(
                    [
                        plural(self.num_rows, "row"),
                        f"{human_nbytes(self.stored_nbytes)} stored{old}",
                        plural(self.pack_count, "pack"),
                        *refs,
                    ]
                ),
                "",
                *_table(rows),
                *([self.advice] if self.advice else []),
                'next: ds.query("WHERE …") · ds.torch(batch_size=64) · ds.show()',
            ]
        )

    def to_pandas(self) -> Any:
        """Return the table of tensors as a DataFrame."""
        from dataclasses import asdict

        import pandas as pd

        return pd.DataFrame([asdict(tensor) for tensor in self.tensors])


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = list(rows)
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def summarize(session: Session, *, full: bool) -> Summary:
    """Read the index of every tensor; with ``full`` also labels, and lengths that vary."""
    rows, head = everything(session), session.head
    snapshot = rows.selection.snapshot
    specs = snapshot.schema.tensors
    tensors = tuple(_summary_of(rows, spec, full=full and not spec.is_virtual) for spec in specs)
    return Summary(
        url=rows.url,
        version=snapshot.version,
        message=head.message,
        author=head.author,
        time=time_of(head),
        num_rows=len(rows),
        stored_nbytes=sum(tensor.stored_nbytes for tensor in tensors),
        pack_count=head.packs.count,
        branches=tuple(versioning.branches(session)),
        tags=tuple(versioning.tags(session)),
        views=tuple(sorted(versioning.views(session))),
        old_nbytes=max(0, head.packs.nbytes - sum(tensor.stored_nbytes for tensor in tensors)),
        tensors=tensors,
        advice=_advice(snapshot, head),
    )


def _advice(snapshot: Snapshot, head: Entry) -> str:
    """Describe the effect of ``optimize``, if it is worthwhile."""
    state = snapshot.state
    small = sum(small_chunks(spec, snapshot.extents(spec.id)) for spec in state.schema.tensors)
    dead = state.physical - state.num_rows - dropped_before(head)
    gains: list[str] = []
    if small >= SMALL_PER_TENSOR * len(state.schema.tensors):
        gains.append(f"merge {plural(small, 'small chunk')}")
    if dead * DEAD_SHARE >= state.physical > 0:
        gains.append(f"drop {plural(dead, 'deleted row')}")
    return f"ds.optimize() would {' and '.join(gains)}" if gains else ""


SMALL_PER_TENSOR = 8
DEAD_SHARE = 16
"""Thresholds for advice: small chunks per tensor, or one in this many rows deleted."""


def _summary_of(rows: RowSet, spec: TensorSpec, *, full: bool) -> TensorSummary:
    extents = rows.selection.snapshot.extents(spec.id)
    extents = extents.take(np.flatnonzero(extents.kind != ChunkKind.HOLE))
    is_label = isinstance(spec.type, ClassLabel)
    known = extents.statistics
    whole = known.table if known.table is not None and bool(known.known.all()) else None
    nulls = 0
    if known.table is not None:  # of a chunk shown in part, no more are NULL than are shown
        nulls = int(np.minimum(known.table.null_count, extents.rows[known.known]).sum())
    stored = int(stored_chunks(extents).nbytes.sum())
    if full and is_label:
        values = _class_counts(rows, spec)
    elif spec.type.is_media:
        values = _mean_nbytes(stored, int(extents.rows.sum()) - nulls)
    elif full and spec.type.layout == "ragged":
        values = _lengths(rows, spec)
    else:
        values = "" if whole is None or is_label else _value_range(whole)
    return TensorSummary(
        name=spec.name,
        type=_described(rows.selection.snapshot, spec),
        shape=_shape_range(spec, extents),
        stored_nbytes=stored,
        codec=_codec(spec),
        nulls=nulls,
        values=values,
    )


def _shape_range(spec: TensorSpec, extents: Extents) -> str:
    """Describe shapes of samples: one length where all agree, else a range."""
    shape = spec.type.shape
    lows, highs = _shape_bounds(spec, extents)
    parts: list[str] = []
    for axis, length in enumerate(shape):
        if length is not None or lows is None or highs is None:
            parts.append("?" if length is None else str(length))
        elif lows[axis] == highs[axis]:
            parts.append(str(lows[axis]))
        else:
            parts.append(f"{lows[axis]}–{highs[axis]}")
    return " × ".join(parts) or ("()" if spec.type.dtype is not None else "")


def _shape_bounds(
    spec: TensorSpec, extents: Extents
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]:
    """Return minimum and maximum lengths; with one stored shape, those of the encoding."""
    lows: list[npt.NDArray[np.int64]] = []
    table = extents.statistics.table
    known = np.zeros(len(extents), np.bool_)
    highs = list(lows)
    if table is not None and table.shape_min is not None and table.shape_max is not None:
        known[extents.statistics.known] = table.has_shapes
        if bool(table.has_shapes.any()):
            lows.append(table.shape_min[table.has_shapes].min(axis=0))
            highs.append(table.shape_max[table.has_shapes].max(axis=0))
    for read_as in np.unique(extents.read_as[~known]).tolist():
        stored = spec.encodings[read_as].shape
        if None in stored:
            return None, None
        lows.append(np.array(stored, np.int64))
        highs.append(np.array(stored, np.int64))
    return (np.min(lows, axis=0), np.max(highs, axis=0)) if lows else (None, None)


def _value_range(table: StatisticsTable) -> str:
    if table.domain in {None, "bytes"} or table.minimum is None or table.maximum is None:
        return ""
    has_bounds = table.has_minimum & table.has_maximum
    if not bool(has_bounds.any()):
        return ""
    low, high = table.minimum[has_bounds].min(), table.maximum[has_bounds].max()
    return f"{low:g} … {high:g}"


def _codec(spec: TensorSpec) -> str:
    own = getattr(spec.type, "codec", None)
    names = [str(codec["name"]) for codec in spec.layout.codecs if codec["name"] != "bytes"]
    return str(own) if own is not None else ", ".join(names) or "none"


def _mean_nbytes(stored: int, rows: int) -> str:
    return f"mean {human_nbytes(stored // rows)}" if rows > 0 else ""


def _lengths(rows: RowSet, spec: TensorSpec) -> str:
    """Describe the lengths of samples that vary, and the number of empty ones."""
    lengths = rows.shapes(spec.name)[:, 0]
    empty = int(np.count_nonzero(lengths == 0))
    described = f"mean {lengths.mean():.3g} a row" if len(lengths) else ""
    return described + (f"; {plural(empty, 'row')} empty" if empty else "")


def _class_counts(rows: RowSet, spec: TensorSpec) -> str:
    assert isinstance(spec.type, ClassLabel), "only classes are counted"
    names = spec.type.names
    read = spec.type.present(rows.read(spec.name), tensor=spec.name, null=0)
    codes = np.asarray(getattr(read, "values", read)).reshape(-1)
    counts = np.bincount(codes, minlength=len(names))
    known = [code for code in np.argsort(-counts, kind="stable").tolist() if names[code]]
    shown = "  ".join(f"{names[code]} {counts[code]:,}" for code in known[:CLASSES_SHOWN])
    return shown + ("  …" if len(known) > CLASSES_SHOWN else "")


CLASSES_SHOWN = 4


QUERY_SHOWN = 60
"""Characters of a saved view's query in the list of views."""


def views_text(session: Session) -> str:
    """Describe the saved views of a dataset, one line each."""
    found = sorted(versioning.views(session).items())
    cells = [(name, plural(one.rows.rows, "row"), one.version, _shown(one)) for name, one in found]
    widths = [max((len(row[at]) for row in cells), default=0) for at in range(3)]
    lines = [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in cells
    ]
    head = f"{plural(len(found), 'view')} of {session.store.url!r}"
    return "\n".join([head, *(f"  {line}".rstrip() for line in lines)])


def _shown(saved: SavedView) -> str:
    if saved.message:
        return saved.message
    texts = [str(step["tql"]) for step in saved.query or () if "tql" in step]
    text = " → ".join(texts).replace("\n", " ") if texts else "rows chosen by hand"
    return text if len(text) <= QUERY_SHOWN else f"{text[:QUERY_SHOWN]}…"
