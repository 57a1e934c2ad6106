"""Methods of a Dataset: staging, publishing and describing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tensorlake.dataset.core.rowset import HasDatasets, HasSession, everything
from tensorlake.dataset.display.repr import Summary, summarize
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.query import assignment
from tensorlake.dataset.write import refresh as refreshing
from tensorlake.dataset.write import staging
from tensorlake.dataset.write import upsert as upserting
from tensorlake.dataset.write.refresh import noting_reads
from tensorlake.dataset.write.upsert import Upserted
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import check_flags, checked_integer
from tensorlake.storage import place_text
from tensorlake.versions import CommitRequest, OnConflict

if TYPE_CHECKING:
    from tensorlake.dataset.columns.model import ModelCall
    from tensorlake.dataset.query.predicate import Predicate

__all__ = [
    "append",
    "commit",
    "delete",
    "discard",
    "execute",
    "extend",
    "refresh",
    "summary",
    "transaction",
    "upsert",
]

MODEL_BATCH = 64
"""Rows that a model of ``map`` is given at once, where it takes any number."""

Dataset = TypeVar("Dataset", bound=HasSession)  # the class that has these methods, above them


def summary(self: HasSession, *, full: bool = False) -> Summary:  # noqa: D417 - a method: self
    """Describe the dataset: sizes, types, shapes, versions. Reads the index only.

    Args:
        full: Also read the columns of numbers and labels, for their values.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-summary", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> ds.summary(full=True).to_pandas()["type"].tolist()
        ['Scalar(int64)']
    """
    check_flags(full=full)
    return summarize(self.__session__, full=full)


def append(self: HasSession, row: Mapping[str, Any]) -> None:
    """Stage one row.

    Raises:
        InvalidInputError: A value does not fit; nothing was staged.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-append", {"x": "int64", "name": "str"})
        >>> ds.append({"x": 1, "name": "one"})
        >>> ds[-1]["name"]
        'one'
        >>> ds.discard()
    """
    staging.append(self.__session__, row)


def extend(self: HasSession, data: Any) -> None:
    """Stage rows: columns, rows, an Arrow table, a DataFrame, a View, or an iterator of these.

    Raises:
        InvalidInputError: A value does not fit; nothing of this call was staged.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-extend", {"x": "int64", "name": "str"})
        >>> ds.extend({"x": [1, 2], "name": ["one", "two"]})
        >>> ds.extend([{"x": 3, "name": "three"}])
        >>> ds["name"][:]
        ['one', 'two', 'three']
        >>> ds.discard()
    """
    staging.extend(self.__session__, data)


def delete(self: HasSession, rows: Any) -> int:
    """Stage the deletion of rows: an int, slice, list, mask, Predicate or View.

    Returns:
        How many rows go.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-delete", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.delete(ds["x"] > 1)
        2
        >>> ds["x"][:].tolist()
        [1]
        >>> ds.discard()
    """
    return assignment.delete(self.__session__, rows)


def upsert(self: HasSession, rows: Any, on: str | Sequence[str]) -> Upserted:  # noqa: D417 - a method: self
    """Stage rows by key: where it is known the row gets the values given, else it is appended.

    A key that another commit added meanwhile is known when this one is published: its row gets
    the values given.

    Args:
        rows: As for ``extend``; of known rows, tensors that are not named stay as they are.
        on: The tensor, or tensors, whose value names a row.

    Returns:
        How many rows were updated, and how many appended.

    Raises:
        InvalidInputError: A key is NULL or NaN, given twice, or occurs in several rows.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-upsert", {"id": "int64", "text": "str"})
        >>> ds.extend({"id": [1, 2], "text": ["one", "two"]})
        >>> ds.upsert({"id": [2, 3], "text": ["TWO", "three"]}, on="id")
        Upserted(updated=1, appended=1)
        >>> ds["text"][:]
        ['one', 'TWO', 'three']
        >>> ds.discard()
    """
    return upserting.upsert(self.__session__, rows, on)


def map(  # noqa: A001, D417 - the method's name; self
    self: HasDatasets[Dataset],
    function: Callable[..., Any] | str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    to: str | PathLike[str] | None = None,
    where: str | Predicate | None = None,
    batch_size: int | None = None,
    engine: Literal["threads", "processes", "ray"] = "threads",
    workers: int | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    commit_every: int | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    delete: bool = False,
    on_conflict: Literal["keep", "source", "error"] = "keep",
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Call a function on rows; what it returns fills tensors, or makes a new dataset.

    Args:
        function: Gets a dict of one row's values; with ``batch_size``, of columns as
            ``ds[name][rows]`` gives them (lists where there are NULLs). Returns a dict with
            the names of ``schema``. With ``to`` it may also return a list of rows, or None.
            It may be a class whose objects are such functions: each worker makes one, once. Or the
            path of an ONNX model (extra ``onnx``), whose inputs are columns of their names; the
            metadata of the tensors of its outputs have its digest as "model".
        schema: Types of what it returns; of a model, by default those of all its outputs. In
            place, a tensor that is not there is added, as nullable.
        columns: Columns passed to the function; None: all.
        to: URL of a new dataset with just these tensors. The same call again maps rows that are new
            or whose columns have changed, and nothing else; also after a crash.
        where: Only rows that meet a condition; in place, others stay as they are.
        batch_size: Rows the function is given at once, as columns; None: one row; for a model 64.
        engine: "processes" is for functions that hold the interpreter lock; "ray" runs on the Ray
            cluster of this process, or on a local one, whose workers read the rows themselves.
        workers: How many calls run in parallel; 4 by default, on a cluster as many as it holds.
        num_gpus: Graphics processors of each worker; of "ray" only.
        resources: Custom resources of each worker, by name; of "ray" only.
        commit_every: With ``to``: rows read per commit; 65,536 by default.
        on_error: "skip" leaves out rows (or batches) that the function raises for, and warns.
        delete: With ``to``: whether to delete the outputs of rows that are gone since an earlier
            call; they are reported otherwise.
        on_conflict: With ``to``, for outputs that a hand changed, of rows that have changed since:
            "keep" (default) leaves them as they are, and reports them; "source" takes those of
            the function; "error" raises.
        storage_options: Credentials and endpoint of the new dataset.

    Returns:
        This handle, with the outputs staged; or the new dataset, committed. Its ``map_report``
        counts rows, and lists those that were skipped.

    Raises:
        InvalidInputError: A result of the function does not match; nothing is staged.
        InvalidStateError: Workers ended again and again before the function returned; or
            ``engine="ray"``, and this handle has staged changes; or some rows would be of a model,
            and others of another one.
        MissingExtraError: ``engine="ray"``, and Ray is not installed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-map", {"text": "str"})
        >>> ds.extend({"text": ["a b", "c"]})
        >>> ds.map(lambda row: {"words": len(row["text"].split())}, schema={"words": "int64"})
        Dataset ...
        >>> ds["words"].read()
        array([2, 1])
        >>> ds.map_report.rows, ds.map_report.added
        (2, ('words',))
        >>> ds.discard()
    """
    from tensorlake.dataset.transform.map.calls import MapOptions

    model: ModelCall | None = None
    if isinstance(function, str | PathLike):
        from tensorlake.dataset.columns.model import ModelCall

        if engine != "threads":
            raise InvalidInputError(
                f"engine={shown(engine)}: a model runs in the threads of ONNX Runtime\nleave"
                " engine= out",
                argument="engine",
                actual=engine,
            )
        types = everything(self.__session__).schema
        function = model = ModelCall.of(function, types, columns, schema)
        columns, schema = [*model.model.columns.values()], model.schema
        batch_size = batch_size or model.model.batch_size or MODEL_BATCH
    options = MapOptions(
        batch_size, engine, workers, on_error, storage_options, num_gpus, resources
    )
    check_flags(delete=delete)
    if commit_every is not None:
        checked_integer(commit_every, name="commit_every", least=1)
    is_text = isinstance(on_conflict, str)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    if not is_text or on_conflict not in ("keep", "source", "error"):
        raise InvalidInputError(
            f"on_conflict={shown(on_conflict)}: give one of 'keep', 'source', 'error'",
            argument="on_conflict",
            actual=on_conflict,
        )
    if to is None:
        from tensorlake.dataset.transform.map.tensors import fill_rows

        if delete or on_conflict != "keep":
            raise InvalidInputError(
                "delete= and on_conflict= are for a new dataset, made by an earlier call of map()"
                "\ngive its URL, to=url, or leave them out"
            )
        if commit_every is not None:
            raise InvalidInputError(
                "commit_every= is for a new dataset: in place, map() stages, and you commit"
                "\ngive to=url; or map some rows at a time, where=…, and commit after each"
            )
        if model is not None and (where is not None or on_error == "skip"):
            model.refuse_another(self.__session__)
        fill_rows(
            self.__session__,
            function,
            schema=schema,
            columns=columns,
            where=where,
            options=options,
        )
        if model is not None:
            model.note_digest(self.__session__)
        return self.__dataset__(self.__session__)
    from tensorlake.dataset.transform.map.dataset import write_rows

    session = write_rows(
        everything(self.__session__),
        function,
        schema=schema,
        columns=columns,
        to=place_text(to, what="to"),
        where=where,
        delete=delete,
        on_conflict=on_conflict,
        commit_every=commit_every,
        options=options,
    )
    if model is not None:
        model.note_digest(session)
        if session.transaction is not None:
            session.commit(CommitRequest(message=f"model {model.model.path.name}"))
    return self.__dataset__(session)


