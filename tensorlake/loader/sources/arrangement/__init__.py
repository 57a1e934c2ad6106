"""Orders by `weights=`, `stratify=`, `group=`, `limit=`, `repeat=`: of rows, and of units.

    argument ─► a rule and a column ─► one pass over the column ─► sums, or rows sorted by class
             ─► the plan of an epoch, for any place (``plan/arrangement.py``)

The pass reads the column alone, when the order is first needed: before the first batch, or by
``state_dict()`` and ``explain()``, which shows its size. ``len()`` of rows needs none.
"""

from tensorlake.loader.sources.arrangement.arranger import Arranger, class_numbers, values_of
from tensorlake.loader.sources.arrangement.checks import check_arrangement, check_repeat
from tensorlake.loader.sources.arrangement.rows import ArrangedRows, arranged
from tensorlake.loader.sources.arrangement.splice import SplicedRows, advanced, edited, returned

__all__ = [
    "ArrangedRows",
    "Arranger",
    "SplicedRows",
    "advanced",
    "arranged",
    "check_arrangement",
    "check_repeat",
    "class_numbers",
    "edited",
    "returned",
    "values_of",
]
