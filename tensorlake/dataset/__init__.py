"""The façade: what users hold."""

from tensorlake.dataset.columns.model import Model
from tensorlake.dataset.core.buffers import MemoryBlocks
from tensorlake.dataset.core.connect import (
    Found,
    delete,
    exists,
    has_remains,
    left_by_deletion,
    list_datasets,
    walk_lake,
)
from tensorlake.dataset.core.progress import Progress
from tensorlake.dataset.core.rowset import RowSet, everything, rowset_of, session_of
from tensorlake.dataset.display.signatures import with_options
from tensorlake.dataset.display.viewer import check_server_is_installed, check_viewer_is_built
from tensorlake.dataset.export.arrays.layout import TYPE_ATTRIBUTE
from tensorlake.dataset.export.buckets import check_whole
from tensorlake.dataset.export.destinations import TYPES_FILES
from tensorlake.dataset.export.files import leads_outside
from tensorlake.dataset.export.headers import stage_header
from tensorlake.dataset.export.lerobot import (
    EpisodeSteps,
    FeatureColumn,
    FeatureStatistics,
    episode_steps,
    pixel_sample,
)
from tensorlake.dataset.export.plug_ins import FILE_FORMATS, export_formats
from tensorlake.dataset.export.records.litdata import LITDATA_DTYPES
from tensorlake.dataset.export.records.tfrecord import SHAPE_FEATURE, masked_crc
from tensorlake.dataset.handles.dataset import Dataset, Diff, Updated, View
from tensorlake.dataset.handles.open import create, fork, open_dataset
from tensorlake.dataset.handles.row import Group, Row
from tensorlake.dataset.handles.tensor import Tensor
from tensorlake.dataset.history.commit import Commit
from tensorlake.dataset.history.ingest_report import IngestReport, SkippedItem
from tensorlake.dataset.history.log import Log
from tensorlake.dataset.history.merge import (
    Disputed,
    MergeConflict,
    MergeReport,
    list_disputed,
)
from tensorlake.dataset.history.merge import merge as merge_decided
from tensorlake.dataset.maintenance.check import check_url
from tensorlake.dataset.maintenance.copy import copy
from tensorlake.dataset.maintenance.fork import own_nbytes
from tensorlake.dataset.quality.duplicates import duplicates_of
from tensorlake.dataset.quality.label_issues import label_issues_of
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.udf import udf
from tensorlake.dataset.remote.group_commit import Member, MemberOutcome, commit_members
from tensorlake.dataset.remote.sandbox import (
    QueryLimits,
    complete_inside,
    copy_inside,
    explain_inside,
    export_inside,
    found_inside,
    insert_inside,
    note_condition,
    query_inside,
    replay_inside,
    runs_inside,
    saved_inside,
    search_inside,
    seen_inside,
    serve_loader,
    step_inside,
)
from tensorlake.dataset.remote.work_key import WorkKey
from tensorlake.dataset.remote.write_session import Work, begin_work
from tensorlake.dataset.runs.timeline import SeenRow, StepRows
from tensorlake.dataset.sync.classes import class_codes, class_keys
from tensorlake.dataset.sync.comparison import Action, Comparison, Listing
from tensorlake.dataset.sync.digests import update_digest
from tensorlake.dataset.sync.ledger import Entries, KnownSource, Ledger, stamp_of
from tensorlake.dataset.sync.new_items import NewItems, NewRows
from tensorlake.dataset.sync.preview import RowsPreview
from tensorlake.dataset.sync.rows import OnConflict, Rows
from tensorlake.dataset.transform.loader_options import DEFAULTS as LOADER_DEFAULTS
from tensorlake.dataset.transform.loader_options import LoaderOptions
from tensorlake.dataset.transform.map.actors import Actors, Job, actors_of, sendable
from tensorlake.dataset.transform.map.resources import (
    Needs,
    check_installed,
    refuse_memory,
    workers_on,
)
from tensorlake.dataset.write.arrow.tables import as_table
from tensorlake.dataset.write.arrow.types import huggingface_features, infer_types
from tensorlake.dataset.write.arrow.values import (
    Lists,
    given_sample,
    holds_lists,
    lists_of,
    values_of,
)
from tensorlake.dataset.write.by_row_id import converted_rows, next_row_ids, row_ids_of
from tensorlake.dataset.write.file_names import (
    COMPRESSED,
    EMPTY_ROW,
    IMAGE_ENDINGS,
    SCHEMA_KEYWORD,
    SHAPES,
    VALUES,
    codec_of_files,
    common_codec,
    split_member,
)
from tensorlake.dataset.write.infer_schema import (
    image_type,
    infer_schema,
    is_float,
    type_of_column,
)
from tensorlake.dataset.write.schema import change_names
from tensorlake.dataset.write.staging import extend as extend_rows

