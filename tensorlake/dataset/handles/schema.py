"""Changes of the schema, computed columns and indexes: staged, and published with others staged.

Older versions keep the schema they had, and no chunk is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol

from tensorlake.dataset.columns.declaration import (
    add_computed,
    alter_computed,
    refuse_fill,
    refuse_without_function,
)
from tensorlake.dataset.columns.freshness import stale_positions
from tensorlake.dataset.core.rowset import HasSession, HasViews, RowSet, ViewT_co, everything
from tensorlake.dataset.maintenance import indexes as indexing
from tensorlake.dataset.write import schema as schema_changes
from tensorlake.quantities import plural
from tensorlake.types import NO_DEFAULT, SampleType

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from tensorlake.dataset.maintenance.constraints import Check
    from tensorlake.dataset.query.predicate import Predicate
    from tensorlake.dataset.transform.refresh import RefreshReport

__all__ = [
    "ValidationReport",
    "add_check",
    "add_tensor",
    "alter_tensor",
    "checks_of",
    "create_index",
    "drop_check",
    "drop_index",
    "drop_tensor",
    "expressions_of",
    "misfits",
    "refresh_columns",
    "refuse_violations",
    "rename_tensor",
    "stale",
    "validate",
]


def add_tensor(  # noqa: D417 - a method: self
    self: HasSession,
    name: str,
    sample_type: SampleType | str | Any,
    fill: Any = NO_DEFAULT,
    *,
    compute: Callable[[dict[str, Any]], Any] | str | None = None,
    inputs: Sequence[str] | None = None,
    version: str | None = None,
    batch_size: int | None = None,
) -> None:
    """Stage a new tensor. Existing rows get ``fill``, else the type's default, else NULL.

    A ``Struct`` adds a tensor for each of its fields.

    With ``compute`` it is a computed column. The results of a function are stored:
    ``refresh_columns()`` calls it for the rows that are stale, at first all. An expression is
    evaluated whenever the column is read, and stores nothing.

    Args:
        name: The tensor's name.
        sample_type: Its type.
        fill: The value of existing rows; not of a computed column.
        compute: A function that gets a dict of the inputs of one row and returns the value; or a
            TQL expression. The function itself is not stored: another process gives it again, by
            ``alter_tensor``.
        inputs: The tensors that the function gets. NULLs are None.
        version: The version of the function, at first "1". Another one makes all rows stale, as
            does a change of the function's source, where it has one.
        batch_size: The function gets columns of this many rows, and returns their values.

    Raises:
        SchemaError: The name is in use, or there is neither a fill nor a default nor NULL.
        DTypeMismatchError: An expression gives another type.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-add-tensor", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.add_tensor("grade", "int8", fill=7)
        >>> ds["grade"][:]
        array([7, 7, 7], dtype=int8)
        >>> ds.add_tensor("double", "int64", compute="2 * x")
        >>> ds.add_tensor("square", "int64", compute=lambda row: row["x"] ** 2, inputs=["x"])
        >>> print(ds.refresh_columns())
        computed square of 3 rows
        >>> ds["double"][:], ds["square"][:]
        (array([2, 4, 6]), array([1, 4, 9]))
        >>> ds.discard()
    """
    session = self.__session__
    refuse_without_function(name, compute, inputs=inputs, version=version, batch_size=batch_size)
    if compute is None:
        schema_changes.add_tensor(session, name, sample_type, fill)
        return
    if fill is not NO_DEFAULT:
        refuse_fill(name)
    if isinstance(compute, str):
        from tensorlake.dataset.query.expressions import add_expression

        add_expression(session, name, sample_type, compute)
        return
    add_computed(
        session,
        name,
        sample_type,
        compute,
        inputs=inputs,
        version="1" if version is None else version,
        batch_size=batch_size,
    )


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
    compute: Callable[[dict[str, Any]], Any] | str | None = None,
    inputs: Sequence[str] | None = None,
    version: str | None = None,
) -> None:
    """Stage another type, other metadata, or another function. No chunk is rewritten.

    Args:
        name: The tensor.
        nullable: Whether samples may be NULL. False requires that no sample is NULL: rows are
            read if statistics do not show it.
        dtype: A wider dtype, which can represent each stored value.
        shape: The same lengths, or None for axes whose length may vary from now on.
        codec: "any": also accept images of other codecs, beside the existing ones.
        metadata: JSON metadata of the tensor, replacing the existing metadata.
        compute: Another function, or another expression, of a computed column. The function that is
            declared already is only made known to this process.
        inputs: Other inputs of its function.
        version: Another version of its function.

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
    session = self.__session__
    is_declared = compute is not None or inputs is not None or version is not None
    if isinstance(compute, str):
        from tensorlake.dataset.query.expressions import alter_expression

        alter_expression(session, name, compute)
    elif is_declared:
        alter_computed(session, name, compute, inputs=inputs, version=version)
    others = (nullable, dtype, shape, codec, metadata)
    if is_declared and all(one is None for one in others):
        return
    schema_changes.alter_tensor(
        session,
        name,
        nullable=nullable,
        dtype=dtype,
        shape=shape,
        codec=codec,
        metadata=metadata,
    )


