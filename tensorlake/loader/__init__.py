"""The loader: from a selection to batches on a device.

One idea carries it: the order of an epoch is a pure function of (version, selection, seed, epoch).
From it follow sharding, prefetch, caching and exact resume.
"""

from tensorlake.loader import collate, decode
from tensorlake.loader.loader import Loader
from tensorlake.loader.make import make_loader
from tensorlake.loader.plan import (
    PLAN_VERSION,
    AccessPlan,
    Order,
    PlanKey,
    Shuffle,
    build_access_plan,
    choose_order,
)
from tensorlake.loader.sharding import Sharding, Share, ShortBatchWarning
from tensorlake.loader.state import LoaderState, NewerVersionWarning
from tensorlake.loader.stats import LoaderStats

__all__ = [
    "PLAN_VERSION",
    "AccessPlan",
    "Loader",
    "LoaderState",
    "LoaderStats",
    "NewerVersionWarning",
    "Order",
    "PlanKey",
    "Sharding",
    "Share",
    "ShortBatchWarning",
    "Shuffle",
    "build_access_plan",
    "choose_order",
    "collate",
    "decode",
    "make_loader",
]
