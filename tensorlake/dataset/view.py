"""A View: rows and columns of one version, frozen.

Rows may repeat and stand in any order; columns may be renamed tensors of the version or values that
a query computed. A view holds row numbers and computed values, never the data of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns import unknown_column
from tensorlake.dataset.computed import Computed, take_all
from tensorlake.dataset.describe import view_repr
from tensorlake.dataset.readable import Readable
from tensorlake.dataset.session import Session
from tensorlake.dataset.steps import ColumnsStep, QueryStep, Steps
from tensorlake.dataset.struct_values import expand_names
from tensorlake.reading import Selection

if TYPE_CHECKING:
    from tensorlake.dataset.dataset import Dataset

__all__ = ["View"]

Int64Array = npt.NDArray[np.int64]


class View(Readable):
    """Rows × columns of one version.

    Attributes:
        tql: The query it came from, in canonical form; None when it was not a query.
        steps: What led to it, to be done again; None where rows were chosen by hand.
        name: The name it was saved under, if it was.
    """

    def __init__(
        self,
        session: Session,
        selection: Selection,
        *,
        computed: Mapping[str, Computed] | None = None,
        tql: str | None = None,
        explanation: object = None,
        has_rows: bool = True,
        steps: Steps | None = None,
        name: str | None = None,
    ) -> None:
        self.session = session
        self._selection = selection
        self._computed = dict(computed or {})
        self.tql = tql
        self._explanation = explanation
        self.has_rows = has_rows
        self.steps = steps
        self.name = name

    def __reduce__(self) -> tuple[Callable[..., View], tuple[Any, ...]]:
        from tensorlake.dataset.open import reopen_view

        selection = self._selection
        place = self.session.place(selection.snapshot)
        return reopen_view, (place, selection.columns, selection.rows, self._made())

    def selection(self) -> Selection:
        """The rows and columns; the same for ever."""
        return self._selection

    def frozen(self) -> View:
        """Itself."""
        return self

    @property
    def held_nbytes(self) -> int:
        """Bytes that it keeps in memory for as long as it is kept, about."""
        rows = self._selection.rows
        own = sum(one.nbytes for one in self._computed.values())
        shared = max((one.held for one in self._computed.values()), default=0)
        return own + shared + (0 if rows is None else rows.nbytes)

    @property
    def computed(self) -> Mapping[str, Computed]:
        """Columns that a query computed, by name."""
        return self._computed

    def __len__(self) -> int:
        if not self.has_rows:
            return len(next(iter(self._computed.values()), ()))
        return self._selection.num_rows

    def __repr__(self) -> str:
        return view_repr(self)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.notebook import view_html

        return view_html(self)

    def item(self) -> Any:
        """The one value of a view with one row and one column, as an aggregate gives.

        Raises:
            InvalidInputError: It has more, or less.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-item", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> ds.query("SELECT SUM(x) AS total").item()
            6
            >>> ds.discard()
        """
        from tensorlake.errors import InvalidInputError

        if len(self) != 1 or len(self._computed) != 1:
            raise InvalidInputError(
                f"item() is for one row and one computed column; this view has {len(self)} rows"
                f" and columns {[*self._selection.columns, *self._computed]}"
            )
        value = next(iter(self._computed.values())).present_one(0)
        return value.item() if isinstance(value, np.generic) else value

    def explain(self) -> str:
        """How the query was, or would be, evaluated: its plan, and what that reads at most.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-explain", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> print(ds.where("x > 1").explain())
            Project x
              Filter x > 1   (reads x)
            ...
            >>> ds.discard()
        """
        if self._explanation is None:
            return f"rows given directly: {len(self):,} of {self.version}"
        return str(self._explanation)

    def save(self, name: str, message: str = "") -> View:
        """Name the rows, for good and for everyone: ``ds.views[name]`` opens the same view.

        The name is of the tags': it is never used twice, and ``ds.delete_tag(name)`` gives the
        view up. What it holds is kept from being collected.

        Args:
            name: The view's name.
            message: What it is for.

        Raises:
            InvalidInputError: The name is taken, or the view has no rows of the dataset.
            UncommittedChangesError: It shows staged changes.
            SnapshotExpiredError: Its version was given up.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-save", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> _ = ds.commit("three")
            >>> _ = ds.where("x > 1").save("large")
            >>> tl.open("memory://doc-save").views["large"]["x"][:]
            array([2, 3])
        """
        from tensorlake.dataset.saved_views import save

        return save(self, name, message)

    def rerun(self) -> View:
        """Run what led to the view again, over the newest version of its branch.

        Raises:
            InvalidStateError: Rows were chosen by hand.
            QueryError: The newest version lacks what the query names.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-rerun", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> _ = ds.commit("three")
            >>> large = ds.where("x > 1")
            >>> ds.append({"x": 9})
            >>> _ = ds.commit("nine")
            >>> large["x"][:], large.rerun()["x"][:]
            (array([2, 3]), array([2, 3, 9]))
        """
        from tensorlake.dataset.saved_views import rerun

        return rerun(self)

    def materialize(
        self,
        url: str | PathLike[str],
        *,
        message: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Write a new dataset with these rows and columns, and open it.

        Samples are taken as they are stored: no picture is encoded again. Rows get new ids.

        Args:
            url: Where the new dataset goes. Cut short, the same call begins again.
            message: Of its first commit.
            storage_options: Credentials and endpoint of the new one.

        Raises:
            InvalidInputError: There is a dataset with rows already.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-materialize", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> _ = ds.commit("three")
            >>> ds.where("x > 1").materialize("memory://doc-materialized")["x"][:]
            array([2, 3])
        """
        from tensorlake.dataset.materializing import materialize

        return materialize(self, url, message=message, storage_options=storage_options)

    def with_name(self, name: str) -> View:
        """Return the view as saved under a name."""
        return self._with(name=name)

    def with_computed(self, computed: Mapping[str, Computed]) -> View:
        """Return the view with these computed columns."""
        return self._with(computed=computed)

    def _with(self, **changed: Any) -> View:
        return View(self.session, self._selection, **(self._made() | changed))

    def _made(self) -> dict[str, Any]:
        """All but the rows: what else a view is made with."""
        return {
            "computed": self._computed,
            "tql": self.tql,
            "explanation": self._explanation,
            "has_rows": self.has_rows,
            "steps": self.steps,
            "name": self.name,
        }

    def _row(self, position: int) -> Any:
        if self.has_rows:
            return super()._row(position)
        return {name: column.present_one(position) for name, column in self._computed.items()}

    def _with_rows(self, positions: Int64Array) -> View:
        if not self.has_rows:
            return View(
                self.session,
                self._selection,
                computed=take_all(self._computed, positions),
                tql=self.tql,
                has_rows=False,
            )
        return View(
            self.session,
            self._selection.with_rows(positions),
            computed=take_all(self._computed, positions),
            tql=self.tql,
        )

    def _with_step(self, positions: Int64Array, tql: str) -> View:
        view = self._with_rows(positions)
        if self.has_rows and self.steps is not None:
            view.steps = (*self.steps, QueryStep(tql, {}))
        return view

    def _with_columns(self, names: Sequence[str]) -> View:
        known = (*self._selection.columns, *self._computed)
        names = expand_names(names, known)
        for name in names:
            if name not in known:
                raise unknown_column(name, known)
        return View(
            self.session,
            self._selection.with_columns(tuple(n for n in names if n not in self._computed)),
            computed={n: self._computed[n] for n in names if n in self._computed},
            tql=self.tql,
            has_rows=self.has_rows,
            steps=None if self.steps is None else (*self.steps, ColumnsStep(tuple(names))),
        )