class HasBoth(HasSession, HasViews[ViewT_co], Protocol[ViewT_co]):
    """A Dataset: it accepts changes, and makes views."""


def refresh_columns(  # noqa: D417 - a method: self
    self: HasSession,
    names: Sequence[str] | None = None,
    engine: Literal["threads", "processes"] = "threads",
    where: str | Predicate | None = None,
    *,
    retry: bool = False,
) -> RefreshReport:
    """Compute the stale rows of computed columns, and stage the results.

    A row is stale if its value was not made by the declared function from the cells that its inputs
    have now. Columns are computed after those that they are computed from. A row for which the
    function raises, or returns a value that the tensor does not take, is NULL, with the reason in
    the tensor ``name.error``.

    Results from before an interruption are staged: commit them, or call again for the rest.

    Args:
        names: The columns, and those that they are computed from; None: all.
        engine: Whether the function runs in threads or in processes.
        where: Only rows that meet a condition.
        retry: Also rows for which the function failed before.

    Raises:
        SchemaError: No function computes one of the columns.
        InvalidStateError: The function was not given to this process, or it is another one than the
            dataset declares.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-refresh-columns", {"text": "str"})
        >>> ds.extend({"text": ["two words", "one"]})
        >>> def count(row):
        ...     return len(row["text"].split())
        >>> ds.add_tensor("words", "int64", compute=count, inputs=["text"])
        >>> print(ds.refresh_columns())
        computed words of 2 rows
        >>> ds["text"][1] = "no longer one"
        >>> print(ds.refresh_columns())
        computed words of 1 row
        >>> ds["words"][:]
        array([2, 3])
        >>> ds.discard()
    """
    from tensorlake.dataset.transform.refresh import refresh_columns as refresh

    return refresh(self.__session__, names, engine=engine, where=where, retry=retry)


def stale(self: HasBoth[ViewT_co], name: str) -> ViewT_co:
    """Return the rows of a computed column that ``refresh_columns`` would compute.

    No chunk is read. In a query these are the rows ``WHERE NOT FRESH(name)``.

    Raises:
        SchemaError: Nothing computes it. Rows of an expression are never stale.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stale", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.add_tensor("y", "int64", compute=lambda row: -row["x"], inputs=["x"])
        >>> _ = ds.refresh_columns()
        >>> ds["x"][1] = 5
        >>> ds.stale("y").rows
        array([1])
        >>> ds.discard()
    """
    from tensorlake_query import print_name

    rows = everything(self.__session__)
    positions = stale_positions(rows, name)
    return self.__view__(rows.take_step(positions, f"WHERE NOT FRESH({print_name(name)})"))


def expressions_of(rows: RowSet) -> dict[str, Any]:
    """Return the columns that expressions of the schema compute, by name."""
    from tensorlake.dataset.query.expressions import expression_columns

    return expression_columns(rows)


