"""The façade: what users hold."""

from tensorlake.dataset.arrow_tables import as_table
from tensorlake.dataset.arrow_types import given_sample, infer_types, values_of
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
from tensorlake.dataset.connect import delete, exists, has_remains, list_datasets
from tensorlake.dataset.copying import copy
from tensorlake.dataset.dataset import Dataset, Diff, Updated, View
from tensorlake.dataset.file_layouts import (
    COMPRESSED,
    EMPTY_ROW,
    SCHEMA_KEYWORD,
    SHAPES,
    VALUES,
    split_member,
)
from tensorlake.dataset.history import Commit
from tensorlake.dataset.image_endings import PICTURE_ENDINGS, codec_of_files
from tensorlake.dataset.ingest_report import IngestReport, SkippedItem
from tensorlake.dataset.memory_blocks import MemoryBlocks
from tensorlake.dataset.merging import MergeConflict, MergeReport
from tensorlake.dataset.open import create, open_dataset
from tensorlake.dataset.predicate import Predicate
from tensorlake.dataset.progress import Progress
from tensorlake.dataset.query_warnings import (
    EmptySideWarning,
    QueryWarning,
    RunsHereWarning,
    SkippedRowsWarning,
    SlowFilterWarning,
)
from tensorlake.dataset.row import Group, Row
from tensorlake.dataset.rowset import RowSet, rowset_of, session_of
from tensorlake.dataset.schema_changes import change_names
from tensorlake.dataset.schema_inference import infer_schema, is_float, picture_type, type_of_column
from tensorlake.dataset.session import UncommittedChangesWarning
from tensorlake.dataset.showing import check_server_is_installed, check_viewer_is_built
from tensorlake.dataset.tensor import Tensor
from tensorlake.dataset.user_functions import udf
from tensorlake.dataset.versioning import DamagedBranchWarning, DamagedTagWarning
from tensorlake.dataset.working import Work, begin_work
from tensorlake.storage import WrongClockWarning

__all__ = [
    "COMPRESSED",
    "EMPTY_ROW",
    "PICTURE_ENDINGS",
    "SCHEMA_KEYWORD",
    "SHAPES",
    "VALUES",
    "Commit",
    "DamagedBranchWarning",
    "DamagedTagWarning",
    "Dataset",
    "Diff",
    "EmptySideWarning",
    "Group",
    "IngestReport",
    "Log",
    "MemoryBlocks",
    "MergeConflict",
    "MergeReport",
    "Predicate",
    "Progress",
    "QueryLimits",
    "QueryWarning",
    "Row",
    "RowSet",
    "RunsHereWarning",
    "SkippedItem",
    "SkippedRowsWarning",
    "SlowFilterWarning",
    "Tensor",
    "UncommittedChangesWarning",
    "Updated",
    "View",
    "Work",
    "WrongClockWarning",
    "as_table",
    "begin_work",
    "change_names",
    "check_server_is_installed",
    "check_url",
    "check_viewer_is_built",
    "codec_of_files",
    "complete_inside",
    "copy",
    "create",
    "delete",
    "exists",
    "explain_inside",
    "found_inside",
    "given_sample",
    "has_remains",
    "infer_schema",
    "infer_types",
    "insert_inside",
    "is_float",
    "list_datasets",
    "note_condition",
    "open_dataset",
    "picture_type",
    "query_inside",
    "replay_inside",
    "rowset_of",
    "saved_inside",
    "serve_loader",
    "session_of",
    "split_member",
    "type_of_column",
    "udf",
    "values_of",
]
