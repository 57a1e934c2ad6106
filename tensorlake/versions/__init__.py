"""Versions: branches as logs, transactions and how they are published, tags."""

from tensorlake.versions.admission import Offer, admitted_entry
from tensorlake.versions.axes import (
    Matched,
    SharedRows,
    Shown,
    differing_places,
    match,
    shared_rows,
    subtract,
)
from tensorlake.versions.bases import Version, version_at
from tensorlake.versions.branching import create_branch
from tensorlake.versions.check import Checked, check_dataset
from tensorlake.versions.citations import FoundNames, parse_citation
from tensorlake.versions.class_names import codes_in
from tensorlake.versions.collect import CollectionReport, collect_garbage
from tensorlake.versions.combine import Conflict, find_conflicts
from tensorlake.versions.commit import CommitRequest, move_transaction, publish_transaction
from tensorlake.versions.compaction import small_chunks, stored_chunks
from tensorlake.versions.contest import CellsDiffer, OnConflict
from tensorlake.versions.copy import Copied, copy_dataset
from tensorlake.versions.creation import create_dataset, read_descriptor, what_remains
from tensorlake.versions.ending import end_branch
from tensorlake.versions.entries import (
    author,
    authored_by,
    check_writable,
    entry_number,
    fence_of,
    time_of,
)
from tensorlake.versions.expire import ExpiryReport, expire_versions
from tensorlake.versions.findings import Finding
from tensorlake.versions.keys import CommitKeys
from tensorlake.versions.log import (
    BranchLog,
    LostRace,
    list_branches,
    readable_branch_names,
    readable_heads,
)
from tensorlake.versions.merge import MergeOutcome, merge_branch
from tensorlake.versions.merge_conflicts import describe_conflicts, merge_conflict_error
from tensorlake.versions.merge_plan import DisputedCells, MergePlan, MergeRequest
from tensorlake.versions.merge_planner import plan_merge
from tensorlake.versions.optimize import Optimized, TensorOptimized, optimize_branch
from tensorlake.versions.pack_copy import PACKS_AT_ONCE, sizes_of
from tensorlake.versions.packs import PackReader, loaded
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
    check_free_name,
    commit_under,
    create_tag,
    delete_tag,
    list_tags,
    readable_tags,
    resolve,
)
from tensorlake.versions.repair import Repair, repair_dataset
from tensorlake.versions.restore import restore_version
from tensorlake.versions.rounds import dropped_before
from tensorlake.versions.saved_views import (
    SavedView,
    list_views,
    read_view,
    readable_views,
    save_view,
)
from tensorlake.versions.sides import Side
from tensorlake.versions.state import Published, State, state_of, table_of
from tensorlake.versions.tag_admission import TagOffer, check_tag_admitted
from tensorlake.versions.texts import check_text
from tensorlake.versions.transaction import (
    Edit,
    KeyedMove,
    KeyedRows,
    Savepoint,
    Transaction,
)

__all__ = [
    "PACKS_AT_ONCE",
    "Begun",
    "BranchLog",
    "CellsDiffer",
    "Checked",
    "CollectionReport",
    "CommitKeys",
    "CommitRequest",
    "Conflict",
    "Copied",
    "DisputedCells",
    "Edit",
    "ExpiryReport",
    "Finding",
    "FoundNames",
    "KeyedMove",
    "KeyedRows",
    "LostRace",
    "Matched",
    "MergeOutcome",
    "MergePlan",
    "MergeRequest",
    "Offer",
    "OnConflict",
    "Optimized",
    "PackReader",
    "PageKey",
    "Pin",
    "Published",
    "Ranges",
    "Reference",
    "Repair",
    "Resolved",
    "SavedView",
    "Savepoint",
    "SharedRows",
    "Shown",
    "Side",
    "State",
    "Tag",
    "TagOffer",
    "TensorOptimized",
    "Transaction",
    "Unreadable",
    "Version",
    "admitted_entry",
    "author",
    "authored_by",
    "check_dataset",
    "check_free_name",
    "check_tag_admitted",
    "check_text",
    "check_writable",
    "codes_in",
    "collect_garbage",
    "commit_under",
    "copy_dataset",
    "create_branch",
    "create_dataset",
    "create_tag",
    "delete_tag",
    "describe_conflicts",
    "differing_places",
    "distinct",
    "dropped_before",
    "end_branch",
    "entry_number",
    "expire_versions",
    "fence_of",
    "find_conflicts",
    "iter_references",
    "iter_root_references",
    "list_branches",
    "list_tags",
    "list_views",
    "loaded",
    "match",
    "merge_branch",
    "merge_conflict_error",
    "move_transaction",
    "optimize_branch",
    "packs_of",
    "packs_of_root",
    "parse_citation",
    "pinned",
    "plan_merge",
    "publish_transaction",
    "ranges_of",
    "read_descriptor",
    "read_view",
    "readable_branch_names",
    "readable_heads",
    "readable_tags",
    "readable_views",
    "recluster",
    "repair_dataset",
    "resolve",
    "restore_version",
    "rows_in",
    "save_view",
    "shared_rows",
    "sizes_of",
    "small_chunks",
    "state_of",
    "stored_chunks",
    "subtract",
    "table_of",
    "time_of",
    "version_at",
    "what_remains",
]
