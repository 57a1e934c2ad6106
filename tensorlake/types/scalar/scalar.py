"""Scalar and Bool: one number, or one boolean, per row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.types.base.base import (
    NO_DEFAULT,
    QueryKind,
    SampleType,
    check_default,
    initialise,
)
from tensorlake.types.base.casting import uniform_values
from tensorlake.types.base.column import Column, UniformColumn
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.mixins import OneNumber

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

from tensorlake.types.base.errors import Place

__all__ = ["Bool", "Scalar"]


@dataclass(frozen=True, slots=True, init=False)
class Scalar(OneNumber, SampleType):
    """One number per row; ``"float32"`` in a schema is short for it.

    >>> Scalar("int8").convert([1, 2], tensor="x").values
    array([1, 2], dtype=int8)
    """

    kind: ClassVar[str] = "scalar"

    dtype: np.dtype = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen

    def __init__(
        self,
        dtype: DTypeLike,
        *,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> None:
        initialise(
            self,
            dtype=parse_dtype(dtype),
            nullable=nullable,
            default=default,
            personal=personal,
        )

    @property
    def query_kind(self) -> QueryKind:
        """A number, or a bool for ``Scalar("bool")``."""
        return "bool" if self.dtype == np.bool_ else "number"

    def describe(self) -> str:
        """Show the dtype: ``Scalar(float32)``."""
        return f"Scalar({self.dtype.name})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept numbers that the dtype can hold."""
        return UniformColumn(uniform_values(samples, self.dtype, (), place))


@dataclass(frozen=True, slots=True)
class Bool(OneNumber, SampleType):
    """One boolean per row; 0 and 1 are errors.

    Example:
        >>> Bool().convert([True, False], tensor="x").values
        array([ True, False])
    """

    kind: ClassVar[str] = "bool"

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def dtype(self) -> np.dtype:
        """NumPy's bool: one byte."""
        return np.dtype(np.bool_)

    @property
    def query_kind(self) -> QueryKind:
        """A bool."""
        return "bool"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept bools of Python and NumPy."""
        return UniformColumn(uniform_values(samples, self.dtype, (), place))
