"""Class labels as users read them: integers that also compare with class names.

`LabelArray` is an int64 array that knows its class names; `Label` is one such number. Comparing
with a name that is not a class raises, where a plain comparison would silently return False.
Results
of arithmetic and comparisons are plain arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensorlake.errors import UnknownClassError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Label", "LabelArray", "unknown_class"]

_SHOWN_NAMES = 12


def unknown_class(
    name: object, names: Sequence[str], *, tensor: str = "label", where: str = "", row: Any = None
) -> UnknownClassError:
    """Build the error for a class name or code that the tensor does not have."""
    last_code = len(names) - 1
    names = [one for one in names if one]  # a dropped class has a code, but no name
    listed = [shown(one, in_list=True) for one in names[:_SHOWN_NAMES]]
    listed += ["…"] if len(names) > _SHOWN_NAMES else []
    count = "1 class" if len(names) == 1 else f"{len(names):,} classes"
    head = (
        f"{tensor!r} has no class {shown(name)} ({count}{': ' if names else ''}{', '.join(listed)})"
    )
    advice = f"codes are 0 … {last_code}" if names else "add names first"
    if isinstance(name, str):
        head += did_you_mean(name, names)
        advice = f"to add it: ds[{tensor!r}].add_names([{shown(name, in_list=True)}])"
    return UnknownClassError(
        f"{head}\n{advice}{where}", tensor=tensor, row=row, expected=tuple(names), actual=name
    )


class Label(int):
    """One class label: its code, which also equals its name.

    >>> label = Label(1, ("cat", "dog"))
    >>> label == 1, label == "dog", label.name, label
    (True, True, 'dog', 1 'dog')
    """

    names: tuple[str, ...]

    def __new__(cls, code: int, names: tuple[str, ...]) -> Self:
        """Create the label of this code."""
        label = super().__new__(cls, code)
        label.names = names
        return label

    @property
    def name(self) -> str:
        """The class name."""
        return self.names[int(self)]

    def __eq__(self, other: object) -> bool:
        return int(self) == (_code(other, self.names) if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Label, (int(self), self.names))

    def __repr__(self) -> str:
        return f"{int(self)} {self.name!r}"


class LabelArray(np.ndarray):
    """An int64 array of class codes that compares with class names.

    >>> labels = LabelArray(np.array([0, 1, 1]), ("cat", "dog"))
    >>> (labels == "dog").tolist()
    [False, True, True]
    >>> labels.as_names()
    ['cat', 'dog', 'dog']
    """

    names: tuple[str, ...]

    def __new__(cls, codes: np.ndarray, names: tuple[str, ...]) -> Self:
        """Create labels of these codes, without a copy where they are int64."""
        array = np.asarray(codes, dtype=np.int64).view(cls)
        array.names = names
        return array

    def __array_finalize__(self, obj: np.ndarray | None) -> None:
        self.names = getattr(obj, "names", ())

    def as_names(self) -> list[Any]:
        """Return the class name of each code, as a (nested) list."""
        return np.array([*self.names, ""], dtype=object)[np.asarray(self)].tolist()

    def isin(self, classes: Sequence[str | int]) -> np.ndarray:
        """Return for each label whether it is one of these classes, given as names or codes."""
        codes = [_code(one, self.names) if isinstance(one, str) else int(one) for one in classes]
        return np.isin(np.asarray(self), codes)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [self._plain(value) for value in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(map(self._plain, kwargs["out"]))
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.isin and isinstance(args[0], LabelArray) and not kwargs:
            return args[0].isin(np.asarray(args[1]).reshape(-1).tolist())
        return super().__array_function__(func, types, args, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return (LabelArray, (np.asarray(self), self.names))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return _code(value, self.names)
        if isinstance(value, LabelArray):
            return value.view(np.ndarray)
        if isinstance(value, (list, tuple)) or getattr(value, "dtype", np.dtype(int)).kind in "UO":
            array = np.asarray(value)
            if array.dtype.kind in "UO":
                codes = [self._plain(item) for item in array.reshape(-1).tolist()]
                return np.array(codes, dtype=np.int64).reshape(array.shape)
        return value


def _code(name: str, names: Sequence[str]) -> int:
    if not name or name not in names:  # "" is the name of dropped classes
        raise unknown_class(name, names)
    return names.index(name)
