"""Dataset: a handle on one branch, or one version, of a dataset.

Reading is ``Readable``'s, the schema ``Evolving``'s, versions are ``Versioned``'s, upkeep is
``Maintained``'s. Writing is staged, seen by this handle alone, and published by one ``commit``:
others see all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import staging, versioning
from tensorlake.dataset.describe import Summary, dataset_repr, summarize
from tensorlake.dataset.evolving import Evolving
from tensorlake.dataset.group import Group, assign_fields
from tensorlake.dataset.history import Commit
from tensorlake.dataset.maintained import Maintained
from tensorlake.dataset.readable import Readable, Rows
from tensorlake.dataset.refreshing import noting_reads, refresh
from tensorlake.dataset.row import Row
from tensorlake.dataset.steps import ColumnsStep, QueryStep
from tensorlake.dataset.struct_values import expand_names
from tensorlake.dataset.upserting import Upserted, upsert
from tensorlake.dataset.versioned import Versioned
from tensorlake.dataset.view import View
from tensorlake.quantities import is_whole_number
from tensorlake.reading import Reader, Selection
from tensorlake.versions import CommitRequest, OnConflict, stored_chunks

if TYPE_CHECKING:
    from tensorlake.dataset.ingest import IngestReport
    from tensorlake.dataset.mapping import MapOptions
    from tensorlake.dataset.predicate import Predicate
    from tensorlake.dataset.tensor import Tensor

__all__ = ["Dataset"]

Int64Array = npt.NDArray[np.int64]


class Dataset(Evolving, Readable, Versioned, Maintained):
    """A dataset at one branch or version; made by ``tl.create`` and ``tl.open``.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-dataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.commit("three").version
        'main@1'
        >>> ds["x"][ds["x"] > 1]
        array([2, 3])
    """

    ingest_report: IngestReport | None = None
    """What the ingestion that made this handle did."""

    def selection(self) -> Selection:
        """All rows and tensors, staged changes included."""
        snapshot = self.session.snapshot()
        return Selection(snapshot, tuple(spec.name for spec in snapshot.schema.tensors))

    def frozen(self) -> View:
        """What is shown now, as a View."""
        return View(self.session, self.selection(), steps=())

    @overload
    def __getitem__(self, key: str) -> Tensor: ...  # a Group, where several names begin so

    @overload
    def __getitem__(self, key: int | np.integer) -> Row: ...  # pyright: ignore[reportOverlappingOverload] - a NumPy integer has __array__, too

    @overload
    def __getitem__(self, key: Rows | list[str] | tuple[str, ...]) -> View: ...

    def __getitem__(self, key: Any) -> Any:
        """Read as of now: a column follows the handle, rows and views stay at their version."""
        return self._column(key) if isinstance(key, str) else self.frozen()[key]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.frozen())

    def __len__(self) -> int:
        transaction = self.session.transaction
        return self.session.committed.num_rows if transaction is None else transaction.num_rows

    def __repr__(self) -> str:
        return dataset_repr(self)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.notebook import dataset_html

        return dataset_html(self)

    def summary(self, *, full: bool = False) -> Summary:
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
        return summarize(self, full=full)

    @property
    def nbytes(self) -> int:
        """Bytes of the chunks that this version shows."""
        snapshot = self.session.committed
        tables = (snapshot.extents(spec.id) for spec in snapshot.schema.tensors)
        return sum(int(stored_chunks(extents).nbytes.sum()) for extents in tables)

    # Staging rows

    def append(self, row: Mapping[str, Any]) -> None:
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
        staging.append(self.session, row)

    def extend(self, data: Any) -> None:
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
        staging.extend(self.session, data)

    def delete(self, rows: Any) -> int:
        """Stage that rows are gone: an int, slice, list, mask, Predicate or View.

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
        if is_whole_number(rows):
            rows = [rows]
        with self.session.lock:
            here = self.frozen()
            return staging.delete(self.session, here.selection(), here.positions_named(rows))

    def assign(self, name: str, rows: Any, values: Any) -> int:
        """Stage values for rows of one tensor: what ``ds[name][rows] = values`` does.

        Returns:
            How many rows got a value: rows of a View that are gone by now, and their values, are
            left out.
        """
        if is_whole_number(rows):
            rows, values = [rows], [values]
        with self.session.lock:
            if isinstance(rows, Readable) and name in self.selection().columns:
                return staging.assign_by_view(self.session, name, rows, self.selection(), values)
            column = self._column(name)
            if isinstance(column, Group):
                return assign_fields(self, column, rows, values)
            positions = column.positions(rows)
            return staging.assign(self.session, name, positions, values)

    def upsert(self, rows: Any, on: str | Sequence[str]) -> Upserted:
        """Stage rows by key: where it is known the row gets the values given, else it is appended.

        A key that another commit added meanwhile is known when this one is published: its row gets
        the values given.

        Args:
            rows: As for ``extend``; of known rows, tensors that are not named stay as they are.
            on: The tensor, or tensors, whose value names a row.

        Returns:
            How many rows were updated, and how many appended.

        Raises:
            InvalidInputError: A key is NULL or NaN, given twice, or stands in several rows.

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
        return upsert(self.session, rows, on)

    def map(
        self,
        function: Callable[[dict[str, Any]], Any],
        *,
        schema: Mapping[str, Any],
        columns: Sequence[str] | None = None,
        to: str | PathLike[str] | None = None,
        where: str | Predicate | None = None,
        **options: Unpack[MapOptions],
    ) -> Dataset:
        """Call a function on rows; what it returns fills tensors, or makes a new dataset.

        Args:
            function: Gets a dict of one row's values; with ``batch_size``, of columns as
                ``ds[name][rows]`` gives them (lists where there are NULLs). Returns a dict with
                the names of ``schema``. With ``to`` it may also return a list of rows, or None.
            schema: Types of what it returns. In place, a tensor that is not there is added, as
                nullable.
            columns: What the function is given; None: all.
            to: URL of a new dataset with just these tensors. The same call after a kill goes on.
            where: Only rows that meet a condition; in place, others stay as they are.
            **options: See `MapOptions`.

        Returns:
            This handle, with the outputs staged; or the new dataset, committed.

        Raises:
            InvalidInputError: What the function returned does not fit; nothing is staged.
            UnsupportedFeatureError: ``engine="ray"``.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-map", {"text": "str"})
            >>> ds.extend({"text": ["a b", "c"]})
            >>> ds.map(lambda row: {"words": len(row["text"].split())}, schema={"words": "int64"})
            Dataset ...
            >>> ds["words"].read()
            array([2, 1])
            >>> ds.discard()
        """
        from tensorlake.dataset.mapping import map_rows

        return map_rows(
            self, function, schema=schema, columns=columns, to=to, where=where, options=options
        )

    # Staging in TQL

    def execute(self, tql: str, **params: Any) -> int:
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
        from tensorlake.dataset.executing import execute

        return execute(self, tql, params)

    # Publishing

    @property
    def has_changes(self) -> bool:
        """Whether anything is staged."""
        return self.session.transaction is not None

    def commit(self, message: str = "", *, key: str | None = None) -> Commit:
        """Publish what is staged, atomically and durably, and return the commit.

        Args:
            message: What changed and why, for the log.
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
        entry = self.session.commit(CommitRequest(message=message, key=key))
        return Commit.of_entry(entry, self.session.branch)

    def discard(self) -> None:
        """Forget what is staged.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-discard", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> ds.discard()
            >>> len(ds), ds.has_changes
            (0, False)
        """
        self.session.discard()

    @contextmanager
    def transaction(self, message: str = "", *, reads: Sequence[str] = ()) -> Generator[Self]:
        """Commit when the block ends; discard everything staged when it raises.

        Args:
            message: What changed and why, for the log.
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
        with noting_reads(self.session, reads):
            try:
                yield self
            except BaseException:
                self.discard()
                raise
        self.commit(message)

    def refresh(self, *, keep_staged: bool = False, on_conflict: OnConflict = "error") -> Self:
        """Move this handle to its branch's newest commit.

        Tensors that were added and not written to yet are taken along and stay staged.

        Args:
            keep_staged: Take all staged changes along: reads then see both, and they stay staged.
            on_conflict: Who wins where both changed one thing: "ours" (what is staged here),
                "theirs" (what was committed), or "error". See docs/explanation/concurrency.md.

        Raises:
            UncommittedChangesError: There are staged changes and they are not to be kept.
            ConflictError: Both changed the same and nobody was to win; nothing moved.

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
        refresh(self.session, keep_staged=keep_staged, on_conflict=on_conflict)
        return self

    # The handle

    def close(self) -> None:
        """Give the handle back; staged changes are lost, with a warning.

        It takes no changes from then on. What was read of it stays readable: rows, Views and
        loaders that outlive a ``with`` go on at their version.

        >>> import tensorlake as tl
        >>> with tl.create("memory://doc-close", {"x": "int64"}) as ds:
        ...     ds.extend({"x": [1, 2]})
        ...     commit = ds.commit("two")
        ...     view = ds[:1]
        >>> view["x"][:]
        array([1])
        """
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Dataset], tuple[Any, ...]]:
        from tensorlake.dataset.open import reopen

        return reopen, (self.session.place(self.session.snapshot()),)

    def repin(self) -> Callable[[str], tuple[Selection, Reader]]:
        """How a loader reaches the version that its state recorded."""

        def at(version: str) -> tuple[Selection, Reader]:
            then = Dataset(versioning.at(self.session, version))
            return then.selection(), then.reader()

        return at

    def _with_rows(self, positions: Int64Array) -> View:
        return View(self.session, self.selection().with_rows(positions))

    def _with_step(self, positions: Int64Array, tql: str) -> View:
        steps = (QueryStep(tql, {}),)
        return View(self.session, self.selection().with_rows(positions), steps=steps)

    def _with_columns(self, names: Sequence[str]) -> View:
        chosen = expand_names(names, self.selection().columns)
        for name in chosen:
            self._column(name)
        steps = (ColumnsStep(chosen),)
        return View(self.session, self.selection().with_columns(chosen), steps=steps)
