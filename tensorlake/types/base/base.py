"""SampleType: the declaration of the samples of one tensor.

A type declares the Python values that it accepts (`convert`), the stored form (`layout`, `dtype`,
`shape`), the values that reads return (`decode`, then `present`), and how queries see it
(`query_kind`). It is a value: frozen, comparable, and equal after ``from_json(to_json())``.

A new type is one small file with one frozen dataclass: it sets its `kind`, defines the four
properties without a default here and implements `convert_values`; media types also `decode`.
NULLs never reach `convert_values`: `convert` removes them before and restores them after.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from tensorlake.errors import InvalidInputError, SchemaError, TensorlakeError, shown
from tensorlake.quantities import check_flags
from tensorlake.types.base.casting import as_samples
from tensorlake.types.base.column import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    as_ragged,
    null_count,
)
from tensorlake.types.base.errors import Place, null_refused
from tensorlake.types.base.nulls import with_nulls, with_value
from tensorlake.types.base.parts import MemorySample, Parted, decode_whole, read_request
from tensorlake.types.base.ragged import Ragged
from tensorlake.types.base.region import Region, part_of
from tensorlake.types.base.written import written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["MEDIA_CHUNK_NBYTES", "NO_DEFAULT", "Layout", "QueryKind", "SampleType"]

Layout = Literal["uniform", "ragged", "encoded"]
QueryKind = Literal["number", "bool", "label", "text", "json", "bytes", "media"]

NUMERIC_CHUNK_NBYTES = 1 << 20  # design: format.md, Chunks
MEDIA_CHUNK_NBYTES = 8 << 20


class NoDefault:
    """The type of `NO_DEFAULT`: None would mean NULL."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"  # pickled and copied as a singleton


NO_DEFAULT = NoDefault()


