"""ClassLabel: classes by name, stored as their codes.

Codes are int64 in memory (the codec packs them); a code belongs to its class permanently, and names
are only added by an explicit call, so an unknown name in data is an error and not a new class. The
code of a dropped class keeps an empty name and is never reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import (
    NO_DEFAULT,
    Layout,
    QueryKind,
    SampleType,
    check_default,
)
from tensorlake.types.base.casting import cast_array, ragged_column, row_locator, sample_array
from tensorlake.types.base.column import Column, RaggedColumn, UniformColumn
from tensorlake.types.base.errors import (
    Place,
    describe_value,
    dtype_mismatch,
    listed,
    shape_mismatch,
)
from tensorlake.types.scalar.labels import Label, LabelArray, unknown_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.types.base.ragged import Ragged

__all__ = ["ClassLabel"]

_CODES = np.dtype("<i8")
_NAMES_DESCRIBED = 4
_NAME_DESCRIBED = 40


@dataclass(frozen=True, slots=True)
class ClassLabel(SampleType):
    """One class per row, or several.

    Attributes:
        names: The class names; a class's position is its code.
        multi: Whether a row has any number of classes.
        per: The tensor whose items (boxes) have one class each; implies any number.
        dropped: Codes of classes that were dropped, whose names are "".

    Example:
        >>> ClassLabel(["cat", "dog"]).describe()
        'ClassLabel(2: cat, dog)'
    """

    kind: ClassVar[str] = "class_label"

    names: Sequence[str] = ()
    multi: bool = False
    per: str | None = None
    dropped: Sequence[int] = ()

    def __post_init__(self) -> None:
        names, dropped = listed(self.names), listed(self.dropped)
        if dropped is None or not all(is_whole_number(code) for code in dropped):
            raise SchemaError(
                f"dropped lists codes of classes, got {shown(self.dropped)}", actual=self.dropped
            )
        if names is None or not all(
            isinstance(name, str) and bool(name) is (code not in dropped)
            for code, name in enumerate(names)
        ):
            raise SchemaError(
                f"class names must be non-empty strings, got {shown(self.names)}"
                '\ngive a list: ClassLabel(["cat", "dog"])',
                actual=self.names,
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "dropped", dropped)
        if len(set(self.known_names)) < len(self.known_names):
            twice = next(name for name in self.known_names if self.names.count(name) > 1)
            raise SchemaError(
                f"the class name {twice!r} is given twice\nnames must differ", actual=twice
            )
        check_default(self)
        if self.default is not NO_DEFAULT and self.default is not None:
            object.__setattr__(self, "default", self.json_value(self.default))  # codes, not names

    @property
    def known_names(self) -> tuple[str, ...]:
        """The names of the classes that were not dropped, in the order of their codes."""
        return tuple(name for name in self.names if name)

    def with_names(self, names: Sequence[str]) -> ClassLabel:
        """Return the type with other names, by code; "" drops a class."""
        dropped = tuple(code for code, name in enumerate(names) if not name)
        return replace(self, names=tuple(names), dropped=dropped)

    @property
    def is_many(self) -> bool:
        """Whether a row has any number of classes."""
        return self.multi or self.per is not None

    @property
    def layout(self) -> Layout:
        """Ragged when a row has any number of classes."""
        return "ragged" if self.is_many else "uniform"

    @property
    def dtype(self) -> np.dtype:
        """Codes are int64."""
        return _CODES

    @property
    def shape(self) -> tuple[int | None, ...]:
        """() or (None,)."""
        return (None,) if self.is_many else ()

    @property
    def query_kind(self) -> QueryKind:
        """A class, compared by name or code."""
        return "label"

    def describe(self) -> str:
        """Show the classes if they are few: ``ClassLabel(2: cat, dog)``."""
        names = self.known_names
        is_short = 0 < len(names) <= _NAMES_DESCRIBED and max(map(len, names)) <= _NAME_DESCRIBED
        return f"ClassLabel({len(names)}{': ' + ', '.join(names) if is_short else ''})"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        one = "class names or codes" if self.is_many else "a class name or code"
        return f"{'a list of ' if self.is_many else ''}{one} ({self.describe()})"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept names, codes, and labels read from another tensor (matched by name)."""
        if not self.is_many:
            return UniformColumn(self._codes(samples, place, lambda position: position))
        if isinstance(samples, np.ndarray):
            column = ragged_column(samples, _CODES, self.shape, place)
            self._check_codes(column.values, place, row_locator(column.lengths))
            return column
        rows = [self._items(sample, place, row) for row, sample in enumerate(samples)]
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        values = self._codes(list(chain.from_iterable(rows)), place, row_locator(lengths))
        return RaggedColumn(values, lengths.reshape(-1, 1))

    def convert_ragged(self, samples: Ragged, place: Place) -> Column:
        """Accept contiguous codes, and labels of another tensor, where a row has several."""
        if not self.is_many or samples.shapes.shape[1] != 1:
            return self.convert_values(list(samples), place)
        codes = self._codes(samples.values, place, row_locator(samples.lengths))
        return RaggedColumn(codes, samples.shapes)

    def present(self, column: Column, *, tensor: str = "", null: Any = NO_DEFAULT) -> Any:
        """Return a `LabelArray`, or a `Ragged` of them."""
        names = tuple(self.names)
        column = self.without_nulls(column, tensor=tensor, null=null)
        if isinstance(column, RaggedColumn):
            column = RaggedColumn(LabelArray(column.values, names), column.shapes, column.valid)
        # zero-argument super() does not work in a slotted dataclass, which is created again
        shown = SampleType.present(self, column, tensor=tensor)
        return LabelArray(shown, names) if isinstance(shown, np.ndarray) else shown

    def present_one(self, column: Column, position: int) -> Any:
        """Return a `Label`, or a `LabelArray` of them."""
        value = SampleType.present_one(self, column, position)
        if value is None:
            return None
        names = tuple(self.names)
        return LabelArray(value, names) if self.is_many else Label(int(value), names)

    def _items(self, sample: Any, place: Place, position: int) -> Sequence[Any]:
        if isinstance(sample, (list, tuple)):
            return sample
        array = sample_array(sample, place, position)
        if array.dtype.kind not in "iuOU" or isinstance(sample, (str, bytes)):
            raise dtype_mismatch(place, position, describe_value(sample))
        if array.ndim != 1:
            raise shape_mismatch(place, position, describe_value(array))
        if isinstance(array, LabelArray) and array.names != self.names:
            return array.as_names()
        return array.tolist()

    def _codes(
        self, samples: np.ndarray | list[Any], place: Place, locate: Callable[[int], int]
    ) -> np.ndarray:
        if isinstance(samples, LabelArray) and samples.names != self.names:
            return self._codes_of_names(samples.as_names(), place, locate)
        if isinstance(samples, np.ndarray):
            if samples.ndim != 1:
                raise shape_mismatch(place, 0, f"{samples.dtype} {samples.shape[1:]}")
            codes = cast_array(samples.view(np.ndarray), _CODES, place, locate)
        else:
            kinds = set(map(type, samples))
            if kinds and kinds <= {str, np.str_}:
                return self._codes_of_names(samples, place, locate)
            if not kinds <= {int, np.int64}:
                return self._codes_one_by_one(samples, place, locate)
            try:
                codes = np.asarray(samples, dtype=_CODES)
            except OverflowError:
                return self._codes_one_by_one(samples, place, locate)
        self._check_codes(codes, place, locate)
        return codes

    def _codes_one_by_one(
        self, samples: list[Any], place: Place, locate: Callable[[int], int]
    ) -> np.ndarray:
        codes = np.empty(len(samples), dtype=_CODES)
        for position, sample in enumerate(samples):
            row = locate(position)
            if sample is None and self.is_many:
                hint = "items are never NULL: leave them out, or give them a class of their own"
                raise dtype_mismatch(place, row, "a list with None", hint=hint)
            if isinstance(sample, Label) and sample.names != self.names:
                sample = sample.name  # noqa: PLW2901 -- the name is what the sample means here
            if isinstance(sample, str):
                codes[position] = self._codes_of_names([sample], place, lambda _, row=row: row)[0]
                continue
            array = sample_array(sample, place, row)
            if array.shape != () or array.dtype.kind not in "iu":
                raise dtype_mismatch(place, row, describe_value(sample))
            self._check_codes(array.reshape(1), place, lambda _, row=row: row)
            codes[position] = array
        return codes

    def _codes_of_names(
        self, samples: Sequence[Any], place: Place, locate: Callable[[int], int]
    ) -> np.ndarray:
        codes_by_name = {name: code for code, name in enumerate(self.names) if name}
        try:
            return np.fromiter(map(codes_by_name.__getitem__, samples), _CODES, len(samples))
        except KeyError:
            bad = next(i for i, name in enumerate(samples) if name not in codes_by_name)
            raise self._unknown(str(samples[bad]), place, locate(bad)) from None

    def _check_codes(self, codes: np.ndarray, place: Place, locate: Callable[[int], int]) -> None:
        outside = (codes < 0) | (codes >= len(self.names))
        if self.dropped:
            outside |= np.isin(codes, self.dropped)
        if bool(outside.any()):
            bad = int(np.argmax(outside))
            raise self._unknown(int(codes[bad]), place, locate(bad))

    def _unknown(self, name: str | int, place: Place, position: int) -> Exception:
        where = f"  ({place.at(position)}; nothing was staged)"
        row = place.row(position)
        return unknown_class(name, self.names, tensor=place.tensor, where=where, row=row)
