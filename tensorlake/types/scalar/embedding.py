"""Embedding: one vector of fixed length per row, stored raw so that rows can be mapped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import NO_DEFAULT, Layout, QueryKind, SampleType, initialise
from tensorlake.types.base.casting import uniform_values
from tensorlake.types.base.column import Column, UniformColumn
from tensorlake.types.base.dtypes import holds_floats, parse_dtype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from tensorlake.types.base.errors import Place

__all__ = ["Embedding", "Metric"]

Metric = Literal["cosine", "l2", "dot"]
_METRICS = ("cosine", "l2", "dot")
_MAX_DIM = 1 << 20  # beyond any model; a typo such as a row count is caught here


@dataclass(frozen=True, slots=True, init=False)
class Embedding(SampleType):
    """A vector of `dim` floats; `metric` is the distance between neighbours.

    >>> Embedding(768).shape, Embedding(768, dtype="bfloat16").dtype
    ((768,), dtype(bfloat16))

    Attributes:
        dtype: Any float: "float32", or half of it with "float16" and "bfloat16".
    """

    kind: ClassVar[str] = "embedding"

    dim: int
    metric: Metric = "cosine"
    dtype: np.dtype = field(default=np.dtype(np.float32))  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen

    def __init__(
        self,
        dim: int,
        metric: Metric = "cosine",
        dtype: DTypeLike = "float32",
        *,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> None:
        if not is_whole_number(dim) or not 1 <= dim <= _MAX_DIM:
            raise SchemaError(
                f"an embedding cannot have {shown(dim)} numbers"
                f"\ngive the vectors' length, 1 … {_MAX_DIM:,}: Embedding(768)",
                actual=dim,
            )
        if not isinstance(metric, str) or metric not in _METRICS:
            raise SchemaError(
                f"{shown(metric)} is not a metric\nuse one of {', '.join(map(repr, _METRICS))}",
                actual=metric,
            )
        elements = parse_dtype(dtype)
        if not holds_floats(elements):
            raise SchemaError(
                f"an embedding is of floats, not {elements.name}"
                "\nuse a float dtype, or tl.Array for vectors of integers",
                actual=elements.name,
            )
        initialise(
            self,
            dim=int(dim),
            metric=metric,
            dtype=elements,
            nullable=nullable,
            default=default,
            personal=personal,
        )

    @property
    def layout(self) -> Layout:
        """All samples have the shape (dim,)."""
        return "uniform"

    @property
    def shape(self) -> tuple[int | None, ...]:
        """One axis of `dim` numbers."""
        return (self.dim,)

    @property
    def query_kind(self) -> QueryKind:
        """An array of numbers."""
        return "number"

    @property
    def codec_default(self) -> Literal["raw"]:
        """Floats of a model's last layer do not compress, and rows are read one by one."""
        return "raw"

    def describe(self) -> str:
        """Show the length, and the dtype if not float32: ``Embedding(768)``."""
        narrow = "" if self.dtype == np.float32 else f", {self.dtype.name}"
        return f"Embedding({self.dim}{narrow})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept vectors of this length."""
        return UniformColumn(uniform_values(samples, self.dtype, (self.dim,), place))