@dataclass(frozen=True, slots=True)
class SampleType(Parted, ABC):
    """The type of every sample of one tensor.

    Attributes:
        kind: Stable name of the type in schemas.
        nullable: Whether a sample may be NULL (None).
        default: The value of rows without one; NO_DEFAULT when a value is required.
        personal: Whether samples are about a person: the dataset then keeps no bounds of them,
            which its log would keep permanently, and queries skip no chunk by them.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = SampleType.__repr__  # else dataclass() would write its own

    def __repr__(self) -> str:
        return written(self)

    nullable: bool = field(default=False, kw_only=True)
    default: Any = field(default=NO_DEFAULT, kw_only=True)  # Any: a value that convert() accepts
    personal: bool = field(default=False, kw_only=True)

    # ---- the stored form

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """How samples are stored, and their kind of column."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype | None:
        """Dtype of the decoded elements; None for strings, JSON and bytes."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int | None, ...]:
        """Shape of a decoded sample; None is any length, () a scalar."""

    @property
    @abstractmethod
    def query_kind(self) -> QueryKind:
        """How a query sees a sample, or the elements of one."""

    @property
    def is_media(self) -> bool:
        """Whether stored samples become arrays only by `decode`."""
        return False

    def items_in(self, sample: Any, place: Place, position: int) -> list[Any] | None:
        """Return the samples of a file that has several, for a `Sequence`; None for no file."""
        del sample, place, position
        return None

    @property
    def media_type(self) -> str | None:
        """MIME type of a stored sample."""
        return None

    def media_type_of(self, sample: Buffer) -> str | None:  # noqa: ARG002 - types differ
        """MIME type of one stored sample, where samples of a tensor differ in it."""
        return self.media_type

    @property
    def drawn_as(self) -> str:
        """The kind as which the viewer draws samples; a plug-in's type names a built-in kind.

        The viewer needs more from some kinds: an "image" decodes to uint8 or uint16 (height,
        width[, channels]), a "bbox" has `format` and `of`, a "segment_mask" `names` and `of`.
        """
        return self.kind

    @property
    def codec_default(self) -> Literal["raw"] | None:
        """'raw' where compression never pays; None lets dtype and size decide."""
        return "raw" if self.is_media else None

    @property
    def chunk_nbytes(self) -> int:
        """Target size of a chunk."""
        return MEDIA_CHUNK_NBYTES if self.is_media else NUMERIC_CHUNK_NBYTES

    @property
    def has_default(self) -> bool:
        """Whether rows may omit this tensor."""
        return self.nullable or self.default is not NO_DEFAULT

    @property
    def fill_value(self) -> Any:
        """The value of rows that omit this tensor, as JSON; None is NULL.

        Raises:
            SchemaError: The type has no default and is not nullable.
        """
        if not self.has_default:
            raise SchemaError(
                f"{self.describe()} has no value for rows without one"
                "\ngive fill=, default=, or nullable=True"
            )
        return None if self.default is NO_DEFAULT else self.default

    # ---- text and JSON

    def describe(self) -> str:
        """Return the type and its main parameters, as `repr` of a dataset shows them."""
        return type(self).__name__

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"{self.dtype} of shape {self.shape} ({self.describe()})"

    def to_json(self) -> dict[str, Any]:
        """Return the type as JSON; parameters that have their default are omitted."""
        given: dict[str, Any] = {"kind": self.kind}
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            if parameter.default is MISSING or value != parameter.default:
                given[parameter.name] = _parameter_json(value)
        return given

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; parameters unknown to this version are ignored.

        Raises:
            SchemaError: A parameter is missing or invalid.
        """
        known = {one.name for one in fields(cls)}
        try:
            return cls(**{name: value for name, value in data.items() if name in known})
        except TypeError as error:
            raise SchemaError(
                f"the stored type {dict(data)!r} lacks a parameter: {error}"
                "\nthe schema was written by another program, or is damaged",
                actual=dict(data),
            ) from error

    # ---- conversion between Python values and columns

    def convert(
        self, samples: Any, *, tensor: str, row_start: int = 0, call: str = "extend()"
    ) -> Column:
        """Check and cast samples into a column; None becomes NULL where that is allowed.

        Args:
            samples: A sequence of samples, or an array whose first axis is the rows.
            tensor: Name of the tensor, for errors.
            row_start: Row of the first sample, as the user counts.
            call: The call that the user made, for errors.

        Raises:
            InvalidInputError: The first sample that does not fit, with its row.
        """
        if isinstance(samples, Ragged):
            return self.convert_ragged(samples, Place(tensor, self, row_start, len(samples), call))
        given = as_samples(samples, call=call, nullable=self.nullable)
        place = Place(tensor, self, row_start, len(given), call)
        if isinstance(given, np.ndarray) or type(None) not in set(map(type, given)):
            return self.convert_values(given, place)
        valid = np.fromiter((one is not None for one in given), np.bool_, len(given))
        if not self.nullable:
            raise null_refused(place, int(np.argmin(valid)))
        kept = [one for one in given if one is not None]
        column = self.convert_values(kept, place.without(np.flatnonzero(valid)))
        return with_nulls(column, valid, self.shape)

    @abstractmethod
    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Check and cast samples, none of them None; raise for the first that does not fit."""

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Check and cast contiguous samples, which a type may do all at once."""
        return self.convert_values(list(samples), place)

    def adapt(self, column: Column) -> Column:
        """Convert a column that was stored under an older encoding of the tensor to this type.

        Types only ever widen, so elements are cast without loss and uniform becomes ragged.
        """
        if isinstance(column, EncodedColumn) or self.dtype is None:
            return column
        if column.values.dtype != self.dtype:
            column = replace(column, values=column.values.astype(self.dtype))
        return as_ragged(column) if self.layout == "ragged" else column

    def json_value(self, value: Any) -> Any:
        """Return one sample's stored value as JSON; None is NULL.

        A class name becomes its code, which stays right when the class is renamed.

        Raises:
            InvalidInputError: The value is not of this type.
            SchemaError: JSON cannot hold the type's samples.
        """
        column = self.convert([value], tensor="value", call="json_value()")
        if self.is_media or self.query_kind == "bytes":
            raise SchemaError(
                f"JSON cannot hold a sample of {self.describe()}\nuse NULL, with nullable=True"
            )
        if column.valid is not None:
            return None
        match column:
            case UniformColumn():
                return column.values[0].tolist()
            case RaggedColumn():
                return column.sample(0).tolist()
            case EncodedColumn():
                return self.present_sample(bytes(column.samples[0]))

    def fill_column(self, fill: Any, rows: int) -> Column:
        """Return a column whose samples all are `fill` (None: NULL); memory for one sample."""
        column = replace(self, nullable=True).convert([fill], tensor="fill", call="fill")
        valid = None if column.valid is None else np.broadcast_to(column.valid, (rows,))
        match column:
            case UniformColumn():
                shape = (rows, *column.values.shape[1:])
                return UniformColumn(np.broadcast_to(column.values, shape), valid)
            case RaggedColumn():
                shapes = np.broadcast_to(column.shapes, (rows, column.shapes.shape[1]))
                return RaggedColumn(np.tile(column.values, rows), shapes, valid)
            case EncodedColumn():
                shapes = column.shapes
                if shapes is not None:
                    shapes = np.broadcast_to(shapes, (rows, shapes.shape[1]))
                maps = column.maps and [column.maps[0]] * rows
                return EncodedColumn([column.samples[0]] * rows, shapes, valid, maps)

    def decode(
        self, column: Column, *, tensor: str, rows: Sequence[int] | np.ndarray | None = None
    ) -> Column:
        """Decode stored samples into arrays; return other than media unchanged.

        Args:
            column: The samples, as stored.
            tensor: Name of the tensor, for errors.
            rows: Row of each sample, for errors; default: their positions.

        Raises:
            CorruptSampleError: A sample cannot be decoded.
        """
        if isinstance(column, EncodedColumn) and self.has_parts and not self.is_lazy:
            assert self.dtype is not None
            return decode_whole(self, column, self.dtype, self.shape, tensor=tensor, rows=rows)
        return column

    def present(self, column: Column, *, tensor: str = "", null: Any = NO_DEFAULT) -> Any:
        """Return the public value of a whole (decoded) column; only the schema determines its type.

        Raises:
            InvalidInputError: Samples are NULL and no `null` was given to replace them.
        """
        column = self.without_nulls(column, tensor=tensor, null=null)
        match column:
            case UniformColumn():
                return column.values
            case RaggedColumn():
                inner = self.shape[1:]
                fixed = None if None in inner else tuple(length or 0 for length in inner)
                return Ragged(column, inner=fixed)
            case EncodedColumn() if self.is_lazy:
                return [self.present_one(column, position) for position in range(len(column))]
            case EncodedColumn():
                return self.present_samples(column.samples)

    def present_one(self, column: Column, position: int) -> Any:
        """Return the public value of one sample of a (decoded) column; None when it is NULL."""
        if column.valid is not None and not column.valid[position]:
            return None
        match column:
            case UniformColumn():
                return column.values[position]
            case RaggedColumn():
                return column.sample(position)
            case EncodedColumn() if self.is_lazy:
                return self.handle_class(self, MemorySample.of(self, column, position))
            case EncodedColumn():
                return self.present_sample(bytes(column.samples[position]))

    def present_region(self, column: Column, region: Region, *, tensor: str, row: int) -> Any:
        """Return the public value of a part of one sample; None when it is NULL.

        A type whose samples can be decoded in parts decodes only that part.

        Args:
            column: The sample, as stored, alone.
            region: The part, as a NumPy index.
            tensor: Name of the tensor, for errors.
            row: Row of the sample, for errors.

        Raises:
            InvalidInputError: The part does not exist.
            CorruptSampleError: The sample cannot be decoded.
        """
        if self.has_parts and isinstance(column, EncodedColumn):
            if column.valid is not None and not column.valid[0]:
                return None
            stored = MemorySample.of(self, column, 0, tensor=tensor, row=row)
            return read_request(self, stored, region)
        sample = self.present_one(self.decode(column, tensor=tensor, rows=[row]), 0)
        part = None if sample is None else part_of(sample, region, self.refusal(tensor, row))
        # a part that was cut from decoded pixels must not keep all of them
        return part.copy() if self.is_media and isinstance(part, np.ndarray) else part

    def refusal(self, tensor: str, row: int) -> Callable[[str], InvalidInputError]:
        """Return a function that builds the error for a region that a sample does not have."""

        def refused(reason: str) -> InvalidInputError:
            reason, _, hint = reason.partition("\n")
            return InvalidInputError(
                f"row {row} of {tensor!r} ({self.describe()}) has no such region: {reason}"
                f"\n{hint or f'read it whole: ds[{tensor!r}][{row}]'}",
                tensor=tensor,
                row=row,
            )

        return refused

    @property
    def item_counter(self) -> Callable[[Buffer], int] | None:
        """A function that counts a stored sample's items without decoding; None if not a list."""
        return None

    def present_sample(self, sample: bytes) -> Any:
        """Return the public value of one stored sample of an encoded column."""
        return sample

    def present_samples(self, samples: Sequence[Buffer]) -> list[Any]:
        """Return the public values of the stored samples of an encoded column."""
        return [self.present_sample(bytes(sample)) for sample in samples]

    def decode_sample(self, sample: Buffer, *, tensor: str = "", row: int = 0) -> Any:
        """Decode one stored sample of an encoded column, and return its public value.

        Raises:
            CorruptSampleError: It cannot be decoded.
        """
        column = self.decode(EncodedColumn([sample]), tensor=tensor, rows=[row])
        return self.present_one(column, 0)

    def query_sample(self, sample: bytes) -> Any:
        """Return the value of one stored sample of an encoded column as queries see it."""
        return self.present_sample(sample)

    def without_nulls(self, column: Column, *, tensor: str = "", null: Any = NO_DEFAULT) -> Column:
        """Return the column with NULLs replaced by a value.

        Args:
            column: Samples, decoded.
            tensor: The tensor's name, for errors.
            null: A sample; a number is used for all elements. A NULL has no elements along an
                axis whose length varies.

        Raises:
            InvalidInputError: Samples are NULL and no `null` was given.
        """
        if column.valid is None or bool(column.valid.all()):
            return column
        if null is NO_DEFAULT or null is None:
            first = int(np.argmin(column.valid))
            is_number = self.dtype is not None and self.dtype.kind in "biuf" and not self.is_media
            advice = (
                f"ds[{tensor!r}].read(rows, null=0) or .to_numpy(rows, null=0) replaces them"
                if is_number
                else f"read the others: ds[{tensor!r}][~ds[{tensor!r}].is_null()], or give null= a"
                f" value of {self.describe()}"
            )
            raise InvalidInputError(
                f"{tensor!r} is NULL in {null_count(column):,} of {len(column):,} rows "
                f"(the first at position {first})"
                f"\n{advice}",
                tensor=tensor,
                row=first,
            )
        if self.shape and np.ndim(null) == 0 and not isinstance(column, EncodedColumn):
            null = np.full([length or 0 for length in self.shape], null)
        filled = self.convert([null], tensor=tensor, call="read(null=)")
        if not isinstance(column, EncodedColumn):
            filled = self.decode(filled, tensor=tensor)
        return with_value(column, filled)


