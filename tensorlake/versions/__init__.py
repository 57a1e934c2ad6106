"""Versions: branches as logs, transactions and their publication, tags."""

from tensorlake.versions.admission.entry import Offer, admitted_entry
from tensorlake.versions.admission.tag import TagOffer, check_tag_admitted
from tensorlake.versions.copy.copy import Copied, copy_dataset
from tensorlake.versions.copy.fork import absorb_bases, base_tagged, fork_dataset, warn_untagged
from tensorlake.versions.log.entries import (
    author,
    authored_by,
    check_text,
    check_writable,
    entry_number,
    fence_of,
    is_expired,
    time_of,
)
from tensorlake.versions.log.findings import Finding
from tensorlake.versions.log.idempotency_keys import CommitKeys
from tensorlake.versions.log.log import (
    BranchLog,
    LostRace,
    list_branches,
    readable_branch_names,
    readable_heads,
)
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.log.state import (
    Published,
    State,
    group_state,
    state_of,
    table_of,
    tensor_state,
)
from tensorlake.versions.maintenance.background import Background
from tensorlake.versions.maintenance.collect import CollectionReport, collect_garbage
from tensorlake.versions.maintenance.expire import ExpiryReport, expire_before, expire_versions
from tensorlake.versions.maintenance.index_edits import dropped_before
from tensorlake.versions.maintenance.optimize import Optimized, TensorOptimized, optimize_branch
from tensorlake.versions.maintenance.plan import small_chunks, stored_chunks
from tensorlake.versions.maintenance.sort import Begun, recluster
from tensorlake.versions.maintenance.tail import COMPACTED_EVERY, compact_in_background
from tensorlake.versions.merge.base import Version, version_at, version_of_base
from tensorlake.versions.merge.conflicts import describe_conflicts, merge_conflict_error
from tensorlake.versions.merge.merge import MergeOutcome, merge_branch
from tensorlake.versions.merge.plan import DisputedCells, DisputedRows, MergePlan, MergeRequest
from tensorlake.versions.merge.planner import plan_merge
from tensorlake.versions.merge.restore import restore_version
from tensorlake.versions.merge.side import Side
from tensorlake.versions.packs.copy import PACKS_AT_ONCE, sizes_of
from tensorlake.versions.packs.reader import Hedging, NearPacks, PackReader, loaded
from tensorlake.versions.reachability import (
    PageKey,
    Reference,
    Unreadable,
    iter_references,
    iter_root_references,
    packs_of,
    packs_of_root,
)
from tensorlake.versions.refs.create import create_dataset, read_descriptor, what_remains
from tensorlake.versions.refs.delete_branch import end_branch
from tensorlake.versions.refs.foreign_objects import foreign_objects, is_dataset, refuse_occupied
from tensorlake.versions.refs.forgotten import CLEANED, forgotten_before
from tensorlake.versions.refs.pins import Pin, pinned
from tensorlake.versions.refs.refs import (
    Resolved,
    Tag,
    check_free_name,
    commit_under,
    create_tag,
    delete_tag,
    list_tags,
    readable_tags,
    refuse_forgotten,
    resolve,
)
from tensorlake.versions.refs.registry import FoundNames, parse_citation
from tensorlake.versions.rows.alignment import (
    Matched,
    SharedRows,
    Shown,
    differing_places,
    match,
    shared_rows,
    subtract,
)
from tensorlake.versions.rows.class_names import codes_in
from tensorlake.versions.rows.conflict_rules import Conflict, find_conflicts
from tensorlake.versions.rows.derived import fresh_rows
from tensorlake.versions.rows.ranges import Ranges, distinct, intersect, ranges_of, rows_in, union
from tensorlake.versions.rows.schema_rules import Misfit, Misfits
from tensorlake.versions.transaction.adoption import StoredRows
from tensorlake.versions.transaction.branch import create_branch
from tensorlake.versions.transaction.commit import (
    CommitRequest,
    move_transaction,
    publish_transaction,
)
from tensorlake.versions.transaction.conflicts import CellsDiffer, OnConflict
from tensorlake.versions.transaction.groups import MergedGroups, extended
from tensorlake.versions.transaction.saved_views import (
    SavedView,
    list_views,
    read_view,
    readable_views,
    save_view,
)
from tensorlake.versions.transaction.transaction import (
    Edit,
    KeyedMove,
    KeyedRows,
    Savepoint,
    Transaction,
)
from tensorlake.versions.verify.check import Checked, check_dataset
from tensorlake.versions.verify.repair import Repair, repair_dataset

__all__ = [
    "CLEANED",
    "COMPACTED_EVERY",
    "PACKS_AT_ONCE",
    "Background",
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
    "DisputedRows",
    "Edit",
    "ExpiryReport",
    "Finding",
    "FoundNames",
    "Hedging",
    "KeyedMove",
    "KeyedRows",
    "LostRace",
    "Matched",
    "MergeOutcome",
    "MergePlan",
    "MergeRequest",
    "MergedGroups",
    "Misfit",
    "Misfits",
    "NearPacks",
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
    "StoredRows",
    "Tag",
    "TagOffer",
    "TensorOptimized",
    "Transaction",
    "Unreadable",
    "Version",
    "absorb_bases",
    "admitted_entry",
    "author",
    "authored_by",
    "base_tagged",
    "check_dataset",
    "check_free_name",
    "check_tag_admitted",
    "check_text",
    "check_writable",
    "codes_in",
    "collect_garbage",
    "commit_under",
    "compact_in_background",
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
    "expire_before",
    "expire_versions",
    "extended",
    "fence_of",
    "find_conflicts",
    "foreign_objects",
    "forgotten_before",
    "fork_dataset",
    "fresh_rows",
    "group_state",
    "intersect",
    "is_dataset",
    "is_expired",
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
    "put_surely",
    "ranges_of",
    "read_descriptor",
    "read_view",
    "readable_branch_names",
    "readable_heads",
    "readable_tags",
    "readable_views",
    "recluster",
    "refuse_forgotten",
    "refuse_occupied",
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
    "tensor_state",
    "time_of",
    "union",
    "version_at",
    "version_of_base",
    "warn_untagged",
    "what_remains",
]
