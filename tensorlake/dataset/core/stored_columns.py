"""Stored samples, copied into another dataset.

Between tensors of one type they are copied as stored: nothing is decoded, and no image is encoded
again. Otherwise they are converted and checked by the new type like other values:

    labels, masks    classes are matched by name, because codes differ between datasets
    keypoints        points are matched by name
    boxes            the four numbers become those of the other format
    samples in tiles whole images and arrays, as only types with the same tiles can copy them
    links            the files that they name where the new type has files; links stay links
    texts            never names of files: the author of a row could read any local file
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.types import (
    NO_DEFAULT,
    Array,
    BBox,
    BinaryMask,
    ClassLabel,
    Column,
    EncodedColumn,
    Keypoints,
    Link,
    OpenedLink,
    SampleType,
    SegmentMask,
    Sequence,
    UniformColumn,
    convert_boxes,
    unknown_class,
    untiled,
    untiled_column,
)

__all__ = ["StoredColumn", "refuse_names_of_files"]


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Samples as stored in a dataset, with their type."""

    sample_type: SampleType
    column: Column

    def __len__(self) -> int:
        return len(self.column)

    def converted(self, wanted: SampleType, *, tensor: str, row_start: int, call: str) -> Column:
        """Convert the samples to another tensor's type.

        Raises:
            InvalidInputError: A sample does not match it.
        """
        has_nulls = self.column.valid is not None and not self.column.valid.all()
        if _without_null(self.sample_type) == _without_null(wanted) and (
            wanted.nullable or not has_nulls
        ):
            return self.column if has_nulls else replace(self.column, valid=None)
        samples = self._values(wanted, tensor=tensor, has_nulls=has_nulls)
        refuse_names_of_files(samples, wanted, tensor=tensor, row_start=row_start)
        samples = _in_terms_of(wanted, self.sample_type, samples, tensor, row_start)
        return wanted.convert(samples, tensor=tensor, row_start=row_start, call=call)

    def _values(self, wanted: SampleType, *, tensor: str, has_nulls: bool) -> Any:
        """Return values that a user would pass to store these samples."""
        column, sample_type = self.column, self.sample_type
        if isinstance(sample_type, Link):
            maps = column.maps if isinstance(column, EncodedColumn) else None
            opened = [one.sample if isinstance(one, OpenedLink) else None for one in maps or ()]
            return [None if one is None else one.content for one in opened]
        if untiled(sample_type) is not sample_type:
            column = untiled_column(sample_type, column, tensor=tensor)
            sample_type = untiled(sample_type)
        has_files = wanted.is_media and not isinstance(wanted, Array | SegmentMask)
        if isinstance(column, EncodedColumn) and sample_type.is_media and has_files:
            valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
            pairs = zip(column.samples, valid.tolist(), strict=True)
            return [bytes(sample) if is_valid else None for sample, is_valid in pairs]
        if sample_type.is_media:
            column = sample_type.decode(column, tensor=tensor)
        values = [sample_type.present_one(column, row) for row in range(len(column))]
        if isinstance(sample_type, ClassLabel) and isinstance(wanted, ClassLabel):
            return [_named(value, sample_type.names) for value in values]
        if isinstance(column, UniformColumn) and not has_nulls:
            return np.asarray(column.values)
        return values


def refuse_names_of_files(
    samples: Any, wanted: SampleType, *, tensor: str, row_start: int = 0
) -> None:
    """Refuse texts of rows for a type that would read the files of these names.

    Raises:
        InvalidInputError: There is one.
    """
    item = wanted
    while isinstance(item, Sequence):
        item = item.item
    if not (item.is_media or isinstance(item, BinaryMask | SegmentMask)):
        return
    for row, sample in enumerate(samples, row_start):
        if (text := _first_text(sample)) is not None:
            raise InvalidInputError(
                f"row {row}: {tensor!r} is {wanted.describe()}, which takes the text"
                f" {shown(text)} for the name of a local file; the author of the row could read any"
                "\nfor rows that you trust, convert the texts in Python:"
                f" view.materialize(url, encode={{{tensor!r}: (lambda name: pathlib.Path(name),"
                f" tl.{type(wanted).__name__}(…))}})",
                tensor=tensor,
                row=row,
            )


def _first_text(sample: object) -> str | None:
    match sample:
        case str():
            return sample
        case list() | tuple():
            texts = map(_first_text, cast("list[object]", sample))
            return next((one for one in texts if one is not None), None)
        case np.ndarray() if sample.dtype.kind in "OUT":
            return _first_text(sample.ravel().tolist())
        case _:
            return None


def _without_null(sample_type: SampleType) -> SampleType:
    return replace(sample_type, nullable=False, default=NO_DEFAULT)


def _in_terms_of(
    wanted: SampleType, given: SampleType, samples: Any, tensor: str, row_start: int
) -> Any:
    """Return values whose numbers mean in the new type what they mean in the old one.

    Raises:
        UnknownClassError: A mask has pixels of a class that the new type does not name.
        InvalidInputError: Keypoints of other names.
    """
    match given, wanted:
        case SegmentMask(), SegmentMask() if given.names and wanted.names:
            if given.names == wanted.names[: len(given.names)] and given.ignore == wanted.ignore:
                return samples
            return [
                None if one is None else _recoded(np.asarray(one), given, wanted, tensor, row)
                for row, one in enumerate(samples, row_start)
            ]
        case BBox(), BBox() if given.format != wanted.format:
            formats = given.format, wanted.format
            return [None if one is None else convert_boxes(one, *formats) for one in samples]
        case Keypoints(), Keypoints() if given.names and wanted.names:
            if set(given.names) != set(wanted.names):
                raise InvalidInputError(
                    f"{tensor!r} has points named {shown(wanted.names)}, got {shown(given.names)}"
                    "\ngive arrays to match them by position: ds.extend({name: [array, …]})",
                    tensor=tensor,
                )
            places = [given.names.index(name) for name in wanted.names]
            return [None if one is None else np.asarray(one)[:, places] for one in samples]
        case _:
            return samples


def _recoded(
    mask: np.ndarray, given: SegmentMask, wanted: SegmentMask, tensor: str, row: int
) -> np.ndarray:
    """Return a mask with the codes of the other type's names."""
    codes: dict[int, int] = {code: code for code in np.unique(mask).tolist()}
    for code in codes:
        if code == given.ignore:
            if wanted.ignore is None:
                raise InvalidInputError(
                    f"row {row}: {tensor!r} declares no code of no class, got {code}, which is"
                    f" ignore= of {given.describe()}\ndeclare it: SegmentMask(…, ignore={code})",
                    tensor=tensor,
                    row=row,
                )
            codes[code] = wanted.ignore
        elif given.names[code] in wanted.names:
            codes[code] = wanted.names.index(given.names[code])
        else:
            where = f"  (row {row}; nothing was staged)"
            raise unknown_class(
                given.names[code], wanted.names, tensor=tensor, where=where, row=row
            )
    recoded = np.zeros(mask.shape, wanted.dtype)
    for code, other in codes.items():
        recoded[mask == code] = other
    return recoded


def _named(value: Any, names: Any) -> Any:
    if value is None:
        return None
    codes = np.asarray(value)
    return names[int(codes)] if codes.ndim == 0 else [names[code] for code in codes.tolist()]
