"""Datasets, views, rows and tensors as HTML, with bounded reads.

    Dataset   the lines of its repr, thumbnails of the first 8 rows
    View      its repr, the first 5 rows
    Row       its values, and its image with its boxes
    Tensor    its repr, the first 8 samples

At most `READ_NBYTES_MAX` bytes of chunks are read; samples beyond that are described, not read.
Nothing here raises: an error is shown in place of the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.formatting import describe_sample, describe_value
from tensorlake.dataset.core.rowset import everything
from tensorlake.dataset.display.page import FAINT, Page, escaped, picture, safely, table
from tensorlake.dataset.display.repr import TENSORS_SHOWN, dataset_head, tensor_cells, view_repr
from tensorlake.dataset.display.thumbnails import corners, thumbnail
from tensorlake.errors import TensorlakeError
from tensorlake.quantities import human_nbytes
from tensorlake.types import BBox, EncodedColumn, Image, RaggedColumn, SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.core.session import Session
    from tensorlake.reading import Reader

__all__ = ["READ_NBYTES_MAX", "dataset_html", "row_html", "tensor_html", "view_html"]

Int64Array = npt.NDArray[np.int64]

READ_NBYTES_MAX = 16 << 20
"""Bytes of chunks: two of images, or one and one of each of eight columns."""

THUMBNAILS, ROWS, SAMPLES = 8, 5, 8
SMALL_SIDE, LARGE_SIDE = 96, 320


def dataset_html(session: Session) -> str:
    """Show a dataset."""

    def make() -> str:
        page = Page(f"<div><b>{escaped(dataset_head(session))}</b></div>")
        view = everything(session)
        snapshot = view.selection.snapshot
        cells = tensor_cells(snapshot)
        rows = [[f"<b>{escaped(name)}</b>", *map(escaped, rest)] for name, *rest in cells]
        page.add(table(rows))
        more = len(snapshot.schema.tensors) - len(cells)
        if more:
            page.add(f"<div style='{FAINT}'>… {more} more tensors (ds.tensors)</div>")
        name = next((name for name, one in view.schema.items() if isinstance(one, Image)), None)
        if name is not None and len(view):
            physical = _first(view, THUMBNAILS)
            pictures = _Cells(view.reader()).of(name, view.schema, physical, side=SMALL_SIDE)
            for one in pictures if pictures[0] != pictures[-1] else pictures[:1]:
                page.add(one)  # one picture, or one reason, is not told eight times
        return str(page)

    return safely(make, what="the dataset")


def view_html(view: RowSet) -> str:
    """Show a view."""

    def make() -> str:
        head, *lines = view_repr(view).splitlines()
        page = Page(
            f"<div><b>{escaped(head)}</b></div>"
            + "".join(f"<div>{escaped(one)}</div>" for one in lines[:TENSORS_SHOWN])
        )
        stored = list(view.schema)[:TENSORS_SHOWN] if view.has_rows else []
        computed = list(view.computed)[: TENSORS_SHOWN - len(stored)]
        count = min(ROWS, len(view))
        cells = _Cells(view.reader())
        columns: list[Sequence[str]] = []
        if stored:
            physical = _first(view, ROWS)
            columns += [cells.of(one, view.schema, physical, side=SMALL_SIDE) for one in stored]
        for name in computed:
            told = [describe_value(view.computed[name].present_one(at)) for at in range(count)]
            columns.append([escaped(one) for one in told])
        if not page.add(table(list(zip(*columns, strict=True)), head=[*stored, *computed])):
            page.add(f"<div style='{FAINT}'>its first rows are too large to be shown</div>")
        more = len(view.schema) * view.has_rows + len(view.computed) - len(stored) - len(computed)
        if more > 0:
            page.add(f"<div style='{FAINT}'>… {more} more columns (view.tensors)</div>")
        return str(page)

    return safely(make, what="the view")


def tensor_html(name: str, head: Callable[[], str], shown: Callable[[], RowSet]) -> str:
    """Show a tensor under a line of text, of the rows that ``shown`` gives."""

    def make() -> str:
        view = shown()
        page = Page(f"<div><b>{escaped(head())}</b></div>")
        physical = _first(view, SAMPLES)
        if len(physical):
            cells = _Cells(view.reader()).of(name, view.schema, physical, side=SMALL_SIDE)
            tag = "span" if isinstance(view.schema[name], Image) else "div"
            for one in cells:
                page.add(f"<{tag}>{one}</{tag}>")
        return str(page)

    return safely(make, what="the tensor")


def row_html(
    head: str,
    reader: Reader,
    physical: Int64Array,
    columns: Sequence[str],
    computed: Mapping[str, Any],
) -> str:
    """Show a row: its image above its values."""

    def make() -> str:
        page = Page(f"<div><b>{escaped(head)}</b></div>")
        types = {name: reader.snapshot.spec(name).type for name in columns if name not in computed}
        cells = _Cells(reader)
        values = {
            name: escaped(describe_value(computed[name]))
            if name in computed
            else cells.of(name, types, physical, side=LARGE_SIDE)[0]
            for name in columns[: 4 * TENSORS_SHOWN]
        }
        for name, value in values.items():
            is_picture = isinstance(types.get(name), Image)
            page.add(table([[f"<b>{escaped(name)}</b>", value]]) if is_picture else "")
        rest = [
            [f"<b>{escaped(name)}</b>", value]
            for name, value in values.items()
            if not isinstance(types.get(name), Image)
        ]
        page.add(table(rest))
        return str(page)

    return safely(make, what="the row")


def _first(view: RowSet, count: int) -> Int64Array:
    positions = np.arange(min(count, len(view)), dtype=np.int64)
    return view.selection.physical(positions)


class _Cells:
    """Samples as HTML, while there are bytes left to read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left = READ_NBYTES_MAX

    def of(
        self, name: str, types: Mapping[str, SampleType], physical: Int64Array, *, side: int
    ) -> list[str]:
        """Show a tensor's samples: images as thumbnails, all others as text."""
        cost = self._cost(name, physical)
        if cost > self._left:
            told = escaped(f"{human_nbytes(cost)}, not read")
            return [f"<span style='{FAINT}'>{told}</span>"] * len(physical)
        self._left -= cost
        kind = types[name]
        column = self._reader.read(name, physical, decode=False)
        if isinstance(kind, Image) and isinstance(column, EncodedColumn):
            boxes = self._boxes(name, types, physical)
            return [
                _picture(kind, column, at, side, None if boxes is None else boxes[at])
                for at in range(len(column))
            ]
        return [_value(kind, column, at) for at in range(len(column))]

    def _cost(self, name: str, physical: Int64Array) -> int:
        return sum(key.nbytes for key in self._reader.locate(name, physical).chunks)

    def _boxes(
        self, image: str, types: Mapping[str, SampleType], physical: Int64Array
    ) -> list[npt.NDArray[np.float32]] | None:
        """Return the boxes of an image, as ``xyxy``."""
        found: list[tuple[str, BBox]] = []
        for name, one in types.items():
            if isinstance(one, BBox) and one.of == image:
                cost = self._cost(name, physical)
                if cost <= self._left:
                    self._left -= cost
                    found.append((name, one))
        if not found:
            return None
        drawn: list[list[npt.NDArray[np.float32]]] = [[] for _ in physical]
        for name, one in found:
            column = self._reader.read(name, physical)
            assert isinstance(column, RaggedColumn), "each row has as many boxes as it has"
            for at, boxes in enumerate(drawn):
                boxes.append(corners(column.sample(at).reshape(-1, 4), one.format))
        return [np.concatenate(boxes) for boxes in drawn]


def _picture(
    kind: Image,
    column: EncodedColumn,
    at: int,
    side: int,
    boxes: npt.NDArray[np.float32] | None,
) -> str:
    if column.valid is not None and not column.valid[at]:
        return escaped("NULL")
    sample = column.samples[at]
    shape = kind.parse_shape(sample) if column.shapes is None else tuple(column.shapes[at].tolist())
    told = f"{kind.codec_of(sample)} {'×'.join(map(str, shape))}, {human_nbytes(len(sample))}"
    try:
        data = thumbnail(kind, sample, shape, side=side, boxes=boxes)
    except (TensorlakeError, ValueError) as error:
        return escaped(f"{told}: {str(error).splitlines()[0]}")
    return escaped(f"{told}, too large to be shown") if data is None else picture(data, told=told)


def _value(kind: SampleType, column: Any, at: int) -> str:
    if kind.is_media:
        is_null = column.valid is not None and not column.valid[at]
        return escaped("NULL" if is_null else human_nbytes(len(column.samples[at])))
    return escaped(describe_sample(kind, kind.present_one(column, at)))
