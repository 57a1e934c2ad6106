"""Mixes: rows of several sources in one order, each with a weight and epochs of its own."""

from tensorlake.loader.mix.checks import check_columns, check_weights
from tensorlake.loader.mix.rows import SOURCE, MixRows
from tensorlake.loader.mix.sources import MixReader, MixSelection, MixSource

__all__ = [
    "SOURCE",
    "MixReader",
    "MixRows",
    "MixSelection",
    "MixSource",
    "check_columns",
    "check_weights",
]
