"""``view.windows()``: the arguments, checked, and those of a loader of windows.

A loader's arguments apply to rows (``decode``, ``collate``, ``null``) and to batches of windows
(``batch_size``, ``shuffle``, ``batch_transform``). Those that could take a row out of a window, or
change rows of one window differently, raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from tensorlake.dataset.transform.loader_options import refuse_of_rows
from tensorlake.errors import InvalidInputError, TensorNotFoundError, did_you_mean, shown
from tensorlake.loader import AxisWindows, Grid, PartWindows, RowWindows, Steps, Tail, decode
from tensorlake.quantities import checked_integer
from tensorlake.types import Array, Image, Link, Video

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["WindowForm", "checked_windows", "window_arguments"]

MOST = (1 << 31) - 1  # size and stride are multiplied in 64 bits
OF_ROWS = {
    "columns": "leave it out: windows(columns=[…]) chose them",
    "transform": "change batches of windows: batch_transform=",
    "on_error": "leave it out, and cut windows of a view without the damaged rows",
}
"""Arguments about rows, and what to write instead."""
WindowForm: TypeAlias = RowWindows | AxisWindows | PartWindows


def checked_windows(
    view: RowSet,
    columns: str | Sequence[str] | None,
    *,
    by: str | None,
    size: int | Sequence[int],
    stride: int | Sequence[int],
    step: int | Sequence[int] | None,
    tail: Tail | None,
) -> tuple[tuple[str, ...], WindowForm]:
    """Check the arguments of ``windows()``.

    Raises:
        TensorNotFoundError: A column does not exist.
        InvalidInputError: A value is impossible, or no column has elements.
    """
    axes = _axes(size, stride, step, tail)
    steps = next(iter(axes))
    known = view.columns
    names = (columns,) if isinstance(columns, str) else tuple(known if columns is None else columns)
    for name in (*names, *([] if by is None else [by])):
        if name not in known and name != "_row":
            raise TensorNotFoundError(
                f"windows() names {name!r}, which is not a column: {', '.join(known)}"
                f"{did_you_mean(str(name), known)}",
                tensor=str(name),
            )
    names = tuple(name for name in names if name != "_row")
    for name in names:
        if name == "_start" or (name == "_mask" and steps.tail == "pad"):
            raise InvalidInputError(
                f"windows() of {name!r}: batches of windows have an entry of this name"
                "\nselect the column under another name",
                tensor=name,
            )
    if not names:
        raise InvalidInputError(
            "windows() has no columns\ngive columns=[…], or leave it out for all"
        )
    parts = {} if by is not None else _parted(view, names, len(axes))
    if parts:
        arrays = _arrays_beside(view, names) if len(axes) == 1 else {}
        return names, PartWindows(parts, Grid(axes), arrays)
    if len(axes) > 1:
        raise InvalidInputError(
            f"windows() of {len(axes)} axes are cut from tensors in parts of as many axes, and none"
            f" of {', '.join(map(repr, names))} is one\nstore them in tiles: tl.Nifti(), or"
            " tl.Array(…, tiles=…)"
            if by is None
            else "windows() of rows have one size: size=16\nleave by= out for windows of samples",
            argument="size",
            actual=size,
        )
    if by is not None:
        return names, RowWindows(by, steps)
    return names, AxisWindows(_element_shapes(view, names), steps)


def _arrays_beside(view: RowSet, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return the arrays of any length beside samples in parts, and the shapes of their elements."""
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        kind = None if name in view.computed else view.selection.snapshot.spec(name).type
        if not isinstance(kind, Array) or kind.has_parts or kind.shape[:1] != (None,):
            continue
        inner = tuple(length for length in kind.shape[1:] if length is not None)
        if len(inner) == len(kind.shape) - 1:
            found[name] = inner
    return found


def _axes(
    size: int | Sequence[int],
    stride: int | Sequence[int],
    step: int | Sequence[int] | None,
    tail: Tail | None,
) -> tuple[Steps, ...]:
    """Check the windows along each axis."""
    sizes = _numbers(size, "size", None)
    strides = _numbers(stride, "stride", len(sizes))
    steps = sizes if step is None else _numbers(step, "step", len(sizes))
    if tail is None:
        tail = "drop" if len(sizes) == 1 else "shift"
    if tail not in get_args(Tail):
        raise InvalidInputError(
            f"tail is 'drop', 'pad', 'keep' or 'shift', got {shown(tail)}",
            argument="tail",
            actual=tail,
        )
    return tuple(Steps(*one, tail) for one in zip(sizes, strides, steps, strict=True))


def _numbers(given: int | Sequence[int], name: str, count: int | None) -> tuple[int, ...]:
    """Check one number, or one an axis; one number is that of all axes."""
    listed = tuple(given) if isinstance(given, tuple | list) else None
    if listed is None:
        number = checked_integer(given, name=name, least=1, most=MOST)
        return (number,) * (count or 1)
    if not listed or (count is not None and len(listed) != count):
        raise InvalidInputError(
            f"{name}={shown(given)}: give one number, or one for each axis of size=, of which there"
            f" are {count or 'one at least'}",
            argument=name,
            actual=given,
        )
    return tuple(checked_integer(one, name=name, least=1, most=MOST) for one in listed)


