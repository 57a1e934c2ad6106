"""`Run`: what a training run read and logged; recorded while it runs, and asked afterwards.

with ds.run("resnet-50", config={"lr": 0.1}) as run:
for batch in run.torch(batch_size=256, shuffle=True):
loss = step(batch)                          # one loss a row
run.log(loss=loss.mean(), per_row={"loss": loss}, rows=batch["_row"])
ds.runs["resnet-50"].batch(step=41_200)                 # the very arrays again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.rowset import HasRows, HasViews, RowSet, rowset_of
from tensorlake.dataset.display.signatures import with_options
from tensorlake.dataset.runs.counterfactual import Counterfactual, put_exclusion
from tensorlake.dataset.runs.diagnosis import Step, diagnose_again
from tensorlake.dataset.runs.history import History
from tensorlake.dataset.runs.integrations import (
    lightning_callback,
    trainer_callback,
    write_csv,
    write_events,
)
from tensorlake.dataset.runs.record import Record
from tensorlake.dataset.runs.recorder import Recorder
from tensorlake.dataset.runs.replay import CanLoad
from tensorlake.dataset.runs.tables import EVENT_COLUMNS, Table, read_tables, value_names
from tensorlake.dataset.runs.values import (
    check_names,
    check_same_dataset,
    number,
    reads_staged,
    row_values,
    sources_of,
    with_values,
)
from tensorlake.dataset.transform.loader_options import (
    DEFAULTS,
    JaxOptions,
    LoaderOptions,
    TorchOptions,
)
from tensorlake.errors import InvalidInputError, QueryLimitError, did_you_mean, shown
from tensorlake.quantities import checked_integer, plural

if TYPE_CHECKING:
    from tensorlake.loader import Diagnosis, Framework, Loader

__all__ = ["Run"]

Int64Array = npt.NDArray[np.int64]
ROW = "_row"
SERVED_NBYTES = 256 << 20
"""Stored values of rows that RUN reads for a client of a server."""


class Run:
    """A run: made by ``ds.run`` and ``tl.run``, found in ``ds.runs`` and ``tl.runs``.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-run", {"x": "float64"})
        >>> ds.extend({"x": [1.0, 2.0, 3.0, 4.0]})
        >>> _ = ds.commit("four")
        >>> with ds.run("mean", config={"lr": 0.1}) as run:
        ...     for batch in run.loader(batch_size=2, shuffle=True, seed=1):
        ...         loss = (batch["x"] - 2.5) ** 2
        ...         run.log(loss=loss.mean(), per_row={"loss": loss}, rows=batch["_row"])
        >>> run = ds.runs["mean"]
        >>> run.steps.column("loss").to_pylist()
        [1.25, 1.25]
        >>> run.rows_at(step=1).tolist(), run.batch(step=1)["x"].tolist()
        ([0, 2], [1.0, 3.0])
        >>> run.steps_of(row=2)
        [1]
        >>> run.rows("loss")["loss"].tolist()
        [2.25, 0.25, 0.25, 2.25]
    """

    def __init__(
        self,
        record: Record,
        dataset: HasViews[Any] | None = None,
        *,
        rows: CanLoad | None = None,
        is_recording: bool = False,
        reaches_out: bool = True,
    ) -> None:
        self._record = record
        self._dataset = dataset
        self._recorder = Recorder(record) if is_recording else None
        self._sources: list[RowSet] = []  # of the loader, whose rows are logged
        self._history = History(record, dataset, rows, reaches_out=reaches_out)

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._record.name

    @property
    def config(self) -> Mapping[str, Any]:
        """The config that the run was created with; values of keys that name secrets are hidden."""
        return self._record.config

    @property
    def dataset(self) -> str:
        """URL of the dataset that it was begun with, or of the place of the record."""
        return str(self._record.content.get("dataset"))

    @property
    def version(self) -> str:
        """The version that it began with; empty if it was not begun with a dataset."""
        return str(self._record.content.get("dataset_version"))

    # Recording

    @with_options(TorchOptions, DEFAULTS)
    def torch(self, rows: CanLoad | None = None, **arguments: Unpack[TorchOptions]) -> Loader:
        """Stream batches of torch tensors, and record which; as ``ds.torch()``.

        Without ``columns=``, batches of a dataset or a view have ``_row``, for ``log(per_row=)``.

        Args:
            rows: A view, a mix, packed rows or windows, in place of the run's dataset.
            arguments: Those of ``ds.torch()``.
        """
        return self._recorded("torch", rows, dict(arguments))

    @with_options(JaxOptions, DEFAULTS)
    def jax(self, rows: CanLoad | None = None, **arguments: Unpack[JaxOptions]) -> Loader:
        """Stream batches of JAX arrays, and record which; as ``ds.jax()``.

        Args:
            rows: A view, a mix, packed rows or windows, in place of the run's dataset.
            arguments: Those of ``ds.jax()``.
        """
        return self._recorded("jax", rows, dict(arguments))

    @with_options(LoaderOptions, DEFAULTS)
    def loader(self, rows: CanLoad | None = None, **arguments: Unpack[LoaderOptions]) -> Loader:
        """Stream batches of NumPy arrays, and record which; as ``ds.loader()``.

        Args:
            rows: A view, a mix, packed rows or windows, in place of the run's dataset.
            arguments: Those of ``ds.loader()``.
        """
        return self._recorded("numpy", rows, dict(arguments))

    def log(
        self,
        *,
        step: int | None = None,
        per_row: Mapping[str, Any] | None = None,
        rows: Any = None,
        **scalars: Any,
    ) -> None:
        """Log numbers of the batch that was handed out last, and of its rows.

        Args:
            step: The step, where it is not that of the newest batch: a trainer, such as Accelerate,
                asks for batches one ahead.
            per_row: By name, one number for each row of the batch.
            rows: The rows: ``batch["_row"]``; of a mix the batch itself, with ``_source``.
            scalars: By name, a number: a loss, a rate.

        Raises:
            InvalidInputError: A value is not a number, or the values are not one per row.
            InvalidStateError: The run is closed, was not opened to record, or is of a process that
                this one was forked from.
        """
        recorder = self._recording()
        if step is not None:
            step = checked_integer(step, name="step", least=0)
        check_names(scalars, EVENT_COLUMNS.names, "log()")
        own = {name: number(name, value) for name, value in scalars.items()}
        if per_row is not None:
            recorder.log_rows(*row_values(per_row, rows, self._sources))
        elif rows is not None:
            raise InvalidInputError("rows= is for per_row=: give numbers of the rows, too")
        if own or step is not None:
            recorder.log(own, step)

    def skip(self, view: HasRows) -> None:
        """Leave rows out of the rest of the run: of this epoch, and of all that follow.

        States of the loader record which rows they are, so that it can be resumed. Leave the loop
        before the call, as for ``loader.advance()``, and make the same call on every rank.

        Args:
            view: The rows.

        Raises:
            InvalidInputError: The run has no loader, or the order no rest that could continue.
            InvalidStateError: A pass is under way.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-run-skip", {"x": "int64"})
            >>> ds.extend({"x": range(8)})
            >>> _ = ds.commit("eight")
            >>> with ds.run("without") as run:
            ...     loader = run.loader(batch_size=2)
            ...     first = next(iter(loader))
            ...     run.skip(ds.query("WHERE x IN (1, 5)"))
            ...     print([batch["x"].tolist() for batch in loader])
            [[2, 3], [4, 6], [7]]
        """
        loader = self._recording().loader
        if loader is None:
            raise InvalidInputError(
                "skip(): the run has no loader\nmake it first: run.torch(…), or run.loader(…)"
            )
        path = put_exclusion(self._record, view, self._dataset)
        loader.advance(without=path)

    def lightning_callback(self) -> Any:
        """Return a callback for ``lightning.Trainer``, which logs a module's metrics by batch.

        Raises:
            MissingExtraError: Lightning is not installed.
        """
        return lightning_callback(self._recording().log_counted)

    def trainer_callback(self) -> Any:
        """Return a callback for ``transformers.Trainer``, which logs what the trainer logs.

        Raises:
            MissingExtraError: transformers is not installed.
        """
        return trainer_callback(self._recording().log_counted)

    def diagnose(
        self, step: Step | None = None, budget_s: float | str = 20, **arguments: Any
    ) -> Diagnosis:
        """Measure what limits the run's loader; see ``loader.diagnose()``.

        Args:
            step: The training step; without it a wait of the recorded time between batches.
            budget_s: About how long it may take, in seconds.
            arguments: Arguments of a finished run that were not recorded, such as ``transform=``.
        """
        loader = None if self._recorder is None else self._recorder.loader
        if loader is not None:
            return loader.diagnose(step, budget_s)
        passes = self._history.replay, self._history.stretches, self.steps
        return diagnose_again(*passes, step=step, budget_s=budget_s, given=arguments)

    def close(self) -> None:
        """Write what was logged; the run can be opened again.

        Raises:
            StorageError: The store does not take it.
        """
        if self._recorder is not None:
            self._recorder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What was recorded

    @property
    def steps(self) -> Table:
        """The steps, with the scalars that were logged, as an Arrow table.

        Columns: ``step``, ``steps`` (batches that the record stands for: 1, unless there were more
        than 10,000 and more than one a second), ``time`` (seconds since 1970), ``rank``, ``epoch``,
        ``position``, ``wait_s`` (for the batch), ``compute_s`` (in the program's loop), and the
        scalars, float64.
        """
        return self._history.steps

    def rows_at(self, step: int, rank: int | None = None) -> Int64Array:
        """Return the row numbers, int64, of a step's batch, in its order; −1 of forgotten rows.

        Args:
            step: The step.
            rank: A rank's part; None: the whole batch.

        Raises:
            InvalidInputError: There is no such step or rank.
        """
        return self._history.replay.rows_at(self._history.stretch(_step(step)), step, rank)

    @overload
    def steps_of(self, row: int) -> list[int]: ...

    @overload
    def steps_of(self, row: Sequence[int] | Int64Array) -> list[list[int]]: ...

    def steps_of(self, row: int | Sequence[int] | Int64Array) -> list[int] | list[list[int]]:
        """Return the steps whose batches had a row, ascending; computed, not looked up.

        Args:
            row: Number of the row in the version that the run read first; or several numbers, for a
                list of the steps of each, in one pass.

        Raises:
            InvalidInputError: The run did not read such rows, or it read parts or mixes of rows.
        """
        is_one = np.ndim(cast("Any", row)) == 0
        rows = [checked_integer(one, name="row") for one in ([row] if is_one else np.asarray(row))]
        found = self._history.steps_of(np.array(rows, dtype=np.int64))
        return found[0] if is_one else found

    def batch(
        self, step: int, rank: int | None = None, *, exact: bool = True, **arguments: Any
    ) -> Any:
        """Make the batch of a step again: read, decoded and augmented as it was.

        Args:
            step: The step.
            rank: A rank's part; None: the batches of all ranks as one.
            exact: Refuse where the libraries that decode, or functions given, are not the recorded.
            arguments: Functions that were not recorded, ``transform=``, ``batch_transform=``, and
                other arguments of the loader.

        Raises:
            ReplayMismatchError: Libraries or functions differ from the recorded ones.
            SnapshotExpiredError: The version that the run read has expired.
            InvalidInputError: There is no such step or rank, or the record does not say which rows.
        """
        stretch = self._history.stretch(_step(step))
        return self._history.replay.batch(stretch, step, rank, exact=exact, given=arguments)

    def rows(self, name: str) -> Any:
        """Return a View of the rows for which a value was logged, with the last value as a column.

        Rows that were deleted since are left out.

        Args:
            name: A name of ``per_row=``.

        Raises:
            InvalidInputError: No such value was logged, or the dataset has a tensor of this name.
        """
        if self._dataset is None:
            raise InvalidInputError(
                f"rows() is a View of one dataset, and run {self.name!r} is in a place without one"
                "\nname the dataset: run.of(ds).rows(name)"
            )
        table = self.logged(name)
        return self._dataset.__view__(with_values(rowset_of(self._dataset), table, name))

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write ``steps`` as a CSV file; scalars that were not logged are empty cells, NaN ``nan``.

        Raises:
            InvalidInputError: The folder does not exist.
        """
        write_csv(self.steps, path)

    def to_tensorboard(self, log_dir: str | PathLike[str]) -> Path:
        """Write scalars, waits and config for TensorBoard, and return the folder of the run.

        A second call replaces what the first wrote.

        Args:
            log_dir: The folder that TensorBoard is started with; the run is ``<log_dir>/<name>``.

        Raises:
            MissingExtraError: TensorBoard is not installed.
        """
        return write_events(self.name, self.config, self.steps, log_dir)

    def without(self, view: HasRows) -> Counterfactual:
        """Return the same run without some rows, to train again and compare.

        Every other row keeps its step, its place in the batch and its random numbers: rows of the
        view are holes, zeros that are False in ``_valid``. Take the loss over ``_valid``.

        Args:
            view: The rows to leave out.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-run-without", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3, 4]})
            >>> _ = ds.commit("four")
            >>> with ds.run("all") as run:
            ...     _ = list(run.loader(batch_size=2, shuffle=True, seed=1))
            >>> other = ds.runs["all"].without(ds.query("WHERE x = 3"))
            >>> [(batch["x"].tolist(), batch["_valid"].tolist()) for batch in other.loader()]
            [([4, 2], [True, True]), ([1, 0], [True, False])]
        """
        if not hasattr(view, "__rowset__"):
            raise InvalidInputError(
                f"without() takes the rows as a view, such as ds.query(…), got {shown(view)}"
            )
        if self._history.replay.rows is None:  # of several datasets, the loader knows which
            self._check_own(rowset_of(view).url, "without()")
        return Counterfactual(self._history.replay, self._history.stretches, rowset_of(view))

    def of(self, rows: Any) -> Run:
        """Return the run, replayed from these rows: where its record cannot say which.

        Args:
            rows: The dataset, or the view, mix, packed rows or windows as they were given to
                ``run.torch()``.
        """
        has_views = hasattr(rows, "__view__")
        return Run(self._record, rows if has_views else self._dataset, rows=rows)

    def __repr__(self) -> str:
        ranks = max((one.world_size for one in self._record.segments()), default=1)
        steps = max(self.steps.column("step").to_pylist(), default=-1) + 1
        of = " ".join(filter(None, (repr(self.dataset), self.version)))
        return f"Run {self.name!r} of {of}: {plural(steps, 'step')}" + (
            f" on up to {ranks} ranks" if ranks > 1 else ""
        )

    # For queries

    @property
    def history(self) -> History:
        """The recorded passes."""
        return self._history

    def logged(self, name: str) -> Table:
        """Return the values of rows that were logged under a name, as an Arrow table by row id.

        Raises:
            InvalidInputError: None was.
        """
        nbytes = self._history.nbytes("rows")
        if nbytes > SERVED_NBYTES and not self._history.replay.reaches_out:
            raise QueryLimitError(
                f"run {self.name!r} logged {nbytes:,} bytes of values of rows, and a server reads"
                f" {SERVED_NBYTES:,}\nopen the dataset by the URL of its folder or bucket"
            )
        table = read_tables(self._record, "rows", self._history.timelines)
        if name not in table.column_names:
            known = value_names(table)
            raise InvalidInputError(
                f"run {self.name!r} logged no {name!r} of rows{did_you_mean(name, known)}"
                f"\nlogged were: {', '.join(known) or 'none'}"
            )
        return table

    # Inside

    def _check_own(self, url: str, call: str) -> None:
        """Refuse rows of another dataset than the run is recorded beside.

        Raises:
            InvalidInputError: They are.
        """
        own = None if self._dataset is None else rowset_of(self._dataset).url
        if own is not None and own != url:
            raise InvalidInputError(
                f"run {self.name!r} is recorded beside {own!r}, and {call} got rows of {url!r}"
                "\ngive a view of the run's dataset"
            )

    def _recording(self) -> Recorder:
        if self._recorder is None:
            raise InvalidInputError(
                f"run {self.name!r} is open to be read\nopen it to record: ds.run({self.name!r})"
            )
        return self._recorder

    def _recorded(self, framework: Framework, rows: Any, arguments: dict[str, Any]) -> Loader:
        recorder = self._recording()
        given = self._dataset if rows is None else rows
        if given is None:
            raise InvalidInputError(
                f"run {self.name!r} is in a place without a dataset\nsay what to read:"
                f" run.{framework.replace('numpy', 'loader')}(view, batch_size=…)"
            )
        check_same_dataset(self._dataset, given, self.name)
        loader = cast("CanLoad", given).__loader__(framework, arguments)
        columns = [one.name for one in loader.columns]
        self._sources = sources_of(given)
        if self._sources and arguments.get("columns") is None and ROW not in columns:
            arguments["columns"] = [*columns, ROW]  # what per_row= needs
            loader = cast("CanLoad", given).__loader__(framework, arguments)
        is_staged = reads_staged(given, self.name)
        recorder.watch(loader, framework, arguments, is_staged=is_staged)
        return loader


def _step(step: Any) -> int:
    return checked_integer(step, name="step", least=0)
