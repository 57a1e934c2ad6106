"""A View: rows and columns of one version, frozen.

Rows may repeat and stand in any order; columns may be renamed tensors of the version or values that
a query computed. A view holds row numbers and computed values, never the data of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.columns import unknown_column
from tensorlake.dataset.computed import Computed, take_all
from tensorlake.dataset.describe import view_repr
from tensorlake.dataset.readable import Readable
from tensorlake.dataset.session import Session
from tensorlake.reading import Selection

__all__ = ["View"]

Int64Array = npt.NDArray[np.int64]


class View(Readable):
    """Rows × columns of one version.

    Attributes:
        tql: The query it came from, in canonical form; None when it was not a query.
    """

    def __init__(
        self,
        session: Session,
        selection: Selection,
        *,
        computed: Mapping[str, Computed] | None = None,
        tql: str | None = None,
        explanation: str | None = None,
        has_rows: bool = True,
    ) -> None:
        self.session = session
        self._selection = selection
        self._computed = dict(computed or {})
        self.tql = tql
        self._explanation = explanation
        self.has_rows = has_rows

    def __reduce__(self) -> tuple[Callable[..., View], tuple[Any, ...]]:
        from tensorlake.dataset.open import reopen_view

        selection = self._selection
        made = {
            "computed": self._computed,
            "tql": self.tql,
            "explanation": self._explanation,
            "has_rows": self.has_rows,
        }
        place = self.session.place(selection.snapshot)
        return reopen_view, (place, selection.columns, selection.rows, made)

    def selection(self) -> Selection:
        """The rows and columns; the same for ever."""
        return self._selection

    def frozen(self) -> View:
        """Itself."""
        return self

    @property
    def computed(self) -> Mapping[str, Computed]:
        """Columns that a query computed, by name."""
        return self._computed

    def __len__(self) -> int:
        if not self.has_rows:
            return len(next(iter(self._computed.values()), ()))
        return self._selection.num_rows

    def __getitem__(self, key: Any) -> Any:
        """Read as a Dataset is read; a computed column is its values."""
        if isinstance(key, str) and key in self._computed:
            return self._computed[key].present()
        return super().__getitem__(key)

    def __repr__(self) -> str:
        return view_repr(self)

    def item(self) -> Any:
        """The one value of a view with one row and one column, as an aggregate gives.

        Raises:
            InvalidInputError: It has more, or less.
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
        """How the query was, or would be, evaluated."""
        return self._explanation or f"rows given directly: {len(self):,} of {self.version}"

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

    def _with_columns(self, names: Sequence[str]) -> View:
        known = (*self._selection.columns, *self._computed)
        for name in names:
            if name not in known:
                raise unknown_column(name, known)
        return View(
            self.session,
            self._selection.with_columns(tuple(n for n in names if n not in self._computed)),
            computed={n: self._computed[n] for n in names if n in self._computed},
            tql=self.tql,
            has_rows=self.has_rows,
        )