def execute(self: HasSession, tql: str, **params: Any) -> int:
    """Stage a change written in TQL: UPDATE, DELETE or INSERT … SELECT.

    A commit by another that changed what its WHERE and expressions read is a conflict.

    Returns:
        How many rows change, go, or come.

    Raises:
        QueryError: The text is not TQL, or names what does not exist; it shows the place.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-execute", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.execute("UPDATE this SET x = x * 10 WHERE x > $low", low=1)
        2
        >>> ds["x"][:]
        array([ 1, 20, 30])
    """
    from tensorlake.dataset.query import dml as executing

    return executing.execute(self.__session__, tql, params)


def commit(self: HasSession, message: str = "", *, key: str | None = None) -> Commit:  # noqa: D417 - a method: self
    """Publish what is staged, atomically and durably, and return the commit.

    Args:
        message: Commit message, for the log.
        key: Names this piece of work: a second commit with the same key publishes nothing
            and returns the first, so work can be repeated after a crash.

    Raises:
        ConflictError: Another commit changed the same cells; your changes stay staged.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-commit", {"x": "int64"})
        >>> ds.append({"x": 1})
        >>> ds.commit("one row").version
        'main@1'
        >>> ds.has_changes
        False
    """
    entry = self.__session__.commit(CommitRequest(message=message, key=key))
    return Commit.of_entry(entry, self.__session__.branch)


