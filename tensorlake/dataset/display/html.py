"""Datasets, views, rows and tensors as HTML, with bounded reads.

    Dataset   the lines of its repr, thumbnails of the first 8 rows
    View      its repr, the first 5 rows
    Row       its values, and its image with its boxes
    Tensor    its repr, the first 8 samples

At most `READ_NBYTES_MAX` bytes of chunks are read; samples beyond that are described, not read.
Nothing here raises: an error is shown in place of the sample.

The HTML is safe to keep in a notebook: escaped, bounded, without scripts or other hosts. A `Page`
takes parts in the order of their worth and leaves out those that would make it larger than
`HTML_NBYTES_MAX`, so the head is always there, and images are included as far as there is room.
Styles are inline, since notebook viewers drop style sheets. Names and values come from untrusted
data, so every string passes `escaped`, and addresses are always ``data:``.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.formatting import describe_sample, describe_value
from tensorlake.dataset.core.rowset import everything
from tensorlake.dataset.display.repr import TENSORS_SHOWN, dataset_head, tensor_cells, view_head
from tensorlake.dataset.display.thumbnails import thumbnail
from tensorlake.errors import TensorlakeError
from tensorlake.quantities import human_nbytes
from tensorlake.types import BBox, EncodedColumn, Image, RaggedColumn, SampleType, convert_boxes

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.core.session import Session
    from tensorlake.reading import Reader

__all__ = ["READ_NBYTES_MAX", "dataset_html", "row_html", "tensor_html", "view_html"]

Int64Array = npt.NDArray[np.int64]

HTML_NBYTES_MAX = 200_000
"""design: face.md, Notebook."""

TEXT_CHARACTERS_MAX = 200
"""Limit of one name or value."""

CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top;white-space:nowrap"
FAINT = "opacity:0.6"

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
            images = _Cells(view.reader()).of(name, view.schema, physical, side=SMALL_SIDE)
            for one in images if images[0] != images[-1] else images[:1]:
                page.add(one)  # a single image or error is shown once
        return str(page)

    return safely(make, what="the dataset")


def view_html(view: RowSet) -> str:
    """Show a view."""

    def make() -> str:
        head, *lines = view_head(view)
        page = Page(
            f"<div><b>{escaped(head)}</b></div>"
            + "".join(f"<div>{escaped(one)}</div>" for one in lines[:TENSORS_SHOWN])
        )
        names = view.columns[:TENSORS_SHOWN]
        count = min(ROWS, len(view))
        cells, physical = _Cells(view.reader()), _first(view, ROWS if view.has_rows else 0)
        columns: list[Sequence[str]] = []
        for name in names:
            if name not in view.computed:
                columns.append(cells.of(name, view.schema, physical, side=SMALL_SIDE))
                continue
            caption = [describe_value(view.computed[name].present_one(at)) for at in range(count)]
            columns.append([escaped(one) for one in caption])
        if not page.add(table(list(zip(*columns, strict=True)), head=names)):
            page.add(f"<div style='{FAINT}'>its first rows are too large to be shown</div>")
        more = len(view.columns) - len(names)
        if more > 0:
            page.add(f"<div style='{FAINT}'>… {more} more columns (view.tensors)</div>")
        return str(page)

    return safely(make, what="the view")


def tensor_html(name: str, head: Callable[[], str], shown: Callable[[], RowSet]) -> str:
    """Show a tensor below a line of text, for the rows that ``shown`` returns."""

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
            is_image = isinstance(types.get(name), Image)
            page.add(table([[f"<b>{escaped(name)}</b>", value]]) if is_image else "")
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
    """Yield samples as HTML, within the limit of bytes to read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left = READ_NBYTES_MAX

    def of(
        self, name: str, types: Mapping[str, SampleType], physical: Int64Array, *, side: int
    ) -> list[str]:
        """Show a tensor's samples: images as thumbnails, all others as text."""
        cost = self._cost(name, physical)
        if cost > self._left:
            caption = escaped(f"{human_nbytes(cost)}, not read")
            return [f"<span style='{FAINT}'>{caption}</span>"] * len(physical)
        self._left -= cost
        kind = types[name]
        column = self._reader.read(name, physical, decode=False)
        if isinstance(kind, Image) and isinstance(column, EncodedColumn):
            boxes = self._boxes(name, types, physical)
            return [
                _image(kind, column, at, side, None if boxes is None else boxes[at])
                for at in range(len(column))
            ]
        return [_value(kind, column, at) for at in range(len(column))]

    def _cost(self, name: str, physical: Int64Array) -> int:
        return sum(key.nbytes for key in self._reader.locate(name, physical).chunks)

    def _boxes(
        self, image: str, types: Mapping[str, SampleType], physical: Int64Array
    ) -> list[npt.NDArray[np.float64]] | None:
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
        drawn: list[list[npt.NDArray[np.float64]]] = [[] for _ in physical]
        for name, one in found:
            column = self._reader.read(name, physical)
            assert isinstance(column, RaggedColumn), "the number of boxes varies by row"
            for at, boxes in enumerate(drawn):
                boxes.append(convert_boxes(column.sample(at), one.format, "xyxy"))
        return [np.concatenate(boxes) for boxes in drawn]


