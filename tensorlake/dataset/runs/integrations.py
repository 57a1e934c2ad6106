"""Runs in other tools: callbacks of trainers, CSV files, and event files of TensorBoard.

Trainers ask for batches one ahead, so callbacks count the step that a metric is of. A scalar that a
step did not log is an empty cell of the CSV file, and no point in TensorBoard. One that is not a
number is ``nan`` in both, an infinity ``inf`` or ``-inf``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tensorlake.dataset.runs.tables import EVENT_COLUMNS, Table
from tensorlake.errors import InvalidInputError, MissingExtraError, missing_extra
from tensorlake.quantities import is_whole_number

__all__ = ["lightning_callback", "trainer_callback", "write_csv", "write_events"]

Log = Callable[[dict[str, float], int], None]
"""Logs scalars of a step, counted from 0 in this process."""


def lightning_callback(log: Log) -> Any:
    """Return a Lightning ``Callback`` that logs ``trainer.callback_metrics`` of each batch.

    Raises:
        MissingExtraError: Lightning is not installed.
    """
    callback = _lightning().Callback

    class RunCallback(callback):
        """Logs the metrics of a module to a run."""

        def __init__(self) -> None:
            super().__init__()
            self.steps = 0

        def on_train_batch_end(self, trainer: Any, *_given: Any) -> None:
            """Log what the module has logged."""
            log(_scalars(trainer.callback_metrics), self.steps)
            self.steps += 1

    return RunCallback()


LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""Both packages are in use, and each has a ``Callback`` of its own."""


def _lightning() -> Any:
    """Return the package that the program has imported, else one that is installed.

    Raises:
        MissingExtraError: Neither is.
    """
    for name in sorted(LIGHTNING, key=lambda one: one not in sys.modules):
        with suppress(ModuleNotFoundError):
            return import_module(name)
    raise _missing("run.lightning_callback()", "lightning")


def trainer_callback(log: Log) -> Any:
    """Return a ``transformers.TrainerCallback`` that logs what the trainer logs.

    Raises:
        MissingExtraError: transformers is not installed.
    """
    try:
        from transformers import TrainerCallback  # pyright: ignore[reportMissingImports] - only trainers have it
    except ImportError as error:
        raise _missing("run.trainer_callback()", "transformers") from error

    class RunCallback(TrainerCallback):  # pyright: ignore[reportUntypedBaseClass] - it may not be installed
        """Logs the metrics of a trainer to a run."""

        def __init__(self) -> None:
            self.steps = 0

        def on_substep_end(self, *_given: Any, **_named: Any) -> None:
            """Count a batch whose gradients are accumulated."""
            self.steps += 1

        def on_step_end(self, *_given: Any, **_named: Any) -> None:
            """Count the batch of a step."""
            self.steps += 1

        def on_log(
            self, *_given: Any, logs: Mapping[str, Any] | None = None, **_named: Any
        ) -> None:
            """Log the metrics of the step that ended."""
            if logs is not None and self.steps:
                log(_scalars(logs), self.steps - 1)

    return RunCallback()


def _scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are numbers."""
    found: dict[str, float] = {}
    for given, value in metrics.items():
        name = f"trainer/{given}" if given in EVENT_COLUMNS.names else given  # such as its epoch
        if is_whole_number(value) or isinstance(value, float) or getattr(value, "ndim", None) == 0:
            found[name] = float(value)
    return found


def _missing(call: str, package: str) -> MissingExtraError:
    return MissingExtraError(f"{call} needs {package}: pip install {package}", extra=package)


HIDDEN = frozenset(("step", "steps", "time", "rank", "position"))
"""Columns of each step that TensorBoard does not show as scalars."""


def write_csv(steps: Table, path: str | PathLike[str]) -> None:
    """Write the steps as a CSV file.

    Raises:
        InvalidInputError: The folder does not exist.
    """
    from pyarrow import csv

    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInputError(
            f"to_csv(): folder {str(target.parent)!r} not found\nmake it first", actual=str(path)
        )
    if target.is_dir():
        raise InvalidInputError(
            f"to_csv(): {str(target)!r} is a folder\nname a file in it, such as"
            f" {str(target / 'steps.csv')!r}",
            actual=str(path),
        )
    csv.write_csv(steps, str(target))


def write_events(
    name: str, config: Mapping[str, Any], steps: Table, log_dir: str | PathLike[str]
) -> Path:
    """Write the steps as event files that TensorBoard reads; a second call replaces them.

    Args:
        name: Folder in ``log_dir``, which TensorBoard shows as a run.
        config: The run's config, for the table of hyperparameters.
        steps: Its steps. Several ranks have a folder each: ``<name>/rank-<rank>``.
        log_dir: The folder that TensorBoard is started with.

    Raises:
        InvalidInputError: ``log_dir`` is not a folder.
        MissingExtraError: ``tensorboard`` is not installed.
    """
    writer, protos, hyperparameters = _tensorboard()
    folder = Path(log_dir) / name
    ranks: list[int] = np.unique(steps.column("rank").to_numpy()).tolist()
    for rank in ranks or [0]:
        own = steps.filter(np.asarray(steps.column("rank")) == rank)
        place = folder / f"rank-{rank}" if len(ranks) > 1 else folder
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(
                f"to_tensorboard(): cannot make folder {str(place)!r}: {error.strerror}"
                "\ngive a folder that can be written",
                actual=str(log_dir),
            ) from error
        target = place / EVENT_FILE
        scratch = target.with_name(f".events.{os.getpid()}")  # a name that TensorBoard skips
        with scratch.open("wb") as file:
            records = writer(file)
            records.write(protos.Event(file_version="brain.Event:2").SerializeToString())
            if config and rank == (ranks or [0])[0]:
                known = {key: _hyperparameter(value) for key, value in config.items()}
                shown = hyperparameters(known, trial_id=name)
                records.write(protos.Event(step=0, summary=shown).SerializeToString())
            for event in _events(own, protos):
                records.write(event.SerializeToString())
            records.flush()
        scratch.replace(target)
    return folder


EVENT_FILE = "events.out.tfevents.tensorlake"
"""Always the same, so that a later export replaces the file."""


def _events(steps: Table, protos: Any) -> Iterator[Any]:
    """Make an event of each step, with the values that it has."""
    names = [name for name in steps.column_names if name not in HIDDEN]
    columns = [steps.column(name).to_pylist() for name in names]
    times = zip(steps.column("step").to_pylist(), steps.column("time").to_pylist(), strict=True)
    for (step, time), *values in zip(times, *columns, strict=True):
        logged = [
            protos.Summary.Value(tag=name, simple_value=value)
            for name, value in zip(names, values, strict=True)
            if value is not None
        ]
        yield protos.Event(step=step, wall_time=time, summary=protos.Summary(value=logged))


def _hyperparameter(value: Any) -> bool | float | str:
    """Return a value of a config as TensorBoard's table shows it: a number, or text."""
    return value if isinstance(value, bool | int | float | str) else json.dumps(value)


def _tensorboard() -> tuple[Any, Any, Any]:
    """Return TensorBoard's writer of records, its messages, and its message of a config.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.record_writer import (
            RecordWriter,
        )
    except ImportError as error:
        raise missing_extra("run.to_tensorboard()", "tensorboard") from error
    events: Any = event_pb2  # their classes are made at import, unseen by type checkers
    summaries: Any = summary_pb2
    return (
        RecordWriter,
        SimpleNamespace(Event=events.Event, Summary=summaries.Summary),
        hparams_pb,
    )
