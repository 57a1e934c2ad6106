"""Cloud: the columns of a point cloud in memory.

Columns have the dtype of the file. LAS stores coordinates as integers with a scale and an offset;
such a column stays as it is, and its values are ``stored * scale + offset`` in float64, as laspy
computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AXES", "Cloud", "Field", "columns_of_table", "is_storable", "records_of"]

AXES = ("x", "y", "z")
MAX_FIELDS = 1_024
MAX_FIELD_LENGTH = 4_096
_NUMBERS = "biuf"
_MAX_ITEMSIZE = 8


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a point cloud.

    Attributes:
        name: Its name.
        dtype: Dtype of its stored elements, little-endian.
        length: Elements per point, of a column (n, length); 0: a column (n,).
        scaling: Scale and offset, which give the values of stored integers; None: they are values.
    """

    name: str
    dtype: np.dtype
    length: int = 0
    scaling: tuple[float, float] | None = None

    @property
    def value_dtype(self) -> np.dtype:
        """Dtype of its values."""
        return self.dtype if self.scaling is None else np.dtype("float64")

    @property
    def nbytes(self) -> int:
        """Stored bytes of a point."""
        return self.dtype.itemsize * max(self.length, 1)

    def shape(self, points: int) -> tuple[int, ...]:
        """Return the shape of the column of some points."""
        return (points, self.length) if self.length else (points,)

    def values(self, stored: np.ndarray) -> np.ndarray:
        """Return the values of stored elements."""
        if self.scaling is None:
            return stored
        scale, offset = self.scaling
        return stored * scale + offset


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """The columns of a point cloud, as stored.

    Attributes:
        fields: A description of each column.
        columns: A column per field, (n,) or (n, length).
        projection: Records of the coordinate reference system by their number in LAS; others have
            none.

    Raises:
        ValueError: A column has another dtype than numbers, or columns differ in length; or one of
            x, y and z is missing.
    """

    fields: tuple[Field, ...]
    columns: tuple[np.ndarray, ...]
    projection: Mapping[int, bytes] = field(default_factory=dict[int, bytes])

    def __post_init__(self) -> None:
        names = [one.name for one in self.fields]
        missing = [axis for axis in AXES if axis not in names]
        if missing:
            raise ValueError(f"it has no field {', '.join(missing)}: {', '.join(names) or 'none'}")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"it has two fields {twice[0]!r}")
        if len(names) > MAX_FIELDS:
            raise ValueError(f"it has {len(names):,} fields; at most {MAX_FIELDS:,} are stored")
        for one, column in zip(self.fields, self.columns, strict=True):
            if column.shape != one.shape(len(self)):
                shapes = f"{column.shape}, others {self.columns[0].shape}"
                raise ValueError(f"its field {one.name!r} is {shapes}")
        vectors = [axis for axis in AXES if self.fields[names.index(axis)].length]
        if vectors:
            raise ValueError(f"its field {vectors[0]!r} has several numbers a point")

    @classmethod
    def of(
        cls,
        columns: Mapping[str, np.ndarray],
        scaled: Mapping[str, tuple[float, float]] | None = None,
        projection: Mapping[int, bytes] | None = None,
    ) -> Cloud:
        """Make a cloud of columns by name; `scaled` has the scale and offset of stored integers.

        Raises:
            ValueError: They are not the columns of a point cloud.
        """
        fields: list[Field] = []
        kept: list[np.ndarray] = []
        for name, column in columns.items():
            dtype = column.dtype.newbyteorder("<")
            if not is_storable(dtype):
                raise ValueError(f"its field {name!r} is {dtype}, not numbers of 1 to 8 bytes")
            if column.ndim > 2 or (column.ndim == 2 and not 0 < column.shape[1] < MAX_FIELD_LENGTH):  # noqa: PLR2004 - (n, k)
                raise ValueError(f"its field {name!r} has the shape {column.shape}")
            length = 0 if column.ndim < 2 else column.shape[1]  # noqa: PLR2004 - (n, k)
            fields.append(Field(str(name), dtype, length, (scaled or {}).get(name)))
            kept.append(np.ascontiguousarray(column, dtype))
        return cls(tuple(fields), tuple(kept), projection or {})

    def __len__(self) -> int:
        return len(self.columns[0])

    def column(self, name: str) -> np.ndarray:
        """Return the stored column of a field."""
        return self.columns[[one.name for one in self.fields].index(name)]

    def only(self, names: Sequence[str]) -> Cloud:
        """Return some of the fields, in this order.

        Raises:
            ValueError: One is missing.
        """
        own = [one.name for one in self.fields]
        missing = [name for name in names if name not in own]
        if missing:
            raise ValueError(f"it has no field {missing[0]!r}: {', '.join(own)}")
        places = [own.index(name) for name in names]
        return Cloud(
            tuple(self.fields[at] for at in places),
            tuple(self.columns[at] for at in places),
            self.projection,
        )

    def coordinates(self) -> np.ndarray:
        """Return the values of x, y and z: float64 (n, 3)."""
        places = [[one.name for one in self.fields].index(axis) for axis in AXES]
        values = (self.fields[at].values(self.columns[at]) for at in places)
        return np.stack([one.astype(np.float64) for one in values], axis=1)


def is_storable(dtype: np.dtype) -> bool:
    """Whether columns of a dtype are stored: NumPy's booleans, integers and floats."""
    is_number = dtype.kind in _NUMBERS and dtype.itemsize <= _MAX_ITEMSIZE
    return is_number and np.dtype(dtype.str) == dtype  # float8 of ml_dtypes has no name of its own


def records_of(fields: Sequence[Field], columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return values as a structured array (n,).

    >>> field = Field("x", np.dtype("<i4"), scaling=(0.5, 1.0))
    >>> records_of([field], [np.array([2, 4], "<i4")])["x"].tolist()
    [2.0, 3.0]
    """
    layout: list[Any] = [
        (one.name, one.value_dtype, (one.length,)) if one.length else (one.name, one.value_dtype)
        for one in fields
    ]
    made = np.empty(len(columns[0]) if columns else 0, layout)
    for one, column in zip(fields, columns, strict=True):
        made[one.name] = one.values(column)
    return made


def columns_of_table(table: np.ndarray, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Return the columns of an array: structured (n,), or of numbers (n, k).

    Args:
        table: The array.
        names: Names of the k columns; None: x, y and z.

    Raises:
        ValueError: It is another array, or its columns are not those named.
    """
    if table.dtype.names is not None:
        if table.ndim != 1:
            raise ValueError(f"structured arrays of points are (n,), got {table.shape}")
        return {name: table[name] for name in table.dtype.names}
    if table.ndim != 2:  # noqa: PLR2004 - (n, k)
        raise ValueError(f"arrays of points are (n, k), got {table.dtype} {table.shape}")
    names = AXES if names is None else names
    if table.shape[1] != len(names):
        raise ValueError(
            f"an array of {table.shape[1]} columns, where the fields are {', '.join(names)}"
            '\nname them: tl.PointCloud(("x", "y", "z", "intensity"))'
        )
    return {name: table[:, at] for at, name in enumerate(names)}
