"""Orders by `weights=`, `stratify=`, `group=`, `limit=`, `repeat=`: of rows, and of units.

    argument ─► a rule and a column ─► one pass over the column ─► sums, or rows sorted by class
             ─► the plan of an epoch, for any place (``plan/arrangement.py``)

The pass reads the column alone, when the order is first needed: before the first batch, or by
``state_dict()`` and ``explain()``, which shows its size. ``len()`` of rows needs none.
"""

from tensorlake.loader.sources.arrangement.arranger import Arranger, class_numbers, values_of
from tensorlake.loader.sources.arrangement.checks import check_arrangement, check_repeat
from tensorlake.loader.sources.arrangement.items import (
    Given,
    Items,
    RowItems,
    SpliceKey,
    edits_of,
    rest_of,
)
from tensorlake.loader.sources.arrangement.mix_splice import (
    SPLICED,
    SplicedMixRows,
    advanced,
    returned,
)
from tensorlake.loader.sources.arrangement.rows import ArrangedRows, arranged
from tensorlake.loader.sources.arrangement.splice import SplicedRows

__all__ = [
    "SPLICED",
    "ArrangedRows",
    "Arranger",
    "Given",
    "Items",
    "RowItems",
    "SpliceKey",
    "SplicedMixRows",
    "SplicedRows",
    "advanced",
    "arranged",
    "check_arrangement",
    "check_repeat",
    "class_numbers",
    "edits_of",
    "rest_of",
    "returned",
    "values_of",
]