def _parted(view: RowSet, names: tuple[str, ...], ndim: int) -> dict[str, bool]:
    """Return the columns of samples in parts, and whether these are videos."""
    found: dict[str, bool] = {}
    for name in names:
        kind = None if name in view.computed else view.selection.snapshot.spec(name).type
        kind = kind.linked if isinstance(kind, Link) else kind
        if kind is None or not kind.has_parts or not kind.shape:
            continue
        if len(kind.shape) < ndim:
            raise InvalidInputError(
                f"windows() of {ndim} axes: {name!r} ({kind.describe()}) has {len(kind.shape)}"
                f"\nleave {name!r} out of windows(columns=…), or give a size of fewer axes",
                tensor=name,
            )
        found[name] = isinstance(kind, Video)
    return found


def _element_shapes(view: RowSet, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return the columns of arrays, and the shapes of their elements."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name in names:
        if name in view.computed:
            continue
        kind = view.selection.snapshot.spec(name).type
        if (
            kind.dtype is None
            or kind.layout == "encoded"
            or isinstance(kind, Image)
            or not kind.shape
        ):
            continue
        inner = [length for length in kind.shape[1:] if length is not None]
        if len(inner) < len(kind.shape) - 1:
            raise InvalidInputError(
                f"{name!r} varies along more than its first axis, {kind.shape}, so its elements"
                " have different shapes\nleave it out of windows(columns=…)",
                tensor=name,
            )
        shapes[name] = tuple(inner)
    if not shapes:
        raise InvalidInputError(
            f"windows() without by= cuts arrays along their first axis, and none of"
            f" {', '.join(map(repr, names))} is one\nfor windows of rows, name the column that"
            " groups them: windows(…, by='episode')",
            argument="by",
        )
    return shapes


def window_arguments(
    arguments: Mapping[str, Any], columns: tuple[str, ...], form: WindowForm
) -> dict[str, Any]:
    """Return a loader's arguments for the rows of windows.

    Raises:
        InvalidInputError: An argument would take rows out of windows, or change them differently.
    """
    given = dict(arguments)
    refuse_of_rows(given, "windows of them", OF_ROWS)
    for name, how in (given.get("collate") or {}).items():
        is_listed = how == "list" or (how == "pad" and name not in getattr(form, "shapes", ()))
        if form.steps.tail == "keep" and not is_listed:
            raise InvalidInputError(
                f"collate={{{name!r}: {shown(how)}}}: with tail='keep' the windows of a batch have"
                f" different lengths, and {name!r} is a list of them\nleave {name!r} out of"
                " collate; windows(…, tail='pad') makes one array, and '_mask'",
                argument="collate",
                actual=how,
            )
        if how not in ("list", "pad") or name in getattr(form, "shapes", ()):
            raise InvalidInputError(
                f"collate={{{name!r}: {shown(how)}}}: windows are stacked; samples of different"
                f" shapes in them are 'list' or 'pad'\nleave {name!r} out of collate",
                argument="collate",
                actual=how,
            )
    for name, value in (given.get("null") or {}).items():
        if name in getattr(form, "shapes", ()):
            raise InvalidInputError(
                f"null of {name!r}: without by=, a row of NULL has no windows\nleave {name!r} out"
                " of null=, or store the value: ds.map(…)",
                argument="null",
                actual=value,
            )
    if isinstance(form, PartWindows):
        given["decode"] = _with_windows(given.get("decode") or {}, form)
    for name, steps in (given.get("decode") or {}).items():
        listed = steps if isinstance(steps, Sequence) and not isinstance(steps, str) else [steps]
        for one in listed:
            is_flat = getattr(form, "shapes", {}).get(name) == ()
            if is_flat and isinstance(one, decode.Normalize) and len(one.mean) > 1:
                raise InvalidInputError(
                    f"decode of {name!r}: {one!r} has numbers for channels, and windows of {name!r}"
                    " have none\ngive a mean and a std of one number",
                    argument="decode",
                    actual=one,
                )
            if getattr(one, "is_random", False):
                raise InvalidInputError(
                    f"decode of {name!r}: {one!r} draws random numbers, which would differ within a"
                    " window\ngive steps without them, and augment windows in batch_transform=",
                    argument="decode",
                    actual=one,
                )
    given["columns"] = [*columns, "_row"]
    return given


def _with_windows(steps: Mapping[str, Any], form: PartWindows) -> dict[str, Any]:
    """Return decode steps, of which those of columns that are cut begin with their windows."""
    made = dict(steps)
    for name, part in form.decode.items():
        own = made.get(name, ())
        own = [*own] if isinstance(own, list | tuple) else [own]
        for one in own:
            if isinstance(one, decode.PartStep):
                raise InvalidInputError(
                    f"decode of {name!r}: {one!r} chooses a part of each sample, and windows() has"
                    f" chosen them\nleave it out, or {name!r} out of windows(columns=…)",
                    argument="decode",
                    actual=one,
                )
        made[name] = [part, *own]
    return made
