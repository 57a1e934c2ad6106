"""``weights=function``: weights of classes that depend on the place, as a mix of the classes.

    function(place) ─► {"label": {"cat": 2.0}}, or {"label": "balanced"}
                       a source for each class of the view, with a weight at each place
                       ─► an epoch has as many places as the view has rows

A place is one of the run's order, as for functions of ``tl.mix``: epoch 2 of 1,000 rows begins at
2,000. So all the rest is a mix's: the order, states, and ranks that compare weights. The column is
read once, and 8 bytes per row are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.loader import (
    MixNode,
    MixRows,
    MixSource,
    arrangement_of,
    by_code,
    column_values,
)
from tensorlake.quantities import human_nbytes, is_whole_number, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.loader import Arrangement, SelectedRows

__all__ = ["class_mix"]

Function = Callable[[int], Any]
ENTRY_NBYTES = 8


@dataclass(slots=True, eq=False)
class ClassWeights:
    """The weights by class that a function returns for a place; those of the last are kept.

    Attributes:
        function: The user's function.
        by: The column that it named at place 0.
        names: The column's classes, if it has such.
        counts: Rows of each class, by its value.
    """

    function: Function
    by: str
    names: Sequence[str]
    counts: Mapping[Any, int]
    _place: int = -1
    _weights: dict[Any, float] = field(default_factory=dict[Any, float])

    def at(self, value: Any, place: int) -> float:
        """Return the weight of a class at a place: its factor times its rows."""
        if place != self._place:
            self._weights, self._place = self._asked(place), place
        return self._weights[value]

    def _asked(self, place: int) -> dict[Any, float]:
        own = _by_class(self.function, place)
        if own.by != self.by:
            raise InvalidInputError(
                f"weights= is a function that named the column {self.by!r} at place 0, and"
                f" {own.by!r} at {place:,}\nreturn weights of the classes of one column",
                argument="weights",
                actual=own.by,
            )
        if own.weights is None:
            return dict.fromkeys(self.counts, 1.0)
        factors = by_code(self.by, self.names, own.weights)
        unknown = [] if self.names else [one for one in factors if one not in self.counts]
        if unknown:
            raise InvalidInputError(
                f"weights of {self.by!r} at place {place:,} name {shown(unknown[0])}, which no row"
                f" of the view has{did_you_mean(unknown[0], [*map(str, self.counts)])}"
                "\nleave it out",
                argument="weights",
                actual=unknown[0],
            )
        return {value: factors.get(value, 1.0) * count for value, count in self.counts.items()}


def class_mix(
    readable: RowSet,
    at: Callable[[str], RowSet] | None,
    selected: Callable[[RowSet], SelectedRows],
    arguments: dict[str, Any],
) -> tuple[MixRows, dict[str, Any]]:
    """Return a view as a mix of its classes, by the function in ``weights``.

    Args:
        readable: The view, of at least one row.
        at: Returns it at another version; None: it has only this one.
        selected: Returns rows as a loader has them.
        arguments: The loader's.

    Returns:
        The mix, and the arguments that are left for its loader.

    Raises:
        InvalidInputError: The function does not fit, or an argument beside it.
        TensorNotFoundError: The function names a column that there is not.
    """
    function = arguments["weights"]
    others = arguments.get("stratify"), arguments.get("group")
    if others != (None, None):
        arrangement_of(function, *others, None, None)  # raises: they are different orders
    _refuse_computed(readable, arguments.get("columns"))
    made = _ClassMix(function, selected, at, arguments.get("limit"), arguments.get("repeat"))
    rest = {**arguments, "weights": None}
    for name in ("limit", "repeat"):
        value = arguments.get(name)
        if value is not None and not (is_whole_number(value) and value > 0):
            return MixRows((), MixNode((), ())), rest  # the loader refuses it
    return made.of(readable), {**rest, "limit": None, "repeat": None}


@dataclass(frozen=True, slots=True, eq=False)
class _ClassMix:
    """Makes the mix of a view's classes, at any of its versions."""

    function: Function
    selected: Callable[[RowSet], SelectedRows]
    at: Callable[[str], RowSet] | None
    limit: int | None
    repeat: int | None

    def of(self, readable: RowSet) -> MixRows:
        """Return the mix: reads the column of classes."""
        by, rows = _by_class(self.function, 0).by, self.selected(readable)
        assert by is not None, "classes have a column"
        kinds, classes = np.unique(column_values(rows, by), return_inverse=True)
        counts = np.bincount(classes)
        listed = np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1])
        values = kinds.tolist()
        owner = rows.virtual.get(by) or rows.selection.snapshot.spec(by).type
        names: tuple[str, ...] = tuple(getattr(owner, "names", None) or ())
        weights = ClassWeights(
            self.function, by, names, dict(zip(values, counts.tolist(), strict=True))
        )
        sources = tuple(
            MixSource(
                names[value] if names else str(value),
                readable.selection.with_rows(positions),
                rows.reader,
                server=rows.server,
                among=positions,
            )
            for value, positions in zip(values, listed, strict=True)
        )
        functions = tuple(partial(weights.at, value) for value in values)
        places = len(readable) * (self.repeat or 1)
        return MixRows(
            sources,
            MixNode(tuple(range(len(sources))), functions, stop="never"),
            limit=places if self.limit is None else min(self.limit, places),
            described=f"classes of {by!r} by a function ({_pass_over(by, rows)})",
            remade=None if self.at is None else self._at,
        )

    def _at(self, version: str) -> MixRows:
        assert self.at is not None, "asked only then"
        return self.of(self.at(version))


def _pass_over(by: str, rows: SelectedRows) -> str:
    """Describe what reading the column takes."""
    count = rows.selection.num_rows
    memory = f"takes {human_nbytes(ENTRY_NBYTES * count)} of memory"
    if by in rows.virtual:
        return memory
    (row_nbytes,) = rows.reader.row_nbytes([by])
    return f"a first pass reads up to {human_nbytes((row_nbytes + 1) * count)}; {memory}"


def _by_class(function: Function, place: int) -> Arrangement:
    """Ask a function for the weights at a place.

    Raises:
        InvalidInputError: It raises, or returns something else than weights by class.
    """
    name = getattr(function, "__name__", str(function))
    try:
        returned = function(place)
    except Exception as error:
        raise InvalidInputError(
            f"weights= is the function {name}, which raised {type(error).__name__} at place"
            f" {place:,}: {error}\nreturn {{'label': 'balanced'}} or {{'label': {{'cat': 2.0}}}},"
            " for any place",
            argument="weights",
        ) from error
    if not isinstance(returned, Mapping):
        raise InvalidInputError(
            f"weights= is the function {name}, which returned {shown(returned)} at place {place:,},"
            " and weights that depend on the place are those of classes\nreturn {'label':"
            " 'balanced'} or {'label': {'cat': 2.0}}; for rows, give weights= an array or a column",
            argument="weights",
            actual=returned,
        )
    return arrangement_of(returned, None, None, None, None)


def _refuse_computed(readable: RowSet, columns: Sequence[str] | None) -> None:
    """Refuse columns that a query computed: sources of a mix have the stored ones."""
    computed = [name for name in readable.computed if columns is None or name in columns]
    if computed:
        listed = ", ".join(map(repr, computed))
        raise InvalidInputError(
            f"weights= is a function, and {plural(len(computed), 'column')} of the view"
            f" ({listed}) {'is' if len(computed) == 1 else 'are'} computed by its query; batches"
            " then have stored columns alone\nname stored ones: columns=["
            f"{', '.join(map(repr, readable.selection.columns[:3]))}]",
            argument="columns",
            actual=computed,
        )
