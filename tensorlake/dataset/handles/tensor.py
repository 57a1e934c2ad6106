"""One column of a dataset or view: reading, querying and assigning it.

The type that brackets return follows from the schema, never from the values: a fixed shape gives
one array, a ``None`` in the shape a ``Ragged``, text and JSON a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import ITERATED_AT_ONCE, HasRows, RowSet, rowset_of, writer_of
from tensorlake.dataset.query.assignment import assign, positions_named
from tensorlake.dataset.query.predicate import Predicate, comparison, membership, nullness
from tensorlake.dataset.write.schema import NamesChange, change_names
from tensorlake.errors import InvalidInputError, ReadOnlyError, SchemaError, shown
from tensorlake.quantities import is_whole_number
from tensorlake.types import (
    NO_DEFAULT,
    ClassLabel,
    EncodedColumn,
    Link,
    RaggedColumn,
    SampleType,
    UniformColumn,
    read_record,
    read_request,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.session import Session
    from tensorlake.format import TensorSpec

__all__ = ["Tensor", "session_to_write"]

Int64Array = npt.NDArray[np.int64]


class Tensor:
    """A column, over the rows of its dataset or view.

    Comparing it (``ds["label"] == "cat"``) makes a ``Predicate``; brackets read.
    """

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - == makes a Predicate

    def __init__(self, rows: HasRows, name: str) -> None:
        self._rows = rows
        self.name = name

    @property
    def type(self) -> SampleType:
        """The type of its samples."""
        return self._spec.type

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the decoded elements; None for text, JSON and bytes."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of the whole column: rows first; None where samples differ."""
        return (len(self), *self.type.shape)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the tensor."""
        return dict(self._spec.attributes)

    def __len__(self) -> int:
        return len(rowset_of(self._rows))

    def __iter__(self) -> Iterator[Any]:
        here = rowset_of(self._rows)
        sample_type = here.selection.snapshot.spec(self.name).type
        for start in range(0, len(here), ITERATED_AT_ONCE):
            positions = np.arange(start, min(len(here), start + ITERATED_AT_ONCE))
            column = here.read_next(self.name, positions)
            for position in range(len(column)):
                yield sample_type.present_one(column, position)

    def __repr__(self) -> str:
        each = " rows" if self.dtype is None else f" × {self.type.shape} {self.dtype}"
        return f"Tensor {self.name!r} {self.type.describe()} · {len(self):,}{each}"

    def _repr_html_(self) -> str:
        from tensorlake.dataset.display.html import tensor_html

        return tensor_html(self.name, partial(repr, self), partial(rowset_of, self._rows))

    # Reading

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):
            return self._region(rows)
        here = rowset_of(self._rows)
        sample_type = here.selection.snapshot.spec(self.name).type
        if type(rows) is int or is_whole_number(rows):
            position = here.position(int(rows), self._what)
            if sample_type.is_lazy:
                return here.handles(self.name, np.array([position]))[0]
            if sample_type.is_media and sample_type.has_parts:
                return self._region((position,))
            return sample_type.present_one(here.read_next(self.name, np.array([position])), 0)
        return self._read_several(here, rows, NO_DEFAULT)

    def read(self, rows: Any = slice(None), *, null: Any = NO_DEFAULT) -> Any:
        """Read rows as brackets do, with ``null`` in the place of NULLs.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-read", {"x": tl.Scalar("int64", nullable=True)})
            >>> ds.extend({"x": [1, None]})
            >>> ds["x"].read(null=-1).tolist(), int(ds["x"].read(1, null=-1))
            ([1, -1], -1)
            >>> ds.discard()
        """
        here = rowset_of(self._rows)
        sample_type = here.selection.snapshot.spec(self.name).type
        if is_whole_number(rows):
            column = here.read_next(self.name, np.array([here.position(int(rows), self._what)]))
            if null is not NO_DEFAULT:
                column = sample_type.without_nulls(column, tensor=self.name, null=null)
            return sample_type.present_one(column, 0)
        return self._read_several(here, rows, null)

    def to_numpy(self, rows: Any = slice(None), *, null: Any = NO_DEFAULT) -> np.ndarray:
        """Read rows as one NumPy array, with ``null`` in the place of NULLs.

        Samples of one shape are one array, rows first, class labels their codes. All other types
        give an array of objects, one for each row: arrays, strings, decoded images.

        Raises:
            InvalidInputError: A row is NULL, and no ``null`` was given.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-tensor-to-numpy", {"t": tl.Array("int8", (None,))})
            >>> ds.extend({"t": [[1, 2], [3]]})
            >>> ds["t"].to_numpy()
            array([array([1, 2], dtype=int8), array([3], dtype=int8)], dtype=object)
            >>> ds.discard()
        """
        from tensorlake.dataset.export.arrays.numpy import one_array

        return one_array(self._read_several(rowset_of(self._rows), rows, null))

    def to_list(self, rows: Any = slice(None)) -> list[Any]:
        """Read rows as a list of plain Python values, with None for NULL.

        Arrays become nested lists, class labels their names, timestamps ``datetime``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-to-list", {"x": tl.Scalar("int64", nullable=True)})
            >>> ds.extend({"x": [1, None]})
            >>> ds["x"].to_list()
            [1, None]
            >>> ds.discard()
        """
        from tensorlake.dataset.export.files import plain_value

        here = rowset_of(self._rows)
        column = here.read(self.name, self._positions(here, rows))
        sample_type = here.selection.snapshot.spec(self.name).type
        return [plain_value(sample_type.present_one(column, at)) for at in range(len(column))]

    def shapes(self, rows: Any = slice(None)) -> Any:
        """Shapes of the samples without decoding any: int64 (n, ndim), −1 where NULL.

        For one row, given its number, a tuple, or None if it is NULL. Lists (``Sequence``,
        ``Polygon``, ``Tags``) have their number of items as the one length.

        Raises:
            InvalidInputError: Samples of the type have no shape.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-shapes", {"t": tl.Array("int8", (None,))})
            >>> ds.extend({"t": [[1, 2, 3], []]})
            >>> ds["t"].shapes(0), ds["t"].shapes().tolist()
            ((3,), [[3], [0]])
            >>> ds.discard()
        """
        here = rowset_of(self._rows)
        if is_whole_number(rows):
            position = here.position(int(rows), self._what)
            shape = here.shapes(self.name, np.array([position]))[0].tolist()
            return None if -1 in shape else tuple(shape)
        return here.shapes(self.name, self._positions(here, rows))

    def urls(self, rows: Any = slice(None)) -> list[str | None]:
        """Addresses of linked files, as they were given; None where NULL. No file is read.

        Raises:
            InvalidInputError: The tensor is not of `Link`.

        Example:
            >>> from pathlib import Path
            >>> import PIL.Image
            >>> import tensorlake as tl
            >>> PIL.Image.new("RGB", (8, 6)).save("a.png")
            >>> ds = tl.create("photos.tl", {"image": tl.Link(tl.Image("png"))})
            >>> ds.append({"image": "../a.png"})
            >>> ds["image"].urls()
            ['../a.png']
            >>> ds.discard()
        """
        here = rowset_of(self._rows)
        if not isinstance(self.type, Link):
            raise InvalidInputError(
                f"{self.name!r} is {self.type.describe()}: its samples are in the dataset, and"
                " have no URLs",
                tensor=self.name,
            )
        column = here.read(self.name, self._positions(here, rows), decode=False)
        assert isinstance(column, EncodedColumn), "links are stored encoded"
        is_there = column.valid if column.valid is not None else np.ones(len(column), dtype=bool)
        pairs = zip(column.samples, is_there.tolist(), strict=True)
        return [read_record(bytes(one)).url if there else None for one, there in pairs]

    def bytes(self, row: int) -> bytes:
        """The stored, encoded sample of one row.

        Raises:
            InvalidInputError: The tensor's samples are not stored as encoded bytes, or it is NULL.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-bytes", {"x": tl.Bytes()})
            >>> ds.extend({"x": [b"a note"]})
            >>> ds["x"].bytes(0)
            b'a note'
            >>> ds.discard()
        """
        here = rowset_of(self._rows)
        if not is_whole_number(row):
            raise InvalidInputError(
                f"bytes({shown(row)}): give the number of one row", tensor=self.name, actual=row
            )
        position = here.position(int(row), self._what)
        column = here.read(self.name, np.array([position]), decode=False)
        if not isinstance(column, EncodedColumn):
            raise InvalidInputError(
                f"{self.name!r} ({self.type.describe()}) stores arrays, not encoded samples\n"
                f"read it: ds[{self.name!r}][{row}]",
                tensor=self.name,
            )
        if column.valid is not None and not column.valid[0]:
            message = f"row {row} of {self.name!r} is NULL and has no bytes"
            raise InvalidInputError(message, tensor=self.name, row=row)
        return bytes(column.samples[0])

    def _region(self, key: tuple[Any, ...]) -> Any:
        rows, *region = key
        if not is_whole_number(rows):
            raise InvalidInputError(
                f"a region is of one row: ds[{self.name!r}][row, 10:20, 10:20];"
                f" got {shown(rows)} for the row",
                tensor=self.name,
            )
        here = rowset_of(self._rows)
        snapshot = here.selection.snapshot
        position = np.array([here.position(int(rows), self._what)])
        sample_type = snapshot.spec(self.name).type
        if sample_type.has_parts:
            (source,) = here.samples(self.name, position)
            return None if source is None else read_request(sample_type, source, tuple(region))
        column = here.read(self.name, position, decode=False)
        return sample_type.present_region(
            column, tuple(region), tensor=self.name, row=int(position[0])
        )

    def _read_several(self, here: RowSet, rows: Any, null: Any) -> Any:
        column = here.read(self.name, self._positions(here, rows))
        sample_type = here.selection.snapshot.spec(self.name).type
        return sample_type.present(column, tensor=self.name, null=null)

    @property
    def _spec(self) -> TensorSpec:
        return rowset_of(self._rows).selection.snapshot.spec(self.name)

    def _positions(self, here: RowSet, rows: Any) -> Int64Array:
        return positions_named(here, rows, what=self._what())

    def _what(self) -> str:
        return f"tensor {self.name!r} of {rowset_of(self._rows).url!r}"

    # Conditions

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride] - conditions, as in every column library
        return comparison(self.name, "=", value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        return comparison(self.name, "!=", value)

    def __lt__(self, value: object) -> Predicate:
        return comparison(self.name, "<", value)

    def __le__(self, value: object) -> Predicate:
        return comparison(self.name, "<=", value)

    def __gt__(self, value: object) -> Predicate:
        return comparison(self.name, ">", value)

    def __ge__(self, value: object) -> Predicate:
        return comparison(self.name, ">=", value)

    def isin(self, values: Iterable[object]) -> Predicate:
        """Predicate: the value is in ``values``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-isin", {"y": tl.ClassLabel(["cat", "dog", "owl"])})
            >>> ds.extend({"y": ["owl", "cat", "dog"]})
            >>> ds[ds["y"].isin(["cat", "dog"])].count()
            2
            >>> ds.discard()
        """
        return membership(self.name, values)

    def is_null(self) -> Predicate:
        """Predicate: the value is NULL.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-is-null", {"x": tl.Scalar("int64", nullable=True)})
            >>> ds.extend({"x": [1, None]})
            >>> ds[ds["x"].is_null()].rows
            array([1])
            >>> ds.discard()
        """
        return nullness(self.name)

    # Writing

    def __setitem__(self, rows: Any, values: Any) -> None:
        assign(
            session_to_write(self._rows, f"ds[{self.name!r}][rows] = values"),
            self.name,
            rows,
            values,
        )

    # Class labels

    @property
    def names(self) -> tuple[str, ...]:
        """The class names, by code; "" where a class between others was dropped.

        Raises:
            SchemaError: The tensor holds no class labels.
        """
        names = self._class_label("names").names
        known = max((code + 1 for code, name in enumerate(names) if name), default=0)
        return tuple(names[:known])

    def codes(self, names: Sequence[str]) -> Int64Array:
        """The codes of class names.

        Raises:
            UnknownClassError: One of them is not a class of this tensor.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-codes", {"y": tl.ClassLabel(["cat", "dog"])})
            >>> ds["y"].codes(["dog"]).tolist()
            [1]
        """
        label = self._class_label("codes()")
        if isinstance(names, str):
            raise InvalidInputError(
                f"codes({shown(names)}): give a list of names, [{shown(names)}]"
            )
        if not isinstance(names, Iterable) or getattr(names, "ndim", 1) == 0:
            raise InvalidInputError(f"codes({shown(names)}): give a list of names")
        column = label.convert(list(names), tensor=self.name, call="codes()")
        assert isinstance(column, UniformColumn | RaggedColumn)
        return column.values

    def add_names(self, names: Sequence[str]) -> None:
        """Add classes, which get the next codes. Staged.

        Raises:
            SchemaError: One of them is a class already.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-add-names", {"y": tl.ClassLabel(["cat"])})
            >>> ds["y"].add_names(["dog"])
            >>> ds["y"].names
            ('cat', 'dog')
            >>> ds.discard()
        """
        self._change_names("add", names)

    def rename(self, old: str, new: str) -> None:
        """Rename a class; its code and rows stay. Staged.

        Raises:
            UnknownClassError: There is no class ``old``.
            SchemaError: ``new`` is a class already.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-rename-class", {"x": tl.ClassLabel(["cat", "dgo"])})
            >>> ds.extend({"x": ["dgo"]})
            >>> ds["x"].rename("dgo", "dog")
            >>> ds["x"].names
            ('cat', 'dog')
            >>> ds.discard()
        """
        self._change_names("rename", (old, new))

    def drop_names(self, names: Sequence[str]) -> None:
        """Remove classes that no row has. Staged.

        Codes of other classes stay, and a dropped class's code is never given to another.

        Raises:
            UnknownClassError: One of them is not a class of this tensor.
            SchemaError: Rows have one of them; the message counts them.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-drop-names", {"y": tl.ClassLabel(["a", "b", "c"])})
            >>> ds.extend({"y": ["a", "a"]})
            >>> ds["y"].drop_names(["c"])
            >>> ds["y"].names
            ('a', 'b')
            >>> ds.discard()
        """
        self._change_names("drop", names)

    def _change_names(self, how: NamesChange, names: Sequence[str]) -> None:
        session = session_to_write(self._rows, f"ds[{self.name!r}].add_names(…)")
        change_names(session, self.name, how, names)

    def _class_label(self, what: str) -> ClassLabel:
        sample_type = self.type
        if not isinstance(sample_type, ClassLabel):
            raise SchemaError(
                f"{self.name!r} is {sample_type.describe()} and has no class names"
                f" ({what} needs a ClassLabel)\ndeclare it as tl.ClassLabel([…])",
                tensor=self.name,
            )
        return sample_type


def session_to_write(rows: HasRows, instead: str) -> Session:
    """Return where rows take changes.

    Raises:
        ReadOnlyError: They take none: they are a view's.
    """
    session = writer_of(rows)
    if session is None:
        here = rowset_of(rows)
        raise ReadOnlyError(
            f"a View of {here.url!r} is frozen at {here.version}\nassign to its dataset: {instead}"
        )
    return session