__all__ = [
    "COMPRESSED",
    "EMPTY_ROW",
    "FILE_FORMATS",
    "IMAGE_ENDINGS",
    "LITDATA_DTYPES",
    "LOADER_DEFAULTS",
    "SCHEMA_KEYWORD",
    "SHAPES",
    "SHAPE_FEATURE",
    "TYPES_FILES",
    "TYPE_ATTRIBUTE",
    "VALUES",
    "Action",
    "Actors",
    "Commit",
    "Comparison",
    "Dataset",
    "Diff",
    "Disputed",
    "Entries",
    "EpisodeSteps",
    "FeatureColumn",
    "FeatureStatistics",
    "Found",
    "Group",
    "IngestReport",
    "Job",
    "KnownSource",
    "Ledger",
    "Listing",
    "Lists",
    "LoaderOptions",
    "Log",
    "Member",
    "MemberOutcome",
    "MemoryBlocks",
    "MergeConflict",
    "MergeReport",
    "Model",
    "Needs",
    "NewItems",
    "NewRows",
    "OnConflict",
    "Predicate",
    "Progress",
    "QueryLimits",
    "Row",
    "RowSet",
    "Rows",
    "RowsPreview",
    "SeenRow",
    "SkippedItem",
    "StepRows",
    "Tensor",
    "Updated",
    "View",
    "Work",
    "WorkKey",
    "actors_of",
    "as_table",
    "begin_work",
    "change_names",
    "check_installed",
    "check_server_is_installed",
    "check_url",
    "check_viewer_is_built",
    "check_whole",
    "class_codes",
    "class_keys",
    "codec_of_files",
    "commit_members",
    "common_codec",
    "complete_inside",
    "converted_rows",
    "copy",
    "copy_inside",
    "create",
    "delete",
    "duplicates_of",
    "episode_steps",
    "everything",
    "exists",
    "explain_inside",
    "export_formats",
    "export_inside",
    "extend_rows",
    "fork",
    "found_inside",
    "given_sample",
    "has_remains",
    "holds_lists",
    "huggingface_features",
    "image_type",
    "infer_schema",
    "infer_types",
    "insert_inside",
    "is_float",
    "label_issues_of",
    "leads_outside",
    "left_by_deletion",
    "list_datasets",
    "list_disputed",
    "lists_of",
    "masked_crc",
    "merge_decided",
    "next_row_ids",
    "note_condition",
    "open_dataset",
    "own_nbytes",
    "pixel_sample",
    "query_inside",
    "refuse_memory",
    "replay_inside",
    "row_ids_of",
    "rowset_of",
    "runs_inside",
    "saved_inside",
    "search_inside",
    "seen_inside",
    "sendable",
    "serve_loader",
    "session_of",
    "split_member",
    "stage_header",
    "stamp_of",
    "step_inside",
    "type_of_column",
    "udf",
    "update_digest",
    "values_of",
    "walk_lake",
    "with_options",
    "workers_on",
]
