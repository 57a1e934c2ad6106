"""Methods shared by Dataset and View: reading, choosing, exporting and streaming rows.

All of them use the RowSet of the handle: a View's is frozen, a Dataset's follows the
handle, staged changes included. Methods that are longer than a line are functions of the modules
beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import HasRows, RowSet, everything, writer_of
from tensorlake.dataset.core.structs import completions, members_of
from tensorlake.dataset.display.hints import no_such
from tensorlake.dataset.display.signatures import shows_methods
from tensorlake.dataset.handles import batches
from tensorlake.dataset.handles import exporting as exported
from tensorlake.dataset.handles import selecting as selectable
from tensorlake.dataset.handles import upkeep as maintained
from tensorlake.dataset.handles import viewing as view_values
from tensorlake.dataset.handles.row import Row, row_at
from tensorlake.dataset.handles.tensor import Tensor
from tensorlake.dataset.history import versions as versioning
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.saved_views import replayed
from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.display.widget import ViewerWidget
    from tensorlake.dataset.transform.loaders import Repin
    from tensorlake.loader import Form, Framework, Loader

__all__ = ["RowNames", "Rows", "repin_of"]

Int64Array = npt.NDArray[np.int64]


class HasArray(Protocol):
    """An object that NumPy converts to an array: an array, a torch tensor, a pandas Series."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return it as an array."""
        ...


RowNames: TypeAlias = "slice | Sequence[int] | HasArray | Predicate | Rows"
"""Selections of several rows, in brackets and for deletion."""


