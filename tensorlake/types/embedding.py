"""Embedding: one vector of fixed length a row, stored raw so that rows can be mapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tensorlake.errors import SchemaError
from tensorlake.types.base import Layout, QueryKind, SampleType, check_default
from tensorlake.types.casting import uniform_values
from tensorlake.types.column import Column, UniformColumn

if TYPE_CHECKING:
    from tensorlake.types.rejection import Place

__all__ = ["Embedding", "Metric"]

Metric = Literal["cosine", "l2", "dot"]
_METRICS = ("cosine", "l2", "dot")
_MAX_DIM = 1 << 20  # beyond any model; a typo such as a row count is caught here


@dataclass(frozen=True, slots=True)
class Embedding(SampleType):
    """A float32 vector of `dim` numbers; `metric` is how neighbours are measured.

    >>> Embedding(768).shape
    (768,)
    """

    kind: ClassVar[str] = "embedding"

    dim: int
    metric: Metric = "cosine"

    def __post_init__(self) -> None:
        is_dim = isinstance(self.dim, (int, np.integer)) and not isinstance(self.dim, bool)
        if not is_dim or not 1 <= self.dim <= _MAX_DIM:
            raise SchemaError(
                f"an embedding cannot have {self.dim!r} numbers"
                f"\ngive the vectors' length, 1 … {_MAX_DIM:,}: Embedding(768)",
                actual=self.dim,
            )
        if self.metric not in _METRICS:
            raise SchemaError(
                f"{self.metric!r} is not a metric\nuse one of {', '.join(map(repr, _METRICS))}",
                actual=self.metric,
            )
        object.__setattr__(self, "dim", int(self.dim))
        check_default(self)

    @property
    def layout(self) -> Layout:
        """All samples have the shape (dim,)."""
        return "uniform"

    @property
    def dtype(self) -> np.dtype:
        """Always float32."""
        return np.dtype("<f4")

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
        """Name the length: ``Embedding(768)``."""
        return f"Embedding({self.dim})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Take vectors of this length."""
        return UniformColumn(uniform_values(samples, self.dtype, (self.dim,), place))