def _image(
    kind: Image,
    column: EncodedColumn,
    at: int,
    side: int,
    boxes: npt.NDArray[np.float64] | None,
) -> str:
    if column.valid is not None and not column.valid[at]:
        return escaped("NULL")
    sample = column.samples[at]
    shape = kind.parse_shape(sample) if column.shapes is None else tuple(column.shapes[at].tolist())
    caption = f"{kind.codec_of(sample)} {'×'.join(map(str, shape))}, {human_nbytes(len(sample))}"
    try:
        data = thumbnail(kind, sample, shape, side=side, boxes=boxes)
    except (TensorlakeError, ValueError) as error:
        return escaped(f"{caption}: {str(error).splitlines()[0]}")
    return (
        escaped(f"{caption}, too large to be shown")
        if data is None
        else image(data, caption=caption)
    )


def _value(kind: SampleType, column: Any, at: int) -> str:
    if kind.is_media:
        is_null = column.valid is not None and not column.valid[at]
        return escaped("NULL" if is_null else human_nbytes(len(column.samples[at])))
    return escaped(describe_sample(kind, kind.present_one(column, at)))


class Page:
    """Parts of HTML, within a limit of size."""

    def __init__(self, head: str) -> None:
        self._parts = [f"<div style='font-family:monospace'>{head}"]
        self._end = "</div>"
        self._nbytes = len(self._parts[0].encode()) + len(self._end)

    def add(self, part: str) -> bool:
        """Add a part if it fits."""
        nbytes = len(part.encode())
        if self._nbytes + nbytes > HTML_NBYTES_MAX:
            return False
        self._parts.append(part)
        self._nbytes += nbytes
        return True

    def __str__(self) -> str:
        return "".join([*self._parts, self._end])


def escaped(text: object, *, limit: int = TEXT_CHARACTERS_MAX) -> str:
    """Escape text for HTML; truncate a long one.

    >>> escaped("<b>&'")
    '&lt;b&gt;&amp;&#x27;'
    """
    whole = str(text)
    cut = whole if len(whole) <= limit else f"{whole[:limit]}…"
    shown = "".join(
        one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in cut
    )
    return html.escape(shown)


def table(rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> str:
    """Make a table of HTML cells with a head of text."""
    top = "".join(f"<th style='{CELL}'>{escaped(one)}</th>" for one in head)
    lines = [f"<tr>{top}</tr>"] if head else []
    lines += [
        "<tr>" + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    ]
    return f"<table style='border-collapse:collapse'>{''.join(lines)}</table>"


def image(data: str, *, caption: str) -> str:
    """Return an ``<img>`` of a data URI, with an alternative text."""
    text = escaped(caption)
    return f"<img src='{data}' alt='{text}' title='{text}' style='margin:2px'>"


def safely(make: Callable[[], str], *, what: str) -> str:
    """Return HTML, or the error in its place: displaying an object must never end a session."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - any error is shown in the object's place
        caption = f"{what} cannot be shown: {type(error).__name__}: {error}"
        return str(Page(f"<div>{escaped(caption, limit=2000)}</div>"))