def discard(self: HasSession) -> None:
    """Forget what is staged.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-discard", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.discard()
        >>> len(ds), ds.has_changes
        (0, False)
    """
    self.__session__.discard()


@contextmanager
def transaction(  # noqa: D417 - a method: self
    self: Dataset, message: str = "", *, reads: Sequence[str] = ()
) -> Generator[Dataset]:
    """Commit when the block ends; discard everything staged when it raises.

    Args:
        message: Commit message, for the log.
        reads: Columns that the changes are computed from: a commit that changed one of them
            meanwhile, by a cell or by a row, is a conflict as well.

    Raises:
        UncommittedChangesError: The handle has staged changes already.
        ConflictError: Another commit changed the same; your changes stay staged.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-transaction", {"x": "int64", "share": "float64"})
        >>> ds.extend({"x": [1, 3], "share": [0, 0]})
        >>> ds.commit("numbers").version
        'main@1'
        >>> with ds.transaction("shares", reads=["x"]):
        ...     ds["share"][:] = ds["x"][:] / ds["x"][:].sum()
        >>> ds["share"][:]
        array([0.25, 0.75])
    """
    with noting_reads(self.__session__, reads):
        try:
            yield self
        except BaseException:
            discard(self)
            raise
    commit(self, message)


def refresh(  # noqa: D417 - a method: self
    self: Dataset, *, keep_staged: bool = False, on_conflict: OnConflict = "error"
) -> Dataset:
    """Move this handle to its branch's newest commit.

    Tensors that were added and not written to yet are taken along and stay staged.

    Args:
        keep_staged: Take all staged changes along: reads then see both, and they stay staged.
        on_conflict: How to resolve conflicts: "ours" (staged changes take precedence),
            "theirs" (committed changes), or "error". See docs/explanation/concurrency.md.

    Raises:
        UncommittedChangesError: There are staged changes and they are not to be kept.
        ConflictError: There are conflicts, and ``on_conflict="error"``; nothing moved.

    Example:
        >>> import tensorlake as tl
        >>> mine = tl.create("memory://doc-refresh", {"x": "int64"})
        >>> mine.extend({"x": [1, 2]})
        >>> mine.commit("two rows").version
        'main@1'
        >>> theirs = tl.open("memory://doc-refresh")
        >>> mine["x"][0], theirs["x"][0] = 10, 20
        >>> theirs.append({"x": 3})
        >>> theirs.commit("twenty").version
        'main@2'
        >>> mine.refresh(keep_staged=True, on_conflict="ours")["x"][:]
        array([10,  2,  3])
        >>> mine.commit("ten").version
        'main@3'
    """
    refreshing.refresh(self.__session__, keep_staged=keep_staged, on_conflict=on_conflict)
    return self