def initialise(sample_type: SampleType, **parameters: Any) -> None:
    """Set the parameters of a frozen type with its own ``__init__``; check its default.

    Raises:
        SchemaError: The default is invalid.
    """
    for name, value in parameters.items():
        object.__setattr__(sample_type, name, value)
    check_default(sample_type)


def check_default(sample_type: SampleType) -> None:
    """Reject a default that the type itself would reject, or that JSON cannot represent.

    Raises:
        SchemaError: With the reason.
    """
    check_flags(nullable=sample_type.nullable, personal=sample_type.personal)
    default = sample_type.default
    if isinstance(default, np.ndarray | np.generic):
        object.__setattr__(sample_type, "default", default.tolist())  # frozen, still in __init__
    elif default is NO_DEFAULT:
        return
    if sample_type.default is None and sample_type.nullable:
        return
    if sample_type.is_media or isinstance(sample_type.default, bytes):
        raise SchemaError(
            f"{sample_type.describe()} cannot have a default: JSON cannot hold it"
            "\nuse nullable=True instead"
        )
    try:
        sample_type.convert([sample_type.default], tensor="default", call="default=")
    except TensorlakeError as error:
        raise SchemaError(
            f"{sample_type.describe()} cannot have the default {shown(default)}: {error}"
        ) from error
    try:
        json.dumps(sample_type.default, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            f"{sample_type.describe()} cannot have the default"
            f" {shown(default)}: JSON cannot represent"
            " it"
            "\nuse nullable=True instead"
        ) from error


def _parameter_json(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return value.name
    return list(value) if isinstance(value, tuple) else value
