"""Versions: branches as logs, transactions and how they are published, tags."""

from tensorlake.versions.bases import Version, version_at
from tensorlake.versions.branching import create_branch
from tensorlake.versions.collect import CollectionReport, collect_garbage
from tensorlake.versions.combine import Conflict, find_conflicts
from tensorlake.versions.commit import (
    CommitRequest,
    Published,
    loaded,
    move_transaction,
    publish_transaction,
)
from tensorlake.versions.contest import CellsDiffer
from tensorlake.versions.creation import create_dataset, read_descriptor
from tensorlake.versions.ending import end_branch
from tensorlake.versions.entries import check_writable, fence_of, time_of
from tensorlake.versions.expire import ExpiryReport, expire_versions
from tensorlake.versions.keys import CommitKeys
from tensorlake.versions.log import BranchLog, LostRace, list_branches
from tensorlake.versions.merge import MergeOutcome, merge_branch
from tensorlake.versions.merge_conflicts import describe_conflicts, merge_conflict_error
from tensorlake.versions.merge_plan import DisputedCells, MergePlan, MergeRequest, plan_merge
from tensorlake.versions.optimize import Optimized, TensorOptimized, optimize_branch
from tensorlake.versions.packs import PackReader
from tensorlake.versions.pins import Pin, pinned
from tensorlake.versions.ranges import Ranges, distinct, ranges_of, rows_in
from tensorlake.versions.recluster import Begun, recluster
from tensorlake.versions.references import (
    PageKey,
    Reference,
    Unreadable,
    iter_references,
    iter_root_references,
    packs_of,
    packs_of_root,
)
from tensorlake.versions.refs import (
    Resolved,
    Tag,
    commit_under,
    create_tag,
    delete_tag,
    list_tags,
    resolve,
)
from tensorlake.versions.restore import restore_version
from tensorlake.versions.saved_views import SavedView, list_views, read_view, save_view
from tensorlake.versions.schema_combine import OnConflict
from tensorlake.versions.sides import Side
from tensorlake.versions.state import State, state_of, table_of
from tensorlake.versions.transaction import Edit, Savepoint, Transaction

__all__ = [
    "Begun",
    "BranchLog",
    "CellsDiffer",
    "CollectionReport",
    "CommitKeys",
    "CommitRequest",
    "Conflict",
    "DisputedCells",
    "Edit",
    "ExpiryReport",
    "LostRace",
    "MergeOutcome",
    "MergePlan",
    "MergeRequest",
    "OnConflict",
    "Optimized",
    "PackReader",
    "PageKey",
    "Pin",
    "Published",
    "Ranges",
    "Reference",
    "Resolved",
    "SavedView",
    "Savepoint",
    "Side",
    "State",
    "Tag",
    "TensorOptimized",
    "Transaction",
    "Unreadable",
    "Version",
    "check_writable",
    "collect_garbage",
    "commit_under",
    "create_branch",
    "create_dataset",
    "create_tag",
    "delete_tag",
    "describe_conflicts",
    "distinct",
    "end_branch",
    "expire_versions",
    "fence_of",
    "find_conflicts",
    "iter_references",
    "iter_root_references",
    "list_branches",
    "list_tags",
    "list_views",
    "loaded",
    "merge_branch",
    "merge_conflict_error",
    "move_transaction",
    "optimize_branch",
    "packs_of",
    "packs_of_root",
    "pinned",
    "plan_merge",
    "publish_transaction",
    "ranges_of",
    "read_descriptor",
    "read_view",
    "recluster",
    "resolve",
    "restore_version",
    "rows_in",
    "save_view",
    "state_of",
    "table_of",
    "time_of",
    "version_at",
]
