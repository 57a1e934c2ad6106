"""Changes of a dataset's schema and indexes: staged, and published with the other staged changes.

Older versions keep the schema they had, and no chunk is rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tensorlake.dataset.core.rowset import HasSession
from tensorlake.dataset.maintenance import indexes as indexing
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.types import NO_DEFAULT, SampleType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "add_tensor",
    "alter_tensor",
    "create_index",
    "drop_index",
    "drop_tensor",
    "rename_tensor",
]


def add_tensor(
    self: HasSession, name: str, sample_type: SampleType | str | Any, fill: Any = NO_DEFAULT
) -> None:
    """Stage a new tensor. Existing rows get ``fill``, else the type's default, else NULL.

    A ``Struct`` adds a tensor for each of its fields.

    Raises:
        SchemaError: The name is in use, or there is neither a fill nor a default nor NULL.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-add-tensor", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.add_tensor("grade", "int8", fill=7)
        >>> ds["grade"][:]
        array([7, 7, 7], dtype=int8)
        >>> ds.discard()
    """
    schema_changes.add_tensor(self.__session__, name, sample_type, fill)


def drop_tensor(self: HasSession, name: str) -> None:
    """Stage the removal of a tensor or a group; older versions keep it.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-drop-tensor", {"x": "int64", "y": "int64"})
        >>> ds.extend({"x": [1], "y": [2]})
        >>> ds.drop_tensor("y")
        >>> list(ds.schema)
        ['x']
        >>> ds.discard()
    """
    schema_changes.drop_tensor(self.__session__, name)


def rename_tensor(self: HasSession, old: str, new: str) -> None:
    """Stage a new name for a tensor or a group; data and identity stay.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-rename-tensor", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.rename_tensor("x", "n")
        >>> ds["n"][:]
        array([1, 2, 3])
        >>> ds.discard()
    """
    schema_changes.rename_tensor(self.__session__, old, new)


def alter_tensor(  # noqa: D417 - a method: self
    self: HasSession,
    name: str,
    *,
    nullable: bool | None = None,
    dtype: DTypeLike | None = None,
    shape: Sequence[int | None] | None = None,
    codec: Literal["any"] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Stage another type, or other metadata, for a tensor. No chunk is rewritten.

    Args:
        name: The tensor.
        nullable: Whether samples may be NULL. False requires that no sample is NULL: rows are
            read if statistics do not show it.
        dtype: A wider dtype, which can represent each stored value.
        shape: The same lengths, or None for axes whose length may vary from now on.
        codec: "any": also accept images of other codecs, beside the existing ones.
        metadata: JSON metadata of the tensor, replacing the existing metadata.

    Raises:
        SchemaError: Stored samples do not match the new type; the message has the reason.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-alter", {"x": "uint8"})
        >>> ds.extend({"x": [1, 255]})
        >>> ds.alter_tensor("x", dtype="int32")
        >>> ds.append({"x": 70_000})
        >>> ds["x"][:]
        array([    1,   255, 70000], dtype=int32)
        >>> ds.discard()
    """
    schema_changes.alter_tensor(
        self.__session__,
        name,
        nullable=nullable,
        dtype=dtype,
        shape=shape,
        codec=codec,
        metadata=metadata,
    )


def create_index(  # noqa: D417 - a method: self
    self: HasSession,
    column: str,
    kind: str | None = None,
    name: str | None = None,
    **options: Any,
) -> None:
    """Stage an index, with which queries find rows of a column without reading it.

    The index is built from this handle's rows, staged ones included, and published by the commit.
    It never changes an answer: rows changed since are scanned until ``optimize()`` brings the index
    up to date, and a damaged index is not used.

    Args:
        column: The tensor.
        kind: "bitmap" (labels, tags, booleans, few different values), "btree" (numbers,
            timestamps, short texts), "text" (the words of texts) or "vector" (vectors of floats);
            None: the one for the column's type, of texts a btree, which compares whole texts.
        name: The index's name; None: the column's.
        options: Options of the kind.

    Raises:
        InvalidInputError: The name is in use, or the kind or an option does not suit the column.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-create-index", {"price": "float32"})
        >>> ds.extend({"price": [3, 1, 2]})
        >>> ds.create_index("price")
        >>> _ = ds.commit("an index")
        >>> ds.query("WHERE price < 2").rows
        array([1])
        >>> ds.indexes["price"].kind
        'btree'
    """
    indexing.create_index(self.__session__, column, kind, name, options)


def drop_index(self: HasSession, name: str) -> None:
    """Stage the removal of an index; older versions keep it.

    Raises:
        IndexNotFoundError: There is none of this name.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-drop-index", {"price": "float32"})
        >>> ds.extend({"price": [3, 1, 2]})
        >>> ds.create_index("price", name="by-price")
        >>> ds.drop_index("by-price")
        >>> dict(ds.indexes)
        {}
        >>> ds.discard()
    """
    indexing.drop_index(self.__session__, name)
