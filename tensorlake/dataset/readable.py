"""The reading side that a ``Dataset`` and a ``View`` share.

Everything here is said in terms of one ``Selection``: rows × columns of one snapshot. A Dataset's
selection follows its handle (staged changes included); a View's is frozen.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns import unknown_column
from tensorlake.dataset.exported import Exported
from tensorlake.dataset.group import Group
from tensorlake.dataset.neighbours import no_such
from tensorlake.dataset.predicate import Predicate
from tensorlake.dataset.row import Row
from tensorlake.dataset.rows import positions_of, row_position
from tensorlake.dataset.selectable import Selectable
from tensorlake.dataset.stored import StoredColumn
from tensorlake.dataset.streamed import Streamed
from tensorlake.dataset.struct_values import members_of
from tensorlake.dataset.tensor import Tensor
from tensorlake.errors import InvalidInputError, ReadOnlyError
from tensorlake.reading import Reader, Selection
from tensorlake.types import SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.computed import Computed
    from tensorlake.dataset.schema_changes import NamesChange
    from tensorlake.dataset.session import Session
    from tensorlake.dataset.view import View
    from tensorlake.loader import Framework, Loader

__all__ = ["Readable", "Rows"]

Int64Array = npt.NDArray[np.int64]


class HasArray(Protocol):
    """What NumPy makes an array of: an array, a tensor of torch, a Series of pandas."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return it as an array."""
        ...


Rows: TypeAlias = "slice | Sequence[int] | HasArray | Predicate | Readable"
"""What names several rows, in brackets and to be deleted; rows.py says how."""

BATCH_ROWS = 1024
"""Rows read together when a whole dataset is copied."""

BETWEEN_FILES = frozenset(
    (
        "assign",
        "change_names",
        "computed",
        "frozen",
        "has_rows",
        "held_nbytes",
        "iter_column_batches",
        "positions_named",
        "reader",
        "repin",
        "selection",
        "session",
        "steps",
        "stream",
        "with_computed",
        "with_name",
    )
)
"""What the other files call of a Dataset or a View; completion does not offer it to users."""


