"""The loader: from a selection to batches on a device.

One idea carries it: the order of an epoch is a pure function of (version, selection, seed, epoch).
From it follow sharding, prefetch, caching and exact resume.

Public names load on first use: worker processes import a few of these modules, and start in a
quarter of the time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tensorlake.loader import decode
    from tensorlake.loader.caches.planned_cache import PlannedCache
    from tensorlake.loader.config import collate
    from tensorlake.loader.config.arguments import Framework
    from tensorlake.loader.config.arrangement import Arrangement, arrangement_of
    from tensorlake.loader.config.column_plan import HOLE, ColumnPlan
    from tensorlake.loader.config.companions import refuse_left_behind, with_companions
    from tensorlake.loader.config.nulls import NullColumnWarning
    from tensorlake.loader.decode import step_from_json
    from tensorlake.loader.diagnosis import Diagnosis
    from tensorlake.loader.engine.benchmark import Epoch, Sample, measure_epochs
    from tensorlake.loader.engine.composed.axis_windows import AxisWindows
    from tensorlake.loader.engine.composed.mix import ComposedMix
    from tensorlake.loader.engine.composed.packing import Packing
    from tensorlake.loader.engine.composed.part_windows import Grid, PartWindows
    from tensorlake.loader.engine.composed.rows import ComposedRows, Form, ShownOrder
    from tensorlake.loader.engine.composed.window_units import Steps, Tail
    from tensorlake.loader.engine.composed.windows import RowWindows
    from tensorlake.loader.engine.loader import Loader
    from tensorlake.loader.engine.progress import Progress
    from tensorlake.loader.frameworks.listed_rows import ListedBatch, ListedRows
    from tensorlake.loader.frameworks.make import make_loader
    from tensorlake.loader.frameworks.server import WrittenBatches, served_loader
    from tensorlake.loader.frameworks.shared_batches import Member, Sent, SharedStreams
    from tensorlake.loader.frameworks.tensorflow import LoaderDataset, tf_dataset
    from tensorlake.loader.plan.arrangement import ArrangedOrder
    from tensorlake.loader.plan.balance import Balance
    from tensorlake.loader.plan.mix_order import MIX_STOPS, MixOrder, MixStop, Weight
    from tensorlake.loader.plan.order import Order, Shuffle, choose_order
    from tensorlake.loader.plan.plan import AccessPlan, PlanKey, build_access_plan
    from tensorlake.loader.plan.sharding import Sharding, Share, ShortBatchWarning
    from tensorlake.loader.plan.shuffle import PLAN_VERSION
    from tensorlake.loader.plan.splice import Changes, Edit, SplicedOrder
    from tensorlake.loader.plan.state import LoaderState, NewerVersionWarning
    from tensorlake.loader.plan.virtual_columns import VirtualColumn, VirtualValues
    from tensorlake.loader.runtime.batch_slabs import (
        ACKNOWLEDGED,
        SLABS_HEADER,
        Slab,
        slab_address,
    )
    from tensorlake.loader.runtime.shared_slabs import has_shared_memory
    from tensorlake.loader.runtime.stats import LoaderStats
    from tensorlake.loader.sources.arrangement.checks import by_code
    from tensorlake.loader.sources.column_values import column_values, token_column
    from tensorlake.loader.sources.epoch_order import EpochOrder
    from tensorlake.loader.sources.mix import (
        MixNode,
        MixRows,
        MixSource,
        check_columns,
        check_weights,
    )
    from tensorlake.loader.sources.remote import BatchServer
    from tensorlake.loader.sources.rows import OrderedRows, SelectedRows
    from tensorlake.loader.stages.annotations import Annotations

__all__ = [
    "ACKNOWLEDGED",
    "HOLE",
    "MIX_STOPS",
    "PLAN_VERSION",
    "SLABS_HEADER",
    "AccessPlan",
    "Annotations",
    "ArrangedOrder",
    "Arrangement",
    "AxisWindows",
    "Balance",
    "BatchServer",
    "Changes",
    "ColumnPlan",
    "ComposedMix",
    "ComposedRows",
    "Diagnosis",
    "Edit",
    "Epoch",
    "EpochOrder",
    "Form",
    "Framework",
    "Grid",
    "ListedBatch",
    "ListedRows",
    "Loader",
    "LoaderDataset",
    "LoaderState",
    "LoaderStats",
    "Member",
    "MixNode",
    "MixOrder",
    "MixRows",
    "MixSource",
    "MixStop",
    "NewerVersionWarning",
    "NullColumnWarning",
    "Order",
    "OrderedRows",
    "Packing",
    "PartWindows",
    "PlanKey",
    "PlannedCache",
    "Progress",
    "RowWindows",
    "Sample",
    "SelectedRows",
    "Sent",
    "Sharding",
    "Share",
    "SharedStreams",
    "ShortBatchWarning",
    "ShownOrder",
    "Shuffle",
    "Slab",
    "SplicedOrder",
    "Steps",
    "Tail",
    "VirtualColumn",
    "VirtualValues",
    "Weight",
    "WrittenBatches",
    "arrangement_of",
    "build_access_plan",
    "by_code",
    "check_columns",
    "check_weights",
    "choose_order",
    "collate",
    "column_values",
    "decode",
    "has_shared_memory",
    "make_loader",
    "measure_epochs",
    "refuse_left_behind",
    "served_loader",
    "slab_address",
    "step_from_json",
    "tf_dataset",
    "token_column",
    "with_companions",
]

_PLACES: Final = {
    "tensorlake.loader.caches.planned_cache": "PlannedCache",
    "tensorlake.loader.config": "collate",
    "tensorlake.loader.config.arguments": "Framework",
    "tensorlake.loader.config.arrangement": "Arrangement arrangement_of",
    "tensorlake.loader.config.column_plan": "HOLE ColumnPlan",
    "tensorlake.loader.config.companions": "refuse_left_behind with_companions",
    "tensorlake.loader.config.nulls": "NullColumnWarning",
    "tensorlake.loader.decode": "step_from_json",
    "tensorlake.loader.diagnosis": "Diagnosis",
    "tensorlake.loader.engine.benchmark": "Epoch Sample measure_epochs",
    "tensorlake.loader.engine.loader": "Loader",
    "tensorlake.loader.engine.composed.axis_windows": "AxisWindows",
    "tensorlake.loader.engine.composed.mix": "ComposedMix",
    "tensorlake.loader.engine.composed.packing": "Packing",
    "tensorlake.loader.engine.composed.part_windows": "Grid PartWindows",
    "tensorlake.loader.engine.composed.rows": "ComposedRows Form ShownOrder",
    "tensorlake.loader.engine.composed.window_units": "Steps Tail",
    "tensorlake.loader.engine.composed.windows": "RowWindows",
    "tensorlake.loader.engine.progress": "Progress",
    "tensorlake.loader.frameworks.make": "make_loader",
    "tensorlake.loader.frameworks.listed_rows": "ListedBatch ListedRows",
    "tensorlake.loader.frameworks.server": "WrittenBatches served_loader",
    "tensorlake.loader.frameworks.shared_batches": "Member Sent SharedStreams",
    "tensorlake.loader.frameworks.tensorflow": "LoaderDataset tf_dataset",
    "tensorlake.loader.plan.arrangement": "ArrangedOrder",
    "tensorlake.loader.plan.mix_order": "MIX_STOPS MixOrder MixStop Weight",
    "tensorlake.loader.plan.order": "Order Shuffle choose_order",
    "tensorlake.loader.plan.plan": "AccessPlan PlanKey build_access_plan",
    "tensorlake.loader.plan.sharding": "Sharding Share ShortBatchWarning",
    "tensorlake.loader.plan.shuffle": "PLAN_VERSION",
    "tensorlake.loader.plan.splice": "Changes Edit SplicedOrder",
    "tensorlake.loader.plan.state": "LoaderState NewerVersionWarning",
    "tensorlake.loader.plan.balance": "Balance",
    "tensorlake.loader.plan.virtual_columns": "VirtualColumn VirtualValues",
    "tensorlake.loader.runtime.batch_slabs": "ACKNOWLEDGED SLABS_HEADER Slab slab_address",
    "tensorlake.loader.runtime.shared_slabs": "has_shared_memory",
    "tensorlake.loader.runtime.stats": "LoaderStats",
    "tensorlake.loader.sources.epoch_order": "EpochOrder",
    "tensorlake.loader.sources.arrangement.checks": "by_code",
    "tensorlake.loader.sources.column_values": "column_values token_column",
    "tensorlake.loader.sources.mix": "MixNode MixRows MixSource check_columns check_weights",
    "tensorlake.loader.sources.remote": "BatchServer",
    "tensorlake.loader.sources.rows": "OrderedRows SelectedRows",
    "tensorlake.loader.stages.annotations": "Annotations",
}
"""The public names of each module."""

_HOMES: Final = {name: home for home, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "decode":
        value = import_module("tensorlake.loader.decode")
    elif name in _HOMES:
        home = import_module(_HOMES[name])
        value = getattr(home, name, None) or import_module(f"{home.__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
