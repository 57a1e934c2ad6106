"""``weights=``, ``stratify=``, ``group=``, ``limit=``, ``repeat=``: checked, then a value.

"w" · array of numbers              ─► weighted, by a column or by the array, which is copied
{"label": "balanced" | factors}     ─► classes by weight
stratify="label" · group="episode"  ─► stratified, grouped
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.arrangement import Rule

__all__ = ["AS_GIVEN", "Arrangement", "arrangement_of"]

BRIEF_NBYTES = 128  # of class weights that a state can rebuild, which stays below 1 KB


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A loader's arguments about its order, checked.

    Attributes:
        rule: How rows are arranged.
        by: The column; None for an array.
        weights: An array of numbers by row, or a number by class; None: the column has them, or all
            classes weigh the same.
        limit: The most places of an epoch.
        repeat: Epochs of the rule in one epoch.
    """

    rule: Rule = "rows"
    by: str | None = None
    weights: Any = None
    limit: int | None = None
    repeat: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing."""
        return self == AS_GIVEN

    @property
    def is_drawn(self) -> bool:
        """Whether rows are drawn by weights; otherwise each comes once."""
        return self.rule in ("weighted", "classes")

    @property
    def argument(self) -> str:
        """The argument that asks for it, for errors."""
        match self.rule:
            case "rows":
                return "limit" if self.repeat == 1 else "repeat"
            case "weighted" | "classes":
                return "weights"
            case "stratified":
                return "stratify"
            case "grouped":
                return "group"

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments that make it again, as JSON values; None if they are too long for that."""
        own: dict[str, Any] = {"repeat": self.repeat} if self.repeat > 1 else {}
        if self.limit is not None:
            own["limit"] = self.limit
        match self.rule:
            case "rows":
                return own
            case "stratified":
                return own | {"stratify": self.by}
            case "grouped":
                return own | {"group": self.by}
            case "weighted":
                return None if self.by is None else own | {"weights": self.by}
            case "classes" if self.weights is None:
                return own | {"weights": {self.by: "balanced"}}
            case "classes":
                factors = {name: float(weight) for name, weight in self.weights.items()}
                is_brief = all(isinstance(name, str) for name in factors)
                is_brief = is_brief and len(json.dumps(factors)) <= BRIEF_NBYTES
                return own | {"weights": {self.by: factors}} if is_brief else None


AS_GIVEN = Arrangement()
"""Nothing is asked for."""


def arrangement_of(
    weights: Any, stratify: str | None, group: str | None, limit: int | None, repeat: int | None
) -> Arrangement:
    """Parse the arguments of a loader.

    Raises:
        InvalidInputError: A value has the wrong form, or two rules are given.
    """
    given = {"weights": weights, "stratify": stratify, "group": group}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InvalidInputError(
            f"{' and '.join(f'{name}=' for name in named)} are different orders\ngive one of them",
            argument=named[1],
        )
    whole = Arrangement(limit=limit, repeat=repeat or 1)
    for name, rule in (("stratify", "stratified"), ("group", "grouped")):
        value: Any = given[name]
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidInputError(
                f"{name} is the name of a column, got {shown(value)}", argument=name, actual=value
            )
        return replace(whole, rule=rule, by=value)
    return whole if weights is None else _weighted(whole, weights)


def _weighted(whole: Arrangement, weights: Any) -> Arrangement:
    if isinstance(weights, str):
        return replace(whole, rule="weighted", by=weights)
    if isinstance(weights, Mapping):
        return _by_class(whole, dict(weights))
    if isinstance(weights, list | tuple) or hasattr(weights, "__array__"):
        return replace(whole, rule="weighted", weights=_numbers(weights))
    if callable(weights):
        raise InvalidInputError(
            f"weights is a function, {shown(weights)}, and only rows of a view are drawn by one"
            "\nfor weights of sources that depend on the position: tl.mix({'a': (view, function),"
            " …}, stop='never')",
            argument="weights",
            actual=weights,
        )
    raise InvalidInputError(
        f"weights has the wrong form, got {shown(weights)}\ngive the name of a column of numbers,"
        " an array of a number for each row, {'label': 'balanced'}, or {'label': {'cat': 2.0}}",
        argument="weights",
        actual=weights,
    )


def _numbers(weights: Any) -> np.ndarray[Any, Any]:
    """Copy numbers: the caller may use its array again.

    Raises:
        InvalidInputError: They are not one finite number >= 0 for each row, one of them above 0.
    """
    try:
        values = np.asarray(weights).copy()
    except (ValueError, TypeError, RuntimeError):  # uneven lists; tensors of a device, with grad
        values = np.empty(0, dtype=object)
    if values.dtype.kind not in "iufb" or values.ndim != 1:
        raise InvalidInputError(
            "weights is an array of a number for each row, of one axis, got"
            f" {_form_of(weights, values)}\ngive a list or NumPy array of numbers",
            argument="weights",
        )
    return values


def _form_of(weights: Any, values: np.ndarray[Any, Any]) -> str:
    if values.dtype == object and not values.size:
        return f"a {type(weights).__name__} that NumPy cannot read as an array"
    return f"{values.dtype} of shape {values.shape}"


def _by_class(whole: Arrangement, weights: dict[Any, Any]) -> Arrangement:
    if len(weights) == 1:
        ((column, by_class),) = weights.items()
        if isinstance(by_class, str) and by_class == "balanced" and isinstance(column, str):
            return replace(whole, rule="classes", by=column)
        if isinstance(by_class, Mapping) and isinstance(column, str) and by_class:
            own = dict(by_class)
            wrong = [one for one in own.values() if not _is_weight(one)]
            if wrong:
                raise InvalidInputError(
                    f"the weight of a class is a finite number >= 0, got {shown(wrong[0])}"
                    "\nleave a class out with weight 0",
                    argument="weights",
                    actual=wrong[0],
                )
            return replace(whole, rule="classes", by=column, weights=own)
    raise InvalidInputError(
        f"weights by class have one column, got {shown(weights)}"
        "\nwrite {'label': 'balanced'} or {'label': {'cat': 2.0}}",
        argument="weights",
        actual=weights,
    )


def _is_weight(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating)
    return is_number and not isinstance(value, bool) and 0 <= float(value) < float("inf")
