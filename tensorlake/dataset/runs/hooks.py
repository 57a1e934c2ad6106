"""Callbacks of trainers that log their metrics to a run.

Trainers ask for batches one ahead, so the step that a metric is of is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorlake.dataset.runs.tables import EVENT_COLUMNS
from tensorlake.errors import MissingExtraError
from tensorlake.quantities import is_whole_number

__all__ = ["lightning_callback", "trainer_callback"]

Log = Callable[[dict[str, float], int], None]
"""Logs scalars of a step, counted from 0 in this process."""


def lightning_callback(log: Log) -> Any:
    """Return a ``lightning.Callback`` that logs ``trainer.callback_metrics`` of each batch.

    Raises:
        MissingExtraError: Lightning is not installed.
    """
    try:
        from lightning.pytorch import Callback  # pyright: ignore[reportMissingImports] - only trainers have it
    except ImportError as error:
        raise _missing("run.lightning_callback()", "lightning") from error

    class RunCallback(Callback):  # pyright: ignore[reportUntypedBaseClass] - it may not be installed
        """Logs the metrics of a module to a run."""

        def __init__(self) -> None:
            super().__init__()
            self.steps = 0

        def on_train_batch_end(self, trainer: Any, *_given: Any) -> None:
            """Log what the module has logged."""
            log(_scalars(trainer.callback_metrics), self.steps)
            self.steps += 1

    return RunCallback()


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
