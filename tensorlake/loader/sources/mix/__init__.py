"""Mixes: rows of several sources in one order, each with a weight and epochs of its own."""

from tensorlake.loader.sources.mix.checks import check_columns, check_weights, common_columns
from tensorlake.loader.sources.mix.plan import MixPlan, source_seed
from tensorlake.loader.sources.mix.reader import MixReader, MixSelection, MixSource
from tensorlake.loader.sources.mix.rows import SOURCE, MixRows
from tensorlake.loader.sources.mix.shares import MixNode

__all__ = [
    "SOURCE",
    "MixNode",
    "MixPlan",
    "MixReader",
    "MixRows",
    "MixSelection",
    "MixSource",
    "check_columns",
    "check_weights",
    "common_columns",
    "source_seed",
]
