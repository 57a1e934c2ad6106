"""Streams of different rates at common times: ``tl.trajectories.align``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import Dataset, View
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    ShapeMismatchError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.workloads.trajectories.tensors import Values

__all__ = ["align"]

Int64Array = npt.NDArray[np.int64]
HOW = ("last", "nearest", "linear")


def align(
    view: Dataset | View,
    times: Any,
    columns: Sequence[str] | None = None,
    *,
    by: str = "t",
    how: Literal["last", "nearest", "linear"] = "last",
    tolerance: float | timedelta | None = None,
) -> dict[str, Values]:
    """Read a stream at the times of a grid; other streams by further calls with the same times.

    Only rows that are needed are read, each at most once for a time.

    Args:
        view: The stream: rows of any order, such as ``ds.where("episode = 3")``.
        times: Where values are wanted, (k,), of any order.
        columns: The columns; by default all but ``by``.
        by: The column of times, numbers or timestamps.
        how: "last": the newest row at or before each time. "nearest": the row of least distance,
            of two the earlier one. "linear": between the rows before and after, of numbers.
        tolerance: The largest distance of a row that is used, of timestamps a timedelta; None: any.

    Returns:
        An array (k, …) for each column, with zeros where no row is near enough; ``_valid``, bool
        (k,); and ``_row``, int64 (k,), the row in the view, for "linear" that before, or -1.

    Raises:
        InvalidInputError: An argument is invalid, or a time is NaN.
        DTypeMismatchError: The times are of another kind, or "linear" is asked of what is not a
            number.
        UnsupportedFeatureError: A column has samples of several shapes, or NULL.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-align", {"t": "float64", "x": "float32"})
        >>> ds.extend({"t": [0.0, 1.0, 3.0], "x": [0, 10, 30]})
        >>> grid = [0.5, 2.0, 4.0]
        >>> tl.trajectories.align(ds, grid)["x"].tolist()
        [0.0, 10.0, 30.0]
        >>> found = tl.trajectories.align(ds, grid, how="linear", tolerance=1)
        >>> found["x"].tolist(), found["_valid"].tolist()
        ([5.0, 20.0, 0.0], [True, True, False])
        >>> ds.discard()
    """
    if not isinstance(view, Dataset | View):
        raise InvalidInputError(f"align() takes a view of rows, got {type(view).__name__}")
    if how not in HOW:
        raise InvalidInputError(
            f"how={shown(how)}: give one of {', '.join(map(repr, HOW))}", argument="how", actual=how
        )
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns={columns!r} is a name\nwrite columns=[{columns!r}]", argument="columns"
        )
    own = _column(view, by, np.arange(len(view)))
    grid = _times(times, own.dtype, by, argument="times")
    near = _distance(tolerance, own.dtype, by)
    order = np.argsort(own, kind="stable")
    first, second, weight, is_valid = _places(own[order], grid, how, near)
    rows, more = (order[one[is_valid]] for one in (first, second))
    wanted = [name for name in view.schema if name != by] if columns is None else list(columns)
    found: dict[str, Values] = {}
    for name in wanted:
        values = _column(view, name, rows)
        if how == "linear":
            values = _between(values, _column(view, name, more), weight[is_valid], name)
        found[name] = np.zeros((len(grid), *values.shape[1:]), values.dtype)
        found[name][is_valid] = values
    place = np.full(len(grid), -1)
    place[is_valid] = rows
    return found | {"_valid": is_valid, "_row": place}


def _places(
    own: Values, grid: Values, how: str, near: Any
) -> tuple[Int64Array, Int64Array, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return two places in sorted times for each time, the weight of the second, and validity."""
    after = np.searchsorted(own, grid, side="right")
    first = after - 1
    is_valid = first >= 0
    if not len(own):
        return first, first, np.zeros(len(grid)), is_valid
    left = own[np.maximum(first, 0)]
    second = np.where(is_valid & (left == grid), first, np.minimum(after, len(own) - 1))
    right = own[second]
    if how == "last":
        second = first
    elif how == "nearest":
        is_second = ~is_valid | ((right > grid) & (right - grid < grid - left))
        first = second = np.where(is_second, second, first)
        is_valid = np.ones(len(grid), np.bool_)
    else:
        is_valid &= right >= grid
    left, right = own[np.maximum(first, 0)], own[np.maximum(second, 0)]
    if near is not None:
        is_valid &= np.maximum(np.abs(grid - left), np.abs(right - grid)) <= near
    weight = np.zeros(len(grid))
    np.divide(grid - left, right - left, out=weight, where=is_valid & (right > left))
    return first, second, weight, is_valid


def _between(first: Values, second: Values, weight: Values, name: str) -> Values:
    if first.dtype.kind not in "iuf":
        raise DTypeMismatchError(
            f"{name!r} is {first.dtype}, and how='linear' takes numbers\nchoose columns=, or"
            " how='nearest'",
            tensor=name,
        )
    weight = weight.reshape(-1, *[1] * (first.ndim - 1))
    made = first * (1 - weight) + second * weight
    return made.astype(first.dtype) if first.dtype.kind == "f" else made


def _column(view: Dataset | View, name: str, rows: Int64Array) -> Values:
    kind = view.schema.get(name)
    values = view[name][rows]  # names the columns that there are, where it is none
    if not isinstance(values, np.ndarray) or (kind is not None and kind.nullable):
        raise UnsupportedFeatureError(
            f"{name!r} is {kind.describe() if kind else 'computed'}: align() reads arrays of one"
            " shape, without NULL\nchoose columns=, and rows: view.where(… IS NOT NULL)",
            tensor=name,
        )
    return np.asarray(values)


def _times(times: Any, dtype: np.dtype[Any], by: str, *, argument: str) -> Values:
    if dtype.kind not in "iufM":
        raise DTypeMismatchError(
            f"by={by!r} is {dtype}, and times are numbers or timestamps", tensor=by
        )
    grid = np.asarray(times, dtype if dtype.kind == "M" else None)
    if dtype.kind != "M" and grid.dtype.kind not in "iuf" and grid.size:
        raise DTypeMismatchError(f"{argument}= are {grid.dtype}, and {by!r} is {dtype}")
    if grid.ndim != 1:
        raise ShapeMismatchError(
            f"{argument}= has shape {grid.shape}, not (k,)", expected="(k,)", actual=grid.shape
        )
    if np.isnan(grid.astype(np.float64) if dtype.kind != "M" else grid).any():
        raise InvalidInputError(
            f"{argument}= has NaN\ngive numbers: times[~np.isnan(times)]", argument=argument
        )
    return grid if dtype.kind == "M" else grid.astype(np.result_type(grid, np.float64))


def _distance(tolerance: Any, dtype: np.dtype[Any], by: str) -> Any:
    if tolerance is None:
        return None
    is_span = isinstance(tolerance, timedelta | np.timedelta64)
    if is_span != (dtype.kind == "M") or not tolerance >= type(tolerance)(0):  # NaN, too
        raise InvalidInputError(
            f"tolerance={shown(tolerance)} is a distance of times of {by!r}, {dtype}\ngive a"
            f" {'timedelta' if dtype.kind == 'M' else 'number'} of 0 or more",
            argument="tolerance",
            actual=tolerance,
        )
    return np.timedelta64(tolerance) if is_span else tolerance
