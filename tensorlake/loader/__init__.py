"""The loader: from a selection to batches on a device.

One idea carries it: the order of an epoch is a pure function of (version, selection, seed, epoch).
From it follow sharding, prefetch, caching and exact resume.
"""

from tensorlake.loader import collate, decode
from tensorlake.loader.arguments import Framework
from tensorlake.loader.columns import ColumnPlan
from tensorlake.loader.decode import step_from_json
from tensorlake.loader.loader import Loader
from tensorlake.loader.make import make_loader
from tensorlake.loader.measure import Epoch, Sample, measure_epochs
from tensorlake.loader.mix import MixRows, MixSource, check_columns, check_weights
from tensorlake.loader.mix_order import MIX_STOPS, MixOrder, MixStop, Weight
from tensorlake.loader.nulls import NullColumnWarning
from tensorlake.loader.ordered_rows import OrderedRows, SelectedRows
from tensorlake.loader.plan import (
    PLAN_VERSION,
    AccessPlan,
    Order,
    PlanKey,
    Shuffle,
    build_access_plan,
    choose_order,
)
from tensorlake.loader.progress import Progress
from tensorlake.loader.remote import BatchServer
from tensorlake.loader.served import WireConverter, served_loader, written_batches
from tensorlake.loader.sharding import Sharding, Share, ShortBatchWarning
from tensorlake.loader.state import LoaderState, NewerVersionWarning
from tensorlake.loader.stats import LoaderStats
from tensorlake.loader.virtual import VirtualColumn, VirtualValues

__all__ = [
    "MIX_STOPS",
    "PLAN_VERSION",
    "AccessPlan",
    "BatchServer",
    "ColumnPlan",
    "Epoch",
    "Framework",
    "Loader",
    "LoaderState",
    "LoaderStats",
    "MixOrder",
    "MixRows",
    "MixSource",
    "MixStop",
    "NewerVersionWarning",
    "NullColumnWarning",
    "Order",
    "OrderedRows",
    "PlanKey",
    "Progress",
    "Sample",
    "SelectedRows",
    "Sharding",
    "Share",
    "ShortBatchWarning",
    "Shuffle",
    "VirtualColumn",
    "VirtualValues",
    "Weight",
    "WireConverter",
    "build_access_plan",
    "check_columns",
    "check_weights",
    "choose_order",
    "collate",
    "decode",
    "make_loader",
    "measure_epochs",
    "served_loader",
    "step_from_json",
    "written_batches",
]
