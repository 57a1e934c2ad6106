"""The plan of a batch's column, decided from the schema before any data is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from tensorlake.loader.decode import (
    BatchMix,
    ClipDecoder,
    DecodeSpec,
    ImageDecoder,
    LinearMap,
    Mover,
    PartDecoder,
)
from tensorlake.types import Bytes, Link

if TYPE_CHECKING:
    from tensorlake.loader.config.collate import Collate
    from tensorlake.types import LinkOpener, SampleType

__all__ = [
    "ROW",
    "SKIPPED",
    "VALID",
    "ColumnPlan",
    "Kind",
    "MakeBatch",
    "RowDecoder",
    "as_stored",
    "row_column",
    "valid_column",
]

MakeBatch: TypeAlias = Callable[[], dict[str, Any]]
"""Makes one batch; called once, by the consumer."""
ROW = "_row"
VALID = "_valid"
SKIPPED = "_skipped"  # a LeftOut, in a batch that is sent to a client
HOLE = "_hole"  # True where another row stands in for one that is not there any more
RowDecoder: TypeAlias = ClipDecoder | PartDecoder
Kind = Literal["row", "virtual", "uniform", "image", "decoded", "ragged", "encoded"]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column of the batch.

    Attributes:
        name: Name of the tensor and of the batch's entry; ``_row`` is not a tensor.
        type: Type of the tensor.
        kind: How samples become an entry.
        shape: Shape of a sample in the batch; None where lengths differ.
        dtype: Dtype of the batch's numbers; None for text, JSON and bytes.
        collate: How samples of different shapes are combined; None where they are stacked.
        decoder: Decodes images.
        row_decoder: Decodes rows of several images, or parts of samples, which alone are read.
        mix: Mixes rows of a batch with each other.
        linear: The value steps of a uniform or ragged column.
        moves_with: The image whose geometric steps move these annotations.
        mover: Moves them.
        counts_with: The items, such as boxes, that each have one of these values (``per=``).
        null: The stored sample that replaces NULL; for a virtual column, a number or string.
        drops_with: The items with which these values are dropped where they leave the image.
        files: Reads the files of links, whose batches are handles.
    """

    name: str
    type: SampleType | None
    kind: Kind
    shape: tuple[int | None, ...] = ()
    dtype: np.dtype | None = None
    collate: Collate | None = None
    decoder: ImageDecoder | None = None
    row_decoder: RowDecoder | None = None
    mix: BatchMix | None = None
    linear: LinearMap | None = None
    moves_with: str | None = None
    mover: Mover | None = None
    counts_with: str | None = None
    null: Any = None  # a Column, but of virtual columns
    drops_with: str | None = None
    files: LinkOpener | None = None

    @property
    def is_stacked(self) -> bool:
        """Whether the entry is one array of fixed shape."""
        if self.kind in ("image", "decoded", "virtual") or self.is_dense:
            return self.collate is None and self.dtype is not None
        return self.kind in ("row", "uniform")

    @property
    def is_dense(self) -> bool:
        """Whether it has a number for each pixel of an image whose pixels are moved."""
        return self.mover is not None and self.mover.is_dense

    @property
    def images(self) -> ImageDecoder | None:
        """The decoder of its images; None where it has none."""
        if self.row_decoder is None:
            return self.decoder
        return cast("ImageDecoder | None", self.row_decoder.images)

    @property
    def spec(self) -> DecodeSpec | None:
        """The steps of its images; None where it has none."""
        return None if self.images is None else self.images.spec

    @property
    def is_placed(self) -> bool:
        """Whether each sample is one image, which annotations are moved with."""
        return self.decoder is not None or (self.parts is not None and self.parts.is_placed)

    @property
    def parts(self) -> PartDecoder | None:
        """The decoder of parts of its samples; None where samples are read whole."""
        return self.row_decoder if isinstance(self.row_decoder, PartDecoder) else None

    @property
    def opens(self) -> bool:
        """Whether its samples, of an encoded column, become handles."""
        return self.files is not None or (self.type is not None and self.type.is_lazy)

    def presenter(self) -> Callable[..., Any]:
        """Return what makes the public value of a stored sample of an encoded column.

        It is called with the sample and ``row``, and raises CorruptSampleError.
        """
        assert self.type is not None, "only stored columns are encoded"
        if self.files is not None and isinstance(self.type, Link):
            return partial(self.type.open_sample, self.files, tensor=self.name)
        return partial(self.type.decode_sample, tensor=self.name)

    @property
    def is_virtual(self) -> bool:
        """Whether it is not a tensor but a value known by position."""
        return self.kind == "virtual"

    @property
    def sample_nbytes(self) -> int:
        """Bytes of one sample in the batch's array; 0 where they differ."""
        if not self.is_stacked or self.dtype is None:
            return 0
        shape = [length or 0 for length in self.shape]
        return self.dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def as_stored(column: ColumnPlan) -> ColumnPlan:
    """Return a plan that delivers the samples of an encoded column as they are stored."""
    return replace(column, type=Bytes()) if column.kind == "encoded" else column


def row_column() -> ColumnPlan:
    """Describe the entry with the number of each row in its version."""
    return ColumnPlan(ROW, None, "row", (), np.dtype(np.int64))


def valid_column() -> ColumnPlan:
    """Describe the entry that marks which rows are valid; no stage makes it as it makes columns."""
    return ColumnPlan(VALID, None, "row", (), np.dtype(np.bool_))