@shows_methods
class Rows:
    """Rows and columns that can be read, queried and streamed."""

    @property
    def __rowset__(self) -> RowSet:
        """The rows and columns that this shows now."""
        raise NotImplementedError

    # Properties

    def __len__(self) -> int:
        return len(self.__rowset__)

    def count(self) -> int:
        """Return the number of rows.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-count", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> ds.where("x > 1").count()
            2
            >>> ds.discard()
        """
        return len(self)

    @property
    def url(self) -> str:
        """URL of the dataset."""
        return self.__rowset__.url

    @property
    def schema(self) -> Mapping[str, SampleType]:
        """The types of the columns, by name."""
        return self.__rowset__.schema

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The stored columns, by name."""
        return {name: Tensor(self, name) for name in self.__rowset__.selection.columns}

    @property
    def version(self) -> str:
        """The version read; with staged changes, their base version."""
        return self.__rowset__.version

    @property
    def rows(self) -> Int64Array:
        """Positions of the rows in their version, int64."""
        return self.__rowset__.rows

    @property
    def row_ids(self) -> list[str]:
        """Identities of the rows: stable under every change but deletion."""
        return self.__rowset__.row_ids

    def __contains__(self, name: object) -> bool:
        """Return whether there is a column of this name; rows are found by conditions."""
        if not isinstance(name, str):
            raise InvalidInputError(
                f"'in' looks up a column by its name, got {shown(name)}\n"
                'rows are found by conditions: len(ds[ds["x"] == 3]) > 0'
            )
        rows = self.__rowset__
        columns = rows.selection.columns
        return name in rows.columns or bool(members_of(name, columns))

    def _ipython_key_completions_(self) -> list[str]:
        """Return the columns and groups, for completion in brackets: ``ds["<Tab>``."""
        return completions(self.__rowset__.columns)

    def __iter__(self) -> Iterator[Row]:
        rows = self.__rowset__
        for position in range(len(rows)):
            yield row_at(rows, position)

    def __getitems__(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Read many rows at once, for torch's map-style fetcher."""
        from tensorlake.dataset.transform.loaders import rows_at

        return rows_at(self.__rowset__, positions)

    # Choosing rows and columns

    query = selectable.query
    where = selectable.where
    select = selectable.select
    order_by = selectable.order_by
    unnest = selectable.unnest
    search = selectable.search
    filter = selectable.filter
    take = selectable.take
    sample = selectable.sample
    split = selectable.split

    explain = view_values.explain
    lint = maintained.lint

    # Other libraries and files

    to_pandas = exported.to_pandas
    to_arrow = exported.to_arrow
    arrow_dataset = exported.arrow_dataset
    to_duckdb = exported.to_duckdb
    to_hf = exported.to_hf
    to_numpy = exported.to_numpy
    to_zarr = exported.to_zarr
    export = exported.export
    to_parquet = exported.to_parquet
    to_croissant = exported.to_croissant
    to_csv = exported.to_csv
    to_hdf5 = exported.to_hdf5
    to_jsonl = exported.to_jsonl
    to_webdataset = exported.to_webdataset
    to_lerobot = exported.to_lerobot
    to_litdata = exported.to_litdata
    to_mds = exported.to_mds
    to_tfrecord = exported.to_tfrecord
    to_coco = exported.to_coco
    __arrow_c_stream__ = exported.arrow_stream
    __arrow_c_schema__ = exported.arrow_schema

    # Streaming and looking

    torch = batches.torch
    jax = batches.jax
    tensorflow = batches.tensorflow
    loader = batches.loader

    def pack(
        self,
        tokens: str,
        length: int,
        *,
        eos: int | None = None,
        split: bool = True,
        mask: str | None = None,
    ) -> batches.Packed:
        """Pack documents of tokens, end to end, into sequences of one length.

        Batches have the tokens, ``segments`` (which document of the sequence, from 0 on; padding
        −1) and ``positions`` (in the document's part of this sequence), int32, of shape
        (batch, length); with ``collate={tokens: "concat"}`` they are flat, and ``cu_seqlens``
        lists where documents start. Documents are cut where a sequence ends, and go on in the next,
        or are kept whole, placed by best fit.

        Args:
            tokens: The column of tokens, one array per row.
            length: Tokens of a sequence.
            eos: The token to put after each document.
            split: Cut documents where a sequence ends; False cuts only longer ones than a sequence.
            mask: A column of one number per token, such as which turns to learn from, packed alike.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-pack", {"tokens": tl.Array("uint16", (None,))})
            >>> ds.extend({"tokens": [[1, 2, 3], [4], [5, 6]]})
            >>> (batch,) = ds.pack("tokens", 5, eos=0).loader(batch_size=2)
            >>> batch["tokens"].tolist()
            [[1, 2, 3, 0, 4], [0, 5, 6, 0, 0]]
            >>> batch["segments"].tolist()
            [[0, 0, 0, 0, 1], [0, 1, 1, 1, -1]]
            >>> ds.discard()
        """
        from tensorlake.dataset.transform.pack import checked_packing

        rows = self.__rowset__
        packing = checked_packing(rows, tokens, length, eos=eos, split=split, mask=mask)
        return batches.Packed(self, packing)

    def windows(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        size: int | Sequence[int],
        by: str | None = None,
        stride: int | Sequence[int] = 1,
        step: int | Sequence[int] | None = None,
        tail: Literal["drop", "pad", "keep", "shift"] | None = None,
    ) -> batches.Windows:
        """Cut windows of consecutive rows, or of the rows' own arrays, to be streamed.

        With ``by``, the elements of a window are rows with one value of a column, in their order
        here. Without, they are the elements of a row's arrays along the first axis, and columns
        without one come once for each window of the row. No window crosses a group, or a row.

        Where columns are in parts (videos, volumes, arrays in tiles), these are cut, and each
        window reads its parts alone. With a size of several axes, windows are boxes on a grid.

        Batches have the columns, of shape (batch, size, …), ``_row`` and ``_start``, int64: the row
        number of a window's first row, and the place of its first element in the group or row; of
        boxes (batch, axes).

        Args:
            columns: The columns of a batch; all, by default.
            size: Elements of a window, or of a box along each axis.
            by: The column whose values group rows, such as an episode.
            stride: Distance of the elements of a window.
            step: Distance of the starts of windows; ``size`` by default.
            tail: Windows that extend past the end of a group are left out ("drop"), repeat its last
                element there and have ``_mask``, bool of shape (batch, size), False at it ("pad"),
                are shorter, so that columns are lists of arrays ("keep"), or are moved back to end
                with it ("shift"), which a shorter group does not have. "drop" by default; of boxes
                "shift", so that all of a volume is covered.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-windows", {"episode": "int64", "x": "int64"})
            >>> ds.extend({"episode": [0, 0, 0, 0, 1, 1, 1], "x": [0, 1, 2, 3, 10, 11, 12]})
            >>> windows = ds.windows("x", by="episode", size=3, step=1)
            >>> len(windows)
            3
            >>> (batch,) = windows.loader(batch_size=3)
            >>> batch["x"].tolist()
            [[0, 1, 2], [1, 2, 3], [10, 11, 12]]
            >>> ds.discard()
        """
        from tensorlake.dataset.transform.windows import checked_windows

        rows = self.__rowset__
        made = checked_windows(rows, columns, by=by, size=size, stride=stride, step=step, tail=tail)
        return batches.Windows(self, *made)

    def __loader__(
        self, framework: Framework, arguments: dict[str, Any], form: Form | None = None
    ) -> Loader:
        """Make a loader of a framework: what ``torch()``, ``jax()`` and ``loader()`` call."""
        from tensorlake.dataset.transform.loaders import stream

        remake = partial(_made_again, self, framework, arguments, form)
        own = self.__rowset__, framework, arguments
        return stream(*own, repin=repin_of(self), remake=remake, form=form)

    def show(self, *, write: bool = False, open: bool = True) -> str:  # noqa: A002 - as webbrowser
        """Look at the rows in a browser, and return the address of the page.

        A private server starts beside this process and ends with it. In a notebook the page is
        shown in the cell. A dataset on a branch shows the newest version of the branch.

        Args:
            write: Let the page save views.
            open: False only returns the address.

        Raises:
            MissingExtraError: The extra ``server`` is not installed.
            UnsupportedFeatureError: The viewer was not built.
            InvalidStateError: The view's rows were chosen by hand: ``view.save(name).show()``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-show", {"x": "int64"})
            >>> ds.show(open=False)  # doctest: +IGNORE_EXCEPTION_DETAIL
            Traceback (most recent call last):
            InvalidInputError: 'memory://doc-show' lives in this process, …
        """
        from tensorlake.dataset.display.viewer import show

        return show(self.__rowset__, is_view=writer_of(self) is None, write=write, is_opened=open)

    def widget(self, *, write: bool = False, height: int = 640) -> ViewerWidget:
        """Show the viewer in a cell of a notebook, with its selection in Python.

        ``w.selection`` are the ids of the rows that are selected in the page; assign others, and
        the page selects them. ``w.selected`` is a View of them.

        Args:
            write: Let the page save views and commit edits.
            height: Height of the frame, in pixels.

        Raises:
            MissingExtraError: The extra ``notebook`` or ``server`` is not installed.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-widget", {"x": "int64"})
            >>> ds.widget()  # doctest: +IGNORE_EXCEPTION_DETAIL
            Traceback (most recent call last):
            MissingExtraError: widget() needs the extra 'notebook', …
        """
        from tensorlake.dataset.display.viewer import make_widget

        rows = self.__rowset__
        is_view = writer_of(self) is None
        return make_widget(rows, self.__view__, is_view=is_view, write=write, height=height)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such(self, name)


def repin_of(rows: HasRows) -> Repin | None:
    """Return how a loader reaches the version that its state recorded.

    Queries of a view are asked of that version again. None for rows that were chosen by hand.
    """
    from tensorlake.dataset.transform.loaders import Repin

    session, own = writer_of(rows), rows.__rowset__
    if session is not None:
        return Repin(lambda version: everything(versioning.at(session, version)))
    steps = own.steps
    if not steps or own.name is not None:
        return None
    return Repin(lambda version: replayed(everything(versioning.at(own.session, version)), steps))


def _made_again(
    rows: Rows,
    framework: Framework,
    arguments: dict[str, Any],
    form: Form | None,
    **replaced: Any,
) -> Loader:
    """Make the same loader in another process; None for a View's rows."""
    return rows.__loader__(framework, arguments | replaced, form)
