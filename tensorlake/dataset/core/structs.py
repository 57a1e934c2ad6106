"""Values of groups of tensors: dicts outside, one tensor per field inside.

{"pose": [{"x": 1, "y": 2}, None]}     rows of dicts; None is NULL in every field
{"pose": {"x": [1, 3], "y": [2, 4]}}   a dict of columns         both become
{"pose/x": [1, 3], "pose/y": [2, 4]}   what the tensors are

{"pose": [[{"x": 1}, {"x": 2}], []]}   rows of lists of dicts, where fields are sequences
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError, MissingTensorError, shown

__all__ = ["completions", "expand_names", "flattened", "members_of", "nested"]


def members_of(group: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tensors in a group, those of groups within it among them.

    >>> members_of("a", ["a/x", "ab", "a/b/y", "a"])
    ('a/x', 'a/b/y')
    """
    if not isinstance(group, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        return ()
    return tuple(name for name in names if name.startswith(f"{group}/"))


def completions(names: Iterable[str]) -> list[str]:
    """Return completions for brackets: each tensor, and each group before its fields.

    >>> completions(["image", "a/x", "a/b/y"])
    ['image', 'a', 'a/x', 'a/b', 'a/b/y']
    """
    found: dict[str, None] = {}  # in order, once each
    for name in names:
        parts = name.split("/")
        found |= dict.fromkeys("/".join(parts[:stop]) for stop in range(1, len(parts) + 1))
    return [*found]


def expand_names(names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Replace each group by its tensors; keep other names, existing or not.

    Raises:
        InvalidInputError: It is not a list of strings.
    """
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(listed, Iterable) or isinstance(listed, str | bytes | Mapping):
        raise InvalidInputError(f"columns is a list of names, got {shown(names)}", actual=names)
    names = list(listed)
    if not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(f"columns are named by strings, got {shown(names)}", actual=names)
    every = set(known)
    expanded: list[str] = []
    for name in names:
        expanded += [name] if name in every else members_of(name, known) or [name]
    return tuple(expanded)


def nested(group: str, members: Sequence[str], value_of: Callable[[str], Any]) -> dict[str, Any]:
    """Return a group's values as a dict of fields, groups within it as dicts of theirs.

    >>> nested("a", ["a/x", "a/b/y"], len)
    {'x': 3, 'b': {'y': 5}}
    """
    made: dict[str, Any] = {}
    for name in members:
        *path, last = name.removeprefix(f"{group}/").split("/")
        inner = made
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value_of(name)
    return made


def flattened(batch: Mapping[str, Any], names: Sequence[str], *, call: str) -> Mapping[str, Any]:
    """Return columns by tensor; some may be given by group.

    Args:
        batch: Samples by the name of a tensor or of a group.
        names: Names of all tensors.
        call: The call that the user made, for errors.

    Raises:
        InvalidInputError: The value of a group is not a dict.
        MissingTensorError: The dicts of two rows have different fields.
    """
    known = set(names)
    if batch.keys() <= known:
        return batch
    flat: dict[str, Any] = {}
    for name, values in batch.items():
        members = () if name in known else members_of(name, names)
        if not members:
            flat[name] = values
            continue
        columns = _columns(name, members, values, call=call)
        inner = {f"{name}/{field}": column for field, column in columns.items()}
        flat |= flattened(inner, names, call=call)
    return flat


def _columns(group: str, members: Sequence[str], values: Any, *, call: str) -> Mapping[str, Any]:
    if isinstance(values, Mapping):
        named: Mapping[Any, Any] = values
        return {
            field if isinstance(field, str) else shown(field): column  # refused as no name
            for field, column in named.items()
        }
    if isinstance(values, np.ndarray):
        if values.dtype.names:
            return {field: values[field] for field in values.dtype.names}
        values = values.tolist()
    elif hasattr(values, "to_pylist"):  # of Arrow, whose items are its own scalars
        values = values.to_pylist()
    fields = tuple(dict.fromkeys(name[len(group) + 1 :].split("/")[0] for name in members))
    is_listed = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    try:
        rows: list[Any] = [*iter(values)] if is_listed else [values]
    except (TypeError, RuntimeError):  # an array without axes
        rows = [values]
    if any(isinstance(one, list | tuple) for one in rows):
        rows = [_lists(group, fields, one, row=row, call=call) for row, one in enumerate(rows)]
    for row, one in enumerate(rows):
        if one is not None and not isinstance(one, Mapping):
            raise _no_dict(group, fields, one, row=row, call=call)
    first = next((one for one in rows if one is not None), None)
    if first is None:
        return {field: [None] * len(rows) for field in fields}
    for row, one in enumerate(rows):
        if one is not None and one.keys() != first.keys():
            raise _uneven(group, one, first, row=row, call=call)
    return {field: [None if one is None else one[field] for one in rows] for field in first}


def _lists(group: str, fields: Sequence[str], items: Any, *, row: int, call: str) -> Any:
    """Return a row's list of dicts as a dict of lists; other values unchanged."""
    if not isinstance(items, list | tuple):
        return items
    each = cast("Sequence[Any]", items)
    for one in each:
        if not isinstance(one, Mapping):
            raise _no_dict(group, fields, one, row=row, call=call)
        if one.keys() != each[0].keys():
            raise _uneven(group, one, each[0], row=row, call=call)
    return {field: [one[field] for one in each] for field in (each[0] if each else fields)}


def _no_dict(
    group: str, fields: Sequence[str], given: Any, *, row: int, call: str
) -> InvalidInputError:
    return InvalidInputError(
        f"row {row} of {call}: {shown(group)} is a group of {', '.join(map(repr, fields))},"
        f" got {type(given).__name__}\ngive a dict of these for each row (of sequences a list of"
        " dicts), or one of columns",
        tensor=group,
        row=row,
    )


def _uneven(
    group: str, one: Mapping[str, Any], first: Mapping[str, Any], *, row: int, call: str
) -> MissingTensorError:
    return MissingTensorError(
        f"row {row} of {call}: {shown(group)} has the fields {sorted(one)}, where another"
        f" has {sorted(first)}\ngive all the same fields (None for NULL)",
        tensor=group,
        row=row,
    )
