"""Array: samples that are arrays of one dtype, of fixed or varying shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import NO_DEFAULT, Layout, QueryKind, SampleType, initialise
from tensorlake.types.base.casting import joined_column, ragged_column, uniform_values
from tensorlake.types.base.column import Column, UniformColumn
from tensorlake.types.base.dtypes import parse_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike

    from tensorlake.types.base.errors import Place
    from tensorlake.types.base.ragged import Ragged

__all__ = ["Array"]

_MAX_NDIM = 32  # NumPy 1's limit
_MAX_LENGTH = 2**48  # no sample comes near; keeps products of hostile shapes inside int64


@dataclass(frozen=True, slots=True, init=False)
class Array(SampleType):
    """Arrays of one dtype; a None in the shape is any length.

    >>> Array("uint16", shape=(512,)).layout, Array("float32", shape=(None, 3)).layout
    ('uniform', 'ragged')

    Attributes:
        dtype: Dtype of the elements.
        shape: Length of each axis.
        per: The tensor whose items (boxes) have one element each, along the first axis.
    """

    kind: ClassVar[str] = "array"

    dtype: np.dtype = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    shape: tuple[int | None, ...] = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    per: str | None = None

    def __init__(
        self,
        dtype: DTypeLike,
        shape: Iterable[int | None],
        *,
        per: str | None = None,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
    ) -> None:
        elements, lengths = parse_dtype(dtype), _parse_shape(shape)
        if per is not None and lengths[:1] != (None,):
            raise SchemaError(
                f"Array of shape {lengths}: per={shown(per)} means one"
                f" element for each item of {shown(per)},"
                " and the first axis has a fixed length"
                "\ngive a shape whose first length varies: (None,)",
                actual=lengths,
            )
        initialise(self, dtype=elements, shape=lengths, per=per, nullable=nullable, default=default)

    @property
    def layout(self) -> Layout:
        """Ragged when a length may vary."""
        return "ragged" if None in self.shape else "uniform"

    @property
    def query_kind(self) -> QueryKind:
        """Elements are numbers or bools."""
        return "bool" if self.dtype == np.bool_ else "number"

    def describe(self) -> str:
        """Name the dtype and the shape: ``Array(uint16, (512,))``."""
        return f"Array({self.dtype.name}, {self.shape}{f', per={self.per}' if self.per else ''})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept arrays, nested lists, and tensors of other libraries."""
        if self.layout == "ragged":
            return ragged_column(samples, self.dtype, self.shape, place)
        fixed = tuple(length or 0 for length in self.shape)
        return UniformColumn(uniform_values(samples, self.dtype, fixed, place))

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Cast contiguous samples at once, where lengths may vary."""
        if self.layout == "uniform":
            return self.convert_values(list(samples), place)
        return joined_column(samples, self.dtype, self.shape, place)


def _parse_shape(shape: Iterable[int | None]) -> tuple[int | None, ...]:
    try:
        lengths = tuple(shape)
    except TypeError:
        lengths = ("?",)
    good = all(
        length is None or (is_whole_number(length) and 0 <= length < _MAX_LENGTH)
        for length in lengths
    )
    if not good or len(lengths) > _MAX_NDIM:
        raise SchemaError(
            f"{shown(shape)} is not a shape of samples"
            "\ngive a tuple of lengths, None where they vary: (512,) or (None, 4)",
            actual=shape,
        )
    return tuple(None if length is None else int(length) for length in lengths)