class Readable(Exported, Selectable, Streamed):
    """Rows and columns that can be read, queried and streamed."""

    session: Session
    has_rows: bool = True
    """Whether rows of the dataset stand behind it; not those of an aggregate."""

    @abstractmethod
    def selection(self) -> Selection:
        """The rows and columns this stands for, now."""

    @property
    def computed(self) -> Mapping[str, Computed]:
        """Columns that a query computed, by name."""
        return {}

    # What it is

    def __len__(self) -> int:
        return self.selection().num_rows

    def count(self) -> int:
        """How many rows there are.

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
        """Where the dataset is."""
        return self.session.store.url

    @property
    def schema(self) -> Mapping[str, SampleType]:
        """The types of the columns, by name."""
        selection = self.selection()
        return {name: selection.snapshot.spec(name).type for name in selection.columns}

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The columns that are stored, by name."""
        return {name: Tensor(self, name) for name in self.selection().columns}

    @property
    def version(self) -> str:
        """The version read; with staged changes, the one they stand on."""
        return self.selection().snapshot.version

    def reader(self) -> Reader:
        """A reader of the snapshot."""
        return self.session.reader(self.selection().snapshot)

    # Rows and columns

    @overload
    def __getitem__(self, key: str) -> Any: ...  # a column, or the values of a computed one

    @overload
    def __getitem__(self, key: int | np.integer) -> Row: ...  # pyright: ignore[reportOverlappingOverload] - a NumPy integer has __array__, too

    @overload
    def __getitem__(self, key: Rows | list[str] | tuple[str, ...]) -> View: ...

    def __getitem__(self, key: Any) -> Any:
        """Read by what the key is.

        An int gives a ``Row``; a name a ``Tensor``, a ``Group`` of them, or the values of a column
        that a query computed; several names, a slice, a list of ints, a mask, a Predicate or a
        View give a ``View``.
        """
        if isinstance(key, str):
            computed = self.computed.get(key)
            return self._column(key) if computed is None else computed.present()
        if isinstance(key, bool | np.bool_):
            raise InvalidInputError(
                f"a dataset cannot be indexed by {key!r}\n"
                'a condition is written ds["label"] == "cat"; a mask has one bool a row'
            )
        if isinstance(key, int | np.integer):
            return self._row(row_position(int(key), len(self), what=repr(self.url)))
        if isinstance(key, Sequence) and key and all(isinstance(name, str) for name in key):
            return self._with_columns([str(name) for name in key])
        if isinstance(key, Predicate):
            from tensorlake.dataset.query import run_where

            return run_where(self, key, {})
        return self._with_rows(self.positions_named(key))

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a column of this name; rows are found by conditions."""
        if not isinstance(name, str):
            raise InvalidInputError(
                f"'in' asks for a column by its name, got {name!r}\n"
                'rows are found by conditions: len(ds[ds["x"] == 3]) > 0'
            )
        columns = self.selection().columns
        return name in self.computed or name in columns or bool(members_of(name, columns))

    def __iter__(self) -> Iterator[Row]:
        for position in range(len(self)):
            yield self._row(position)

    def __getitems__(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """Read many rows at once, as torch's map-style fetcher asks."""
        from tensorlake.dataset.streaming import rows_at

        return rows_at(self.frozen(), positions)

    def positions_named(self, rows: Any) -> Int64Array:
        """Positions in this that a slice, list, mask, Predicate or View names, in order."""
        if isinstance(rows, Predicate):
            from tensorlake.dataset.query import matching_positions

            return matching_positions(self, rows)
        if isinstance(rows, Readable):
            return self._positions_of_view(rows)
        return positions_of(rows, len(self), what=repr(self.url))

    def _positions_of_view(self, view: Readable) -> Int64Array:
        """Rows of a view of this dataset, by identity; those that are gone are left out."""
        from tensorlake.dataset.identity import positions_by_row_id

        return positions_by_row_id(view.selection(), self.selection())

    def _column(self, name: str) -> Tensor | Group:
        selection = self.selection()
        if name in selection.columns:
            return Tensor(self, name)
        if members_of(name, selection.columns):
            return Group(self, name)
        raise unknown_column(name, selection.columns)

    def _row(self, position: int) -> Row:
        selection = self.selection()
        row = int(selection.row_numbers(np.array([position], dtype=np.int64))[0])
        computed = {name: column.present_one(position) for name, column in self.computed.items()}
        return Row(self.reader(), row, (*selection.columns, *computed), computed)

    @abstractmethod
    def _with_columns(self, names: Sequence[str]) -> View:
        """A View of some of these columns."""

    @property
    def rows(self) -> Int64Array:
        """Positions of the rows in their version, int64."""
        selection = self.selection()
        return selection.row_numbers(selection.all_positions())

    @property
    def row_ids(self) -> list[str]:
        """Identities of the rows: stable under every change but deletion."""
        from tensorlake.dataset.identity import row_id_texts

        return row_id_texts(self.selection())

    def iter_column_batches(self) -> Iterator[dict[str, StoredColumn]]:
        """Read all rows in batches of stored columns, as ``extend`` of another one takes them."""
        here = self.frozen()
        selection, reader, types = here.selection(), here.reader(), here.schema
        for start in range(0, selection.num_rows, BATCH_ROWS):
            positions = np.arange(start, min(selection.num_rows, start + BATCH_ROWS))
            physical = selection.physical(positions)
            yield {
                name: StoredColumn(types[name], reader.read(name, physical, decode=False))
                for name in selection.columns
            }

    # Streaming

    def stream(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework: what ``torch()``, ``jax()`` and ``loader()`` call."""
        from tensorlake.dataset.streaming import stream

        return stream(self, self.repin(), framework, arguments)

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
            InvalidStateError: A view whose rows no query tells: ``view.save(name).show()``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-show", {"x": "int64"})
            >>> ds.show(open=False)  # doctest: +IGNORE_EXCEPTION_DETAIL
            Traceback (most recent call last):
            InvalidInputError: 'memory://doc-show' lives in this process, …
        """
        from tensorlake.dataset.showing import show

        return show(self, write=write, is_opened=open)

    def repin(self) -> Callable[[str], tuple[Selection, Reader]] | None:
        """How a loader reaches the version that its state recorded; None where only this one is."""
        return None

    # Not here

    def assign(self, name: str, rows: Any, values: Any) -> int:
        """Refuse: only a Dataset takes values."""
        del rows, values
        raise self._cannot_write(f"ds[{name!r}][rows] = values")

    def change_names(self, name: str, how: NamesChange, names: Sequence[str]) -> None:
        """Refuse: only a Dataset has its class names changed."""
        del how, names
        raise self._cannot_write(f"ds[{name!r}].add_names(…)")

    def _cannot_write(self, instead: str) -> ReadOnlyError:
        return ReadOnlyError(
            f"a View of {self.url!r} is frozen at {self.version}\nassign to its dataset: {instead}"
        )

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in BETWEEN_FILES]

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such(self, name)
