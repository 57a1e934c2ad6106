"""The loader: from a selection to batches on a device.

One idea carries it: the order of an epoch is a pure function of (version, selection, seed, epoch).
From it follow sharding, prefetch, caching and exact resume.
"""

from tensorlake.loader import decode
from tensorlake.loader.config import collate
from tensorlake.loader.config.arguments import Framework
from tensorlake.loader.config.batch_schema import ColumnPlan
from tensorlake.loader.config.nulls import NullColumnWarning
from tensorlake.loader.decode import step_from_json
from tensorlake.loader.engine.benchmark import Epoch, Sample, measure_epochs
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.engine.progress import Progress
from tensorlake.loader.frameworks.make import make_loader
from tensorlake.loader.frameworks.server import served_loader, written_batches
from tensorlake.loader.plan.mix_order import MIX_STOPS, MixOrder, MixStop, Weight
from tensorlake.loader.plan.order import Order, Shuffle, choose_order
from tensorlake.loader.plan.plan import AccessPlan, PlanKey, build_access_plan
from tensorlake.loader.plan.sharding import Sharding, Share, ShortBatchWarning
from tensorlake.loader.plan.shuffle import PLAN_VERSION
from tensorlake.loader.plan.state import LoaderState, NewerVersionWarning
from tensorlake.loader.plan.virtual_columns import VirtualColumn, VirtualValues
from tensorlake.loader.runtime.stats import LoaderStats
from tensorlake.loader.sources.mix import MixRows, MixSource, check_columns, check_weights
from tensorlake.loader.sources.remote import BatchServer
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows

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
