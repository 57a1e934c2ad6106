"""Unsupported: the type of a tensor that this version cannot read, because it lacks a feature.

A schema of a newer version, or with a plug-in's type that is not installed, opens nevertheless: its
other tensors are read and written as usual. This one keeps its stored type, its chunks are copied
and checked as bytes, and reading it raises the error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.types.base.base import Layout, QueryKind, SampleType
from tensorlake.types.base.column import Column, EncodedColumn, RaggedColumn, UniformColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tensorlake.types.base.errors import Place

__all__ = ["Unsupported"]


@dataclass(frozen=True, slots=True, repr=False)
class Unsupported(SampleType):
    """A stored type that this version cannot read.

    Attributes:
        stored: The type as JSON, which is written back as it is.
        missing: The reason, for errors: a type or feature that this version lacks.
        features: The features that the tensor needs.
        layout: How its samples are stored.
        dtype: Dtype of its elements, as its chunks have it.
        shape: Shape of its samples, as its chunks have it.
    """

    kind: ClassVar[str] = "unsupported"

    stored: str
    missing: str
    features: tuple[str, ...]
    layout: Layout = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    dtype: np.dtype | None = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen
    shape: tuple[int | None, ...] = field()  # pyright: ignore[reportIncompatibleMethodOverride] -- frozen

    @classmethod
    def of(
        cls,
        stored: Mapping[str, Any],
        missing: str,
        *,
        features: Iterable[str],
        layout: Layout,
        dtype: str | None,
        shape: tuple[int | None, ...],
    ) -> Self:
        """Keep a stored type, of samples that are stored so."""
        return cls(
            json.dumps(stored),
            missing,
            tuple(features),
            layout,
            None if dtype is None else np.dtype(dtype),
            shape,
            nullable=bool(stored.get("nullable", False)),
            personal=bool(stored.get("personal", False)),
        )

    @property
    def query_kind(self) -> QueryKind:
        """Bytes: a query cannot read it either."""
        return "bytes"

    def describe(self) -> str:
        """Name the stored kind: ``hologram (unsupported)``."""
        return f"{json.loads(self.stored).get('kind')} (unsupported)"

    def to_json(self) -> dict[str, Any]:
        """Return the stored type."""
        return json.loads(self.stored)

    def error(self, tensor: str) -> UnsupportedFeatureError:
        """Build the error for reading or writing samples."""
        return UnsupportedFeatureError(
            f"tensor {tensor!r} cannot be read or written here: {self.missing}\nupgrade tensorlake,"
            " or install the plug-in that provides it; the other tensors can be used",
            tensor=tensor,
        )

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept NULL alone, for rows that other tensors get."""
        if len(samples):
            raise self.error(place.tensor)
        fixed = tuple(length or 0 for length in self.shape)
        shapes = np.zeros((0, len(self.shape)), np.int64)
        if self.layout == "uniform":
            return UniformColumn(np.zeros((0, *fixed), self.dtype))
        if self.layout == "ragged":
            return RaggedColumn(np.zeros(0, self.dtype), shapes)
        maps = [] if "parts" in self.features else None
        return EncodedColumn([], None if self.dtype is None else shapes, None, maps)
