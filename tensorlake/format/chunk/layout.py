"""Layouts: the encoding of a tensor's chunks, stored in its schema as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensorlake.errors import SchemaError
from tensorlake.format.chunk.codec import (
    Codec,
    default_codecs,
    is_raw,
    parse_codecs,
)
from tensorlake.format.chunk.header import ChunkKind
from tensorlake.format.spec.integrity import damaged
from tensorlake.types import Column, EncodedColumn, SampleType, UniformColumn, parse_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["KIND_NAMES", "ChunkLayout"]

_KINDS = {
    "uniform": ChunkKind.UNIFORM,
    "ragged": ChunkKind.RAGGED,
    "encoded": ChunkKind.ENCODED,
}
KIND_NAMES = {kind: name for name, kind in _KINDS.items()}


_dtype_named = lru_cache(maxsize=64)(parse_dtype)  # by name only, called for every chunk


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """How chunks of a tensor are encoded; a tensor keeps every layout that it ever had.

    Attributes:
        dtype: NumPy's name of the elements' dtype; None for strings, JSON and bytes.
        shape: Shape of a decoded sample; None is any length.
        codecs: The pipeline, as Zarr v3 codec JSON.
        codes: The class code that each stored class code means; None where they mean themselves.
        element_dtype: Dtype of the payload before its codecs: bytes for encoded samples.
        row_nbytes: Bytes of one sample of a uniform chunk before its codecs.
        is_raw: Whether the payload is the samples themselves.
    """

    kind: ChunkKind
    dtype: str | None
    shape: tuple[int | None, ...]
    codecs: tuple[Codec, ...]
    codes: tuple[int, ...] | None = None
    element_dtype: np.dtype = field(init=False, repr=False, compare=False)
    row_nbytes: int = field(init=False, repr=False, compare=False)
    is_raw: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_bytes = self.kind is ChunkKind.ENCODED or self.dtype is None
        element = np.dtype(np.uint8) if is_bytes else _dtype_named(self.dtype)
        elements = math.prod(length or 0 for length in self.shape)
        object.__setattr__(self, "element_dtype", element)
        object.__setattr__(self, "row_nbytes", elements * element.itemsize)
        object.__setattr__(self, "is_raw", is_raw(self.codecs))

    @classmethod
    def of(
        cls,
        sample_type: SampleType,
        *,
        codecs: str | Iterable[Mapping[str, Any]] | None = None,
    ) -> Self:
        """Return the layout of a type's chunks, with its default codecs or these."""
        dtype = sample_type.dtype
        stored = None if sample_type.layout == "encoded" else dtype
        return cls(
            _KINDS[sample_type.layout],
            None if dtype is None else dtype.name,
            sample_type.shape,
            default_codecs(sample_type) if codecs is None else parse_codecs(codecs, stored),
        )

    @property
    def codec_name(self) -> str:
        """The common name of the payload's compression; "none" without one."""
        return "none" if self.is_raw else str(self.codecs[-1]["name"])

    def with_codes_mapped(self, column: Column, *, where: str = "a chunk") -> Column:
        """Return a decoded column with its class codes as `codes` has them; NULLs stay zero.

        Raises:
            CorruptionError: A code is beyond the table.
        """
        if self.codes is None or isinstance(column, EncodedColumn):
            return column
        stored = column.values
        if stored.size and not 0 <= int(stored.min()) <= int(stored.max()) < len(self.codes):
            beyond = int(stored.max()) if int(stored.max()) >= len(self.codes) else stored.min()
            raise damaged(where, f"class code {beyond} is not among {len(self.codes)} codes")
        values = np.asarray(self.codes, dtype=stored.dtype)[stored]
        if isinstance(column, UniformColumn) and column.valid is not None:
            values[~column.valid] = 0
        return replace(column, values=values)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON."""
        written: dict[str, Any] = {
            "kind": KIND_NAMES[self.kind],
            "dtype": self.dtype,
            "shape": list(self.shape),
            "codecs": [dict(codec) for codec in self.codecs],
        }
        return written if self.codes is None else written | {"codes": list(self.codes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            SchemaError: It is not a layout of this version.
        """
        try:
            dtype = None if data["dtype"] is None else parse_dtype(data["dtype"])
            shape = tuple(None if length is None else int(length) for length in data["shape"])
            kind = _KINDS[data["kind"]]
            codecs = parse_codecs(list(data["codecs"]), dtype)
            codes = _parse_codes(data.get("codes"), dtype)
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(
                f"{dict(data)!r} is not an encoding of chunks: {error}"
                "\nthe schema was written by another program, or is damaged",
                actual=dict(data),
            ) from error
        return cls(kind, None if dtype is None else dtype.name, shape, codecs, codes)


def _parse_codes(value: Any, dtype: np.dtype | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if dtype is None or dtype.kind not in "iu" or not isinstance(value, list):
        raise ValueError(f"only integers have codes, {dtype} has not")
    codes: list[Any] = value
    if not all(type(code) is int and 0 <= code <= np.iinfo(dtype).max for code in codes):
        raise ValueError(f"codes are integers of {dtype}, 0 or more")
    return tuple(codes)
