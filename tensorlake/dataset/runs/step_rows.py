"""What a record says of a step and of a row: which rows a batch had, and which steps had a row.

Both are computed from the order of the run. Where the record does not say the order, as of a mix or
of packed rows, they are what values were logged of, and ``missing`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tensorlake.dataset.runs.timeline import Stretch

__all__ = ["SeenRow", "StepRows"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """The batch of a step, as rows of a version.

    Attributes:
        rows: Their numbers, int64, in the order of the batch; −1 of rows that it does not show.
        version: The version that was read.
        stretch: The pass that the step belongs to.
        missing: Why the record does not say which rows the batch had, so that these are the rows
            that values were logged of; empty where they are the batch.
    """

    rows: Int64Array
    version: str
    stretch: Stretch
    missing: str = ""


@dataclass(frozen=True, slots=True)
class SeenRow:
    """When a run read a row.

    Attributes:
        steps: The steps whose batches had the row, ascending.
        values: By name, what was logged of it at each of these steps, the last where it was twice
            in a batch; None where nothing was.
        missing: Why the record does not say which steps had the row, so that these are the steps
            at which values of it were logged; empty where they are all.
    """

    steps: list[int]
    values: dict[str, list[float | None]]
    missing: str = ""
