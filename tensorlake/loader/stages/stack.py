"""Stacking: combines rows that a user's transform returned into a batch.

collate= names it     collated accordingly, also names that the transform adds
arrays, numbers       stacked, if all have one shape
torch's tensors       stacked as tensors in a torch loader, elsewhere as arrays
text, objects         listed

The values of a name are all stacked or all listed, in every batch: a loop over batches cannot be
ready for both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorlake.errors import InvalidInputError, RaggedBatchError, shown
from tensorlake.loader.config.collate import (
    Collate,
    check_collate,
    check_fill,
    check_word,
    collate_ragged,
)
from tensorlake.loader.decode.libraries import adapted
from tensorlake.types import NARROW_FLOATS, parse_dtype

if TYPE_CHECKING:
    from tensorlake.loader.config.column_plan import ColumnPlan

__all__ = ["Outputs"]

TEXTS = (np.str_, np.bytes_)  # which are listed, as str and bytes are
INTEGERS = {1: "uint8", 2: "int16"}  # by their bytes; torch and NumPy both have them


@dataclass(frozen=True, slots=True)
class Outputs:
    """How a transform's results become a batch.

    Attributes:
        columns: The columns passed to the transform.
        collates: The collation of names, including those that the transform adds.
        framework: Framework of the batch's arrays.
        transform: The transform as a function of a row; None: there is none.
        kinds: By name, a value of the first batch that was made, as a type: the values of all
            others are stacked, or listed, as it was.
    """

    columns: tuple[ColumnPlan, ...]
    collates: Mapping[str, Collate]
    framework: str
    transform: Callable[..., Mapping[str, Any]] | None = None
    kinds: dict[str, type[Any]] = field(default_factory=dict[str, type[Any]], compare=False)

    @classmethod
    def planned(
        cls,
        columns: tuple[ColumnPlan, ...],
        collate: Mapping[str, Any] | None,
        *,
        framework: str,
        transform: Callable[..., Any] | None = None,
    ) -> Self:
        """Check a user's ``collate``; ragged columns are listed unless it names them.

        Raises:
            InvalidInputError: A keyword is unknown.
            UnsupportedFeatureError: It is for another framework, or a library's transform cannot
                change a column.
        """
        listed: dict[str, Collate] = {
            column.name: column.collate
            for column in columns
            if column.collate is not None and column.kind != "image"
        }
        for column in columns:
            if column.kind == "encoded" and column.type is not None and column.type.dtype:
                listed[column.name] = "list"  # masks of any number of objects
        words: dict[str, Collate] = {
            name: check_word(name, how, framework=framework)
            for name, how in (collate or {}).items()
        }
        types = {column.name: column.type for column in columns if column.type is not None}
        function = None if transform is None else adapted(transform, types)
        return cls(columns, listed | words, framework, function)

    def stack(self, rows: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> dict[str, Any]:
        """Make one entry per name.

        Args:
            rows: Those that the transform returned.
            numbers: The number of each row in the version, for messages.

        Raises:
            InvalidInputError: Rows have different names, or lack one that is to be collated; or
                values of a name are stacked in some rows and listed in others.
            RaggedBatchError: Arrays differ in shape, and no collation is given.
        """
        if not rows:
            return {}
        planned = {column.name: column for column in self.columns}
        names = list(rows[0])
        for row in rows:
            if list(row) != names:
                raise InvalidInputError(
                    f"transform returned the names {list(row)!r} after {shown(names)}"
                    "\nreturn the same names for every row",
                    expected=names,
                    actual=list(row),
                )
        for name in self.collates:
            if name not in names and name not in planned:
                raise InvalidInputError(
                    f"collate names {name!r}, which is not among the columns, and transform= does"
                    f" not return it: {', '.join(map(repr, names))}"
                    f"\nreturn it for every row, or leave {name!r} out of collate",
                    tensor=name,
                )
        batch: dict[str, Any] = {}
        for name in names:
            values = [row[name] for row in rows]
            how = self.collates.get(name)
            if how is None:
                self._check_kinds(name, values, numbers)
                batch[name] = _stacked(name, values, self.framework)
            else:
                batch |= _collated(name, values, how, planned.get(name), self.framework)
        return batch

    def _check_kinds(self, name: str, values: list[Any], numbers: Sequence[int]) -> None:
        """Refuse values of which some are stacked and others listed, here or in other batches."""
        kind = self.kinds.setdefault(name, type(values[0]))
        is_stacked = _is_stackable(kind)
        if all(_is_stackable(one) == is_stacked for one in set(map(type, values))):
            return
        for value, number in zip(values, numbers, strict=True):
            if _is_stackable(type(value)) == is_stacked:
                continue
            own = "None" if value is None else type(value).__name__
            other = "None" if kind is NoneType else kind.__name__
            raise InvalidInputError(
                f"transform returned {own} as {name!r} of row {number}, and {other} of another: one"
                " is listed, the other is an element of an array"
                f"\nreturn one kind for every row, or give collate={{{name!r}: 'list'}}",
                tensor=name,
                row=number,
                expected=other,
                actual=own,
            )


def _collated(
    name: str, values: list[Any], how: Collate, column: ColumnPlan | None, framework: str
) -> dict[str, Any]:
    if how == "list" or callable(how):
        is_numeric = column is not None and column.dtype is not None
        keeps_tensors = framework == "torch" and any(map(_is_tensor, values))
        given = [
            _as_array(one)
            if one is not None and not keeps_tensors and (is_numeric or _is_tensor(one))
            else one
            for one in values
        ]
        return {name: how(given) if callable(how) else given}
    arrays = [None if one is None else _as_array(one) for one in values]
    present = [one for one in arrays if one is not None]
    if len(present) < len(arrays):
        raise _none_returned(name)
    shape = _shape_of(name, present, column)
    check_collate(name, shape, how, is_image=False, framework=framework)
    dtype = present[0].dtype if present else np.dtype("float64")
    check_fill(name, how, dtype, cast="return them in another dtype")
    return collate_ragged(name, arrays, shape, how, dtype, is_stored=False)


def _shape_of(
    name: str, arrays: Sequence[NDArray[Any]], column: ColumnPlan | None
) -> tuple[int | None, ...]:
    """Return the shape of samples, None along the first axis and others of varying length.

    Raises:
        RaggedBatchError: Their numbers of axes differ, or are 0.
    """
    shapes = [one.shape for one in arrays] or [(0,)]
    ndims = set(map(len, shapes))
    if len(ndims) > 1 or 0 in ndims:
        described = ", ".join(map(str, sorted(set(shapes))[:4]))
        raise RaggedBatchError(
            f"transform returned {name!r} in the shapes {described}, and only arrays with the same"
            " number of axes can be padded or concatenated\nreturn arrays alike, or give"
            f" collate={{{name!r}: 'list'}}",
            tensor=name,
        )
    is_fixed = [len(set(lengths)) == 1 for lengths in zip(*shapes, strict=True)]
    if column is not None and len(column.shape) == len(is_fixed):
        is_fixed = [
            one and length is not None for one, length in zip(is_fixed, column.shape, strict=True)
        ]
    inner = zip(shapes[0][1:], is_fixed[1:], strict=True)
    return (None, *(length if fixed else None for length, fixed in inner))


def _is_stackable(kind: type[Any]) -> bool:
    """Return whether values of a type are elements of an array, and not listed."""
    return issubclass(kind, (np.ndarray, np.generic, int, float, *_tensor_types())) and not (
        issubclass(kind, TEXTS)
    )


def _stacked(name: str, values: list[Any], framework: str) -> Any:
    if not _is_stackable(type(values[0])):
        return [one.item() if isinstance(one, TEXTS) else one for one in values]
    tensors = [one for one in values if _is_tensor(one)]
    arrays: list[Any] = values
    as_tensors = framework == "torch" and len(tensors) == len(values)
    if not as_tensors:
        arrays = [_as_array(one) for one in values]
    shapes = {tuple(one.shape) for one in arrays}
    if len(shapes) > 1:
        described = ", ".join(map(str, sorted(shapes)[:4]))
        raise RaggedBatchError(
            f"transform returned {name!r} in different shapes, {described}, which cannot be stacked"
            f"\nreturn one shape, or give collate={{{name!r}: 'list'}} for a ragged column",
            tensor=name,
        )
    if not as_tensors:
        return np.stack(arrays)
    torch = sys.modules["torch"]
    return torch.stack([one.as_subclass(torch.Tensor) for one in arrays])


def _none_returned(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"transform returned None as {name!r} of a row, and an array has no place for it"
        f"\nreturn an array for every row, or give collate={{{name!r}: 'list'}}",
        tensor=name,
    )


def _is_tensor(value: object) -> bool:
    """Return whether a value is a torch tensor or of a subclass, such as torchvision's images."""
    return isinstance(value, _tensor_types())


def _tensor_types() -> tuple[type[Any], ...]:
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.Tensor,)


def _as_array(value: Any) -> NDArray[Any]:
    if not _is_tensor(value):
        return np.asarray(value)
    tensor = value.detach().cpu()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in NARROW_FLOATS:
        return tensor.numpy()
    bits = tensor.view(getattr(sys.modules["torch"], INTEGERS[tensor.element_size()]))
    return bits.numpy().view(parse_dtype(name))
