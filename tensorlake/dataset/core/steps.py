"""The steps from a version to a view, so that they can be replayed elsewhere.

A step is a query over the result of the previous one, or a selection of columns. Rows chosen by
hand (a slice, a mask, a sample) are not a step: their positions have no meaning in another version.

    {"tql": "SELECT * WHERE score > $low", "params": {"low": 0.5}}
    {"columns": ["image", "label"]}

Parameters are JSON; an array is {"dtype": "float32", "values": [[…], …]}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.types import parse_dtype

__all__ = ["ColumnsStep", "QueryStep", "Steps", "steps_from_json", "steps_to_json"]


@dataclass(frozen=True, slots=True, eq=False)
class QueryStep:
    """A TQL query over the rows so far, with a value for each of its ``$name``."""

    tql: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnsStep:
    """Some of the columns so far."""

    names: tuple[str, ...]


Steps: TypeAlias = tuple[QueryStep | ColumnsStep, ...]


def steps_to_json(steps: Steps) -> list[dict[str, Any]]:
    """Write steps as JSON.

    Raises:
        InvalidInputError: A parameter has no JSON form.
    """
    return [
        {"columns": list(step.names)}
        if isinstance(step, ColumnsStep)
        else {
            "tql": step.tql,
            "params": {name: _to_json(name, value) for name, value in step.params.items()},
        }
        for step in steps
    ]


def steps_from_json(values: Sequence[Mapping[str, Any]], *, where: str) -> Steps:
    """Read what ``steps_to_json`` wrote.

    Raises:
        CorruptionError: It is something else.
    """
    try:
        return tuple(
            ColumnsStep(tuple(map(str, value["columns"])))
            if "columns" in value
            else QueryStep(
                str(value["tql"]),
                {str(name): _from_json(one) for name, one in value["params"].items()},
            )
            for value in values
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # SchemaError among them
        raise CorruptionError(
            f"{where} contains an invalid step ({error!r})\nsave the view again", object=where
        ) from error


def _to_json(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        if isinstance(value, float) and not np.isfinite(value):
            return {"dtype": "float64", "values": str(value)}
        return value
    if isinstance(value, list | tuple):
        items: Sequence[Any] = value
        return [_to_json(name, item) for item in items]
    if hasattr(value, "__array__") and not hasattr(value, "__arrow_c_stream__"):
        array = np.asarray(value)
        if array.dtype.kind in "biuf" and bool(np.isfinite(array).all()):
            return {"dtype": array.dtype.name, "values": array.tolist()}
    raise InvalidInputError(
        f"the parameter ${name} of the view's query is {type(value).__name__} and cannot be"
        " saved\npass a number, a string, a boolean, None, or a list or array of finite numbers",
        actual=type(value).__name__,
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        written: dict[str, Any] = value
        if isinstance(written["values"], str):
            return float(written["values"])
        return np.array(written["values"], dtype=parse_dtype(str(written["dtype"])))
    if isinstance(value, list):
        items: list[Any] = value
        return [_from_json(item) for item in items]
    return value