def add_check(self: HasSession, name: str, condition: str, *, valid: bool = True) -> None:
    """Stage a condition that must hold of every row: of none may it be false. NULL is allowed.

    From the commit on, a commit or merge whose result would break it raises. It is evaluated on the
    combined result, for rows that are new or in which a column that it reads was changed.

    Args:
        self: The dataset.
        name: The name of the check.
        condition: TQL on the stored tensors of a row.
        valid: Whether existing rows must meet it, too. If False, ``validate()`` lists those that do
            not.

    Raises:
        ConstraintError: Existing rows do not meet it.
        InvalidInputError: The name is taken, or the condition depends on other rows.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-add-check", {"x": "int64"})
        >>> ds.add_check("positive", "x > 0")
        >>> _ = ds.commit("a check")
        >>> ds.extend({"x": [1, -1]})
        >>> try:
        ...     ds.commit("two rows")
        ... except tl.ConstraintError as error:
        ...     print(error.check, error.rows)
        positive (1,)
        >>> ds.discard()
    """
    from tensorlake.dataset.maintenance import constraints

    constraints.add_check(self.__session__, name, condition, valid=valid)


def drop_check(self: HasSession, name: str) -> None:
    """Stage the removal of a check, or of a unique key.

    Raises:
        InvalidInputError: There is none of this name.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-drop-check", {"id": "int64"}, unique="id")
        >>> ds.checks
        {'unique(id)': Check(condition='', unique=('id',), valid=True)}
        >>> ds.drop_check("unique(id)")
        >>> ds.checks
        {}
        >>> ds.discard()
    """
    from tensorlake.dataset.maintenance import constraints

    constraints.drop_check(self.__session__, name)


@dataclass(frozen=True, slots=True)
class ValidationReport(Generic[ViewT_co]):
    """The rows of a dataset that break its constraints.

    Attributes:
        violations: By check, a View of the rows that break it; of a key, all that share it.
        checks: The number of checks.
    """

    violations: Mapping[str, ViewT_co]
    checks: int

    @property
    def ok(self) -> bool:
        """Whether no row breaks any."""
        return not self.violations

    def __str__(self) -> str:
        if self.ok:
            return f"{plural(self.checks, 'check')}, no violation"
        return ", ".join(f"{name}: {plural(len(v), 'row')}" for name, v in self.violations.items())  # pyright: ignore[reportArgumentType] - a View has a length


def validate(self: HasBoth[ViewT_co]) -> ValidationReport[ViewT_co]:
    """Evaluate all checks and unique keys over all rows of this handle, staged ones included.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-validate", {"x": "int64"})
        >>> ds.extend({"x": [1, -1]})
        >>> ds.add_check("positive", "x > 0", valid=False)
        >>> report = ds.validate()
        >>> report.ok, report.violations["positive"]["x"][:]
        (False, array([-1]))
        >>> ds.discard()
    """
    from tensorlake.dataset.maintenance import constraints

    session = self.__session__
    rows = everything(session)
    snapshot = rows.selection.snapshot
    found: dict[str, ViewT_co] = {}
    for name, one in snapshot.schema.constraints.items():
        broken = constraints.violations(session, snapshot, name, one)
        if len(broken):
            found[name] = self.__view__(rows.take(broken))
    return ValidationReport(found, len(snapshot.schema.constraints))


def checks_of(self: HasSession) -> Mapping[str, Check]:
    """The checks and unique keys, by name."""
    from tensorlake.dataset.maintenance import constraints

    return constraints.checks(self.__session__.snapshot().schema)


def refuse_violations(*given: Any) -> None:
    """Refuse content that breaks a constraint, as ``maintenance/constraints`` does."""
    from tensorlake.dataset.maintenance import constraints

    constraints.refuse_violations(*given)


def misfits(*given: Any) -> list[Any]:
    """Return what does not fit the tensors of a schema, as ``maintenance/references`` does."""
    from tensorlake.dataset.maintenance import references

    return references.misfits(*given)


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
        kind: "bitmap" (labels, tags, booleans, sequences of these or of integers, few different
            values), "btree" (numbers, timestamps, short texts), "text" (the words of texts) or
            "vector" (vectors of floats); None: the one for the column's type, of texts a btree,
            which compares whole texts.
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
