"""The façade: what users hold."""

from tensorlake.dataset.checking import check_url
from tensorlake.dataset.commit_log import Log
from tensorlake.dataset.confined import (
    QueryLimits,
    complete_inside,
    explain_inside,
    found_inside,
    insert_inside,
    note_condition,
    query_inside,
    replay_inside,
    saved_inside,
    serve_loader,
)
from tensorlake.dataset.copying import copy
from tensorlake.dataset.dataset import Dataset
from tensorlake.dataset.group import Group
from tensorlake.dataset.history import Commit, Diff, Updated
from tensorlake.dataset.merging import MergeConflict, MergeReport
from tensorlake.dataset.open import (
    create,
    delete,
    exists,
    has_remains,
    list_datasets,
    open_dataset,
)
from tensorlake.dataset.predicate import Predicate
from tensorlake.dataset.query_warnings import (
    EmptySideWarning,
    QueryWarning,
    RunsHereWarning,
    SkippedRowsWarning,
    SlowFilterWarning,
)
from tensorlake.dataset.row import Row
from tensorlake.dataset.schema_inference import infer_schema
from tensorlake.dataset.session import UncommittedChangesWarning
from tensorlake.dataset.showing import check_server_is_installed, check_viewer_is_built
from tensorlake.dataset.tensor import Tensor
from tensorlake.dataset.user_functions import udf
from tensorlake.dataset.versioning import DamagedBranchWarning, DamagedTagWarning
from tensorlake.dataset.view import View
from tensorlake.dataset.working import Work, begin_work
from tensorlake.storage import WrongClockWarning

__all__ = [
    "Commit",
    "DamagedBranchWarning",
    "DamagedTagWarning",
    "Dataset",
    "Diff",
    "EmptySideWarning",
    "Group",
    "Log",
    "MergeConflict",
    "MergeReport",
    "Predicate",
    "QueryLimits",
    "QueryWarning",
    "Row",
    "RunsHereWarning",
    "SkippedRowsWarning",
    "SlowFilterWarning",
    "Tensor",
    "UncommittedChangesWarning",
    "Updated",
    "View",
    "Work",
    "WrongClockWarning",
    "begin_work",
    "check_server_is_installed",
    "check_url",
    "check_viewer_is_built",
    "complete_inside",
    "copy",
    "create",
    "delete",
    "exists",
    "explain_inside",
    "found_inside",
    "has_remains",
    "infer_schema",
    "insert_inside",
    "list_datasets",
    "note_condition",
    "open_dataset",
    "query_inside",
    "replay_inside",
    "saved_inside",
    "serve_loader",
    "udf",
]
