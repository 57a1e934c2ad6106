"""Sequence: any number of samples of another type per row.

A row's items are joined into one stored sample (`base/join.py`), so that a row is read by itself
and its items, of any type (images, vectors, strings), are adjacent. Items are checked and
converted as one column for all rows of a call.

Lists of structs are stored as a struct of lists, one tensor per field: ``Sequence(Struct(…))`` is
that `Struct`, which accepts lists of dicts, and reads as a dict of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Any, ClassVar, cast

import numpy as np

from tensorlake.errors import SchemaError, shown
from tensorlake.types.base.base import NO_DEFAULT, QueryKind, SampleType, check_default
from tensorlake.types.base.casting import iterated
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, offsets_of, slice_rows, take
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch
from tensorlake.types.base.join import count_items, join_items, split_items, split_uniform
from tensorlake.types.base.mixins import Encoded
from tensorlake.types.base.region import Region, part_of
from tensorlake.types.base.registry import as_type, from_json
from tensorlake.types.scalar.struct import Struct

__all__ = ["Sequence"]


@dataclass(frozen=True, slots=True)
class Sequence(Encoded, SampleType):
    """Any number of samples of the type `of`, such as the frames of a clip.

    >>> Sequence("float32").describe()
    'Sequence(Scalar(float32))'
    >>> words = Sequence("str").convert([["a", "b"], []], tensor="words")
    >>> Sequence("str").present(words)
    [['a', 'b'], []]

    A `Sequence` of images also takes files that have several: the frames of a GIF, an animated WebP
    or PNG, the pages of a TIFF. Frames are encoded again, by a codec that loses nothing, such as
    that of ``Sequence(Image("png"))``.

    Attributes:
        of: The items' type, or its short form; items are never NULL.
    """

    kind: ClassVar[str] = "sequence"

    of: Any = field()  # Any: an argument of as_type(); a SampleType after __init__

    def __new__(
        cls,
        of: Any,
        *,
        nullable: bool = False,
        default: Any = NO_DEFAULT,
        personal: bool = False,
    ) -> Any:
        """Create the sequence; for a struct, the `Struct` of sequences that it is stored as."""
        if isinstance(of, Struct):
            return _struct_of_lists(of, nullable=nullable, default=default, personal=personal)
        return object.__new__(cls)

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what ``__new__`` needs, for copies and pickles."""
        return (self.of,)

    def __post_init__(self) -> None:
        item = from_json(self.of) if isinstance(self.of, Mapping) else as_type(self.of)
        if item.has_default or item.personal:
            raise SchemaError(
                f"the items of a sequence have no NULL, default or mark of their own, got"
                f" {item.describe()} with"
                " nullable=, default= or personal=\ngive these to the Sequence",
                actual=item,
            )
        if item.handle_type is not item:
            raise SchemaError(
                f"the items of a sequence are stored in the dataset, got {item.describe()}"
                f"\nstore the files, Sequence({item.handle_type.describe()}), or a link a row",
                actual=item,
            )
        object.__setattr__(self, "of", item)
        check_default(self)

    @property
    def item(self) -> SampleType:
        """The items' type."""
        return cast("SampleType", self.of)

    @property
    def query_kind(self) -> QueryKind:
        """A query sees whether there is a value."""
        return "bytes"

    @property
    def codec_default(self) -> Any:
        """Raw for media, whose bytes are compressed already."""
        return "raw" if self.item.is_media else None

    @property
    def chunk_nbytes(self) -> int:
        """The same as for the items' type."""
        return self.item.chunk_nbytes

    def describe(self) -> str:
        """Show the items' type: ``Sequence(Image(jpeg))``."""
        return f"Sequence({self.item.describe()})"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a list of items, each {self.item.expected}"

    def to_json(self) -> dict[str, Any]:
        """Return the type as JSON, the items' type within."""
        return {**SampleType.to_json(self), "of": self.item.to_json()}

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept lists, tuples and arrays of items; of images also files with several."""
        rows = [
            _items_of(sample, self.item, place, position) for position, sample in enumerate(samples)
        ]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        owners = np.repeat(np.arange(len(rows)), lengths)
        rows_of_items = owners if place.positions is None else place.positions[owners]
        within = replace(place, declared=self.item, positions=rows_of_items)
        items = self.item.convert_values(list(chain.from_iterable(rows)), within)
        bounds = pairwise(offsets_of(lengths).tolist())
        return EncodedColumn([join_items(slice_rows(items, start, stop)) for start, stop in bounds])

    def present_sample(self, sample: bytes) -> Any:
        """Return the items, as reading a column of them does."""
        items = self.item.decode(self.items_of(sample), tensor="an item")
        return self.item.present(items)

    def present_region(self, column: Column, region: Region, *, tensor: str, row: int) -> Any:
        """Return some items, or a region of each: only these are decoded."""
        if column.valid is not None and not column.valid[0]:
            return None
        assert isinstance(column, EncodedColumn)
        items = self.items_of(column.samples[0])
        chosen = part_of(list(range(len(items))), region[:1], self.refusal(tensor, row))
        rest = region[1:]
        if isinstance(chosen, int):
            one = slice_rows(items, chosen, chosen + 1)
            return self.item.present_region(one, rest, tensor=tensor, row=row)
        if rest:
            parts = (slice_rows(items, one, one + 1) for one in chosen)
            return [self.item.present_region(one, rest, tensor=tensor, row=row) for one in parts]
        picked = take(items, np.asarray(chosen, dtype=np.int64))
        return self.item.present(self.item.decode(picked, tensor=tensor, rows=[row] * len(picked)))

    @property
    def item_counter(self) -> Callable[[Buffer], int]:
        """A function that reads the number of items before them."""
        return count_items

    def items_of(self, sample: Buffer) -> Column:
        """Return the items of a stored sample as a column of their type, none decoded."""
        return split_items(sample, self.item)

    @property
    def has_uniform_items(self) -> bool:
        """Whether the items are numbers, booleans or classes, or arrays of them of one shape."""
        item = self.item
        is_plain = item.layout == "uniform" and item.query_kind in {"number", "bool", "label"}
        return is_plain and item.dtype is not None and None not in item.shape

    def uniform_items(self, column: EncodedColumn) -> tuple[np.ndarray, np.ndarray]:
        """Return uniform items of all rows end to end, and how many each row has.

        Raises:
            CorruptSampleError: A stored list is damaged.
        """
        return split_uniform(column, self.item)

    def json_value(self, value: Any) -> Any:
        """Return a row's items as JSON, where JSON can represent them."""
        return None if value is None else [self.item.json_value(one) for one in value]


def _struct_of_lists(struct: Struct, *, nullable: bool, default: Any, personal: bool) -> Struct:
    if default is not NO_DEFAULT and default is not None and default != []:
        raise SchemaError(
            f"a sequence of structs has no default but [] and None, got {shown(default)}"
            "\ngive default=[]",
            actual=default,
        )
    lists = {name: Sequence(one) for name, one in struct.fields.items()}
    fill: Any = dict.fromkeys(lists, default) if default == [] else default
    return Struct(lists, nullable=nullable, default=fill, personal=personal)


def _items_of(sample: Any, item: SampleType, place: Place, position: int) -> list[Any]:
    if isinstance(sample, np.ndarray) and sample.ndim:
        return [*sample]
    if isinstance(sample, (list, tuple)):
        if any(item is None for item in sample):
            hint = "items are never NULL; leave it out of the list"
            raise dtype_mismatch(place, position, "a list with None", hint=hint)
        return [*sample]
    found = item.items_in(sample, place, position)
    if found is not None:
        return found
    items = iterated(sample)
    if isinstance(sample, str | bytes) or items is None:
        hint = "put a single item into a list: [value]"
        raise dtype_mismatch(place, position, describe_value(sample), hint=hint)
    return [*items]
